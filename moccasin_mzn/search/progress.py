"""What a search tells on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Progress:
    """A new incumbent or a new bound, while the search goes on. Values are totals of the problem's objective."""

    seconds: float
    """Since the search began."""
    phase: str
    """"peak": an answer within the budget is sought; the objective: there may be one, and it is made better; "more":
    there is none yet, but one that computes nodes more often than was asked for, whose value is not told."""
    value: int | None
    """Of the incumbent; None while there is none."""
    bound: int
    """No answer has less."""
    figures: dict[str, Any]
    """Of the incumbent, or of what comes near one, see `Problem.figures`."""
    answer: tuple[Any, ...] | None = None
    """The incumbent, where it is new: positions in `graph.nodes`, or actions."""
    source: str = ""
    """Who improved the incumbent or the bound."""

    @property
    def peak(self) -> int:
        """Of a schedule of one memory, in the graph's size unit."""
        return self.figures["peak"]


Listener = Callable[[Progress], None]


def ignore(progress: object) -> None:
    """Do nothing with an improvement."""


@dataclass(frozen=True)
class TracePoint:
    """The best answer and the best bound from this moment on."""

    seconds: float
    """Since the search began."""
    value: int | None
    """None while there is no answer."""
    bound: int
    source: str = ""
    """Who improved one of them: "local search", "bounds", a solver, "cp-sat on a window", a strategy."""
