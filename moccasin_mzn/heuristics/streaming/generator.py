"""Sequences by demand: which layers are computed whole, in waves or as they are read, and what is kept of them.

A *target* is a layer that is computed whole, in groups of its parts. For each group, *waves* are layers of which all
that the group needs is computed before anything that reads it; all other layers are computed just before they are
first read, depth first::

    targets   waves      a layer that is neither: part by part, as it is read

    layer a   ........   a1 a2 . a3 . a4       all of the target c is computed before d begins; if b is a wave, all of b
    layer b     b1 .. b2 . b3 . b4             that a group of c needs comes before any part of the group
    layer c        c1   c2 . c3 . c4

What is *kept* of a layer: everything (each part is computed once), or only what its band, its group or its wave reads:
what the next one needs of it is computed again. A copy is held until its last read before it is computed again, so
that the sequence alone says what memory it takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

STREAM, WAVE, TARGET = 0, 1, 2
"""Roles of layers."""
ALL, BAND, GROUP, PIECE = 0, 1, 2, 3
"""What is kept of a layer: all; what the present band of the target, group of the target, group of the wave needs."""
ROLE, KEPT, SIZE = 0, 1, 2
"""Rows of a plan, which has a column for each layer; the third is the number of parts of a group, of a target or wave."""


class StreamArrays(NamedTuple):
    """A tiled graph. Nodes are numbered layer by layer, parts of a layer by band and column."""

    duration: np.ndarray
    size: np.ndarray
    workspace: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    layer: np.ndarray
    """Of each node."""
    band: np.ndarray
    """Of each node, within its layer."""
    first: np.ndarray
    """Parts of layer l are the nodes first[l]..first[l + 1] - 1."""
    width: np.ndarray
    """Of each layer, the parts of its first band."""
    last: np.ndarray
    """True for layers that no other layer reads: always targets."""


class StreamState(NamedTuple):
    """Room to work in, and the sequence that was made."""

    seq: np.ndarray
    held: np.ndarray
    """Of each node, until which of `epoch` of its layer it is kept."""
    epoch: np.ndarray
    """Counters of bands, groups and waves, by what is kept; that of `ALL` stays."""
    mark: np.ndarray
    """Of each node, the group that needs it."""
    low: np.ndarray
    high: np.ndarray
    """Of each layer, the first and the last node that the group needs."""
    stack: np.ndarray
    """A row is a node and its next input."""
    latest: np.ndarray
    """Of each node, where its latest copy is in the sequence."""
    end: np.ndarray
    """Of each position, the last one that reads its copy."""
    change: np.ndarray
    """Of memory, from a position to the next."""
    totals: np.ndarray
    """Duration, peak, sum of memory over the budget, length."""


DURATION, PEAK, EXCESS, LENGTH = 0, 1, 2, 3


def room_for(streams: StreamArrays, longest: int) -> StreamState:
    """Room for sequences of so many computations."""
    n, layers = len(streams.size), len(streams.last)
    return StreamState(
        seq=np.zeros(longest, np.int64), held=np.zeros(n, np.int64), epoch=np.zeros(4, np.int64),
        mark=np.zeros(n, np.int64), low=np.zeros(layers, np.int64), high=np.zeros(layers, np.int64),
        stack=np.zeros((n + 1, 2), np.int64), latest=np.zeros(n, np.int64), end=np.zeros(longest, np.int64),
        change=np.zeros(longest + 1, np.int64), totals=np.zeros(4, np.int64),
    )  # fmt: skip


@compiled
def _is_held(streams, plan, state, v):
    return state.held[v] == state.epoch[plan[KEPT, streams.layer[v]]]


@compiled
def _need(streams, plan, state, part):
    """Compute a part, and before it what it lacks, depth first; False if there is no room for that."""
    state.stack[0, 0], state.stack[0, 1] = part, streams.pred_ptr[part]
    top = 0 if not _is_held(streams, plan, state, part) else -1
    while top >= 0:
        v, at = state.stack[top, 0], state.stack[top, 1]
        if at < streams.pred_ptr[v + 1]:
            state.stack[top, 1] += 1
            u = streams.pred[at]
            if not _is_held(streams, plan, state, u):
                top += 1
                state.stack[top, 0], state.stack[top, 1] = u, streams.pred_ptr[u]
            continue
        top -= 1
        if state.totals[LENGTH] == len(state.seq):
            return False
        state.seq[state.totals[LENGTH]] = v
        state.totals[LENGTH] += 1
        state.held[v] = state.epoch[plan[KEPT, streams.layer[v]]]
    return True


@compiled
def _mark_needed(streams, plan, state, begin, end):
    """Note, layer by layer, which nodes that are not held the parts begin..end - 1 need; the first such layer."""
    least = streams.layer[begin]
    state.low[:] = len(streams.size)
    state.high[:] = -1
    group = state.epoch[GROUP]
    for part in range(begin, end):
        if _is_held(streams, plan, state, part):
            continue
        state.stack[0, 0], state.stack[0, 1] = part, streams.pred_ptr[part]
        top = 0
        while top >= 0:
            v, at = state.stack[top, 0], state.stack[top, 1]
            if at == streams.pred_ptr[v + 1]:
                top -= 1
                continue
            state.stack[top, 1] += 1
            u = streams.pred[at]
            if state.mark[u] != group and not _is_held(streams, plan, state, u):
                state.mark[u] = group
                x = streams.layer[u]
                least = min(least, x)
                state.low[x], state.high[x] = min(state.low[x], u), max(state.high[x], u)
                top += 1
                state.stack[top, 0], state.stack[top, 1] = u, streams.pred_ptr[u]
    return least


@compiled
def _group(streams, plan, state, waves, begin, end):
    """Compute the parts begin..end - 1 of a target, wave by wave before them."""
    target = streams.layer[begin]
    if waves > 0:
        first = _mark_needed(streams, plan, state, begin, end)
        for x in range(first, target):
            if plan[ROLE, x] != WAVE or state.high[x] < 0:
                continue
            count = 0
            for part in range(state.low[x], state.high[x] + 1):
                if state.mark[part] == state.epoch[GROUP] and not _is_held(streams, plan, state, part):
                    if count % plan[SIZE, x] == 0:
                        state.epoch[PIECE] += 1
                    count += 1
                    if not _need(streams, plan, state, part):
                        return False
        state.epoch[PIECE] += 1
    for part in range(begin, end):
        if not _need(streams, plan, state, part):
            return False
    return True


@compiled
def _generate(streams, plan, state):
    """The sequence of a plan; False if it is too long."""
    state.totals[LENGTH] = 0
    state.held[:] = 0
    state.mark[:] = 0
    state.epoch[:] = 1
    waves = 0
    for x in range(len(streams.last)):
        waves += plan[ROLE, x] == WAVE
        if plan[ROLE, x] != TARGET and not streams.last[x]:
            continue
        at, end = streams.first[x], streams.first[x + 1]
        band = np.int64(-1)
        while at < end:
            after = min(end, at + plan[SIZE, x])
            state.epoch[GROUP] += 1
            state.epoch[PIECE] += 1
            if streams.band[at] != band:
                band = streams.band[at]
                state.epoch[BAND] += 1
            if not _group(streams, plan, state, waves, at, after):
                return False
            at = after
    for v in range(len(streams.size)):  # parts that nothing reads
        if state.held[v] == 0 and not _need(streams, plan, state, v):
            return False
    return True


@compiled
def measure(streams, state, budget):
    """Duration, peak and memory over the budget of the sequence, as the judge counts them; False if it is none."""
    length = state.totals[LENGTH]
    state.latest[:] = -1
    state.change[: length + 1] = 0
    duration = np.int64(0)
    for t in range(length):
        v = state.seq[t]
        duration += streams.duration[v]
        for at in range(streams.pred_ptr[v], streams.pred_ptr[v + 1]):
            state.end[state.latest[streams.pred[at]]] = t
        state.latest[v], state.end[t] = t, t
    for t in range(length):
        size = streams.size[state.seq[t]]
        state.change[t] += size
        state.change[state.end[t] + 1] -= size
    memory, peak, excess = np.int64(0), np.int64(0), np.int64(0)
    for t in range(length):
        memory += state.change[t]
        now = memory + streams.workspace[state.seq[t]]
        peak = max(peak, now)
        excess += max(0, now - budget)
    state.totals[DURATION], state.totals[PEAK], state.totals[EXCESS] = duration, peak, excess


@compiled
def evaluate(streams, plan, state, budget):
    """Make the sequence of a plan, and measure it; False if there is no room for it."""
    if not _generate(streams, plan, state):
        return False
    measure(streams, state, budget)
    return True
