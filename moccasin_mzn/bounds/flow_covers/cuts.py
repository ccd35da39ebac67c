"""Flow cover inequalities: what must be computed more than once, from flows of a moment network.

A flow whose `held` is at most a price times the sizes proves, of every schedule within a budget, in any order and with
any number of computations (see `network`)::

    sum of again[u] over the nodes u computed more than once  >=  value - floor(price * room),
    room = budget - size(v) - workspace(v)

The right side is the demand. A node with again[u] >= demand satisfies it alone, so its weight may be lowered to the
demand. Where the sum on the left pays durations, the demand is a bound on what recomputations take by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from moccasin_mzn.bounds.flow_covers.network import INFINITE, MomentFlow, MomentNetwork
from moccasin_mzn.graphs.arrays import Array

FINEST = 2**48
"""Durations are multiplied, up to such a total, so that rounding down prices costs nothing."""
LARGEST_TOTAL = 2**60
"""Of priced sizes."""
MOST_PRICES = 12


@dataclass(frozen=True)
class FlowCut:
    """An inequality for every budget."""

    node: int
    """v, a position in `graph.nodes`."""
    own: int
    """v's size and workspace."""
    value: int
    """Of the flow."""
    price: Fraction
    """`held` of the flow is at most this times the sizes, rounded down."""
    terms: tuple[tuple[int, int], ...]
    """(u, again[u]) where that is not 0."""
    scale: int = 0
    """If not 0: again[u] is at most this times the duration of u, in the unit of `Moments`."""

    def demand(self, budget: int) -> int:
        """What the terms of nodes computed more than once sum to at least; met by any schedule if not positive."""
        return self.value - int(self.price * (budget - self.own) // 1)

    def bound(self, budget: int) -> int:
        """On the duration of recomputations, if the cut pays for durations, in the unit of `Moments`; else 0."""
        return max(0, -(-self.demand(budget) // self.scale)) if self.scale else 0

    def cover(self, budget: int) -> tuple[tuple[tuple[int, int], ...], int]:
        """Terms, no weight above the demand, and the demand, which is not met by nothing if it is positive.

        The demand is rounded up to what sums of the weights can be.
        """
        unit = math.gcd(*(weight for _, weight in self.terms)) or 1
        demand = -(-self.demand(budget) // unit) * unit
        return tuple((u, min(weight, demand)) for u, weight in self.terms), demand

    def satisfied(self, again: Array, budget: int) -> bool:
        """Does it for these nodes, bool[n], to be computed more than once?"""
        terms, demand = self.cover(budget)
        return sum(weight for u, weight in terms if again[u]) >= demand


class Moments:
    """First computations of a graph, and the flow cuts of each."""

    def __init__(self, network: MomentNetwork) -> None:
        graph = network.graph
        self.network, self.graph = network, graph
        self.size = np.array(graph.sizes, np.int64)
        self.own = [size + workspace for size, workspace in zip(graph.sizes, graph.workspace_of, strict=True)]
        self.unit = int(np.gcd.reduce(np.array(graph.durations, np.int64))) or 1
        """Durations are counted in this."""
        self.duration = [duration // self.unit for duration in graph.durations]
        self.scale = max(1, FINEST // max(1, sum(self.duration)))

    def kept(self, node: int, free: Array | None = None) -> FlowCut:
        """The least memory while `node` is computed for the first time, if only nodes of `free` are computed again.

        Args:
            free: bool[n]; None: nothing is computed again.
        """
        return self._cut(self.network.flow(node, self._again(free), self.size), Fraction(1), 0)

    def least(self, node: int, free: Array | None = None) -> int:
        """The value of `kept`, in less time."""
        return self.network.least(
            *self.network.sides(node), self.graph.predecessors[node], self._again(free), self.size
        )

    def _again(self, free: Array | None) -> Array:
        again = np.full(len(self.size), INFINITE)
        if free is not None:
            again[free] = 0
        return again

    def priced(
        self, node: int, budget: int, sides: tuple[Array, Array] | None = None, *,
        useful: int = 0, enough: int | None = None, price: Fraction | None = None,
    ) -> FlowCut | None:  # fmt: skip
        """A cut that pays durations, whose bound is the largest for this budget; None if nothing is to be paid.

        The bound as a function of the price is concave and made of lines, one for each assignment: where two of them
        meet, the least cut shows that nothing is below, or a third line.

        Args:
            sides: what is computed before it and what is not, if more is known than by edges, as for `network.flow`.
            useful: a bound that is less is of no use.
            enough: a bound of so much will do.
            price: to begin with, such as that of a similar node.
        """
        sides = self.network.sides(node) if sides is None else sides
        inputs, room = list(self.graph.predecessors[node]), budget - self.own[node]
        low = (0, self.network.least(*sides, inputs, self._again(None), self.size))
        high = (sum(self.duration[u] for u in np.flatnonzero(sides[0])), int(self.size[inputs].sum()))
        if low[1] <= room or high[1] > room:
            return None
        best: FlowCut | None = None
        for _ in range(MOST_PRICES):
            meeting = Fraction((high[0] - low[0]) * self.scale, low[1] - high[1])
            if low[0] * self.scale + meeting * (low[1] - room) < (useful - 1) * self.scale:
                break  # where the lines meet is above all that is to come
            given, at = price, min(price or meeting, Fraction(LARGEST_TOTAL, max(1, int(self.size.sum()))))
            flow, price = self.paying(node, at, sides), None
            cut = self._cut(flow, at, self.scale)
            if best is None or cut.demand(budget) > best.demand(budget):
                best = cut
            if enough is not None and best.bound(budget) >= enough:
                break
            paid = sum(self.duration[u] for u in np.flatnonzero(flow.recomputed)), int(self.size[flow.resident].sum())
            if paid[1] == room or (not given and paid in (low, high)):
                break
            low, high = (paid, high) if paid[1] > room else (low, paid)
            if low[1] <= high[1] or high[0] <= low[0]:
                break
        return best

    def paying(self, node: int, price: Fraction, sides: tuple[Array, Array]) -> MomentFlow:
        """A largest flow that pays durations, times `scale`, and this price for memory."""
        held = np.array([size * price.numerator // price.denominator for size in self.graph.sizes], np.int64)
        return self.network.flow(node, np.array(self.duration, np.int64) * self.scale, held, sides)

    def usual(self, node: int, cut: FlowCut | None) -> Array:
        """bool[n]: what is computed before `node` where it costs least, by its cut that pays durations.

        Args:
            cut: None: it costs nothing; then where there is least memory.
        """
        if cut is not None:
            return self.paying(node, cut.price, self.network.sides(node)).before
        return self.network.flow(node, self._again(None), self.size).before

    def _cut(self, flow: MomentFlow, price: Fraction, scale: int) -> FlowCut:
        paying = np.flatnonzero(flow.again)
        terms = tuple(zip(paying.tolist(), flow.again[paying].tolist(), strict=True))
        return FlowCut(flow.node, self.own[flow.node], flow.value, price, terms, scale)
