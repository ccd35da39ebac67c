"""A lower bound from one stage, by minimum cuts: in time and memory about linear, so that it serves the largest graphs.

At the first computation of node k, a node u before it is held or not, and computed again after it or not::

    h[u]         u is in memory while node k is computed: all inputs of k are
    a[u]         u is computed again after that
    h[u] + a[u]  at least 1 if a node after k reads u in its first computation, and at least a[w] for every reader w
                 of u before k: what is computed again reads its inputs then

What is held fits the budget, sum s[u] h[u] <= R, and the recomputations cost sum d[u] a[u]. With a price for memory
over R the rest is a choice of projects that need each other's tools, which is a minimum cut: to compute u again instead
of holding it pays (price * s[u] - d[u]), but then each input of u that nothing after k reads has to be held or computed
again as well. The price is a fraction p / q, all capacities are integers, and so is the bound: no rounding enters it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays, graph_arrays
from moccasin_mzn.problem.instance import Instance

MOST_PRICES = 24
"""Tried for a stage; mostly six to ten are enough."""
_LARGEST = 2**60
_FINEST = 2**20
"""Denominator of prices, at most."""


@dataclass(frozen=True)
class Cut:
    """What is best at one price: `cost + price * over` bounds the duration of recomputations."""

    cost: int
    """Duration of what is computed again, in the graph's unit."""
    over: int
    """Memory over the budget then, in the graph's unit; negative: so much is left."""
    again: Array
    """bool[k]: is it computed again?"""
    value: int
    """The bound, rounded up."""


class Moment:
    """The stage that ends with the first computation of node k, nodes numbered along the input order."""

    def __init__(self, instance: Instance, arrays: GraphArrays, k: int) -> None:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        self.k, self._excess = k, int(instance.baseline.memory[k]) - instance.budget
        self._size, self._duration = arrays.size[:k], arrays.duration[:k]
        most = np.array(instance.max_computations)[np.asarray(instance.order[:k], np.int64)]
        last = np.full(arrays.node_count, -1, np.int64)
        read = np.flatnonzero(np.diff(arrays.succ_ptr))
        last[read] = arrays.succ[arrays.succ_ptr[read + 1] - 1]
        self._needed = last[:k] > k
        inputs = np.zeros(k, bool)
        inputs[arrays.pred[arrays.pred_ptr[k] : arrays.pred_ptr[k + 1]]] = True
        self._possible = (most > 1) & (self._size > 0) & (last[:k] >= 0) & ~inputs
        self._tools = ~self._needed & ~inputs
        self._flow = SimpleMaxFlow()
        self._add_arcs(arrays)

    def _add_arcs(self, arrays: GraphArrays) -> None:
        """Projects are nodes 0..k - 1, tools k..2 k - 1, then the source and the sink."""
        k, every = self.k, np.arange(self.k)
        closed, infinite = np.zeros(k, np.int64), 2**62
        reads = arrays.pred_ptr[k]
        tail, head = arrays.pred[:reads].astype(np.int64), np.repeat(every, np.diff(arrays.pred_ptr[: k + 1]))
        wanted = self._tools[tail] & self._possible[head]
        both = np.flatnonzero(self._tools & self._possible)
        for starts, ends in ((head[wanted], k + tail[wanted]), (both, k + both)):
            self._flow.add_arcs_with_capacity(starts, ends, np.full(len(starts), infinite))
        self._projects = self._flow.add_arcs_with_capacity(np.full(k, 2 * k), every, closed)
        self._sinks = self._flow.add_arcs_with_capacity(k + every, np.full(k, 2 * k + 1), closed)

    def at(self, price: Fraction) -> Cut:
        """The best cut at a price, in the graph's units of duration by size, rounded down to what arithmetic allows."""
        total = int(self._duration.sum() + 1) + int(price * int(self._size.sum() + 1))
        q = max(1, min(_FINEST, _LARGEST // total))
        p = int(price * q)
        pays = np.where(self._possible, p * self._size - q * self._duration, 0).clip(min=0)
        self._flow.set_arcs_capacity(self._projects, pays)
        self._flow.set_arcs_capacity(self._sinks, np.where(self._tools, p * self._size, 0))
        status = self._flow.solve(2 * self.k, 2 * self.k + 1)
        if status != self._flow.OPTIMAL:
            raise RuntimeError(f"the cut of stage {self.k} was not found: {status}")
        side = np.zeros(2 * self.k + 2, bool)
        side[self._flow.get_source_side_min_cut()] = True
        value = p * self._excess - int(pays.sum()) + int(self._flow.optimal_flow())
        again, held = side[: self.k] & (pays > 0), side[self.k : 2 * self.k]
        held = held & ~again  # tools that are needed and not computed again
        saved = int(self._size[again & self._needed].sum()) - int(self._size[held].sum())
        return Cut(int(self._duration[again].sum()), self._excess - saved, again, -(-value // q))

    def best(self, stop: Callable[[], bool] = lambda: False) -> tuple[int, Cut | None]:
        """The best bound over all prices, and the cheapest of the cuts met that leave nothing over the budget."""
        least, price = Cut(0, self._excess, np.zeros(self.k, bool), 0), self._first_price()
        most: Cut | None = None
        bound = 0
        for _ in range(MOST_PRICES):
            if stop() or least.over <= 0:
                break
            cut = self.at(price)
            bound = max(bound, cut.value)
            if cut.over > 0:
                least, closer = cut, cut.over < least.over
            else:
                most, closer = cut, most is None or cut.cost < most.cost
            if most is None:
                price *= 2
                continue
            if not closer or most.cost <= least.cost or least.over <= most.over:
                break
            price = Fraction(most.cost - least.cost, least.over - most.over)
            if min(least.cost + price * least.over, most.cost + price * most.over) <= bound:
                break
        return bound, most

    def _first_price(self) -> Fraction:
        """Where the cheapest of what is needed, dropped, would make up for the excess if inputs cost nothing."""
        could = np.flatnonzero(self._needed & self._possible)
        by_price = could[np.argsort(self._duration[could] / self._size[could], kind="stable")]
        enough = np.searchsorted(np.cumsum(self._size[by_price]), self._excess)
        dearest = by_price[min(enough, len(by_price) - 1)] if len(by_price) else None
        if dearest is None:
            return Fraction(1)
        return Fraction(max(1, int(self._duration[dearest])), int(self._size[dearest]))


def draft_of(instance: Instance, arrays: GraphArrays, k: int, again: Array) -> tuple[int, ...]:
    """The sequence that a cut suggests: all is computed again as late as its readers after node k allow."""
    place = np.full(arrays.node_count, -1, np.int64)
    for u in np.flatnonzero(again)[::-1].tolist():
        readers = arrays.succ[arrays.succ_ptr[u] : arrays.succ_ptr[u + 1]]
        firsts, chains = readers[readers > k][:1], place[readers[readers < k]]
        reads = np.concatenate([firsts, chains[chains >= 0]])
        if len(reads):
            place[u] = reads.min()
    n, nodes = arrays.node_count, np.flatnonzero(place >= 0)
    events = np.sort(np.concatenate([np.arange(n) * (n + 1), place[nodes] * n + nodes]))
    order = instance.order
    return tuple(order[v] for v in (events % n).tolist())


def moments_of(instance: Instance, stages: list[int]) -> tuple[GraphArrays, list[Moment]]:
    arrays = graph_arrays(instance.graph, instance.order)
    return arrays, [Moment(instance, arrays, k) for k in stages]
