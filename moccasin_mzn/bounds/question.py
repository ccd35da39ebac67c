"""One question to a relaxation: is there a solution in a cube that costs so little, and how long may it take?"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from moccasin_mzn.bounds.cubes import Cube
from moccasin_mzn.bounds.refinement import Refinement
from moccasin_mzn.bounds.relaxation import Relaxation

PATIENCE = 1.0
"""Seconds after which a relaxation is not solved to the end any more, if it is small."""
CLAUSES_PER_SECOND = 10_000
"""Large relaxations get more time, one second for so many clauses."""
NEARLY_ALL = 0.05
"""If the bound lacks no more than this fraction of itself to the best schedule, all of it is asked for."""
HARD = 4.0
"""Times its patience after which a question without an answer is parted."""


@dataclass(frozen=True, eq=False)
class Question:
    """Is there a solution in the cube that costs at most `most`?"""

    cube: Cube
    seen: Refinement
    whole: Relaxation
    """What is seen, of all schedules."""
    relaxation: Relaxation
    """Of those in the cube."""
    most: int | None
    """Solutions that cost more are of no interest; None: all are."""
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, cube: Cube, seen: Refinement, bound: int, known: int | None) -> Question:
        """What to ask of the cube next.

        Args:
            bound: on what recomputations cost in any schedule.
            known: what they cost in the best known one.
        """
        whole = seen.relaxation()
        relaxation, most = cube.of(whole), _asked_for(cube, seen.step, bound, known)
        if known is None and most is not None and most >= sum(relaxation.cost):
            most = None  # any solution will do: if there is none, there is no schedule
        return cls(cube, seen, whole, relaxation, most)

    @property
    def patience(self) -> float:
        """Seconds after which an answer in part will do."""
        return max(PATIENCE, len(self.relaxation.clauses) / CLAUSES_PER_SECOND)

    def lasts(self, patiences: float = 1.0) -> bool:
        """Has it taken longer than so many times its patience?"""
        return time.monotonic() > self.begun + patiences * self.patience

    def is_hard(self) -> bool:
        """Does it take so long that it had better be asked in parts?"""
        return self.seen.step is not None and not self.cube.whole and self.lasts(HARD)

    def is_enough(self, found: bool) -> bool:
        """Need it be answered no further, with a solution found or none?"""
        content = (found or self.seen.step is None) and not self.seen.exhausted
        return (content and self.lasts()) or (not found and self.is_hard())


def _asked_for(cube: Cube, step: int | None, bound: int, known: int | None) -> int | None:
    """The most that a solution may cost: less than is known, and little over the bound, unless that is nearly all
    there is. The same of all cubes, but of those in which there is none so cheap."""
    if step is None:
        return None if known is None else known - 1
    nearly = max(step * 5 // 4, int(NEARLY_ALL * bound))
    for least in (bound, cube.bound):
        most = (known if known is not None and known <= least + nearly else least + step) - 1
        if most >= cube.bound:
            break
    return most
