"""What all answers together say about every budget.

A schedule serves every budget from its peak on; a bound holds at every budget up to its own::

    duration  |  s1 o------------------->
              |         s2 o------------>       least duration known at M: the lowest schedule that begins left of M
              |  <------------- b1
              |  <------------------- b2        best bound at M: the highest one that ends right of M
              +-------------M-----------> budget
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from moccasin_mzn.api.frontier.asking import Variant
from moccasin_mzn.api.frontier.points import FrontierPoint
from moccasin_mzn.api.frontier.questions import Answer
from moccasin_mzn.errors import RefutedError
from moccasin_mzn.words import memory_text


@dataclass(frozen=True)
class Found:
    """A schedule with the judge's account of it."""

    peak: int
    duration: int
    schedule: Any
    source: str
    budget: int
    """It was found with."""


@dataclass(frozen=True)
class Proven:
    """A bound on the duration."""

    budget: int
    """The largest one it holds at."""
    bound: int
    source: str


@dataclass
class Knowledge:
    """Schedules and bounds of one variant, those that say nothing new left out.

    Raises:
        JudgeError: from `learn`, for a schedule that the judge rejects, and for proofs that a schedule contradicts.
    """

    variant: Variant
    found: list[Found] = field(default_factory=list)
    """By ascending peak; durations descend."""
    proven: list[Proven] = field(default_factory=list)
    """By ascending budget; bounds descend."""
    least: int = 0
    """Proven: no schedule fits less."""
    least_source: str = "working sets"

    def __post_init__(self) -> None:
        self.least = self.variant.least
        for schedule, source in self.variant.known():
            self._add(schedule, source, self.variant.peak)

    def learn(self, budget: int, answer: Answer) -> None:
        for schedule, source in answer.schedules:
            self._add(schedule, source, budget)
        if answer.infeasible and budget >= self.least:
            self.least, self.least_source = budget + 1, answer.bound_source
        elif answer.bound is not None and not answer.infeasible and answer.bound > self.bound(budget).bound:
            kept = [one for one in self.proven if one.budget > budget or one.bound > answer.bound]
            new = Proven(budget, answer.bound, answer.bound_source)
            self.proven = sorted((*kept, new), key=lambda one: one.budget)
        self._check()

    def best(self, budget: int) -> Found | None:
        return next((found for found in reversed(self.found) if found.peak <= budget), None)

    def bound(self, budget: int) -> Proven:
        floor = Proven(self.variant.peak, self.variant.baseline, "")
        return next((proven for proven in self.proven if proven.budget >= budget), floor)

    @property
    def least_found(self) -> int | None:
        return self.found[0].peak if self.found else None

    def settled(self, budget: int) -> bool:
        best = self.best(budget)
        return budget < self.least or (best is not None and best.duration == self.bound(budget).bound)

    def point(self, budget: int, seconds: float = 0.0) -> FrontierPoint:
        """All that is known at a budget; its schedule judged again, at this budget."""
        best, proven = self.best(budget), self.bound(budget)
        elsewhere = f", at budget {self._amount(proven.budget)}" if proven.source and proven.budget != budget else ""
        bound_source = f"{proven.source}{elsewhere}"
        if best is None:
            status = "infeasible" if budget < self.least else "unknown"
            return FrontierPoint(budget, None, proven.bound, None, None, status, "", bound_source, seconds)
        judged = self.variant.judge(best.schedule, budget)
        source = best.source + (f", at budget {self._amount(best.budget)}" if best.budget != budget else "")
        status = "optimal" if judged.duration == proven.bound else "feasible"
        return FrontierPoint(
            budget, judged.duration, proven.bound, judged.peak, best.schedule, status, source, bound_source, seconds
        )

    def _amount(self, budget: int) -> str:
        return memory_text(budget, self.variant.graph.size_unit)

    def _add(self, schedule: Any, source: str, budget: int) -> None:
        judged = self.variant.judge(schedule, budget)
        best = self.best(judged.peak)
        if best is None or judged.duration < best.duration:
            new = Found(judged.peak, judged.duration, schedule, source, budget)
            kept = [one for one in self.found if one.peak < new.peak or one.duration < new.duration]
            self.found = sorted((*kept, new), key=lambda one: one.peak)

    def _check(self) -> None:
        for one in self.found:
            if one.peak < self.least:
                claim = f"{self.least_source} claims that there is no schedule below a budget of {self.least}"
                raise RefutedError(claim, f"a peak of {one.peak} of {one.source}")
            proven = self.bound(one.peak)
            if one.duration < proven.bound:
                claim = f"{proven.source} claims that no schedule within {proven.budget} is shorter than {proven.bound}"
                raise RefutedError(claim, f"{one.duration} of {one.source}")
