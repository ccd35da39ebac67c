"""Offsets within a capacity by branch and bound: what `branching` works on, and who goes on with it when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
MOST = 700
"""With more buffers the state, which is quadratic, is not made."""
CHUNK_WORK, MOST_NODES = 3e7, 100_000
"""Nodes between two looks at the clock: the first number by the square of that of buffers, at most the second."""


class Branching:
    """A search with one ranking. All its arrays, but those that it only reads, belong to it."""

    def __init__(self, boxes: Array, capacity: int, ranking: tuple[int, ...], spans: Array | None = None) -> None:
        """Begin a search.

        Args:
            boxes: int64[6, n]: size, step, first section, first section behind, life, and given offset, or -1, of each
                buffer.
            capacity: that offsets and sizes must keep to.
            spans: int64[3, m]: buffer, first section, first section behind, sorted: where each takes memory. None:
                wherever it lives.
        """
        from moccasin_mzn.machine.addresses.branching import DEPTH, gather

        n, parts = boxes.shape[1], int(boxes[3].max())
        self.capacity, self.ranking, self.boxes = capacity, np.array(ranking, np.int64), boxes
        spans = np.array([np.arange(n), boxes[2], boxes[3]]) if spans is None else spans
        self.spans = np.searchsorted(spans[0], np.arange(n + 1)), spans[1].copy(), spans[2].copy()
        inside = [np.unique(spans[0][(spans[1] <= s) & (s < spans[2])]) for s in range(parts)]
        self.overlaps = _joined([_concurrent(b, spans) for b in range(n)])
        self.sections = _joined(inside)
        self.offset, self.solution = np.full(n, -1, np.int64), np.zeros(n, np.int64)
        self.lowest = np.maximum(boxes[5], 0)
        self.floor = np.zeros(parts, np.int64)
        self.total = np.array([boxes[0][there].sum() for there in inside], np.int64)
        self.cuts = np.array([np.sum((boxes[2] <= s) & (boxes[3] > s + 1)) for s in range(parts)], np.int64)
        self.stamps, self.most = np.zeros(parts, np.int64), np.zeros(n, np.int64)
        self.pool = np.zeros((3, n * (n + 3) // 2 + n + 1), np.int64)
        self.moved = np.zeros((2, n * (n + 1) // 2 + 1), np.int64)
        self.raised = np.zeros((2, (n + 1) * 2 * parts + 1), np.int64)
        self.frames, self.control = np.zeros((13, n + 2), np.int64), np.zeros(3, np.int64)
        self.pool[0, :n] = np.arange(n)
        gather(
            0, 0, n, 0, parts, self.ranking, boxes, self.offset, self.total, self.most, self.pool, self.frames
        )  # fmt: skip
        self.control[DEPTH] = 0

    def go_on(self, nodes: int) -> int:
        """Search this many nodes; see `branching.search`."""
        from moccasin_mzn.machine.addresses.branching import search

        return search(
            nodes, self.capacity, self.ranking, self.boxes, self.spans, self.overlaps, self.sections, self.offset,
            self.solution, self.lowest, self.floor, self.total, self.cuts, self.stamps, self.most, self.pool,
            self.moved, self.raised, self.frames, self.control,
        )  # fmt: skip


def offsets_within(
    boxes: Sequence[Array] | Array, capacity: int, stop: Callable[[], bool], given: Array | None = None,
    times: Array | None = None,
) -> tuple[Array | None, bool]:  # fmt: skip
    """Offsets of buffers within a capacity, and whether the search is at its end: without offsets, there are none.

    Args:
        boxes: start, end, size, step as int64[n] each.
        stop: called often; True ends the search.
        given: int64[n], offsets that are not to be found, or -1; None: all are to be.
        times: int64[3, m], sorted: buffer, start and end, half-open, of when it takes its memory, at least once each;
            None: as long as it lives.
    """
    from moccasin_mzn.machine.addresses.branching import EXHAUSTED, FOUND, RANKINGS

    start, end, size, step = boxes
    given = np.full(len(start), -1, np.int64) if given is None else given
    times = np.array([np.arange(len(start)), start, end]) if times is None else times
    spans = np.array([times[0], *compressed(times[1], times[2])])
    begins = np.searchsorted(spans[0], np.arange(len(start) + 1))
    first, behind = spans[1][begins[:-1]], spans[2][begins[1:] - 1]
    offset, number = np.zeros((2, len(start)), np.int64)
    for part in _apart(first, behind):
        low = first[part].min()
        number[part] = np.arange(len(part))
        there = np.flatnonzero(np.isin(spans[0], part))
        there = there[np.argsort(number[spans[0][there]], kind="stable")]
        of_spans = np.array([number[spans[0][there]], spans[1][there] - low, spans[2][there] - low])
        rows = size[part], step[part], first[part] - low, behind[part] - low, end[part] - start[part], given[part]
        searches = [Branching(np.array(rows, np.int64), capacity, ranking, of_spans) for ranking in RANKINGS]
        nodes, found, turn = min(MOST_NODES, max(10, int(CHUNK_WORK / len(part) ** 2))), 0, 0
        while found not in (FOUND, EXHAUSTED):
            if stop():
                return None, False
            found = searches[turn % len(searches)].go_on(nodes)
            turn += 1
        if found == EXHAUSTED:
            return None, True
        offset[part] = searches[(turn - 1) % len(searches)].solution
    return offset, True


def _concurrent(b: int, spans: Array) -> Array:
    """The other buffers that take memory in a section in which this one does."""
    meets = np.zeros(spans.shape[1], bool)
    for at in np.flatnonzero(spans[0] == b):
        meets |= (spans[1] < spans[2, at]) & (spans[1, at] < spans[2])
    others = np.unique(spans[0][meets])
    return others[others != b]


def _apart(first: Array, behind: Array) -> list[Array]:
    """Buffers in parts; no two have a section in common, nor one after the other that anything links."""
    order = np.argsort(first, kind="stable")
    furthest = np.maximum.accumulate(behind[order])
    breaks = np.flatnonzero(first[order][1:] >= furthest[:-1]) + 1
    return np.split(order, breaks)


def _joined(lists: list[Array]) -> tuple[Array, Array]:
    """Return where each list begins in all of them together."""
    begins = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return begins, np.concatenate(lists).astype(np.int64)


def compressed(start: Array, end: Array) -> tuple[Array, Array]:
    """Lifespans that count few times only, but overlap as before.

    What lives together does so at the latest start among it, and on until the first end. So of all starts only those
    are needed after which a lifespan ends before, or when, the next one begins.
    """
    times, ends = np.unique(start), np.unique(end)
    ended = np.searchsorted(ends, times, "right")
    times = times[np.searchsorted(ends, np.append(times[1:], ends[-1]), "right") > ended]
    return np.searchsorted(times, start), np.searchsorted(times, end)
