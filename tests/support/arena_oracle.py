"""Brute force on tiny problems of addresses. Of the package only the graph is used.

Schedules: states are the copies in the arena, each with its offset, and how often each node has been computed. Memory
is the arena alone, so a copy stays until something is written over it, which costs nothing: to compute v at an offset,
its inputs must be there and stay untouched, and all else that lies there is gone. Every aligned offset is tried.

Buffers: some least arena is left-justified: every buffer lies at 0 or, rounded up to the alignment, right above another
one that lives at the same time. In order of their offsets, each of its buffers lies above those before that live at the
same time, so trying all permutations, each buffer right above what it must not overlap, finds one.

Buffers with given offsets and gaps: every offset of every buffer is tried, and each (time, address) taken once.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from itertools import count, pairwise, permutations

from moccasin_mzn.graphs.graph import ComputationGraph

Copies = frozenset[tuple[int, int]]
"""(node, offset) of the copies in the arena."""


def least_arena_by_brute_force(boxes: Sequence[tuple[int, int, int]], alignment: int) -> int:
    """The size of the least arena of (start, end, size) with half-open lifespans; at most some 6 boxes."""
    solid = [box for box in boxes if box[2]]
    best = sum(size + alignment for *_, size in solid)
    for order in permutations(solid):
        tops: list[tuple[int, int, int]] = []
        for start, end, size in order:
            floor = max((top for s, e, top in tops if s < end and start < e), default=0)
            tops.append((start, end, -(-floor // alignment) * alignment + size))
        best = min(best, max((top for *_, top in tops), default=0))
    return best


Piece = tuple[int, int, int, int]
"""Start, end, lowest and first higher address from the offset on."""


def least_arena_of_cells(
    buffers: Sequence[tuple[int, Sequence[Piece], int | None]], alignment: int, most: int
) -> int | None:  # fmt: skip
    """The size of the least arena of (size, pieces, given offset), at most `most`; None if there is none. At most some
    4 buffers of size 5. Nothing is smaller than what is taken at one time."""
    by_choice = sorted(buffers, key=lambda buffer: (buffer[2] is None, -buffer[0]))
    taken_at: dict[int, int] = {}
    for start, end, low, high in (piece for _, pieces, _ in buffers for piece in pieces):
        for time in range(start, end):
            taken_at[time] = taken_at.get(time, 0) + high - low
    begin = max(taken_at.values(), default=0)

    def placed(at: int, taken: frozenset[tuple[int, int]], arena: int) -> bool:
        if at == len(by_choice):
            return True
        size, pieces, given = by_choice[at]
        for offset in range(0, arena - size + 1, alignment) if given is None else [given]:
            if offset % alignment or (size and offset + size > arena):
                continue
            cells = {
                (t, offset + a) for start, end, low, high in pieces for t in range(start, end) for a in range(low, high)
            }
            if not cells & taken and placed(at + 1, taken | cells, arena):
                return True
        return False

    return next((arena for arena in range(begin, most + 1) if placed(0, frozenset(), arena)), None)


def shortest_in_arena(
    graph: ComputationGraph, arena: int, alignment: int, most: int, staged: bool,
    side_by_side: Mapping[int, Sequence[Sequence[int]]] | None = None,
) -> int | None:  # fmt: skip
    """Least duration of a schedule with an arena of this size; None if there is none. At most some 5 nodes.

    Args:
        most: computations of each node.
        staged: only stages of the input order (MOCCASIN, 2.3): each is any subset of the nodes before, in that order,
            and then the next node.
        side_by_side: by node the inputs that have to lie one directly after the other when it is computed.
    """
    n, order = len(graph.nodes), graph.input_order()
    inputs = [{u for u, x in graph.edges if x == v} for v in range(n)]

    def after(copies: Copies, v: int) -> set[Copies]:
        if not inputs[v] <= {u for u, _ in copies}:
            return set()
        where = dict(copies)
        for group in (side_by_side or {}).get(v, ()):
            if any(where[u] + graph.sizes[u] != where[w] for u, w in pairwise(group)):
                return set()
        size, found = graph.sizes[v], set()
        for offset in range(0, max(arena - size, -1) + 1, alignment) if size else (0,):
            hit = {(u, o) for u, o in copies if o < offset + size and offset < o + graph.sizes[u]}
            if size and {u for u, _ in hit} & inputs[v]:
                continue
            rest = {copy for copy in copies - (hit if size else set()) if copy[0] != v}
            found.add(frozenset(rest | {(v, offset)}))
        return found if size <= arena else set()

    tie = count()
    heap = [(0, next(tie), frozenset(), (0,) * n, 0, 0)]  # duration, tie, copies, counts, stage, place in the stage
    done = set()
    while heap:
        duration, _, copies, counts, stage, place = heapq.heappop(heap)
        if all(counts) and (not staged or stage == n):
            return duration
        state = (copies, counts, stage, place)
        if state in done:
            continue
        done.add(state)
        for v in range(n):
            if counts[v] == most:
                continue
            following = (0, 0)
            if staged:
                at = order.index(v)
                if at > stage or at < place or (at < stage and not counts[v]):
                    continue
                following = (stage + 1, 0) if at == stage else (stage, at + 1)
            more = (*counts[:v], counts[v] + 1, *counts[v + 1 :])
            for then in after(copies, v):
                heapq.heappush(heap, (duration + graph.durations[v], next(tie), then, more, *following))
    return None
