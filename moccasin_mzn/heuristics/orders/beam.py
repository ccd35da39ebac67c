"""Beam search for an order within a given peak, of all nodes or of those in a window of an order.

With a width that suffices for all states it is exact dynamic programming over frontiers: a search that ends without an
order and never dropped a state proves that there is none. Of two rules that leave states out neither loses anything:

- A set reached in several ways is kept once: what follows depends on the set alone. Sets are told apart by 63 random
  bits and by what their nodes need; that two of a search are not, has a chance below 1e-4 for levels of a million.
- A state D with a ready node v such that f(D + v) <= f(D), and f(D) + size(v) is within the limit, is followed by D + v
  alone. f counts the nodes of D that are not freed, and u is freed when u and all its readers are in D: a modular
  function less a supermodular one, so f is submodular. Hence f(E + v) <= f(E) for every E that contains D but not v,
  and in any order within the limit that goes on from D, moving v to the front keeps all within the limit. Backwards
  likewise: if f(D - v) <= f(D), then f(E - v) <= f(E) for every E that contains v and is contained in D.

See `beam_kernel` for f, states and levels. A beam of width 1 is list scheduling by least memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.graphs.arrays import GraphArrays
from moccasin_mzn.heuristics.orders.beam_kernel import CUT, REFUSED, Net, Pool, States, follow, level

MOST_BYTES = 600_000_000
"""Of all arrays of one search."""
_POOL_PER_STATE = 6
_MANY = 256
"""From so many states on a level takes long enough to look at the clock after each."""
_NEVER = 2**62


@dataclass(frozen=True)
class Taste:
    """How a search ranks states of equal cardinality: by resident memory, seen through these glasses."""

    backward: bool = False
    power: float = 0.0
    """A resident node counts (readers to come / all readers) ** power of its size; 0: all until its last reader."""
    spread: float = 0.0
    """Sizes are multiplied by random factors of this spread (log-normal)."""
    noise: float = 0.0
    """Random addition to each state's rank, at most this part of the mean size."""


@dataclass(frozen=True)
class Found:
    """How a search ended."""

    order: tuple[int, ...] | None
    """None: none found."""
    needed: int
    """Without an order: no smaller limit lets in a state that was refused, so none is worth a search of this kind."""
    proven: bool
    """Nothing was left out: no order of the nodes has a peak below `needed`."""


class Beam:
    """Searches of one width. Nodes are those of `arrays`, numbered along a topological order."""

    def __init__(self, arrays: GraphArrays, width: int, seed: int = 0) -> None:
        self.arrays, self.width = arrays, width
        n = arrays.node_count
        self._random = np.random.default_rng(seed)
        self._zobrist = self._random.integers(-(2**62), 2**62, n)
        self._degree = np.diff(arrays.succ_ptr)
        self._tail = np.repeat(np.arange(n), self._degree)
        kind = np.int16 if max(self._degree.max(), np.diff(arrays.pred_ptr).max()) < 2**15 else np.int32
        self._buffers = [_states(width, n, kind) for _ in range(2)]
        self._pool = _pool(max(64, _POOL_PER_STATE * width))
        self._parents = np.empty((n, width), np.int32)
        self._nodes = np.empty((n, width), np.int32)

    def run(
        self, limit: int, taste: Taste, stop: Callable[[], bool], before: Sequence[int] = (),
        inside: Sequence[int] | None = None,
    ) -> Found:  # fmt: skip
        """Search for an order of peak at most `limit`.

        Args:
            before: nodes that come first, in whatever order: a set that is closed under inputs.
            inside: nodes to order, closed under inputs together with `before`; the peak is that while they are
                computed. Default: all others.
        """
        net, backward = self._net(taste), taste.backward
        steps = self._begin(net, before, inside, backward)
        states, following = self._buffers
        self._pool.notes[:] = 0, _NEVER
        number = 1
        for depth in range(steps):
            if (depth % 16 == 0 or number > _MANY) and stop():
                return Found(None, limit, False)
            left = level(net, states, number, self._pool, self.width, limit, backward)
            if left == 0:
                return Found(None, int(self._pool.notes[REFUSED]), not self._pool.notes[CUT])
            follow(net, states, self._pool, left, following, self._parents[depth], self._nodes[depth], backward)
            states, following, number = following, states, left
        order, at = [], int(np.argmin(states.peak[:number]))
        for depth in range(steps - 1, -1, -1):
            order.append(int(self._nodes[depth, at]))
            at = int(self._parents[depth, at])
        return Found(tuple(order) if backward else tuple(reversed(order)), limit, False)

    def _begin(self, net: Net, before: Sequence[int], inside: Sequence[int] | None, backward: bool) -> int:
        """Put the state to start from in the first row; how many nodes there are to order."""
        arrays, states = self.arrays, self._buffers[0]
        done = np.zeros(arrays.node_count, bool)
        done[list(before)] = True
        net.open[:] = ~done
        if inside is not None:
            net.open[:] = False
            net.open[list(inside)] = True
        if backward:
            done |= net.open
        states.pending[0] = np.bincount(self._tail, ~done[arrays.succ], minlength=arrays.node_count)
        states.missing[0] = np.bincount(arrays.succ, ~done[self._tail], minlength=arrays.node_count)
        waiting = self._degree - states.pending[0] if backward else states.missing[0]
        ready = np.flatnonzero(net.open & (waiting == 0))
        states.ready[0, : len(ready)] = ready
        states.count[0] = len(ready)
        states.memory[0] = arrays.size[done & (states.pending[0] > 0)].sum()
        for column in (states.rank, states.hash, states.peak):
            column[0] = 0
        return int(net.open.sum())

    def _net(self, taste: Taste) -> Net:
        arrays, n = self.arrays, self.arrays.node_count
        worth = arrays.size.astype(float)
        if taste.spread:
            worth = worth * np.exp(taste.spread * self._random.standard_normal(n))
        rows = self._degree + 1
        first = arrays.succ_ptr[:-1] + np.arange(n)
        part = (np.arange(rows.sum()) - np.repeat(first, rows)) / np.repeat(np.maximum(self._degree, 1), rows)
        part = np.where(part > 0, part**taste.power, 0.0)
        value = np.round(np.repeat(worth, rows) * part).astype(np.int64)
        own = arrays.size + arrays.workspace
        return Net(
            arrays.size, own, arrays.pred_ptr, arrays.pred, arrays.succ_ptr, arrays.succ, value, self._zobrist,
            np.zeros(n, bool), int(taste.noise * arrays.size.mean()),
        )  # fmt: skip


def widest_beam(nodes: int) -> int:
    """The width whose arrays take about `MOST_BYTES`, for a graph of so many nodes."""
    return max(1, MOST_BYTES // (24 * nodes + 600))


def _states(width: int, n: int, kind: type) -> States:
    lists: list[np.ndarray] = [np.empty((width, n), dtype) for dtype in (kind, kind, np.int32)]
    return States._make((*lists, np.empty(width, np.int32), *(np.empty(width, np.int64) for _ in range(4))))


def _pool(room: int) -> Pool:
    whole = [np.empty(room, np.int64) for _ in range(5)]
    half = [np.empty(room, np.int32) for _ in range(2)]
    table = np.empty(1 << (2 * room - 1).bit_length(), np.int32)
    return Pool._make((*whole, *half, table, np.empty(room, np.int64), np.zeros(2, np.int64)))
