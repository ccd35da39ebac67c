"""What any schedule, in any order, pays where a node is computed for the first time: a minimum cut.

Look at the first computation of v in some schedule. For every other node u let

    x_u  u was computed before,
    h_u  x_u, and a copy of u is in memory while v is computed,
    a_u  x_u, no copy is, and u is recomputed later.

The inputs of v have h = 1. Ancestors of v have x = 1, v and its descendants x = 0, and x_w <= x_u for an edge (u, w).
If w is not computed before (x_w = 0), or is again later (a_w = 1), it reads a copy of u then: one that is there now or
one made later, so

    h_u + a_u >= x_u - x_w + a_w    for every edge (u, w).

With c_u = x_u - a_u and f_u = c_u - h_u that is f_u <= c_w, besides f_u <= c_u <= x_u: only differences, so assignments
are cuts of a network with three nodes for each node of the graph. The side of the source has the value 1::

    x_u -----> c_u       pays where a_u = 1      `again`
    c_u -----> f_u       pays where h_u = 1      `retained`
    c_u =====> x_u       infinite                `dropped`
    f_u =====> c_u       infinite                `kept`
    f_u =====> c_w       infinite, for (u, w)    `reads`
    x_w =====> x_u       infinite, for (u, w)    `closes`
    sources: x of the ancestors of v and c of its inputs;  sinks: x of v and of its descendants

Where w is known to come after u though there is no edge, x_w =====> x_u as well.

Any flow, least cut or not, bounds every cut: value <= sum of again[u] a_u + sum of retained[u] h_u. As a_u = 1 only if
u is computed more than once and the sizes of what is in memory sum to at most the budget less v's own size and
workspace, a flow with retained <= size proves of every schedule within the budget

    sum of again[u] over u that are computed more than once >= value + size(v) + workspace(v) - budget.

This holds for any number of computations. Outputs that are not read cost nothing to hold: nothing leads on from f_u.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from moccasin_mzn.graphs.arrays import Array
from moccasin_mzn.graphs.graph import ComputationGraph

INFINITE = 2**61
"""Beyond any total of sizes or durations."""
MOST_KNOWN = 2**28
"""Bits, twice, of ancestors and descendants that are kept."""
ENDS, ASSUMED = ("sources", "sinks"), "assumed"
"""Arcs that change with the node that is looked at, besides those that cuts pay for; what is earlier without an
edge."""


@dataclass(frozen=True, eq=False)
class MomentFlow:
    """A largest flow of the network of one node; all amounts are exact and not negative.

    It is conserved in every x_u, c_u and f_u that is neither source nor sink: what comes in by arcs goes out by arcs.
    Flow from x_w to x_u for what is `earlier` without an edge is not recorded.
    """

    node: int
    """v, whose first computation is looked at; a position in `graph.nodes`."""
    value: int
    """What leaves the sources less what comes back to them, which is what a least cut pays."""
    again: Array
    """int64[n]: on x_u -> c_u, by u, a position in `graph.nodes`."""
    retained: Array
    """int64[n]: on c_u -> f_u, by u."""
    dropped: Array
    """int64[n]: on c_u -> x_u, by u."""
    kept: Array
    """int64[n]: on f_u -> c_u, by u."""
    reads: Array
    """int64[m]: on f_u -> c_w, by the position of (u, w) in `graph.edges`."""
    closes: Array
    """int64[m]: on x_w -> x_u, by the position of (u, w) in `graph.edges`."""
    before: Array
    """bool[n]: x of the least cut: nodes computed before v in the schedule that pays least."""
    resident: Array
    """bool[n]: h of it."""
    recomputed: Array
    """bool[n]: a of it."""


class MomentNetwork:
    """The network of a graph, made once, for flows of any of its nodes."""

    def __init__(
        self, graph: ComputationGraph, earlier: Sequence[tuple[int, int]] = (), is_computed: bool = True
    ) -> None:  # fmt: skip
        """With nothing in it.

        Args:
            earlier: pairs whose first node is computed before the second for the first time, as for edges, in each
                schedule about which something is to be proven.
            is_computed: does what is there again read its inputs? False: it may be copied from elsewhere; then f_u
                =====> x_w instead of c_w.
        """
        from ortools.graph.python.max_flow import SimpleMaxFlow

        n, every = len(graph.nodes), np.arange(len(graph.nodes))
        self.graph, self.earlier, self._n, self.is_computed = graph, tuple(earlier), n, is_computed
        edges, assumed = (np.array(pairs, np.int64).reshape(-1, 2) for pairs in (graph.edges, self.earlier))
        tail, head = edges[:, 0], edges[:, 1]
        x, c, f, source = every, n + every, 2 * n + every, 3 * n
        self._source, self._sink, self._all = source + 2, source + 1, source
        self._flow = SimpleMaxFlow()
        arcs = {"again": (x, c), "retained": (c, f), "dropped": (c, x), "kept": (f, c),
                "reads": (f[tail], (c if is_computed else x)[head]), "closes": (x[head], x[tail]),
                "sources": (np.full(n, source), x), "sinks": (x, np.full(n, self._sink)),
                ASSUMED: (x[assumed[:, 1]], x[assumed[:, 0]])}  # fmt: skip
        self._arcs = {name: self._add(name, *ends) for name, ends in arcs.items()}
        self._first = self._flow.add_arc_with_capacity(self._source, self._all, 0)
        self._entering = _by_head(graph)
        self._near = [[*near] for near in graph.predecessors], [[*near] for near in graph.successors]
        for u, w in self.earlier:
            self._near[0][w].append(u)
            self._near[1][u].append(w)
        self._known: dict[int, tuple[Array, ...]] = {}  # ancestors and descendants, as bits

    def _add(self, name: str, starts: Array, ends: Array) -> Array:
        capacity = 0 if name in ("again", "retained", *ENDS) else INFINITE
        return self._flow.add_arcs_with_capacity(starts, ends, np.full(len(starts), capacity))

    def flow(self, node: int, again: Array, retained: Array, sides: tuple[Array, Array] | None = None) -> MomentFlow:
        """A largest flow that takes nothing by `again` where `retained` alone will do.

        Args:
            node: v, a position in `graph.nodes`.
            again: int64[n], 0 to INFINITE: capacities of x_u -> c_u.
            retained: int64[n], 0 or more, their sum below INFINITE: capacities of c_u -> f_u.
            sides: bool[n] each: x = 1, among them the ancestors of v, and x = 0, among them v and its descendants;
                None: no others.

        Raises:
            RuntimeError: OR-Tools finds no maximum flow.
        """
        inputs = list(self.graph.predecessors[node])
        direct, room = retained[inputs], np.array(retained, np.int64)  # c_u -> f_u -> c_v -> x_v, before all else
        room[inputs] = 0
        before, after = self.sides(node) if sides is None else sides
        value = self._push(before, after, again, room) + int(direct.sum())
        lasting = {name: arcs for name, arcs in self._arcs.items() if name not in (*ENDS, ASSUMED)}
        found = {name: np.array(self._flow.flows(arcs)) for name, arcs in lasting.items()}
        found["retained"][inputs] += direct
        found["reads"][self._entering[node]] += direct
        found["dropped"][node] += direct.sum()
        side = np.zeros(3 * self._n + 3, bool)
        side[self._flow.get_source_side_min_cut()] = True
        x, c, f = side[: 3 * self._n].reshape(3, -1)
        c[inputs] = True
        return MomentFlow(node, value, before=x, resident=c & ~f, recomputed=x & ~c, **found)

    def least(self, before: Array, after: Array, resident: Sequence[int], again: Array, retained: Array) -> int:
        """What a least cut pays at any moment about which more is known than whose first computation it is.

        Args:
            before: bool[n], x = 1.
            after: bool[n], x = 0.
            resident: nodes with h = 1, among those before.
        """
        room, known = np.array(retained, np.int64), list(resident)
        room[known] = 0
        return self._push(before, after, again, room) + int(retained[known].sum())

    def _push(self, before: Array, after: Array, again: Array, retained: Array) -> int:
        flow, most = self._flow, int(retained.sum())
        flow.set_arcs_capacity(self._arcs["again"], np.minimum(again, most + 1))
        flow.set_arcs_capacity(self._arcs["retained"], retained)
        flow.set_arcs_capacity(self._arcs["sources"], np.where(before, INFINITE, 0))
        flow.set_arcs_capacity(self._arcs["sinks"], np.where(after, INFINITE, 0))
        flow.set_arc_capacity(self._first, most + 1)
        if flow.solve(self._source, self._sink) != flow.OPTIMAL:
            raise RuntimeError("OR-Tools finds no maximum flow")
        return flow.optimal_flow()

    def sides(self, node: int) -> tuple[Array, Array]:
        """bool[n] each, to be changed at will: what is computed before `node` whatever the order, and what is not."""
        before, after = self.reach(node)
        after[node] = True
        return before, after

    def reach(self, node: int) -> tuple[Array, Array]:
        """bool[n] each, to be changed at will: the ancestors and the descendants of a node, by edges and `earlier`."""
        if node not in self._known:
            if len(self._known) * self._n > MOST_KNOWN:
                self._known.clear()
            self._known[node] = tuple(np.packbits(self._reached(side, node)) for side in self._near)
        before, after = (np.unpackbits(side, count=self._n).view(bool) for side in self._known[node])
        return before, after

    def _reached(self, near: Sequence[Iterable[int]], node: int) -> Array:
        reached, todo = np.zeros(self._n, bool), [node]
        while todo:
            for u in near[todo.pop()]:
                if not reached[u]:
                    reached[u] = True
                    todo.append(u)
        return reached


def _by_head(graph: ComputationGraph) -> list[list[int]]:
    """For each node the positions in `graph.edges` of the edges that lead to it, as in `graph.predecessors`."""
    entering: list[list[int]] = [[] for _ in graph.nodes]
    for position, (_, head) in enumerate(graph.edges):
        entering[head].append(position)
    return entering


# --- Flow cover inequalities: what must be computed more than once --------------------------------------------

# A flow whose `retained` is at most a price times the sizes proves, of every schedule within a budget, in any order and
# with any number of computations (see above)::
#
#     sum of again[u] over the nodes u computed more than once  >=  value - floor(price * room),
#     room = budget - size(v) - workspace(v)
#
# The right side is the demand. A node with again[u] >= demand satisfies it alone, so its weight may be lowered to the
# demand. Where the sum on the left pays durations, the demand is a bound on what recomputations take by itself.


FINEST = 2**48
"""Durations are multiplied, up to such a total, so that rounding down prices costs nothing."""
LARGEST_TOTAL = 2**60
"""Limit of the sum of priced sizes."""
MOST_PRICES = 12


@dataclass(frozen=True)
class FlowCut:
    """An inequality for every budget."""

    node: int
    """v, a position in `graph.nodes`."""
    own: int
    """v's size and workspace."""
    value: int
    """The value of the flow."""
    price: Fraction
    """`retained` of the flow is at most this times the sizes, rounded down."""
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
        """The least memory while `node` is computed for the first time, if only nodes of `free` are recomputed.

        Args:
            free: bool[n]; None: nothing is recomputed.
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
        retained = np.array([size * price.numerator // price.denominator for size in self.graph.sizes], np.int64)
        return self.network.flow(node, np.array(self.duration, np.int64) * self.scale, retained, sides)

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
