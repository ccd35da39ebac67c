"""Offsets within a capacity by branch and bound: what `branching` works on, and who goes on with it when."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
MOST = 700
"""With more buffers the state, which is quadratic, is not made."""
CHUNK_WORK, MOST_NODES = 3e7, 100_000
"""Nodes between two looks at the clock are so many divided by the square of the number of buffers, at most so many."""


class Branching:
    """A search with one ranking. All its arrays, but those that it only reads, belong to it."""

    def __init__(self, boxes: Array, capacity: int, ranking: tuple[int, ...]) -> None:
        """Begin a search.

        Args:
            boxes: int64[5, n]: size, step, first section, first section behind, and life of each buffer.
            capacity: that offsets and sizes must keep to.
        """
        from moccasin_mzn.extensions.addresses.branching import DEPTH, gather

        n, parts = boxes.shape[1], int(boxes[3].max())
        self.capacity, self.ranking, self.boxes = capacity, np.array(ranking, np.int64), boxes
        inside = [np.flatnonzero((boxes[2] <= s) & (s < boxes[3])) for s in range(parts)]
        above = [np.flatnonzero((boxes[2] < boxes[3][b]) & (boxes[2][b] < boxes[3])) for b in range(n)]
        self.overlaps = _joined([others[others != b] for b, others in enumerate(above)])
        self.sections = _joined(inside)
        self.offset, self.solution, self.lowest = np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        self.floor = np.zeros(parts, np.int64)
        self.total = np.array([boxes[0][there].sum() for there in inside], np.int64)
        self.cuts = np.array([np.sum(boxes[3][there] > s + 1) for s, there in enumerate(inside)], np.int64)
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
        """For so many nodes; see `branching.search`."""
        from moccasin_mzn.extensions.addresses.branching import search

        return search(
            nodes, self.capacity, self.ranking, self.boxes, self.overlaps, self.sections, self.offset, self.solution,
            self.lowest, self.floor, self.total, self.cuts, self.stamps, self.most, self.pool, self.moved, self.raised,
            self.frames, self.control,
        )  # fmt: skip


def offsets_within(
    boxes: Sequence[Array] | Array, capacity: int, stop: Callable[[], bool]
) -> tuple[Array | None, bool]:
    """Offsets of buffers within a capacity, and whether the search is at its end: without offsets, there are none.

    Args:
        boxes: start, end, size, step as int64[n] each.
        stop: asked often; True ends the search.
    """
    from moccasin_mzn.extensions.addresses.branching import EXHAUSTED, FOUND, RANKINGS

    start, end, size, step = boxes
    first, behind = compressed(start, end)
    offset = np.zeros(len(start), np.int64)
    for part in _apart(first, behind):
        rows = size[part], step[part], first[part] - first[part].min(), behind[part] - first[part].min()
        of_part = np.array([*rows, end[part] - start[part]], np.int64)
        searches = [Branching(of_part, capacity, ranking) for ranking in RANKINGS]
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


def _apart(first: Array, behind: Array) -> list[Array]:
    """Buffers in parts of which no two have a section in common, nor one after the other that anything links."""
    order = np.argsort(first, kind="stable")
    reach = np.maximum.accumulate(behind[order])
    breaks = np.flatnonzero(first[order][1:] >= reach[:-1]) + 1
    return np.split(order, breaks)


def _joined(lists: list[Array]) -> tuple[Array, Array]:
    """Where each list begins in all of them together."""
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
