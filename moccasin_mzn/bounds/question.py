"""One question to a relaxation: is there a solution that costs so little, and how long may it take?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from moccasin_mzn.bounds.refinement import Refinement
from moccasin_mzn.bounds.relaxation import Relaxation

PATIENCE = 1.0
"""Seconds after which a relaxation is not solved to the end any more, if it is small."""
CLAUSES_PER_SECOND = 10_000
"""Large relaxations get more time, one second for so many clauses."""
NEARLY_ALL = 0.05
"""If the bound lacks no more than this fraction of itself to the best schedule, all of it is asked for."""


@dataclass(frozen=True, eq=False)
class Question:
    """Is there a solution that costs at most `most`?"""

    seen: Refinement
    relaxation: Relaxation
    """What is seen."""
    most: int | None
    """Solutions that cost more are of no interest; None: all are."""
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, seen: Refinement, bound: int, known: int | None) -> Question:
        """What to ask next.

        Args:
            bound: on what recomputations cost in any schedule.
            known: what they cost in the best known one.
        """
        relaxation, most = seen.relaxation(), _asked_for(seen.step, bound, known)
        if known is None and most is not None and most >= sum(relaxation.cost):
            most = None  # any solution will do: if there is none, there is no schedule
        return cls(seen, relaxation, most)

    def lasts(self) -> bool:
        """Has it taken so long that an answer in part will do?"""
        return time.monotonic() > self.begun + max(PATIENCE, len(self.relaxation.clauses) / CLAUSES_PER_SECOND)

    def is_enough(self, found: bool) -> bool:
        """Need it be answered no further, with a solution found or none?"""
        return (found or self.seen.step is None) and not self.seen.exhausted and self.lasts()


def _asked_for(step: int | None, bound: int, known: int | None) -> int | None:
    """The most that a solution may cost: less than is known, and little over the bound, unless that is nearly all
    there is."""
    if step is None:
        return None if known is None else known - 1
    nearly = max(step * 5 // 4, int(NEARLY_ALL * bound))
    return (known if known is not None and known <= bound + nearly else bound + step) - 1
