"""Compiled: what `kernel` does, for buffers some of which lie at given offsets, or take less memory at some times.

What a buffer takes when are its pieces; a piece of a buffer that is placed keeps the offset of another one out of a
range, wherever the two have times in common::

    offset of b    0      a.low - b.high      a.high - b.low       both from the offset of a on
                   - free -(////////////////////)- free -          the ends are free: it then touches a
"""

from __future__ import annotations

from moccasin_mzn.heuristics.compiling import below, compiled
from moccasin_mzn.machine.addresses.kernel import insert, living, move_earlier


@compiled
def barred(b, boxes, first, pieces, placed, count, offset, low, high):
    """The ranges that the placed buffers keep the offset of b out of, sorted by `low`; how many there are."""
    found = 0
    for j in range(count):
        a = placed[j]
        if boxes[0][a] >= boxes[1][b] or boxes[0][b] >= boxes[1][a]:
            continue
        begin = first[b]
        for p in range(first[a], first[a + 1]):
            while begin < first[b + 1] and pieces[1, begin] <= pieces[0, p]:
                begin += 1
            q = begin
            while q < first[b + 1] and pieces[0, q] < pieces[1, p]:
                if pieces[0, p] < pieces[1, q]:
                    under, over = offset[a] + pieces[2, p] - pieces[3, q], offset[a] + pieces[3, p] - pieces[2, q]
                    k = found
                    while k > 0 and low[k - 1] > under:
                        low[k], high[k] = low[k - 1], high[k - 1]
                        k -= 1
                    low[k], high[k] = under, over
                    found += 1
                q += 1
    return found


@compiled
def chosen(found, low, high, step, wanted, best_fit):
    """The wanted offset, if it is not barred; else the lowest one, or the one with the least room above."""
    if wanted >= 0 and wanted % step == 0:
        free = True
        for k in range(found):
            free = free and not low[k] < wanted < high[k]
        if free:
            return wanted
    at, best, smallest = 0, -1, 0
    for k in range(found):
        room = low[k] - at
        if room >= 0 and (best < 0 or room < smallest):
            best, smallest = at, room
            if not best_fit:
                break
        if high[k] > at:
            at = (high[k] + step - 1) // step * step
    return at if best < 0 else best


@compiled
def place_pieces(order, pinned, boxes, first, pieces, wanted, best_fit, in_time, limit, placed, low, high, offset):
    """Give each buffer of `order`, one after the other, an offset at which it fits; see `kernel.place`.

    Args:
        pinned: this many buffers at the beginning of `order` lie at `wanted`, in each other's way or not.
        first: int64[n + 1]: pieces[:, first[b] : first[b + 1]] are those of buffer b, by start; there may be several
            at one time.
        pieces: int64[4, m]: start, end, lowest and first higher address, from the offset of the buffer on.
        wanted: int64[n]: the offset to be tried before all others, or -1.
        low, high: workspaces, int64[m + n * k], where k is the number of pieces of the buffer that has most; m * k if
            a buffer has several at one time.
    """
    start, end, size, step = boxes
    top, count = 0, 0
    for k in range(len(order)):
        b = order[k]
        if k < pinned:
            at = wanted[b]
        else:
            if in_time:
                count = living(placed, count, end, start[b])
            found = barred(b, boxes, first, pieces, placed, count, offset, low, high)
            at = chosen(found, low, high, step[b], wanted[b], best_fit)
        offset[b] = at
        count = insert(placed, count, offset, b)
        top = max(top, at + size[b])
        if top > limit and k >= pinned:
            return top, k
    return top, -1


@compiled
def repair_pieces(
    order, pinned, boxes, first, pieces, wanted, best_fit, limit, moves, generator, placed, low, high, offset
):  # fmt: skip
    """Change `order` behind the pinned ones until all ends within `limit`; see `kernel.repair`."""
    for _ in range(moves):
        top, k = place_pieces(
            order, pinned, boxes, first, pieces, wanted, best_fit, False, limit, placed, low, high, offset
        )  # fmt: skip
        if k < 0:
            return top
        move_earlier(order, k, pinned + below(generator, max(k - pinned, 1)))
    return -1
