"""Beam search over frontiers, compiled: one level at a time, forwards or backwards.

A state is a set D of computed nodes, closed under inputs. What is resident after D is a function of D alone: the nodes
of D that some node outside D reads. So is its memory f(D), and computing v next takes f(D) + size(v), and the workspace
of v, whatever came before::

    forwards    D -> D + v    v outside D with all its inputs in D      takes f(D) + size(v)
    backwards   D -> D - v    v in D with all its readers outside D     takes f(D - v) + size(v)

All states of a level are of one cardinality; sets reached in several ways are kept once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

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
def level(net, states, number, pool, width, limit, backward):
    """The best `width` candidates to follow the first `number` states, in the first entries of `pool`; how many.

    No candidate takes more than `limit`. A state with a node that can be taken at no cost (memory does not grow by
    taking it) is followed by that alone: see `beam` for the proof that this loses nothing.
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
def _free_node(net, states, s, limit, backward):
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
def _after(net, states, s, v, backward):
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
def _thin(pool, found, width):
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
def _same(pool, a, b):
    """Are two candidates the same set, as far as can be told?"""
    return pool.hash[a] == pool.hash[b] and pool.memory[a] == pool.memory[b]


@compiled
def _copy(pool, start, to):
    pool.rank[to], pool.plain[to], pool.hash[to] = pool.rank[start], pool.plain[start], pool.hash[start]
    pool.peak[to], pool.memory[to] = pool.peak[start], pool.memory[start]
    pool.parent[to], pool.node[to] = pool.parent[start], pool.node[start]


@compiled
def _largest(values, number):
    largest = values[0]
    for k in range(1, number):
        largest = max(largest, values[k])
    return largest


@compiled
def _kth(values, number, k):
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
def follow(net, states, pool, found, following, parents, nodes, backward):
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
def _copy_row(states, s, following, c, backward):
    for k in range(states.pending.shape[1]):
        following.pending[c, k] = states.pending[s, k]
    if not backward:
        for k in range(states.missing.shape[1]):
            following.missing[c, k] = states.missing[s, k]
