"""Compiled: search over vertical orders of buffers, by taking one out and putting it back where it is least in the way.

An order stands for the arena in which each buffer is dropped on those before it: its offset, its *head*, is the length
of the longest chain of buffers below it, and its *tail* that of the longest chain above it. Both need one sweep::

    limit   - - - - - - - - - - - - - - - - - - - - - -
              |  tail     what hangs above b, seen from the top
              +-------+
              |   b   |   head + size + tail is the length of the longest chain through b;
              +-------+   the longest of all chains is the size of the arena
              |  head     what b rests on
    0       ---------------------------------------------

As in job shops, where memory is a machine and an offset a starting time (Dell'Amico and Trubian, 1993), taking out b
leaves an order whose heads and tails give for every place how long the longest chain through b would be there.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.compiling import below, compiled, unit

NOBODY = -1


@compiled
def settle(order, start, end, size, step, top, offset):
    """Exact offsets of an order: each buffer right above those before it, rounded up to its step.

    Args:
        top: workspace, int64, one for each time from 0 to the last end.
        offset: int64[n], the result.

    Returns:
        The size of the arena.
    """
    top[:] = 0
    most = np.int64(0)
    for i in range(len(order)):
        b = order[i]
        at = np.int64(0)
        for t in range(start[b], end[b]):
            at = max(at, top[t])
        at = (at + step[b] - 1) // step[b] * step[b]
        offset[b] = at
        for t in range(start[b], end[b]):
            top[t] = at + size[b]
        most = max(most, at + size[b])
    return most


@compiled
def drop(order, start, end, size, without, top, length, reverse):
    """Heads of all buffers but `without`, or tails if in `reverse`; the size of the arena."""
    top[:] = 0
    most = top[0]
    for i in range(len(order)):
        b = order[len(order) - 1 - i if reverse else i]
        if b == without:
            continue
        part = top[start[b] : end[b]]
        high = part[0]
        for t in range(len(part)):
            high = max(high, part[t])
        length[b] = high
        high = high + size[b]
        for t in range(len(part)):
            part[t] = high
        most = max(most, high)
    return most


@compiled
def straighten(order, size, head, tail, share, key):
    """Sort an order by a mixture of head and tail (Shell's sort), which leaves heads and tails as they are.

    The place of a buffer among those it shares no time with is arbitrary; so its neighbours in the order change.
    """
    n = len(order)
    for b in order:
        key[b] = head[b] - share * (head[b] + np.float64(tail[b]) + size[b])
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            b, j = order[i], i
            while j >= gap and key[order[j - gap]] > key[b]:
                order[j] = order[j - gap]
                j -= gap
            order[j] = b
        gap //= 3


@compiled
def put_back(order, start, end, size, b, limit, temperature, head, tail, lower, generator):
    """Move b to a place where the longest chain through it is short: the shortest one, if `temperature` is 0.

    Above it, chains count as `limit`, plus noise of the temperature; heads and tails are those without b.

    Args:
        lower: workspace, int64[n].
    """
    n, under, at = len(order), np.int64(0), 0
    for i in range(n):
        a = order[i]
        lower[i] = under
        if a == b:
            at = i
        elif start[a] < end[b] and start[b] < end[a]:
            under = max(under, np.int64(head[a]) + size[a])
    over, best, place = np.int64(0), np.inf, at
    for i in range(n - 1, -2, -1):  # right above the buffer at place i; -1: below all
        rest = np.int64(0)
        if i >= 0:
            a = order[i]
            if a == b or start[a] >= end[b] or start[b] >= end[a]:
                continue
            rest = max(lower[i], np.int64(head[a]) + size[a])
        value = max(rest + size[b] + over, limit) - temperature * np.log(1.0 - unit(generator))
        if value < best:
            best, place = value, i
        if i >= 0:
            over = max(over, np.int64(tail[a]) + size[a])
    to = at
    while to > place + 1:
        order[to] = order[to - 1]
        to -= 1
    while to < place:
        order[to] = order[to + 1]
        to += 1
    order[to] = b


@compiled
def insertion(order, start, end, size, limit, moves, per_look, control, generator, workspace, best_order):
    """Make moves of buffers in chains longer than `limit`, until there is none.

    Args:
        order: int64[n], a permutation of the buffers; where the search stands.
        start, end, size: int64[n]; sizes in units such that all together stay below 2**31, int32[n].
        per_look: moves between two looks at which buffers are in such chains.
        control: float64[3]: temperature, factor for each move, size of the arena of `best_order`; updated.
        workspace: critical and lower, int64[n] each; head and tail, int32[n] each; top, int32, one for each time;
            key, float64[n].
        best_order: the order of the least arena; updated.
    """
    critical, lower, head, tail, top, key = workspace
    done = 0
    while done < moves:
        most = drop(order, start, end, size, NOBODY, top, head, False)
        if most < control[2]:
            control[2] = most
            for i in range(len(order)):
                best_order[i] = order[i]
        if most <= limit:
            return
        drop(order, start, end, size, NOBODY, top, tail, True)
        straighten(order, size, head, tail, unit(generator) if below(generator, 2) else 0.0, key)
        count = 0
        for b in order:
            if np.int64(head[b]) + size[b] + tail[b] > limit:
                critical[count] = b
                count += 1
        for _ in range(per_look):
            b = critical[below(generator, count)]
            drop(order, start, end, size, b, top, head, False)
            drop(order, start, end, size, b, top, tail, True)
            put_back(order, start, end, size, b, limit, control[0], head, tail, lower, generator)
            control[0] *= control[1]
        done += per_look
