"""Sequences by demand: which layers are computed whole, in waves or as they are read, and what is kept of them.

A *target* is a layer that is computed whole, in groups of its parts. For each group, *waves* are layers whose parts all
that the group needs is computed before anything that reads it; all other layers are computed just before they are
first read, depth first. Layers a, b and c in parts; each of b reads two of a, and each of c two of b; c is a
target, in groups of one part, and all is kept::

    a and b stream     a1 a2 b1 a3 b2 c1   a4 b3 c2   a5 b4 c3
    a is a wave        a1 a2 a3 b1 b2 c1   a4 b3 c2   a5 b4 c3
    b is a target      a1 a2 b1 a3 b2 a4 b3 a5 b4   c1   c2   c3

What is *kept* of a layer: everything (each part is computed once), or only what its band, its group or its wave reads:
what the next one needs of it is recomputed. A copy is retained until its last read before it is recomputed, so that the
sequence alone determines what memory it takes.

A target that separates what comes before it from what comes after ends a *segment*. What a segment takes depends on
nothing else, so that it is looked up where it is known.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from moccasin_mzn.heuristics.compiling import NONE, compiled
from moccasin_mzn.heuristics.streaming.layers import StreamArrays

# --- A plan, and room to make its sequence --------------------------------------------------------------------


ROLE, KEPT, SIZE, STRIP = 0, 1, 2, 3
"""Rows of a plan, which has a column for each layer: its role, what is kept of it, the number of parts of a group (of a
target, of a wave), the number of columns of a strip (a target is computed strip by strip, band by band within one).
Layers that no other reads are targets, and all of a target is kept."""
STREAM, WAVE, TARGET = 0, 1, 2
"""Roles."""
ALL, BAND, GROUP, PIECE = 0, 1, 2, 3
"""What is kept of a layer: all of it; or what the present band of the target needs (its strip, if there are several),
its present group, or that of the wave."""


class StreamState(NamedTuple):
    """Room to work in, and the sequence that was made."""

    seq: np.ndarray
    """The nodes of a segment; it begins with the parts of the target before it, which are resident."""
    resident: np.ndarray
    """The epoch in which each node was computed; it is resident as long as that lasts."""
    epoch: np.ndarray
    """The present band, group and so on, by what is kept; that of `ALL` never ends."""
    used: np.ndarray
    """Number of computations of each node."""
    mark: np.ndarray
    """The group that needs each node."""
    low: np.ndarray
    high: np.ndarray
    """The first and the last node of each layer that the group needs."""
    stack: np.ndarray
    """A row is a node and its next input."""
    latest: np.ndarray
    """The position of the latest copy of each node."""
    end: np.ndarray
    """The last position that reads the copy of each position."""
    change: np.ndarray
    """The change of memory from each position to the next, in the size unit."""
    totals: np.ndarray
    """Duration, peak, sum over segments of the peak over the budget; number of positions. First those of a segment."""
    known: np.ndarray
    """A row is the hash of a segment, its duration and its peak; see `evaluate`."""


DURATION, PEAK, OVER, LENGTH = 0, 1, 2, 3
LONGEST = 8
"""Sequences are at most this many times as long as the input order."""
KNOWN = 2**15
"""Number of segments whose duration and peak are kept."""
IMPOSSIBLE = -1
"""Duration of a segment that computes a node more often than is allowed."""


def room_for(streams: StreamArrays) -> StreamState:
    """Room for any sequence of a graph."""
    n, layers = len(streams.size), len(streams.last)
    longest = n + min(LONGEST * n, int(streams.most.sum()))
    of_nodes = {name: np.zeros(n, np.int64) for name in ("resident", "used", "mark", "latest")}
    return StreamState(
        **of_nodes, seq=np.zeros(longest, np.int64), epoch=np.zeros(4, np.int64), low=np.zeros(layers, np.int64),
        high=np.zeros(layers, np.int64), stack=np.zeros((n + 1, 2), np.int64), end=np.zeros(longest, np.int64),
        change=np.zeros(longest + 1, np.int64), totals=np.zeros(4, np.int64), known=np.zeros((KNOWN, 3), np.int64),
    )  # fmt: skip


# --- The sequence of a plan -----------------------------------------------------------------------------------


@compiled
def _is_resident(streams, plan, state, v):
    return state.resident[v] == state.epoch[plan[KEPT, streams.layer[v]]]


@compiled
def _push(streams, state, top, v):
    state.stack[top, 0], state.stack[top, 1] = v, streams.pred_ptr[v]
    return top


@compiled
def _need(streams, plan, state, part, longest):
    """Compute a part, and before it what it lacks, depth first; False if that takes longer than it may."""
    top = NONE if _is_resident(streams, plan, state, part) else _push(streams, state, 0, part)
    while top >= 0:
        v, at = state.stack[top, 0], state.stack[top, 1]
        if at < streams.pred_ptr[v + 1]:
            state.stack[top, 1] += 1
            u = streams.pred[at]
            if not _is_resident(streams, plan, state, u):
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
        state.resident[v] = state.epoch[plan[KEPT, streams.layer[v]]]
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
def _mark_needed(streams, plan, state, after, target, begin, end):
    """Note, layer by layer after `after`, which nodes that are not resident the parts begin..end - 1 of a target need.

    Returns:
        The first such layer.
    """
    group, least = state.epoch[GROUP], target
    for x in range(after + 1, target):
        state.low[x], state.high[x] = len(streams.size), NONE
    for at in range(begin, end):
        part = _part(streams, plan, target, at)
        top = NONE if _is_resident(streams, plan, state, part) else _push(streams, state, 0, part)
        while top >= 0:
            v, i = state.stack[top, 0], state.stack[top, 1]
            if i == streams.pred_ptr[v + 1]:
                top -= 1
                continue
            state.stack[top, 1] += 1
            u = streams.pred[i]
            if state.mark[u] != group and not _is_resident(streams, plan, state, u):
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
            if state.mark[part] == state.epoch[GROUP] and not _is_resident(streams, plan, state, part):
                state.epoch[PIECE] += count % plan[SIZE, x] == 0
                count += 1
                if not _need(streams, plan, state, part, longest):
                    return False
    state.epoch[PIECE] += 1
    return True


@compiled
def _target(streams, plan, state, after, x, with_waves, longest):
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
            least = _mark_needed(streams, plan, state, after, x, begin, end)
            if not _waves(streams, plan, state, least, x, longest):
                return False
        for at in range(begin, end):
            if not _need(streams, plan, state, _part(streams, plan, x, at), longest):
                return False
    return True


@compiled
def segment(streams, plan, state, after, end, longest):
    """Make the sequence of a segment, from the target `after` (NONE: from the beginning) to the target `end`.

    Returns:
        False if it takes longer than it may.
    """
    begin, stop = 0 if after == NONE else streams.first[after], streams.first[end + 1]
    state.totals[:] = 0
    state.epoch[:] = 1
    state.resident[begin:stop] = 0
    state.mark[begin:stop] = 0
    state.used[begin:stop] = 0
    for v in range(begin, streams.first[after + 1]):
        state.seq[v - begin] = v
        state.resident[v] = 1
        state.totals[LENGTH] += 1
    waves = False
    for x in range(after + 1, end + 1):
        waves = waves or plan[ROLE, x] == WAVE
        if plan[ROLE, x] == TARGET and not _target(streams, plan, state, after, x, waves, longest):
            return False
    for v in range(streams.first[after + 1], stop):  # parts that nothing reads
        if state.used[v] == 0 and not _need(streams, plan, state, v, longest):
            return False
    return True


@compiled
def next_end(streams, plan, after):
    """The layer that ends the segment after another one."""
    for x in range(after + 1, len(streams.last)):
        if streams.separates[x] and plan[ROLE, x] == TARGET:
            return x
    return len(streams.last) - 1


# --- What it takes --------------------------------------------------------------------------------------------


@compiled
def _peak(streams, state, after, end):
    """Peak of a segment, as the judge counts it in the whole sequence."""
    length, given = state.totals[LENGTH], 0
    if after != NONE:
        given = streams.first[after + 1] - streams.first[after]
    state.change[: length + 1] = 0
    for t in range(length):
        v = state.seq[t]
        state.end[t] = t
        if t >= given:
            for at in range(streams.pred_ptr[v], streams.pred_ptr[v + 1]):
                state.end[state.latest[streams.pred[at]]] = t
        state.latest[v] = t
    for v in range(streams.first[end], streams.first[end + 1]):
        if streams.is_read[v]:
            state.end[state.latest[v]] = length - 1
    for t in range(length):
        size = streams.size[state.seq[t]]
        state.change[t] += size
        state.change[state.end[t] + 1] -= size
    memory, peak = np.int64(0), np.int64(0)
    for t in range(length):
        memory += state.change[t]
        if t >= given:
            peak = max(peak, memory + streams.workspace[state.seq[t]])
    return peak


@compiled
def _hash(plan, after, end):
    """A hash of all that a segment depends on, other than 0."""
    value = np.uint64(after + 2) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(end)
    for x in range(after + 1, end + 1):
        role = plan[ROLE, x]
        of_layer = np.uint64(role * 4 + plan[KEPT, x])
        if role != STREAM:
            of_layer += np.uint64(plan[SIZE, x]) << np.uint64(4)
        if role == TARGET:
            of_layer += np.uint64(plan[STRIP, x]) << np.uint64(34)
        value = (value ^ of_layer) * np.uint64(0xD6E8FEB86659FD93)
        value ^= value >> np.uint64(32)
    return np.int64(value | np.uint64(1 << 62))


@compiled
def evaluate(streams, plan, state, budget, longest):
    """Duration, peak and memory over the budget of the sequence of a plan; False if its duration is over `longest`, or
    if it computes a node more often than is allowed."""
    duration, peak, over = np.int64(0), np.int64(0), np.int64(0)
    after = np.int64(NONE)
    while after < len(streams.last) - 1:
        end = next_end(streams, plan, after)
        key = _hash(plan, after, end)
        row = state.known[key & (KNOWN - 1)]
        if row[0] != key:
            made = segment(streams, plan, state, after, end, longest - duration)
            if not made and state.totals[DURATION] > longest - duration:
                return False
            row[0], row[1] = key, state.totals[DURATION] if made else IMPOSSIBLE
            row[2] = _peak(streams, state, after, end) if made else 0
        if row[1] == IMPOSSIBLE:
            return False
        duration += row[1]
        if duration > longest:
            return False
        peak = max(peak, row[2])
        over += max(0, row[2] - budget)
        after = end
    state.totals[DURATION], state.totals[PEAK], state.totals[OVER] = duration, peak, over
    return True


def sequence_of(streams: StreamArrays, plan: np.ndarray, state: StreamState) -> list[int]:
    """The whole sequence of a plan that is known to be possible."""
    after, found, given = NONE, list[int](), 0
    while after < len(streams.last) - 1:
        end = next_end(streams, plan, after)
        segment(streams, plan, state, after, end, np.int64(2**62))
        found += state.seq[given : state.totals[LENGTH]].tolist()
        after, given = end, int(streams.first[end + 1] - streams.first[end])
    return found
