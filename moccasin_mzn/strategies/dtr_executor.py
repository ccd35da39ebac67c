"""DTR's executor: an online program that evicts when memory is short and computes again what it then lacks.

Nodes are numbered 0..n-1 along the input order. The account of memory is the executor's own: an output counts until it
is evicted, even if nothing will read it before it is computed again. So it is never below the simulator's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays
from moccasin_mzn.strategies.dtr_costs import EvictionCost
from moccasin_mzn.strategies.strategy import Stop


@dataclass(frozen=True)
class EvictionRule:
    """h(t) = cost / (size * staleness), in which factors may be left out. The output with the least h goes first."""

    cost: Callable[[GraphArrays], EvictionCost]
    size: bool
    """Whether the size of the output divides."""
    staleness: bool
    """Whether the duration computed since the output was last computed or read divides."""


class Executor:
    """Runs the program once; see `run`."""

    peak: int
    """Most memory so far, by the executor's own account."""

    def __init__(self, arrays: GraphArrays, rule: EvictionRule, threshold: int, most: int, stop: Stop) -> None:
        """The graph is along the input order, `threshold` the most memory in its size unit; after `most` computations
        the program is given up as thrashing, and as soon as `stop` says so."""
        n = arrays.node_count
        self._rule, self._threshold, self._most, self._stop = rule, threshold, most, stop
        self._cost = rule.cost(arrays)
        self._duration: list[int] = arrays.duration.tolist()
        self._size: list[int] = arrays.size.tolist()
        self._workspace: list[int] = arrays.workspace.tolist()
        self._divisor = arrays.size if rule.size else np.ones(n, np.int64)
        self._inputs = [arrays.pred[arrays.pred_ptr[v] : arrays.pred_ptr[v + 1]].tolist() for v in range(n)]
        self._unread: list[int] = np.diff(arrays.succ_ptr).tolist()  # first computations that will still read it
        self._worth_evicting = arrays.size > 0
        self._resident = np.zeros(n, np.bool_)
        self._locks = np.zeros(n, np.int64)
        self._accessed = np.zeros(n)  # floats: a thrashing program's clock may leave int64
        self._clock = self._memory = self.peak = 0
        self._computed: list[int] = []

    def run(self) -> Sequence[int] | None:
        """All computations in their order; None if memory ran out, everything being locked, or if given up."""
        for v in range(len(self._size)):
            if not self._materialize(v):
                return None
            for u in self._inputs[v]:
                self._unread[u] -= 1
                if self._unread[u] == 0:  # the program lets go of it, even if some evicted output was made from it
                    self._evict(u)
            if self._unread[v] == 0:
                self._evict(v)
        return self._computed

    def _materialize(self, node: int) -> bool:
        """Compute `node` and, before that, its evicted inputs, their evicted inputs, and so on; False if that fails.

        The inputs of every node under way are locked as soon as they are resident.
        """
        under_way: list[tuple[int, set[int]]] = [(node, set())]
        while under_way:
            v, locked = under_way[-1]
            missing = self._lock_inputs(v, locked)
            if missing is not None:
                under_way.append((missing, set()))
                continue
            if len(self._computed) == self._most or self._stop():
                return False
            if not self._make_room(self._size[v] + self._workspace[v]):
                return False
            self._compute(v)
            self._locks[list(locked)] -= 1
            under_way.pop()
        return True

    def _lock_inputs(self, node: int, locked: set[int]) -> int | None:
        """Lock the resident inputs of `node` that are not locked for it yet. The first missing input, if any."""
        missing = None
        for u in self._inputs[node]:
            if not self._resident[u]:
                missing = u if missing is None else missing
            elif u not in locked:
                locked.add(u)
                self._locks[u] += 1
                self._accessed[u] = self._clock
        return missing

    def _make_room(self, size: int) -> bool:
        """Evict until `size` more fits; False if all that could be evicted is locked."""
        while self._memory + size > self._threshold:
            unlocked = np.flatnonzero(self._resident & self._worth_evicting & (self._locks == 0))
            if len(unlocked) == 0:
                return False
            self._evict(int(unlocked[np.argmin(self._scores(unlocked))]))
        return True

    def _scores(self, nodes: Array) -> Array:
        """h of each of `nodes`."""
        divisor = self._divisor[nodes].astype(np.float64)
        if self._rule.staleness:
            divisor *= float(self._clock) - self._accessed[nodes]
        cost = self._cost.costs(nodes)
        return np.divide(cost, divisor, out=np.full(len(nodes), np.inf), where=divisor > 0)

    def _compute(self, node: int) -> None:
        self._clock += self._duration[node]
        self._memory += self._size[node]
        self.peak = max(self.peak, self._memory + self._workspace[node])
        self._resident[node] = True
        self._accessed[node] = self._clock
        self._computed.append(node)
        self._cost.computed(node)

    def _evict(self, node: int) -> None:
        self._resident[node] = False
        self._memory -= self._size[node]
        self._cost.evicted(node)
