"""Flow cover inequalities for one graph and one budget, as they are where some nodes are decided.

    sum of weights[u] r_u >= demand        r_u = 1 if u is computed more than once

With some r_u decided the demand is less, and no other weight need be above it: one such node alone is then enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from moccasin_mzn.bounds.flow_covers.cuts import FlowCut, Moments
from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.problem.judges.schedules import simulate

MOST_AT_ONCE = 8
"""Inequalities added for one choice of nodes."""

MOST_AT_FIRST = 300
"""Inequalities to begin with: those that cost most."""

Decided = Mapping[int, bool]
"""By node: is it computed more than once?"""


ARCS = ("again", "reads", "closes")
"""Of `MomentFlow`; the others follow from them."""


@dataclass(frozen=True, eq=False)
class Cover:
    """The flow of an inequality: whatever it says, it says of these amounts."""

    node: int
    price: Fraction
    arcs: dict[str, tuple[Array, Array]]
    """By name in `MomentFlow`: where there is any flow, and how much."""
    demand: int
    """Rounded up once."""

    @classmethod
    def of(cls, cut: FlowCut, moments: Moments, budget: int) -> Cover:
        """The flow of a cut, found again; it takes no more by any arc `again`, perhaps less by some."""
        again = np.zeros(len(moments.size), np.int64)
        for u, weight in cut.terms:
            again[u] = weight
        held = np.array([int(cut.price * size // 1) for size in moments.graph.sizes], np.int64)
        flow = moments.network.flow(cut.node, again, held)
        arcs = {name: (np.flatnonzero(amounts := getattr(flow, name)), amounts[amounts != 0]) for name in ARCS}
        inputs = moments.graph.predecessors[cut.node]  # are there whatever is paid for them, without rounding
        beside = flow.value - int(held[list(inputs)].sum())
        room = budget - cut.own - sum(moments.graph.sizes[u] for u in inputs)
        return cls(cut.node, cut.price, arcs, math.ceil(beside - cut.price * room))


@dataclass(frozen=True, eq=False)
class Residues:
    """What is left of all inequalities where some nodes are decided."""

    demand: Array
    """int64[k], 0 or less where it is met."""
    weights: Array
    """int64[k, n]: none above the demand, 0 for nodes that are decided."""

    def unmet(self, values: Array, least: float) -> Array:
        """Inequalities of which `values`, float64[n], leaves a larger share than `least`, the largest share first."""
        share = np.where(self.demand > 0, 1 - self.weights @ values / np.maximum(self.demand, 1), 0.0)
        order = np.argsort(-share, kind="stable")
        return order[: int((share > least).sum())]

    def refuted(self) -> int | None:
        """The index of an inequality that cannot be met."""
        for k in self.unmet(np.ones(self.weights.shape[1]), -1e-6).tolist():  # doubles for a first look
            if sum(self.weights[k].tolist()) < int(self.demand[k]):
                return k
        return None


class Pool:
    """All inequalities known, and where others come from."""

    def __init__(self, moments: Moments, budget: int) -> None:
        self.moments, self.budget, self.graph = moments, budget, moments.graph
        self.covers: list[Cover] = []
        self._demand = np.zeros(0, np.int64)
        self._weights = np.zeros((0, len(self.graph.nodes)), np.int64)
        self._pressed: list[int] | None = None

    def residues(self, decided: Decided) -> Residues:
        """What is left of the inequalities."""
        again = [u for u, more in decided.items() if more]
        demand = self._demand - np.minimum(self._weights[:, again], self._demand[:, None]).sum(axis=1)
        weights = np.minimum(self._weights, np.maximum(demand, 0)[:, None])
        weights[:, list(decided)] = 0
        return Residues(demand, weights)

    def begin(self, stop: Callable[[], bool]) -> None:
        """Look at all nodes once: those that need others to be computed again, with the most that they cost."""
        self._pressed, found = [], list[FlowCut]()
        for v in self._heaviest():
            if stop():
                break
            cut = self.moments.kept(v)
            if cut.demand(self.budget) > 0:
                self._pressed.append(v)
                priced = self.moments.priced(v, self.budget)
                found.append(cut if priced is None or priced.demand(self.budget) <= 0 else priced)
        found.sort(key=lambda cut: (cut.scale > 0, -cut.bound(self.budget)))
        self._add(found[:MOST_AT_FIRST])

    def _heaviest(self) -> list[int]:
        """The nodes, first those at which the input order needs most memory."""
        order = self.graph.input_order()
        memory = dict(zip(order, simulate(self.graph, order).memory, strict=True))
        return sorted(order, key=lambda v: -memory[v])

    def separate(self, again: Array, stop: Callable[[], bool]) -> bool:
        """Add inequalities that are violated if only the nodes of `again`, bool[n], are computed more than once.

        Returns:
            Were there any?
        """
        found: list[FlowCut] = []
        for v in self._pressed or ():
            if len(found) == MOST_AT_ONCE or stop():
                break
            cut = self.moments.kept(v, again)
            found += [cut] if cut.demand(self.budget) > 0 else []
        latest = [cut.node for cut in found]
        self._pressed = [*latest, *(v for v in self._pressed or () if v not in latest)]  # mostly the next ones, too
        self._add(found)
        return bool(found)

    def _add(self, cuts: list[FlowCut]) -> None:
        weights = np.zeros((len(cuts), len(self.graph.nodes)), np.int64)
        covers = [Cover.of(cut, self.moments, self.budget) for cut in cuts]
        for row, cover in zip(weights, covers, strict=True):
            nodes, amounts = cover.arcs["again"]
            row[nodes] = amounts
        self.covers += covers
        self._demand = np.append(self._demand, [cover.demand for cover in covers]).astype(np.int64)
        self._weights = np.vstack([self._weights, weights])
