"""A bound on the duration of recomputations by the joint relaxation, refined where its solutions do not fit.

As in `bounds.duration`: a relaxation that is not solved at once is asked for a solution little over the bound. Mostly
there is none, which lifts the bound; otherwise the solution shows what to look at.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from moccasin_mzn.bounds.branching import Branched, branch
from moccasin_mzn.bounds.flow_covers.joint import Joint
from moccasin_mzn.bounds.flow_covers.master import CoverSearch
from moccasin_mzn.bounds.flow_covers.refining import Solution

FIRST_MOMENTS, MORE_MOMENTS = 4, 2
PATIENCE, ROWS_PER_SECOND = 1.0, 10_000
STEP = 0.04
"""How much more than the bound is asked for, as a fraction of the bound."""
MOST_ROWS = 200_000


@dataclass
class JointSearch:
    """Goes on from what `covers` has proven."""

    covers: CoverSearch
    most: Sequence[int] | None = None
    """By node, how often it may be computed; None: as often as it takes."""
    firsts: list[int] = field(default_factory=list)
    lasts: list[int] = field(default_factory=list)
    step: int | None = None
    exhausted: bool = False
    """No moment is to be seen that is not."""

    def run(self) -> None:
        """Until the bound meets the incumbent, nothing is to be refined any more, or time is up."""
        self.firsts = self._strongest()
        while not self.covers.over() and self._round():
            pass

    def _strongest(self) -> list[int]:
        """Nodes whose own bounds are the largest."""
        best: dict[int, int] = {}
        for cut in self.covers.covers.cuts:
            best[cut.node] = max(best.get(cut.node, 0), cut.bound(self.covers.budget))
        return sorted(best, key=lambda v: -best[v])[:FIRST_MOMENTS]

    def _round(self) -> bool:
        """Solve and refine; False if nothing is left to do."""
        covers, started = self.covers, time.monotonic()
        joint = Joint.of(covers.covers.moments, covers.budget, self.firsts, self.lasts, self.most)
        joint.least_cost = covers.bound
        if len(joint.capacities) > MOST_ROWS:
            return False
        patience = max(PATIENCE, len(joint.capacities) / ROWS_PER_SECOND)
        known = covers.incumbent()
        limits = [most for most in (known, self.step and covers.bound + self.step) if most is not None]
        most = min(limits) - 1 if limits else None
        if most is not None and most >= sum(joint.cost):
            most = None
        solved = self._solve(joint, most, started + patience)
        if solved.infeasible:
            if most is None:
                return False
            covers.improve(most + 1)
            if self.step and time.monotonic() < started + patience:
                self.step *= 2
            return True
        covers.improve(solved.bound)
        return self._learn(joint, solved)

    def _solve(self, joint: Joint, most: int | None, until: float) -> Branched:
        covers = self.covers

        def stop(found: bool) -> bool:
            enough = (found or self.step is None) and not self.exhausted
            return covers.over() or (enough and time.monotonic() > until)

        return branch(
            joint, least=covers.bound, most=most, deadline=covers.deadline, seed=covers.seed, on_bound=covers.improve,
            stop=stop,
        )  # fmt: skip

    def _learn(self, joint: Joint, solved: Branched) -> bool:
        covers, little = self.covers, 1 + int(STEP * self.covers.bound)
        if solved.solution is not None and not covers.over():
            cost = sum(cost for cost, true in zip(joint.cost, solved.solution, strict=True) if true)
            if self.exhausted and cost <= covers.bound:
                return False
            if cost <= covers.bound + little and not self.exhausted:
                firsts, lasts = Solution(joint, solved.solution).worst(MORE_MOMENTS, covers.over)
                self.firsts += firsts
                self.lasts += lasts
                self.exhausted = not firsts and not lasts
                self.step = None if self.exhausted else self.step and little
                return True
        self.step = little
        return True
