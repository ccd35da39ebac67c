"""A lower bound on the duration of any schedule, in any order and with any number of computations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moccasin_mzn.bounds.flow_covers.cuts import Moments
from moccasin_mzn.bounds.flow_covers.joint_search import JointSearch
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.bounds.flow_covers.network import MomentNetwork
from moccasin_mzn.clock import Deadline
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate

MOST_JOINT = 500
"""Nodes for which moments are looked at together."""


@dataclass(frozen=True)
class FreeOrderBound:
    """Bounds of one graph; what is learned for one budget is of use for all others."""

    graph: ComputationGraph
    covers: Covers

    @classmethod
    def of(cls, graph: ComputationGraph) -> FreeOrderBound:
        """Nothing is computed yet but the network."""
        order = graph.input_order()
        memory = dict(zip(order, simulate(graph, order).memory, strict=True))
        nodes = sorted(order, key=lambda v: -memory[v])
        covers = Covers(Moments(MomentNetwork(graph)), nodes)
        return cls(graph, covers)

    def improve(
        self, budget: int, *, time_limit: float | None, on_bound: Callable[[int], None] = lambda bound: None,
        stop: Callable[[], bool] = lambda: False, incumbent: Callable[[], int | None] = lambda: None, seed: int = 0,
    ) -> int:  # fmt: skip
        """The bound, better and better until it is met by a schedule, there is nothing to learn or time is up.

        Args:
            budget: in the graph's size unit; no less than the largest working set.
            time_limit: seconds from now; None: none.
            on_bound: called with each better bound, in the graph's duration unit.
            stop: asked every 50 ms from some thread.
            incumbent: the duration of the best known schedule, or None; asked as often.
        """
        moments, least = self.covers.moments, self.graph.total_duration

        def known() -> int | None:
            duration = incumbent()
            return None if duration is None else (duration - least) // moments.unit

        search = CoverSearch(
            self.covers, budget, Deadline(time_limit), lambda bound: on_bound(least + bound * moments.unit), stop, known,
            seed,
        )  # fmt: skip
        search.run()
        if len(moments.duration) <= MOST_JOINT and not search.over():
            JointSearch(search).run()
        return least + search.bound * moments.unit
