"""What schedules and plans with offsets have in common: the clock, allocations, and what is said of the best answer.

An arena takes at least the peak, so that what is proven within memory budgets, a bound or that there is nothing, holds
for arenas all the more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.clock import Deadline
from moccasin_mzn.extensions.addresses.exact import least_arena
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.search.result import Result
from moccasin_mzn.solvers.minizinc.run import Limits

MOMENT = 0.1
"""Seconds for a step where none are left."""


@dataclass
class Arrangement:
    """One call: the best answer whose arenas are within the budgets."""

    problem: Any
    search: Callable[..., Result]
    alignment: int
    deadline: Deadline
    threads: int | None
    seed: int
    interrupted: bool = field(default=False, init=False)
    best: Result | None = field(default=None, init=False)
    """The answer of least value whose arenas fit."""
    bound: int = field(default=0, init=False)
    """On the value of such answers."""
    kept: float = field(default=0.0, init=False)
    """Seconds that are left to later steps."""

    def remaining(self) -> float | None:
        left = self.deadline.remaining()
        return None if left is None else left - self.kept

    def over(self) -> bool:
        left = self.remaining()
        return self.interrupted or (left is not None and left <= 0)

    def seconds(self, most: float, share: float = 1.0) -> float:
        """A share of what remains, at most `most`; a moment if nothing does."""
        left = self.remaining()
        return most if left is None else max(MOMENT, min(most, share * left))

    def allocate(
        self, buffers: tuple[Buffer, ...], enough: int | None, seconds: float, near: Sequence[int] | None = None,
        attempt: int = 0,
    ) -> Arena:  # fmt: skip
        """An arena of at most `enough`, or as near to it as can be; the search begins with offsets `near`, if any."""
        return search_arena(
            buffers, self.alignment, enough=enough, seed=self.seed + attempt, begin_with=near,
            time_limit=MOMENT if self.over() else seconds, on_interrupt=self.interrupt,
        )  # fmt: skip

    def least(self, arena: Arena, budget: int, most: int, seconds: float, enough: int | None = None) -> Arena | None:
        """The least one within the budget, or one of at most `enough`, by a model, for no more than `most` buffers."""
        if arena.bound > budget or len(arena.buffers) > most or self.over():
            return None
        limits = Limits(seconds, self.threads, self.seed)
        found, outcome = least_arena(arena.buffers, self.alignment, limit=budget, enough=enough, limits=limits)
        self.interrupted |= outcome.interrupted
        return found

    def interrupt(self) -> None:
        self.interrupted = True

    def searched(self, *asked: Any) -> Result:
        """Of a search within memory budgets."""
        result = self.search(*asked)
        self.interrupted |= result.interrupted
        return result

    def take(self, result: Result) -> None:
        """Keep a result, if its arenas fit and it is the best."""
        if result.valid and (self.best is None or result.value < self.best.value):
            self.best = result

    def settled(self) -> bool:
        return self.best is not None and self.best.value <= self.bound

    def concluded(self, first: Result, best: Result, optimal: str, feasible: str) -> Result:
        """What is said of the best answer, which may be that of the first search.

        Args:
            optimal, feasible: why the status is that, if it is not as the first search left it.
        """
        reached = best.value <= self.bound
        if best.answer == first.answer and (first.status == "optimal" or not reached):
            return best
        if reached:
            return replace(best, status="optimal", reason=optimal, proved_by=first.proved_by or best.found_by)
        return replace(best, status="feasible", reason=feasible, proved_by="")
