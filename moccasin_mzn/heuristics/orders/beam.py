"""Beam search for an order within a given peak, of all nodes or of those in a window of an order.

With a width that suffices for all states it is exact dynamic programming over frontiers: a search that ends without an
order and never dropped a state proves that there is none. Of two rules that leave states out neither loses anything:

- A set reached in several ways is kept once: what follows depends on the set alone. Sets are distinguished by 63 random
  bits and by what their nodes need; that two of a search are not, has a chance below 1e-4 for levels of a million.
- A state D with a ready node v such that f(D + v) <= f(D), and f(D) + size(v) is within the limit, is followed by D + v
  alone. f counts the nodes of D that are not freed, and u is freed when u and all its readers are in D: a modular
  function less a supermodular one, so f is submodular. Hence f(E + v) <= f(E) for every E that contains D but not v,
  and in any order within the limit that goes on from D, moving v to the front keeps all within the limit. Backwards
  likewise: if f(D - v) <= f(D), then f(E - v) <= f(E) for every E that contains v and is contained in D.

A beam of width 1 is list scheduling by least memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from moccasin_mzn.graphs.arrays import Array, GraphArrays
from moccasin_mzn.heuristics.compiling import compiled

# --- States of a beam search, in compiled code ----------------------------------------------------------------

# A state is a set D of computed nodes, closed under inputs. What is resident after D is a function of D alone: the
# nodes of D that some node outside D reads. So is its memory f(D), and computing v next takes f(D) + size(v), and the
# workspace of v, whatever came before::
#
#     forwards    D -> D + v    v outside D with all its inputs in D      takes f(D) + size(v)
#     backwards   D -> D - v    v in D with all its readers outside D     takes f(D - v) + size(v)
#
# All states of a level are of one cardinality; sets reached in several ways are kept once.


_EMPTY = -1


class Net(NamedTuple):
    """The graph and how a search values its states. n nodes, m edges."""

    size: np.ndarray
    """int64[n]."""
    own: np.ndarray
    """int64[n]: size and workspace."""
    pred_ptr: np.ndarray
    pred: np.ndarray
    succ_ptr: np.ndarray
    succ: np.ndarray
    value: np.ndarray
    """int64[m + n]: what a resident node u with p readers still to come counts in the rank, at succ_ptr[u] + u + p;
    0 for p = 0."""
    zobrist: np.ndarray
    """int64[n]: random; a set's hash is the exclusive or of its nodes'."""
    open: np.ndarray
    """bool[n]: the nodes whose place is sought."""
    noise: int
    """Added to the rank of each state: up to so much, by its hash."""


class States(NamedTuple):
    """The states of one level, in the first rows."""

    pending: np.ndarray
    """[width, n]: how many readers of each node are outside the set; of a node outside it, all are."""
    missing: np.ndarray
    """[width, n]: inputs outside the set (forwards only)."""
    ready: np.ndarray
    """int32[width, n]: the nodes to take next, in the first `count` entries."""
    count: np.ndarray  # type: ignore[assignment]  # not the method of tuples
    """int32[width]."""
    memory: np.ndarray
    """int64[width]: f."""
    rank: np.ndarray
    """int64[width]: smaller is better, noise excluded."""
    hash: np.ndarray
    peak: np.ndarray
    """int64[width]: the largest memory on the way."""


class Pool(NamedTuple):
    """Candidates for the next level; at most `capacity`."""

    rank: np.ndarray
    plain: np.ndarray
    """The rank without noise."""
    hash: np.ndarray
    peak: np.ndarray
    memory: np.ndarray
    parent: np.ndarray
    node: np.ndarray
    table: np.ndarray
    """int32, a power of two of at least twice the capacity: candidates by hash."""
    scratch: np.ndarray
    notes: np.ndarray
    """int64[2], see `CUT` and `REFUSED`."""


CUT, REFUSED = 0, 1
"""In `Pool.notes`: how often candidates were dropped for want of width; the least memory of a candidate over the limit.
A search that ends without a state and without a cut proves that every order takes what was least refused."""


@compiled
def level(net: Net, states: States, number: int, pool: Pool, width: int, limit: int, backward: bool) -> int:
    """The best `width` candidates to follow the first `number` states, in the first entries of `pool`; how many.

    No candidate takes more than `limit`. A state with a node that can be taken at no cost (memory does not grow by
    taking it) is followed by that alone: see the head of this module for the proof that this loses nothing.
    """
    room = len(pool.rank)
    found, cutoff, cut = 0, np.int64(0), False
    for s in range(number):
        free = _free_node(net, states, s, limit, backward)
        for at in range(states.count[s]):
            v = states.ready[s, at]
            if free != _EMPTY and v != free:
                continue
            memory, plain = _after(net, states, s, v, backward)
            taken = (memory if backward else states.memory[s]) + net.own[v]
            if taken > limit:
                pool.notes[REFUSED] = min(pool.notes[REFUSED], taken)
                continue
            code = states.hash[s] ^ net.zobrist[v]
            rank = plain + ((code >> 20) & 1023) * net.noise // 1024
            if cut and rank > cutoff:
                continue
            if found == room:
                found = _thin(pool, found, width)
                cut, cutoff = found == width, _largest(pool.rank, found)
                if cut and rank > cutoff:
                    continue
            pool.rank[found], pool.plain[found], pool.hash[found] = rank, plain, code
            pool.memory[found], pool.peak[found] = memory, max(states.peak[s], taken)
            pool.parent[found], pool.node[found] = s, v
            found += 1
    return _thin(pool, found, width)


@compiled
def _free_node(net: Net, states: States, s: int, limit: int, backward: bool) -> int:
    """A ready node that fits and after which memory is no larger, the one after which it is least; or none."""
    best, least = _EMPTY, states.memory[s]
    for at in range(states.count[s]):
        v = states.ready[s, at]
        memory = states.memory[s]
        if backward:
            if net.succ_ptr[v + 1] > net.succ_ptr[v]:
                memory -= net.size[v]
            for k in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
                if states.pending[s, net.pred[k]] == 0:
                    memory += net.size[net.pred[k]]
            taken = memory + net.own[v]
        else:
            taken = memory + net.own[v]
            if net.succ_ptr[v + 1] > net.succ_ptr[v]:
                memory += net.size[v]
            for k in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
                if states.pending[s, net.pred[k]] == 1:
                    memory -= net.size[net.pred[k]]
        if taken <= limit and (memory < least or (memory == least and best == _EMPTY)):
            best, least = v, memory
    return best


@compiled
def _after(net: Net, states: States, s: int, v: int, backward: bool) -> tuple[int, int]:
    """Memory and rank after taking `v` from a state."""
    memory, rank = states.memory[s], states.rank[s]
    readers = net.succ_ptr[v + 1] - net.succ_ptr[v]
    whole = net.value[net.succ_ptr[v] + v + readers]
    step = 1 if backward else -1
    if readers > 0:
        memory -= step * net.size[v]
        rank -= step * whole
    for k in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
        u = net.pred[k]
        now = states.pending[s, u]
        base = net.succ_ptr[u] + u + now
        rank += net.value[base + step] - net.value[base]
        if backward and now == 0:
            memory += net.size[u]
        elif not backward and now == 1:
            memory -= net.size[u]
    return memory, rank


@compiled
def _thin(pool: Pool, found: int, width: int) -> int:
    """Drop double candidates, then all but the best `width`; how many are left."""
    table, mask = pool.table, len(pool.table) - 1
    table[:] = _EMPTY
    left = 0
    for c in range(found):
        at = (pool.hash[c] ^ (pool.hash[c] >> 29)) & mask
        while table[at] != _EMPTY and not _same(pool, table[at], c):
            at = (at + 1) & mask
        if table[at] == _EMPTY:
            table[at] = left
            _copy(pool, c, left)
            left += 1
        elif pool.peak[c] < pool.peak[table[at]]:
            _copy(pool, c, table[at])
    if left <= width:
        return left
    for c in range(left):
        pool.scratch[c] = pool.rank[c]
    pivot = _kth(pool.scratch, left, width - 1)
    below = 0
    for c in range(left):
        below += pool.rank[c] < pivot
    pool.notes[CUT] += 1
    equal, kept = width - below, 0
    for c in range(left):
        if pool.rank[c] < pivot or (pool.rank[c] == pivot and equal > 0):
            equal -= pool.rank[c] == pivot
            _copy(pool, c, kept)
            kept += 1
    return kept


@compiled
def _same(pool: Pool, a: int, b: int) -> bool:
    """Are two candidates the same set, as far as hash and memory show?"""
    return pool.hash[a] == pool.hash[b] and pool.memory[a] == pool.memory[b]


@compiled
def _copy(pool: Pool, start: int, to: int) -> None:
    pool.rank[to], pool.plain[to], pool.hash[to] = pool.rank[start], pool.plain[start], pool.hash[start]
    pool.peak[to], pool.memory[to] = pool.peak[start], pool.memory[start]
    pool.parent[to], pool.node[to] = pool.parent[start], pool.node[start]


@compiled
def _largest(values: Array, number: int) -> int:
    largest = values[0]
    for k in range(1, number):
        largest = max(largest, values[k])
    return largest


@compiled
def _kth(values: Array, number: int, k: int) -> int:
    """The k-th smallest (from 0) of the first `number` values, which are reordered (Hoare's selection)."""
    low, high = 0, number - 1
    while low < high:
        pivot = values[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k >= i:
            low = i
        else:
            return values[k]
    return values[k]


@compiled
def follow(
    net: Net, states: States, pool: Pool, found: int, following: States, parents: Array, nodes: Array, backward: bool
) -> None:  # fmt: skip
    """Make the first `found` candidates the states of `following`, and note whence they come."""
    for c in range(found):
        s, v = pool.parent[c], pool.node[c]
        parents[c], nodes[c] = s, v
        _copy_row(states, s, following, c, backward)
        following.memory[c], following.peak[c] = pool.memory[c], pool.peak[c]
        following.rank[c], following.hash[c] = pool.plain[c], pool.hash[c]
        count = 0
        for at in range(states.count[s]):
            if states.ready[s, at] != v:
                following.ready[c, count] = states.ready[s, at]
                count += 1
        if backward:
            for k in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
                u = net.pred[k]
                following.pending[c, u] += 1
                if net.open[u] and following.pending[c, u] == net.succ_ptr[u + 1] - net.succ_ptr[u]:
                    following.ready[c, count] = u
                    count += 1
        else:
            for k in range(net.pred_ptr[v], net.pred_ptr[v + 1]):
                following.pending[c, net.pred[k]] -= 1
            for k in range(net.succ_ptr[v], net.succ_ptr[v + 1]):
                x = net.succ[k]
                following.missing[c, x] -= 1
                if net.open[x] and following.missing[c, x] == 0:
                    following.ready[c, count] = x
                    count += 1
        following.count[c] = count


@compiled
def _copy_row(states: States, s: int, following: States, c: int, backward: bool) -> None:
    for k in range(states.pending.shape[1]):
        following.pending[c, k] = states.pending[s, k]
    if not backward:
        for k in range(states.missing.shape[1]):
            following.missing[c, k] = states.missing[s, k]


# --- The search -----------------------------------------------------------------------------------------------


MOST_BYTES = 600_000_000
"""Bytes of all arrays of one search, at most."""
_POOL_PER_STATE = 6
_MANY = 256
"""From this many states on a level takes long enough to look at the clock after each."""
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
    """No order was found: no smaller limit lets in a state that was refused, so none is worth a search of this kind."""
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
    """The width whose arrays take about `MOST_BYTES`, for a graph with that number of nodes."""
    return max(1, MOST_BYTES // (24 * nodes + 600))


def _states(width: int, n: int, kind: type) -> States:
    lists: list[np.ndarray] = [np.empty((width, n), dtype) for dtype in (kind, kind, np.int32)]
    return States._make((*lists, np.empty(width, np.int32), *(np.empty(width, np.int64) for _ in range(4))))


def _pool(room: int) -> Pool:
    whole = [np.empty(room, np.int64) for _ in range(5)]
    half = [np.empty(room, np.int32) for _ in range(2)]
    table = np.empty(1 << (2 * room - 1).bit_length(), np.int32)
    return Pool._make((*whole, *half, table, np.empty(room, np.int64), np.zeros(2, np.int64)))
