"""Compiled: buffers at the lowest free offset, in a given order, and orders that are repaired where they fail."""

from __future__ import annotations

from moccasin_mzn.heuristics.compiling import below, compiled

UNLIMITED = 2**62


@compiled
def living(placed, count, end, time):
    """Drop what has ended at a time from the first `count` of `placed`; how many are left."""
    kept = 0
    for j in range(count):
        if end[placed[j]] > time:
            placed[kept] = placed[j]
            kept += 1
    return kept


@compiled
def insert(placed, count, offset, b):
    """Put a buffer among the first `count` of `placed`, which are sorted by offset; how many there are then."""
    j = count
    while j > 0 and offset[placed[j - 1]] > offset[b]:
        placed[j] = placed[j - 1]
        j -= 1
    placed[j] = b
    return count + 1


@compiled
def move_earlier(order, k, to):
    """Move what stands at place k of `order` to the place `to`, which is no later."""
    b = order[k]
    for j in range(k, to, -1):
        order[j] = order[j - 1]
    order[to] = b


@compiled
def place(order, boxes, best_fit, in_time, limit, placed, offset):
    """Give each buffer of `order`, one after the other, the lowest offset at which it fits.

    What is placed is kept sorted by offset. For the next buffer the holes between those that live at the same time are
    looked at from the bottom::

        offset   0        4        8        12
                 [ a     ]         [ b     ]             a and b live at some time when the new buffer does
                          <- hole ->        <- the last hole has no end ->

    Args:
        order: int64[n], a permutation of the buffers.
        boxes: start, end, size, step as int64[n] each: half-open lifespans, positive sizes, and what the offset must be
            a multiple of.
        best_fit: take the smallest hole that is large enough, not the lowest one.
        in_time: `order` is by start, so that what has ended is of no more account.
        limit: give up as soon as a buffer ends above it.
        placed: workspace, int64[n].
        offset: int64[n], the result.

    Returns:
        The largest end of a buffer in the arena, and the place in `order` of the buffer that ends above `limit` (which
        is placed too, but none after it), or -1.
    """
    start, end, size, step = boxes
    top, count = 0, 0
    for k in range(len(order)):
        b = order[k]
        if in_time:
            count = living(placed, count, end, start[b])
        at, hole_from, smallest = -1, 0, -1
        for j in range(count):
            a = placed[j]
            if start[a] >= end[b] or start[b] >= end[a]:
                continue
            low = (hole_from + step[b] - 1) // step[b] * step[b]
            room = offset[a] - low
            if room >= size[b] and (smallest < 0 or room < smallest):
                at, smallest = low, room
                if not best_fit:
                    break
            hole_from = max(hole_from, offset[a] + size[a])
        if at < 0:
            at = (hole_from + step[b] - 1) // step[b] * step[b]
        offset[b] = at
        count = insert(placed, count, offset, b)
        top = max(top, at + size[b])
        if top > limit:
            return top, k
    return top, -1


@compiled
def repair(order, boxes, best_fit, limit, moves, generator, placed, offset):
    """Change `order` until all ends within `limit`: the buffer that does not moves to a random earlier place.

    This is squeaky wheel optimization (Joslin and Clements, 1999): what fails is served earlier next time.

    Args:
        moves: at most this many; for the others see `place`.

    Returns:
        The size of the arena, whose offsets are in `offset`; -1 if there is none after this many moves.
    """
    for _ in range(moves):
        top, k = place(order, boxes, best_fit, False, limit, placed, offset)
        if k < 0:
            return top
        move_earlier(order, k, below(generator, max(k, 1)))
    return -1
