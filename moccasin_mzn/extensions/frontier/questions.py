"""What a sweep asks and what a variant of the problem answers: budgets in, schedules and bounds out.

A variant is rematerialization as `solve` does it, or any other with one budget that trades duration for memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from moccasin_mzn.graphs.graph import ComputationGraph


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


class Variant(Protocol):
    """A problem with a budget."""

    graph: ComputationGraph
    peak: int
    """Memory of doing nothing about it: the largest budget of interest."""
    baseline: int
    """The duration that no schedule is shorter than, whatever the budget."""
    least: int
    """Proven: no schedule fits less."""
    scope: str
    """What proofs range over, to be read after "no schedule"."""
    fixed: int
    """See `Frontier.fixed`, as for the next two."""
    swept: str
    input_increase: int | None

    def known(self) -> tuple[tuple[Any, str], ...]:
        """Schedules that need no search, each with who made it."""

    def ask(self, question: Question) -> Answer:
        """Search."""

    def judge(self, schedule: Any, budget: int) -> Judged:
        """Peak and duration of a schedule.

        Raises:
            JudgeError: it is none, or is over the budget.
        """


Teller = Callable[[str], None]
"""Gets a line of progress."""
