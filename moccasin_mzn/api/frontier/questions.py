"""What a sweep asks and what a variant of the problem answers: budgets in, schedules and bounds out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Question:
    """How short can a schedule within this budget be?"""

    budget: int
    seconds: float
    """For the answer; fewer are fine."""
    start: Any | None = None
    """The best schedule known within the budget."""
    enough: int | None = None
    """A schedule of this duration needs no improvement: the bound from a larger budget."""
    any_schedule: bool = False
    """True: the first schedule is answer enough."""
    near: Any | None = None
    """With that: the schedule of least peak known, which is over the budget."""
    attempt: int = 0
    """How often this budget was asked for before: the search should go another way."""


@dataclass(frozen=True)
class Answer:
    """What a search with one budget found and proved."""

    schedules: tuple[tuple[Any, str], ...] = ()
    """Each with who found it; each within the budget."""
    bound: int | None = None
    """No schedule within the budget is shorter."""
    bound_source: str = ""
    infeasible: bool = False
    """Proven: there is none at all."""
    interrupted: bool = False
    """The user stopped the search."""


@dataclass(frozen=True)
class Judged:
    """The judge's account of a schedule."""

    peak: int
    duration: int


Teller = Callable[[str], None]
"""Gets a line of progress."""
