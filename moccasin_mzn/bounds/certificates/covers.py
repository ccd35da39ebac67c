"""What must be computed more than once: inequalities of flows, found where a choice of nodes violates one.

With r_u = 1 for nodes that are computed more than once, a flow of the network of v (see `flow_covers/network.py`) says

    sum of weights[u] r_u >= demand        any order, any number of computations

and no weight need be above the demand, as one such node alone is then enough. With some r_u decided, the same holds of
what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.bounds.flow_covers.network import INFINITE, MomentFlow, MomentNetwork
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.graphs.graph import ComputationGraph

MOST_AT_ONCE = 8
"""Inequalities added for one choice."""


@dataclass(frozen=True, eq=False)
class Cover:
    """An inequality of one flow, as it is, without rounding."""

    flow: MomentFlow
    demand: int
    nodes: Array
    """int64[k], ascending: those with a weight."""
    weights: Array
    """int64[k], 1 or more."""


class Covers:
    """All inequalities known of a graph and a budget, and where others come from."""

    def __init__(self, graph: ComputationGraph, budget: int) -> None:
        self.graph, self.budget = graph, budget
        self.network, self.known = MomentNetwork(graph), list[Cover]()
        self._sizes = np.array(graph.sizes, np.int64)
        self._moments: list[int] | None = None

    def violated(self, again: Array, stop: Callable[[], bool]) -> list[Cover]:
        """Inequalities that are violated if only some nodes are computed more than once; some of many.

        Args:
            again: bool[n], those nodes.
        """
        if self._moments is None:  # with fewer recomputations no flow is less
            none = np.zeros(len(again), bool)
            self._moments = [v for v in range(len(again)) if stop() or self._cover(v, none) is not None]
        found: list[Cover] = []
        for v in self._moments:
            if len(found) == MOST_AT_ONCE or stop():
                break
            cover = self._cover(v, again)
            found += [] if cover is None else [cover]
        latest = [cover.flow.node for cover in found]
        self._moments = [*latest, *(v for v in self._moments if v not in latest)]  # mostly they are the next ones, too
        return found

    def _cover(self, v: int, again: Array) -> Cover | None:
        """The inequality of the largest flow that takes nothing by nodes that are computed again."""
        flow = self.network.flow(v, np.where(again, 0, INFINITE), self._sizes)
        demand = flow.value + self.graph.sizes[v] + self.graph.workspace_of[v] - self.budget
        if demand <= 0:
            return None
        nodes = np.flatnonzero(flow.again)
        return Cover(flow, demand, nodes, flow.again[nodes])
