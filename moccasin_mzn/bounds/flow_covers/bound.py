"""A lower bound on the duration of any schedule, in any order and with any number of computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.flow_covers.cuts import MomentNetwork, Moments
from moccasin_mzn.bounds.flow_covers.joint_search import JointSearch
from moccasin_mzn.bounds.flow_covers.master import Covers, CoverSearch
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed
from moccasin_mzn.problem.judges.schedules import simulate

MOST_ARCS = 300_000
"""Nodes and edges, beyond which flows of a whole graph take too long and too much memory."""
MOST_COUNTED = 2
"""Limits on computations above which add nothing to the joint relaxation."""
MOST_JOINT = 1200
"""Nodes for which moments are looked at together."""


@dataclass(frozen=True)
class FreeOrderBound:
    """Bounds of one graph; what is learned for one budget is of use for all others."""

    graph: ComputationGraph
    covers: Covers
    more: int = 0
    """What budgets of a graph that runs in place are more in the graph that stands for it, see `relaxed`."""

    @classmethod
    def of(cls, graph: ComputationGraph) -> FreeOrderBound | None:
        """Nothing is computed yet but the network; None: the graph is too large.

        Where to look first: at the highest maxima of memory along the input order, then at all else that is high.
        """
        if len(graph.nodes) + len(graph.edges) > MOST_ARCS:
            return None
        graph, more = relaxed(graph)
        order = graph.input_order()
        memory = simulate(graph, order).memory
        around = zip((0, *memory), memory, (*memory[1:], 0), strict=False)
        rank = [(not before <= at >= after, -at) for before, at, after in around]
        nodes = [order[k] for k in sorted(range(len(order)), key=rank.__getitem__)]
        covers = Covers(Moments(MomentNetwork(graph)), nodes)
        return cls(graph, covers, more)

    def improve(
        self, budget: int, *, time_limit: float, most: Sequence[int] | None = None,
        on_bound: Callable[[int, bool], None] = lambda bound, limited: None,
        stop: Callable[[], bool] = lambda: False, incumbent: Callable[[], int | None] = lambda: None, seed: int = 0,
    ) -> int:  # fmt: skip
        """The bound, better and better until it is met by a schedule, there is nothing to learn or time is up.

        Args:
            budget: in the graph's size unit; no less than the largest working set.
            time_limit: seconds from now.
            most: how often each node may be computed, for what cannot be proven without; None: as often as it takes.
            on_bound: called with each better bound, in the graph's duration unit, and whether it is only for schedules
                that keep to `most`; otherwise it is for any number of computations.
            stop: asked every 50 ms from some thread.
            incumbent: the duration of the best known schedule, or None; asked as often.
        """
        moments, least = self.covers.moments, self.graph.total_duration

        def known() -> int | None:
            duration = incumbent()
            return None if duration is None else (duration - least) // moments.unit

        limited = False

        def improved(bound: int) -> None:
            on_bound(least + bound * moments.unit, limited)

        search = CoverSearch(self.covers, budget + self.more, Deadline(time_limit), improved, stop, known, seed)
        joint = len(moments.duration) <= MOST_JOINT
        search.run(last=not joint)
        if joint and not search.over():
            limited = most is not None and min(most) <= MOST_COUNTED
            JointSearch(search, most if limited else None).run()
            limited = False
            search.run()
        return least + search.bound * moments.unit
