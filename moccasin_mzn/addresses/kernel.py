"""Compiled: buffers at the lowest free offset, in a given order, and orders that are repaired where they fail.

All that is compiled is in this one file, so that the compiled code kept on disk is forgotten whenever it is outdated.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled

UNLIMITED = 2**62


@compiled
def place(order, boxes, best_fit, in_time, limit, placed, offset):
    """Give each buffer of `order`, one after the other, the lowest offset at which it fits.

    What is placed is kept sorted by offset. For the next buffer the holes between those that live at the same time are
    looked at from below::

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
        placed: room, int64[n].
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
            kept = 0
            for j in range(count):
                if end[placed[j]] > start[b]:
                    placed[kept] = placed[j]
                    kept += 1
            count = kept
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
        j = count
        while j > 0 and offset[placed[j - 1]] > at:
            placed[j] = placed[j - 1]
            j -= 1
        placed[j] = b
        count += 1
        top = max(top, at + size[b])
        if top > limit:
            return top, k
    return top, -1


@compiled
def repair(order, boxes, limit, moves, generator, placed, offset):
    """Change `order` until all ends within `limit`: the buffer that does not moves to a random earlier place.

    This is squeaky wheel optimization (Joslin and Clements, 1999): whoever fails is served earlier next time.

    Args:
        moves: at most so many.
        generator: uint64[1], state of the random numbers, not 0.

    Returns:
        The size of the arena, whose offsets are in `offset`; -1 if there is none after so many moves.
    """
    for _ in range(moves):
        top, k = place(order, boxes, False, False, limit, placed, offset)
        if k < 0:
            return top
        x = generator[0]
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        generator[0] = x
        to = int(x >> np.uint64(1)) % max(k, 1)
        b = order[k]
        for j in range(k, to, -1):
            order[j] = order[j - 1]
        order[to] = b
    return -1


@compiled
def skyline(order, boxes, grain, limit, left, height, todo, offset):
    """Fill the arena from below: the lowest stretch of the skyline gets the first buffer of `order` that fits in it.

    ::

        offset                 +---------+
                      +--------+         |        the lowest stretch is 0..l; if no buffer lives within it, it is
                      |   b    |    c    |        raised to the lower of its neighbours, and what is below is lost
               -------+--------+---------+
        time   0      l        m         r

    Args:
        order: int64[n], a permutation of the buffers.
        boxes: as for `place`; times from 0 on.
        grain: what all steps are multiples of; the skyline is kept in multiples of it.
        limit: give up as soon as a buffer ends above it.
        left, height: room, int64[2 n + 3]; the stretches, by time.
        todo: room, int64[n].
        offset: int64[n], the result.

    Returns:
        The largest end of a buffer, `limit` or less; -1 if there is none.
    """
    start, end, size, step = boxes
    n = len(order)
    horizon = 0
    for k in range(n):
        todo[k] = order[k]
        horizon = max(horizon, end[k])
    stretches, waiting, top = 1, n, 0
    left[0], left[1], height[0] = 0, horizon, 0
    while waiting > 0:
        i = 0
        for j in range(1, stretches):
            if height[j] < height[i]:
                i = j
        low = height[i]
        k = 0
        while k < waiting and (start[todo[k]] < left[i] or end[todo[k]] > left[i + 1]):
            k += 1
        if k < waiting:
            b = todo[k]
            waiting -= 1
            for j in range(k, waiting):
                todo[j] = todo[j + 1]
            at = (low + step[b] - 1) // step[b] * step[b]
            offset[b] = at
            top = max(top, at + size[b])
            if top > limit:
                return -1
            before, after = int(start[b] > left[i]), int(end[b] < left[i + 1])
            for j in range(stretches, i, -1):
                left[j + before + after] = left[j]
                height[j + before + after] = height[j]
            stretches += before + after
            height[i + before + after] = low
            i += before
            if before:
                left[i] = start[b]
            if after:
                left[i + 1] = end[b]
            low = (at + size[b] + grain - 1) // grain * grain
        elif i == 0:
            low = height[1]
        elif i == stretches - 1:
            low = height[i - 1]
        else:
            low = min(height[i - 1], height[i + 1])
        height[i] = low
        if i + 1 < stretches and height[i + 1] == low:
            stretches -= 1
            for j in range(i + 1, stretches):
                left[j], height[j] = left[j + 1], height[j + 1]
            left[stretches] = left[stretches + 1]
        if i > 0 and height[i - 1] == low:
            stretches -= 1
            for j in range(i, stretches):
                left[j], height[j] = left[j + 1], height[j + 1]
            left[stretches] = left[stretches + 1]
    return top


@compiled
def anneal(order, boxes, grain, moves, control, generator, left, height, todo, trial, offset, best_offset):
    """Simulated annealing over orders of `skyline`; a move shifts one to three buffers in the order.

    Args:
        order: int64[n], where it stands.
        control: float64[4]: temperature, factor for each move, size of the arena of `order`, size of the best arena so
            far; updated.
        trial, offset: room, int64[n].
        best_offset: int64[n]; the offsets of the best arena, written when there is a better one.
    """
    n = len(order)
    x = generator[0]
    for _ in range(moves):
        control[0] *= control[1]
        for j in range(n):
            trial[j] = order[j]
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        for _ in range(1 + int(x >> np.uint64(1)) % 3):
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
            k = int(x >> np.uint64(1)) % n
            x ^= x << np.uint64(13)
            x ^= x >> np.uint64(7)
            x ^= x << np.uint64(17)
            share = float(x >> np.uint64(11)) / 2.0**53
            far = int((2.0 * share - 1.0) ** 3 * 0.3 * n)
            if far == 0:
                far = 1 if share < 0.5 else -1
            to = min(n - 1, max(0, k + far))
            b = trial[k]
            while k > to:
                trial[k] = trial[k - 1]
                k -= 1
            while k < to:
                trial[k] = trial[k + 1]
                k += 1
            trial[to] = b
        x ^= x << np.uint64(13)
        x ^= x >> np.uint64(7)
        x ^= x << np.uint64(17)
        share = float((x >> np.uint64(11)) + np.uint64(1)) / 2.0**53
        limit = int(control[2] - control[0] * np.log(share))
        top = skyline(trial, boxes, grain, limit, left, height, todo, offset)
        if top < 0:
            continue
        control[2] = top
        for j in range(n):
            order[j] = trial[j]
        if top < control[3]:
            control[3] = top
            for j in range(n):
                best_offset[j] = offset[j]
    generator[0] = x
