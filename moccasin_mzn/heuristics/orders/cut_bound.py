"""A lower bound on the peak of any order that computes each node once, by minimum cuts.

Let D be the set of nodes computed before v in some order. D is closed under inputs, contains all ancestors of v, and
neither v nor a descendant of v. While v is computed, memory is f(D) + size(v), where f(D) is the size of all nodes of
D that some node outside D reads (the inputs of v among them). So the peak of every order is at least

    max over v of  size(v) + min over such D of f(D).

The minimum is a minimum cut. The side of the source is D, plus a node u' for every u that is freed::

    u  ---size(u)--->  u'          cut if u is in D and u' is not: u is resident
    u' ---infinite-->  w           for each reader w of u: u is freed only when all its readers are in D
    w  ---infinite-->  u           for each input u of w: D is closed under inputs
    sources: the ancestors of v;   sinks: v and its descendants

A cut without infinite arcs is a D and a set of freed nodes whose readers are all in D; freeing all such nodes is best,
and then the cut costs f(D). Nodes that nothing reads have no u': they are freed at once.

This is for single computations only: with recomputations D need not stay in memory, and budgets below the bound can be
feasible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays
from moccasin_mzn.heuristics.orders.flow_kernel import NOTHING, SINK, SOURCE, Network, mark, maximum_flow

MOST_SETS = 32
"""Kept for each node."""
_ALL = 2**62


class CutBound:
    """The bound, improved node by node."""

    def __init__(self, arrays: GraphArrays) -> None:
        self._arrays = arrays
        self._network = _network(arrays)
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
        """Of the output of v."""
        return int(self._arrays.size[v])

    def at(self, v: int) -> int:
        """The least memory while v is computed, over all orders."""
        if v not in self._at:
            self._at[v] = self.size(v) + self.between(*self.reach(v), v)
        return self._at[v]

    def reach(self, v: int) -> tuple[int, int]:
        """The ancestors and the descendants of v, as sets of bits."""
        arrays, role = self._arrays, np.zeros(self._arrays.node_count, np.int8)
        mark(arrays.pred_ptr, arrays.pred, v, role, SOURCE, self._network.queue)
        mark(arrays.succ_ptr, arrays.succ, v, role, SINK, self._network.queue)
        role[v] = NOTHING
        return _bits(role == SOURCE), _bits(role == SINK)

    def between(self, before: int, after: int, v: int, enough: int = _ALL) -> int:
        """The least f(D) of sets D with all of `before` and neither v nor any of `after`; at most `enough`.

        Args:
            before, after: sets of bits, node k is bit k.
        """
        n, role = self._arrays.node_count, self._network.role
        role[:] = NOTHING
        role[:n][self._array(before)] = SOURCE
        role[:n][self._array(after)] = SINK
        role[v] = SINK
        return maximum_flow(self._network, enough)

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
        computed = _bits(self._network.depth[: self._arrays.node_count] >= 0)  # the side of the sources
        known.insert(0, (memory, computed))
        del known[MOST_SETS:]
        return True

    def _array(self, bits: int) -> Array:
        """bool[n]."""
        n = self._arrays.node_count
        packed = np.frombuffer(bits.to_bytes((n + 7) // 8, "little"), np.uint8)
        return np.unpackbits(packed, count=n, bitorder="little").view(bool)


def _bits(row: Array) -> int:
    return int.from_bytes(np.packbits(row, bitorder="little").tobytes(), "little")


def _network(arrays: GraphArrays) -> Network:
    """Node u, and u' at n + u; see above."""
    n = arrays.node_count
    tail = np.repeat(np.arange(n, dtype=np.int64), np.diff(arrays.succ_ptr))
    head = arrays.succ.astype(np.int64)
    read = np.flatnonzero(np.diff(arrays.succ_ptr) > 0)
    infinite = np.full(len(tail), int(arrays.size.sum()) + 1)
    starts = np.concatenate([read, n + tail, head])
    ends = np.concatenate([n + read, head, tail])
    capacity = np.concatenate([arrays.size[read], infinite, infinite])
    count = len(starts)
    both = np.concatenate([starts, ends])  # arc k, and its reverse at count + k
    rank = np.argsort(both, kind="stable")
    place = np.empty(2 * count, np.int64)
    place[rank] = np.arange(2 * count)
    ptr = np.zeros(2 * n + 1, np.int64)
    np.cumsum(np.bincount(both, minlength=2 * n), out=ptr[1:])
    twin = place[np.concatenate([np.arange(count, 2 * count), np.arange(count)])][rank]
    to = np.concatenate([ends, starts])[rank].astype(np.int32)
    given = np.concatenate([capacity, np.zeros(count, np.int64)])[rank]
    room = [np.empty(2 * n, np.int64) for _ in range(3)]
    return Network(ptr, to, twin, given, given.copy(), np.zeros(2 * n, np.int8), np.empty(2 * n, np.int32), *room)
