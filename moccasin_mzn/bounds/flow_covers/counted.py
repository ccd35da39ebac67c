"""Flow covers by counted work: the same bound for a seed, whatever else the machine does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.solvers.cpsat.branching import Branched, branch

PRICED_NODES = 24
"""Nodes that get prices at first, those that need most memory first."""
FIRST_WORK = 0.5
"""CP-SAT's deterministic seconds for a program, at first: doubled when they led to nothing."""
LEAST_WORK, FLOWS_PER_WORK = 1e-3, 1e8
"""What a program takes besides: this much, and one unit for this many arcs that flows go along."""


@dataclass
class CountedCovers:
    """A bound on the duration of any schedule within a budget, in any order, that asks no clock."""

    bounds: FreeOrderBound
    budget: int
    """In the graph's size unit."""
    work: float
    """CP-SAT's deterministic seconds that are left."""
    seed: int
    on_bound: Callable[[int], None]
    """Called with each better bound, in the graph's duration unit."""
    incumbent: Callable[[], int | None]
    """Returns the duration of the best known schedule."""
    stop: Callable[[], bool]
    bound: int = 0
    """On the duration of recomputations, in the unit of the covers' moments."""
    patience: float = FIRST_WORK

    def run(self) -> None:
        """Improve the bound until it is met by a schedule, there is nothing to learn or the work is done."""
        covers, budget = self.bounds.covers, self.budget + self.bounds.more
        for node in islice(covers.pressed(budget, self.stop), PRICED_NODES):
            cut = covers.moments.priced(node, budget)
            if cut is not None:
                covers.cuts.append(cut)
                self._improve(cut.bound(budget))
        while self.work > 0 and not self._over():
            most = self._known()
            solved = self._solve(most, budget)
            if solved.infeasible:
                self._improve(most or 0)
                return
            self._improve(solved.bound)
            found = covers.broken(_chosen(solved), budget, self.stop) if solved.solution is not None else []
            covers.cuts += found
            if not found and solved.ended:
                return
            self.patience *= 1 if found else 2

    def _solve(self, most: int | None, budget: int) -> Branched:
        solved = branch(
            self.bounds.covers.program(budget), least=self.bound, most=None if most is None else most - 1,
            deadline=Deadline(), seed=self.seed, on_bound=ignore, stop=lambda found: self.stop(),
            work=min(self.work, self.patience),
        )  # fmt: skip
        graph = self.bounds.graph
        arcs = len(graph.nodes) * (len(graph.nodes) + len(graph.edges))
        self.work -= max(solved.work, LEAST_WORK) + arcs / FLOWS_PER_WORK
        return solved

    def _known(self) -> int | None:
        """Return what the recomputations of the best known schedule take."""
        duration = self.incumbent()
        return None if duration is None else (duration - self.bounds.graph.total_duration) // self._unit

    @property
    def _unit(self) -> int:
        return self.bounds.covers.moments.unit

    def _over(self) -> bool:
        known = self._known()
        return self.stop() or (known is not None and self.bound >= known)

    def _improve(self, bound: int) -> None:
        if bound > self.bound:
            self.bound = bound
            self.on_bound(self.bounds.graph.total_duration + bound * self._unit)


def _chosen(solved: Branched) -> frozenset[int]:
    return frozenset(u for u, true in enumerate(solved.solution or ()) if true)
