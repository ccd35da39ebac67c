"""A lower bound on the peak of any order that computes each node once, by minimum cuts.

Let D be the set of nodes computed before v in some order. D is closed under inputs, contains all ancestors of v, and
neither v nor a descendant of v. While v is computed, memory is f(D) + size(v), where f(D) is the size of all nodes of
D that some node outside D reads (the inputs of v among them), and size(v) that of v and its workspace. So the peak of
every order is at least

    max over v of  size(v) + min over such D of f(D).

The minimum is a minimum cut. The side of the source is D, plus a node u' for every u that is freed::

    u  ---size(u)--->  u'          cut if u is in D and u' is not: u is resident
    u' ---infinite-->  w           for each reader w of u: u is freed only when all its readers are in D
    w  ---infinite-->  u           for each input u of w: D is closed under inputs
    sources: the ancestors of v;   sinks: v and its descendants

A cut without infinite arcs is a D and a set of freed nodes whose readers are all in D; freeing all such nodes is best,
and then the cut costs f(D). Nodes that nothing reads have no u': they are freed at once. OR-Tools finds the cut.

This is for single computations only: with recomputations D need not stay in memory, and budgets below the bound can be
feasible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays
from moccasin_mzn.heuristics.compiling import compiled

MOST_SETS = 32
"""Kept for each node."""
_ALL = 2**62


class CutBound:
    """The bound, improved node by node."""

    def __init__(self, arrays: GraphArrays) -> None:
        self._arrays, self._network = arrays, _Network(arrays)
        self._at: dict[int, int] = {}
        self._sets: dict[int, list[tuple[int, int]]] = {}  # by node, the latest first: f(D) and D

    def improve(self, bound: int, memory: Sequence[int], stop: Callable[[], bool]) -> int:
        """The largest of `bound` and the bounds of all nodes that can be above it.

        Args:
            memory: while each node is computed, in some order; the bound of a node is not above it.
        """
        for v in sorted(range(len(memory)), key=lambda v: -memory[v]):
            if memory[v] <= bound or stop():
                break
            bound = max(bound, self.at(v))
        return bound

    def size(self, v: int) -> int:
        return int(self._arrays.size[v] + self._arrays.workspace[v])

    def at(self, v: int) -> int:
        """The least memory while v is computed, over all orders."""
        if v not in self._at:
            self._at[v] = self.size(v) + self.between(*self.reach(v), v)
        return self._at[v]

    def reach(self, v: int) -> tuple[int, int]:
        """The ancestors and the descendants of v, as sets of bits."""
        arrays, queue = self._arrays, np.empty(self._arrays.node_count, np.int64)
        before, after = np.zeros((2, arrays.node_count), bool)
        _mark(arrays.pred_ptr, arrays.pred, v, before, queue)
        _mark(arrays.succ_ptr, arrays.succ, v, after, queue)
        return _bits(before), _bits(after)

    def between(self, before: int, after: int, v: int, enough: int = _ALL) -> int:
        """The least f(D) of sets D with all of `before` and neither v nor any of `after`; at most `enough`.

        Args:
            before, after: sets of bits, node k is bit k.
        """
        return self._network.cut(self._array(before), self._array(after | 1 << v), enough)

    def possible(self, before: int, after: int, v: int, room: int) -> bool:
        """True if there is such a D with f(D) <= `room`. Sets found are kept: mostly one of them will do again."""
        known = self._sets.setdefault(v, [])
        for k, (memory, computed) in enumerate(known):
            if memory <= room and before & computed == before and not after & computed:
                known.insert(0, known.pop(k))
                return True
        memory = 0 if room < 0 else self.between(before, after, v, room + 1)
        if memory > room:
            return False
        known.insert(0, (memory, _bits(self._network.side())))
        del known[MOST_SETS:]
        return True

    def _array(self, bits: int) -> Array:
        """bool[n]."""
        n = self._arrays.node_count
        packed = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
        return np.unpackbits(packed, count=n, bitorder="little").view(bool)


def _bits(row: Array) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


@compiled
def _mark(ptr: Array, near: Array, start: int, marked: Array, queue: Array) -> None:
    """Mark all but `start` that is reached from it by the rows `ptr`, `near`."""
    x, first, last = start, 0, 0
    while True:
        for k in range(ptr[x], ptr[x + 1]):
            if not marked[near[k]]:
                marked[near[k]] = True
                queue[last] = near[k]
                last += 1
        if first == last:
            return
        x = queue[first]
        first += 1


class _Network:
    """Node u, and u' at n + u; see above. A first arc, of capacity `enough`, leads to arcs to all sources."""

    def __init__(self, arrays: GraphArrays) -> None:
        from ortools.graph.python.max_flow import SimpleMaxFlow

        n, every = arrays.node_count, np.arange(arrays.node_count)
        self._n, self._infinite = n, int(arrays.size.sum()) + 1
        tail, head = np.repeat(every, np.diff(arrays.succ_ptr)), arrays.succ.astype(np.int64)
        read = np.flatnonzero(np.diff(arrays.succ_ptr) > 0)
        self._flow = SimpleMaxFlow()
        for starts, ends, capacity in (
            (read, n + read, arrays.size[read]),
            (n + tail, head, np.full(len(tail), self._infinite)),
            (head, tail, np.full(len(tail), self._infinite)),
        ):
            self._flow.add_arcs_with_capacity(starts, ends, capacity)
        closed = np.zeros(n, np.int64)
        self._sources = self._flow.add_arcs_with_capacity(np.full(n, 2 * n), every, closed)
        self._sinks = self._flow.add_arcs_with_capacity(every, np.full(n, 2 * n + 1), closed)
        self._first = self._flow.add_arc_with_capacity(2 * n + 2, 2 * n, 0)

    def cut(self, sources: Array, sinks: Array, enough: int) -> int:
        """The least cut between some nodes and others; one of `enough` or more is not distinguished from `enough`."""
        self._flow.set_arcs_capacity(self._sources, np.where(sources, self._infinite, 0))
        self._flow.set_arcs_capacity(self._sinks, np.where(sinks, self._infinite, 0))
        self._flow.set_arc_capacity(self._first, min(enough, self._infinite))
        if self._flow.solve(2 * self._n + 2, 2 * self._n + 1) != self._flow.OPTIMAL:
            raise RuntimeError("OR-Tools finds no maximum flow")
        return self._flow.optimal_flow()

    def side(self) -> Array:
        """bool[n]: the smallest side of the sources, of the least cut found last, which is below `enough`."""
        reached = np.zeros(2 * self._n + 3, bool)
        reached[self._flow.get_source_side_min_cut()] = True
        return reached[: self._n]


# --- Precedences that a limit forces, and the cuts they raise -------------------------------------------------

# For a limit, suppose that x comes before y, two nodes of which neither is an ancestor of the other. Then while x is
# computed neither y nor a descendant of y is, and while y is computed x and its ancestors are: the minimum cuts of
# x and y have more sinks and more sources. If one of them is above the limit, every order within the
# limit has y before x. That becomes a precedence for all further cuts, and so on. If both ways are refused, or the cut
# of a node is above the limit, no order is within the limit::
#
#     limit 10        x before y:  cut of x  8, cut of y 12    refused, so y before x from now on
#                     y before z:  cut of y 11                 refused, so z before y, and z before x
#                     z:           cut of z 11                 no order has a peak of 10 or less
#
# Precedences count as ancestors and descendants. They free nothing: outputs are freed by their readers alone.


class Forced(NamedTuple):
    """A precedence that a limit forces, and so does every smaller one."""

    limit: int
    first: int
    second: int


class PrecedenceBound:
    """Refutes limits by precedences between a few nodes.

    Args:
        cuts: of the graph.
        nodes: those to look at, numbers of the arrays; the more, the stronger and the slower.
        forced: precedences that are known already; new ones are added.
    """

    def __init__(self, cuts: CutBound, nodes: Sequence[int], forced: list[Forced]) -> None:
        self._cuts, self._nodes, self._forced = cuts, nodes, forced
        self._reach = {v: cuts.reach(v) for v in nodes}

    def refutes(self, limit: int, stop: Callable[[], bool]) -> bool:
        """True if every order has a peak above `limit`; False if that could not be shown, or was not in time."""
        known = _Precedences(self._reach)
        for one in self._forced:
            if one.limit >= limit and one.first in self._reach and one.second in self._reach:
                known.put(one.first, one.second)
        news = True
        while news:
            news = False
            for v in self._nodes:
                if not self._cuts.possible(known.before[v], known.after[v], v, self._room(v, limit)):
                    return True
            for x, y in self._open_pairs(known):
                if stop():
                    return False
                if known.settled(x, y):
                    continue  # meanwhile
                for first, second in ((x, y), (y, x)):
                    if self._refused(first, second, limit, known):
                        known.put(second, first)
                        self._forced.append(Forced(limit, second, first))
                        news = True
                        break
        return False

    def _open_pairs(self, known: _Precedences) -> list[tuple[int, int]]:
        nodes = self._nodes
        return [(x, y) for k, x in enumerate(nodes) for y in nodes[:k] if not known.settled(x, y)]

    def _refused(self, first: int, second: int, limit: int, known: _Precedences) -> bool:
        """True if no order within the limit has `first` before `second`."""
        before, after, room = known.before, known.after, self._room
        later = after[first] | after[second] | 1 << second
        if not self._cuts.possible(before[first], later, first, room(first, limit)):
            return True
        earlier = before[first] | before[second] | 1 << first
        return not self._cuts.possible(earlier, after[second], second, room(second, limit))

    def _room(self, v: int, limit: int) -> int:
        return limit - self._cuts.size(v)


class _Precedences:
    """What comes before and after each of some nodes, as sets of bits."""

    def __init__(self, reach: dict[int, tuple[int, int]]) -> None:
        self.before = {v: ancestors for v, (ancestors, _) in reach.items()}
        self.after = {v: descendants for v, (_, descendants) in reach.items()}

    def settled(self, x: int, y: int) -> bool:
        """True if it is known which of them comes first."""
        return bool((self.before[x] >> y | self.before[y] >> x) & 1)

    def put(self, first: int, second: int) -> None:
        """Add the precedence of `first` before `second`, and all that follow from it."""
        earlier, later = self.before[first] | 1 << first, self.after[second] | 1 << second
        for v in self.before:
            if later >> v & 1:
                self.before[v] |= earlier
            if earlier >> v & 1:
                self.after[v] |= later


def promising(cuts: CutBound, memory: Sequence[int], number: int, stop: Callable[[], bool]) -> list[int]:
    """Up to `number` nodes of the largest cuts, among four times as many of the largest memory in some order.

    Args:
        memory: while each node of the arrays is computed.
    """
    largest = sorted(range(len(memory)), key=lambda v: -memory[v])[: 4 * number]
    known = [(cuts.at(v), -v) for v in largest if not stop()]
    return [-v for _, v in sorted(known, reverse=True)[:number]]
