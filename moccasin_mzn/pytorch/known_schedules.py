"""Schedules of one traced step that this process knows, so that answers to several budgets fit together.

    budget     1.0  0.8  0.6            a smaller budget is never answered with a larger peak,
    peak       1.0  0.8  0.6  at most   a larger one never with a longer duration than a known schedule has

Searches may end before they have proven what is best; then a search within a small budget can find a better schedule
than one within a larger budget has. What was found for one budget is therefore weighed for the others as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KnownSchedule:
    """A schedule that can be run."""

    sequence: tuple[int, ...]
    duration: int
    peak: int
    """Bytes that it takes at the allocator, all counted."""
    bound: int = 0
    """Proven: no schedule within the budget of its search has less duration."""
    within: int = 0
    """The budget of its search, as the allocator sees it."""


@dataclass(eq=False)
class KnownSchedules:
    """What is known, and what was answered."""

    found: list[KnownSchedule] = field(default_factory=list)
    answers: dict[int, KnownSchedule] = field(default_factory=dict)
    """By budget in bytes."""

    def limit(self, budget: int) -> int:
        """The most that an answer to a budget may take: no more than one to a larger budget."""
        return min([budget, *(answer.peak for given, answer in self.answers.items() if given >= budget)])

    def candidates(self, budget: int) -> Iterator[KnownSchedule]:
        """What may answer: within the limit, and with no less of a peak than an answer to a smaller budget."""
        least = max((answer.peak for given, answer in self.answers.items() if given <= budget), default=0)
        most = self.limit(budget)
        return (each for each in self.found if least <= each.peak <= most)

    def best(self, budget: int) -> KnownSchedule | None:
        """The candidate of least duration; of several the one of least peak."""
        return min(self.candidates(budget), key=lambda each: (each.duration, each.peak), default=None)

    def settled(self, budget: int) -> bool:
        """Is it proven that no search can find a better answer?"""
        best, limit = self.best(budget), self.limit(budget)
        bounds = (each.bound for each in self.found if each.within >= limit)
        return best is not None and best.duration <= max(bounds, default=0)

    def answer(self, budget: int) -> KnownSchedule | None:
        """The best candidate, which is from now on what this budget is answered with."""
        best = self.best(budget)
        if best is not None:
            self.answers[budget] = best
        return best
