"""What evicting an output may cost later: the numerators of DTR's heuristics.

Nodes are numbered 0..n-1 along the input order, as in `GraphArrays`. A node is evicted if it was computed and is not in
memory now. Durations are in the graph's unit.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays


class EvictionCost:
    """Told of every eviction and computation, it says what each output would cost if it were evicted next.

    This one says 1 for all: only size or staleness decides.
    """

    def __init__(self, arrays: GraphArrays) -> None:
        self._duration = arrays.duration

    def evicted(self, node: int) -> None:
        """The output of `node` has left memory."""

    def computed(self, node: int) -> None:
        """The output of `node` is in memory, for the first time or again."""

    def costs(self, nodes: Array) -> Array:
        """Of evicting each of `nodes`, which are in memory: int64, in the graph's duration unit."""
        return np.ones(len(nodes), np.int64)


class OwnCost(EvictionCost):
    """The duration of the node alone."""

    def costs(self, nodes: Array) -> Array:
        return self._duration[nodes]


class RelativesCost(EvictionCost):
    """Own duration plus that of the evicted ancestors and, unless they are left out, of the evicted descendants.

    Both together are the evicted neighbourhood e*::

        a* -> b* -> c -> d* -> e*          * evicted
               \\               ^           ancestors of c: b, a
        x* -> y ---------------/           descendants of c: d, e; but not x, beyond the resident y
    """

    def __init__(self, arrays: GraphArrays, descendants: bool = True) -> None:
        n = arrays.node_count
        words = n // 64 + 1
        super().__init__(arrays)
        self._arrays = (arrays.pred_ptr, arrays.pred, arrays.succ_ptr, arrays.succ)
        self._descendants = descendants
        self._evicted = np.zeros(n, np.bool_)
        self._newest = 0
        self._room = np.zeros((2, n, words), np.uint64)
        of_byte = np.zeros(64 * words, np.int64)
        of_byte[:n] = arrays.duration
        bits = np.arange(256)[:, None] >> np.arange(8) & 1
        self._table = of_byte.reshape(-1, 8) @ bits.T

    def evicted(self, node: int) -> None:
        self._evicted[node] = True

    def computed(self, node: int) -> None:
        self._evicted[node] = False
        self._newest = max(self._newest, node + 1)

    def costs(self, nodes: Array) -> Array:
        """In time proportional to n/64 for every edge and n/8 for every one of `nodes`."""
        from moccasin_mzn.strategies.dtr_kernel import add_evicted_relatives  # numba loads slowly

        wanted = np.zeros(len(self._evicted), np.bool_)
        wanted[nodes] = True
        cost = self._duration.copy()
        add_evicted_relatives(
            self._arrays, self._evicted, wanted, self._newest, self._descendants, self._table, *self._room, cost
        )
        return cost[nodes]


class ClassesCost(EvictionCost):
    """Own duration plus that of the classes of evicted nodes next to the node.

    An evicted node joins the classes of its evicted inputs and readers into one. A node that is computed again leaves
    its class, but the class stays in one piece. So this is never less than with e*, and cheaper to keep up to date.
    """

    def __init__(self, arrays: GraphArrays) -> None:
        super().__init__(arrays)
        n = arrays.node_count
        inputs = np.split(arrays.pred, arrays.pred_ptr[1:-1])
        readers = np.split(arrays.succ, arrays.succ_ptr[1:-1])
        self._near = np.concatenate([near for both in zip(inputs, readers, strict=True) for near in both])
        self._near_ptr = arrays.pred_ptr + arrays.succ_ptr
        self._class_of = np.full(n, -1, np.int64)
        self._class_cost = np.zeros(n, np.int64)
        self._members: list[list[int]] = [[] for _ in range(n)]
        self._unused = list(range(n))  # there are never more classes than evicted nodes
        self._seen = np.zeros(n, np.int64)

    def evicted(self, node: int) -> None:
        own = self._unused.pop()
        self._members[own] = [node]
        self._class_of[node] = own
        self._class_cost[own] = self._duration[node]
        near = self._class_of[self._near[self._near_ptr[node] : self._near_ptr[node + 1]]]
        for other in set(near.tolist()) - {-1}:
            own = self._joined(own, other)

    def _joined(self, one: int, other: int) -> int:
        small, large = sorted((one, other), key=lambda c: len(self._members[c]))
        self._class_of[self._members[small]] = large
        self._members[large] += self._members[small]
        self._class_cost[large] += self._class_cost[small]
        self._unused.append(small)
        return large

    def computed(self, node: int) -> None:
        old = int(self._class_of[node])
        if old >= 0:
            self._members[old].remove(node)
            self._class_cost[old] -= self._duration[node]
            self._class_of[node] = -1
            if not self._members[old]:
                self._unused.append(old)

    def costs(self, nodes: Array) -> Array:
        """In time proportional to the inputs and readers of `nodes`."""
        from moccasin_mzn.strategies.dtr_kernel import add_near_classes  # numba loads slowly

        cost = self._duration[nodes]
        add_near_classes(self._near_ptr, self._near, self._class_of, self._class_cost, nodes, self._seen, cost)
        return cost
