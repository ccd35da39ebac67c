"""Compiled: depth-first search for offsets within a capacity, after Moffitt (MiniMalloc, ASPLOS 2023).

Buffers are placed from the bottom, each at the lowest offset that those below it leave, in order of these offsets::

    capacity  -----------------------
                 c waits: at 6        section s: floor 4, what waits there takes c + d; floor + c + d over the
        4     [ a ][  b    ]          capacity: no placement of the others helps
    sections    s     t    u          between t and u nothing lives on: each side is searched for itself

Sections are the times of `branch.compressed`: what lives together does so in one of them. Searched are canonical
placements only: offsets never decrease, at the same offset ranks do not; none goes where what waits would fit below it
altogether; and what has nothing above it is not tried elsewhere.

A buffer is in the sections of its spans only: in gaps it takes nothing, but lives on. One that has an offset waits
there, and what would raise it leads nowhere; all the rest is so for it, too.
"""

from __future__ import annotations

from moccasin_mzn.heuristics.compiling import compiled

RUNNING, FOUND, EXHAUSTED = 0, 1, -1
AREA, TIME, TOTAL = 0, 1, 2
"""Keys by which buffers are ranked, largest first: size by life, life, and most memory of what waits in one section."""
RANKINGS = ((TIME, AREA, TOTAL), (TOTAL, AREA, TIME), (TOTAL, TIME, AREA))
BEGIN, COUNT, POS, LOW, HIGH, LEAST, LEAST_RANK, HEIGHT, CHOSEN, MOVED, RAISED, BARE, NEXT = range(13)
"""Rows of `frames`: its list in the pool and how long it is, the next candidate, its sections, the offset and the rank
from which candidates count, where the first of them may end, or just above an offset that is given, the buffer placed,
its marks in both trails, whether nothing waits above it, and the section from which parts are still to be searched."""
DEPTH, MODE, MARK = range(3)
"""Positions in `control`."""
_ENTER, _NEXT, _DOWN, _DONE, _FAILED = range(5)


@compiled
def total_of(b, boxes, total):
    """Most memory of what waits in one of a buffer's sections."""
    most = 0
    for s in range(boxes[2, b], boxes[3, b]):
        most = max(most, total[s])
    return most


@compiled
def key_of(b, which, boxes, most):
    """Return what a ranking compares; see `RANKINGS`."""
    return boxes[4, b] * boxes[0, b] if which == AREA else boxes[4, b] if which == TIME else most[b]


@compiled
def ranks_before(a, b, ranking, boxes, most):
    """Does buffer a have a lower rank, which is better?"""
    for which in ranking:
        one, other = key_of(a, which, boxes, most), key_of(b, which, boxes, most)
        if one != other:
            return one > other
    return a < b


@compiled
def gather(d, begin, count, low, high, ranking, boxes, offset, total, most, pool, frames):
    """A frame for those of a list that wait and live in sections low..high - 1, ranked again; how many there are."""
    at = frames[BEGIN, d] = begin + count
    found = 0
    for k in range(begin, begin + count):
        b = pool[0, k]
        if offset[b] >= 0 or boxes[2, b] >= high or boxes[3, b] <= low:
            continue
        most[b] = total_of(b, boxes, total)
        j = at + found
        while j > at and ranks_before(b, pool[0, j - 1], ranking, boxes, most):
            pool[0, j] = pool[0, j - 1]
            j -= 1
        pool[0, j] = b
        found += 1
    for k in range(found):
        pool[1, at + k] = k
    frames[COUNT, d], frames[LOW, d], frames[HIGH, d] = found, low, high
    frames[LEAST, d] = frames[LEAST_RANK, d] = 0
    return found


@compiled
def arrange(d, boxes, lowest, pool, frames):
    """Sort a frame's list by the offsets that are left, then by rank; see `HEIGHT`."""
    begin, count = frames[BEGIN, d], frames[COUNT, d]
    height = 2**62
    for k in range(begin, begin + count):
        b, rank = pool[0, k], pool[1, k]
        low = lowest[b]
        height = min(height, low + (boxes[0, b] if boxes[5, b] < 0 else 1))  # nothing may be placed before, and above
        j = k
        while j > begin and (pool[2, j - 1] > low or (pool[2, j - 1] == low and pool[1, j - 1] > rank)):
            pool[0, j], pool[1, j], pool[2, j] = pool[0, j - 1], pool[1, j - 1], pool[2, j - 1]
            j -= 1
        pool[0, j], pool[1, j], pool[2, j] = b, rank, low
    frames[HEIGHT, d], frames[POS, d] = height, 0


@compiled
def put(b, at, boxes, spans, overlaps, sections, offset, lowest, floor, total, stamps, mark, moved, raised, m, r):
    """Place a buffer: raise what waits above it, and the floors of sections; the new ends of both trails, whether
    nothing waits above it, and whether what waits at an offset of its own still may."""
    offset[b] = at
    bare, may, top = True, True, at + boxes[0, b]
    for k in range(spans[0][b], spans[0][b + 1]):
        for s in range(spans[1][k], spans[2][k]):
            raised[0, r], raised[1, r] = s, floor[s]
            r += 1
            floor[s] = top
            total[s] -= boxes[0, b]
    low, high = 2**62, 0
    for k in range(overlaps[0][b], overlaps[0][b + 1]):
        other = overlaps[1][k]
        if offset[other] >= 0:
            continue
        bare = False
        if lowest[other] >= top:
            continue
        moved[0, m], moved[1, m] = other, lowest[other]
        m += 1
        lowest[other] = (top + boxes[1, other] - 1) // boxes[1, other] * boxes[1, other]
        may = may and boxes[5, other] < 0
        low, high = min(low, boxes[2, other]), max(high, boxes[3, other])
        for s in range(boxes[2, other], boxes[3, other]):
            stamps[s] = mark
    for s in range(low, high):
        if stamps[s] != mark:
            continue
        least = 2**62
        for k in range(sections[0][s], sections[0][s + 1]):
            other = sections[1][k]
            if offset[other] < 0 and lowest[other] < least:
                least = lowest[other]
        if floor[s] < least < 2**62:
            raised[0, r], raised[1, r] = s, floor[s]
            r += 1
            floor[s] = least
    return m, r, bare, may


@compiled
def take_back(d, m, r, boxes, spans, offset, lowest, floor, total, moved, raised, frames):
    """Undo `put` of a frame; m and r are the ends of both trails."""
    b = frames[CHOSEN, d]
    for k in range(m - 1, frames[MOVED, d] - 1, -1):
        lowest[moved[0, k]] = moved[1, k]
    for k in range(r - 1, frames[RAISED, d] - 1, -1):
        floor[raised[0, k]] = raised[1, k]
    for k in range(spans[0][b], spans[0][b + 1]):
        for s in range(spans[1][k], spans[2][k]):
            total[s] += boxes[0, b]
    offset[b] = -1


@compiled
def fits(low, high, at, capacity, floor, total):
    """May what waits in each of these sections still end within the capacity?"""
    most = 0
    for s in range(low, high):
        most = max(most, max(at, floor[s]) + total[s])
    return most <= capacity


@compiled
def cut(b, boxes, cuts, change):
    """Count a buffer in or out of those that live on from each of its sections to the next; is there a gap now?"""
    gap = False
    for s in range(boxes[2, b], boxes[3, b] - 1):
        cuts[s] += change
        gap = gap or cuts[s] == 0
    return gap


@compiled
def below(d, pool, frames):
    """The frame of all that still waits in the sections of a frame, with the same ranks."""
    begin, count, pos = frames[BEGIN, d], frames[COUNT, d], frames[POS, d]
    at = begin + count
    frames[BEGIN, d + 1], frames[COUNT, d + 1] = at, count - 1
    for k in range(begin, begin + count):
        if k != begin + pos:
            for row in range(3):
                pool[row, at] = pool[row, k]
            at += 1
    frames[LOW, d + 1], frames[HIGH, d + 1] = frames[LOW, d], frames[HIGH, d]
    frames[LEAST, d + 1], frames[LEAST_RANK, d + 1] = pool[2, begin + pos], pool[1, begin + pos]


@compiled
def search(
    nodes, capacity, ranking, boxes, spans, overlaps, sections, offset, solution, lowest, floor, total, cuts, stamps,
    most, pool, moved, raised, frames, control,
):  # fmt: skip
    """Go on with a search for this many nodes; see `Branching`, whose state all arrays are.

    Returns:
        `FOUND`: the offsets are in `solution`; `EXHAUSTED`: there are none; `RUNNING`.
    """
    d, mode = control[DEPTH], control[MODE]
    while nodes > 0:
        if mode == _ENTER:
            nodes -= 1
            arrange(d, boxes, lowest, pool, frames)
            mode = _NEXT if frames[COUNT, d] else _DONE
        elif mode == _NEXT:
            k = frames[BEGIN, d] + frames[POS, d]
            if frames[POS, d] >= frames[COUNT, d] or pool[2, k] >= frames[HEIGHT, d]:
                mode = _FAILED
                continue
            b, at = pool[0, k], pool[2, k]
            if at < frames[LEAST, d] or (at == frames[LEAST, d] and pool[1, k] < frames[LEAST_RANK, d]):
                frames[POS, d] += 1
                continue
            control[MARK] += 1
            frames[CHOSEN, d] = b
            m, r, bare, may = put(
                b, at, boxes, spans, overlaps, sections, offset, lowest, floor, total, stamps, control[MARK], moved,
                raised, frames[MOVED, d], frames[RAISED, d],
            )  # fmt: skip
            frames[MOVED, d + 1], frames[RAISED, d + 1], frames[BARE, d] = m, r, bare
            if may and fits(frames[LOW, d], frames[HIGH, d], at, capacity, floor, total):
                solution[b] = at
                frames[NEXT, d] = frames[LOW, d]
                if cut(b, boxes, cuts, -1):
                    mode = _DOWN
                    continue
                frames[NEXT, d] = frames[HIGH, d]
                below(d, pool, frames)
                d, mode = d + 1, _ENTER
                continue
            take_back(d, m, r, boxes, spans, offset, lowest, floor, total, moved, raised, frames)
            mode = _FAILED if bare else _NEXT
            frames[POS, d] += 1
        elif mode == _DOWN:
            low = frames[NEXT, d]
            high = low + 1
            if low >= frames[HIGH, d]:
                mode = _DONE
                control[MARK] += 1
                take_back(
                    d, frames[MOVED, d + 1], frames[RAISED, d + 1], boxes, spans, offset, lowest, floor, total,
                    moved, raised, frames,
                )  # fmt: skip
                cut(frames[CHOSEN, d], boxes, cuts, 1)
                continue
            while high < frames[HIGH, d] and cuts[high - 1] > 0:
                high += 1
            frames[NEXT, d] = high
            if gather(d + 1, frames[BEGIN, d], frames[COUNT, d], low, high, ranking, boxes, offset, total, most, pool,
                      frames):  # fmt: skip
                d, mode = d + 1, _ENTER
        else:
            if d == 0:
                return FOUND if mode == _DONE else EXHAUSTED
            d -= 1
            if mode == _DONE:
                mode = _DOWN
                continue
            take_back(
                d, frames[MOVED, d + 1], frames[RAISED, d + 1], boxes, spans, offset, lowest, floor, total, moved,
                raised, frames,
            )  # fmt: skip
            cut(frames[CHOSEN, d], boxes, cuts, 1)
            mode = _FAILED if frames[BARE, d] else _NEXT
            frames[POS, d] += 1
    control[DEPTH], control[MODE] = d, mode
    return RUNNING
