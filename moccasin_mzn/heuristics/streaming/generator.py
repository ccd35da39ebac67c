"""Sequences by demand: which layers are computed whole, in waves or as they are read, and what is kept of them.

A *target* is a layer that is computed whole, in groups of its parts. For each group, *waves* are layers of which all
that the group needs is computed before anything that reads it; all other layers are computed just before they are
first read, depth first. Layers a, b and c, of which c is a target, with groups of one part::

    b streams     a1 a2 b1 a3 b2 c1   a4 b3 c2         what c1 needs is b1 and b2, what b2 needs a1, a2 and a3
    b is a wave   a1 a2 b1 a3 b2 c1   a4 b3 c2
    a is a wave   a1 a2 a3 b1 b2 c1   a4 b3 c2

What is *kept* of a layer: everything (each part is computed once), or only what its band, its group or its wave reads:
what the next one needs of it is computed again. A copy is held until its last read before it is computed again, so
that the sequence alone says what memory it takes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import NONE, compiled
from moccasin_mzn.heuristics.streaming.layers import StreamArrays

# --- A plan, and room to make its sequence --------------------------------------------------------------------


ROLE, KEPT, SIZE, STRIP = 0, 1, 2, 3
"""Rows of a plan, which has a column for each layer: its role, what is kept of it, the number of parts of a group (of a
target, of a wave), the number of columns of a strip (a target is computed strip by strip, band by band within one)."""
STREAM, WAVE, TARGET = 0, 1, 2
"""Roles."""
ALL, BAND, GROUP, PIECE = 0, 1, 2, 3
"""What is kept of a layer: all of it, or what is needed by the present band of the target (or by its strip, if there are
several), by the present group of the target, or by that of the wave."""


class StreamState(NamedTuple):
    """Room to work in, and the sequence that was made."""

    seq: np.ndarray
    held: np.ndarray
    """Of each node, the epoch in which it was computed; it is held as long as that lasts."""
    epoch: np.ndarray
    """The present band, group and so on, by what is kept; that of `ALL` never ends."""
    used: np.ndarray
    """Number of computations of each node."""
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
    """Of memory, from the position before."""
    totals: np.ndarray
    """Duration, peak, memory over the budget (see `measure`), number of positions."""


DURATION, PEAK, OVER, LENGTH = 0, 1, 2, 3
LONGEST = 8
"""Sequences are at most so many times as long as the input order."""


def room_for(streams: StreamArrays) -> StreamState:
    """Room for any sequence of a graph."""
    n, layers = len(streams.size), len(streams.last)
    longest = min(LONGEST * n, int(streams.most.sum()))
    of_nodes = {name: np.zeros(n, np.int64) for name in ("held", "used", "mark", "latest")}
    return StreamState(
        **of_nodes, seq=np.zeros(longest, np.int64), epoch=np.zeros(4, np.int64), low=np.zeros(layers, np.int64),
        high=np.zeros(layers, np.int64), stack=np.zeros((n + 1, 2), np.int64), end=np.zeros(longest, np.int64),
        change=np.zeros(longest + 1, np.int64), totals=np.zeros(4, np.int64),
    )  # fmt: skip


# --- The sequence of a plan -----------------------------------------------------------------------------------


@compiled
def _is_held(streams, plan, state, v):
    return state.held[v] == state.epoch[plan[KEPT, streams.layer[v]]]


@compiled
def _push(streams, state, top, v):
    state.stack[top, 0], state.stack[top, 1] = v, streams.pred_ptr[v]
    return top


@compiled
def _need(streams, plan, state, part, longest):
    """Compute a part, and before it what it lacks, depth first; False if that takes longer than it may."""
    top = NONE if _is_held(streams, plan, state, part) else _push(streams, state, 0, part)
    while top >= 0:
        v, at = state.stack[top, 0], state.stack[top, 1]
        if at < streams.pred_ptr[v + 1]:
            state.stack[top, 1] += 1
            u = streams.pred[at]
            if not _is_held(streams, plan, state, u):
                top = _push(streams, state, top + 1, u)
            continue
        top -= 1
        state.used[v] += 1
        state.totals[DURATION] += streams.duration[v]
        length = state.totals[LENGTH]
        if length == len(state.seq) or state.used[v] > streams.most[v] or state.totals[DURATION] > longest:
            return False
        state.seq[length] = v
        state.totals[LENGTH] = length + 1
        state.held[v] = state.epoch[plan[KEPT, streams.layer[v]]]
    return True


@compiled
def _part(streams, plan, x, at):
    """Part number `at` of target x, strip by strip."""
    width, strip = streams.width[x], plan[STRIP, x]
    if strip >= width:
        return streams.first[x] + at
    bands = (streams.first[x + 1] - streams.first[x]) // width
    left = at // (strip * bands) * strip
    at -= left * bands
    columns = min(strip, width - left)
    return streams.first[x] + at // columns * width + left + at % columns


@compiled
def _mark_needed(streams, plan, state, target, begin, end):
    """Note, layer by layer, which nodes that are not held the parts begin..end - 1 of a target need.

    Returns:
        The first such layer.
    """
    state.low[:] = len(streams.size)
    state.high[:] = NONE
    group, least = state.epoch[GROUP], target
    for at in range(begin, end):
        part = _part(streams, plan, target, at)
        top = NONE if _is_held(streams, plan, state, part) else _push(streams, state, 0, part)
        while top >= 0:
            v, i = state.stack[top, 0], state.stack[top, 1]
            if i == streams.pred_ptr[v + 1]:
                top -= 1
                continue
            state.stack[top, 1] += 1
            u = streams.pred[i]
            if state.mark[u] != group and not _is_held(streams, plan, state, u):
                state.mark[u] = group
                x = streams.layer[u]
                state.low[x], state.high[x] = min(state.low[x], u), max(state.high[x], u)
                least = min(least, x)
                top = _push(streams, state, top + 1, u)
    return least


@compiled
def _waves(streams, plan, state, first, target, longest):
    """Compute the waves that a group of the target needs, one layer after the other."""
    for x in range(first, target):
        if plan[ROLE, x] != WAVE:
            continue
        count = 0
        for part in range(state.low[x], state.high[x] + 1):
            if state.mark[part] == state.epoch[GROUP] and not _is_held(streams, plan, state, part):
                state.epoch[PIECE] += count % plan[SIZE, x] == 0
                count += 1
                if not _need(streams, plan, state, part, longest):
                    return False
    state.epoch[PIECE] += 1
    return True


@compiled
def _target(streams, plan, state, x, with_waves, longest):
    """Compute a target, group by group."""
    parts, width, strip = streams.first[x + 1] - streams.first[x], streams.width[x], plan[STRIP, x]
    before = np.int64(NONE)
    for begin in range(0, parts, plan[SIZE, x]):
        end = min(parts, begin + plan[SIZE, x])
        part = _part(streams, plan, x, begin)
        band = streams.band[part] if strip >= width else (part - streams.first[x]) % width // strip
        state.epoch[GROUP] += 1
        state.epoch[PIECE] += 1
        state.epoch[BAND] += band != before
        before = band
        if with_waves:
            least = _mark_needed(streams, plan, state, x, begin, end)
            if not _waves(streams, plan, state, least, x, longest):
                return False
        for at in range(begin, end):
            if not _need(streams, plan, state, _part(streams, plan, x, at), longest):
                return False
    return True


@compiled
def _generate(streams, plan, state, longest):
    """Make the sequence of a plan; False if it takes longer than it may."""
    state.totals[:] = 0
    state.held[:] = 0
    state.mark[:] = 0
    state.used[:] = 0
    state.epoch[:] = 1
    waves = False
    for x in range(len(streams.last)):
        waves = waves or plan[ROLE, x] == WAVE
        if plan[ROLE, x] == TARGET or streams.last[x]:
            if not _target(streams, plan, state, x, waves, longest):
                return False
    for v in range(len(streams.size)):  # parts that nothing reads
        if state.used[v] == 0 and not _need(streams, plan, state, v, longest):
            return False
    return True


# --- What it takes --------------------------------------------------------------------------------------------


@compiled
def measure(streams, state, budget):
    """Peak of the sequence, as the judge counts it, and memory over the budget: the most while parts of a layer are
    computed, summed over layers."""
    length = state.totals[LENGTH]
    state.change[: length + 1] = 0
    for t in range(length):
        v = state.seq[t]
        for at in range(streams.pred_ptr[v], streams.pred_ptr[v + 1]):
            state.end[state.latest[streams.pred[at]]] = t
        state.latest[v], state.end[t] = t, t
    for t in range(length):
        size = streams.size[state.seq[t]]
        state.change[t] += size
        state.change[state.end[t] + 1] -= size
    memory, most = np.int64(0), state.high
    most[:] = budget
    state.totals[PEAK] = 0
    for t in range(length):
        v = state.seq[t]
        memory += state.change[t]
        now = memory + streams.workspace[v]
        state.totals[PEAK] = max(state.totals[PEAK], now)
        most[streams.layer[v]] = max(most[streams.layer[v]], now)
    state.totals[OVER] = 0
    for x in range(len(most)):
        state.totals[OVER] += most[x] - budget


@compiled
def evaluate(streams, plan, state, budget, longest):
    """Make the sequence of a plan, and measure it; False if its duration is over `longest`, or it is no schedule within
    the allowed computations of its nodes."""
    if not _generate(streams, plan, state, longest):
        return False
    measure(streams, state, budget)
    return True
