"""Allocation by search: many orders of lowest-offset placement, repaired towards the bound, and annealed skylines.

Repair ends at the bound, proven, within milliseconds wherever memory is scarce at few times only, as in input orders;
the skyline is better by some percent where it is scarce for long, as in schedules that just fit a budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from moccasin_mzn.addresses.buffers import Arena, Buffer, bound_of, check_buffers, steps

SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)
"""Aims of repair: by such a share of the distance to the bound the arena shall shrink."""
CHUNK_WORK = 2e7
"""Moves between two looks at the clock are so many divided by the square of the number of buffers."""
FIRST_CHUNKS = 8
ANNEALING_WORK = 5e8
"""Moves of the first annealing are so many divided by the square of the number of buffers, at least `LEAST_MOVES`."""
LEAST_MOVES = 200
HOT, COLD = 1e-3, 3e-5
"""Temperatures of annealing, as shares of the bound."""
ROUNDS = 3
"""Without a time limit; each round takes twice as long as the one before."""
MOST_BUFFERS = 20_000
"""With more, only the order of time is tried, in which the dead are forgotten: other orders take quadratic time."""
LONGEST_FIRST = 2
"""Of the first orders the one that skylines begin with."""
_SEED_STEP = 0x9E3779B97F4A7C15


def search_arena(
    buffers: Sequence[Buffer],
    alignment: int = 1,
    *,
    enough: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    begin_with: Sequence[int] | None = None,
    stop: Callable[[], bool] = lambda: False,
    on_interrupt: Callable[[], None] | None = None,
) -> Arena:
    """A small arena; the same one for the same seed if no time limit cuts the search short.

    Ends when the arena is as small as its bound, when it is no larger than `enough`, or when the time or, without a
    limit, `ROUNDS` rounds are over. A first arena is always found.

    Args:
        begin_with: offsets of an arena that is known.
        stop: asked often; True ends the search.
        on_interrupt: called on an interrupt from the keyboard, which then ends the search with the best arena so far;
            None: the interrupt is raised.

    Raises:
        InputError: see `Arena`.
    """
    buffers = tuple(buffers)
    check_buffers(buffers, alignment)
    search = _Search(buffers, alignment, enough, seed)
    if begin_with is not None:
        search.take(np.array(begin_with, np.int64)[search.solid])
    deadline = None if time_limit is None else time.monotonic() + time_limit
    try:
        search.run(lambda: stop() or (deadline is not None and time.monotonic() >= deadline), time_limit is not None)
    except KeyboardInterrupt:
        if on_interrupt is None or search.best is None:
            raise
        on_interrupt()
    return Arena(buffers, tuple(search.offsets.tolist()), alignment)


class _Search:
    """State of one search. Buffers of size 0 stay at offset 0 and take no part."""

    def __init__(self, buffers: tuple[Buffer, ...], alignment: int, enough: int | None, seed: int) -> None:
        self.offsets = np.zeros(len(buffers), np.int64)
        self.bound = bound_of(buffers, alignment)
        self.enough = max(self.bound, enough or 0)
        self.solid = np.array([i for i, b in enumerate(buffers) if b.size], np.int64)
        columns = np.array(
            [(b.start, b.end, b.size, step) for b, step in zip(buffers, steps(buffers, alignment), strict=True)],
            np.int64,
        ).reshape(len(buffers), 4)[self.solid]
        self.boxes = tuple(np.ascontiguousarray(column) for column in columns.T)
        n = len(self.solid)
        self.best = None
        self._generator = np.array([(seed * _SEED_STEP + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)
        self._room, self._offset = np.zeros(n, np.int64), np.zeros(n, np.int64)

    @property
    def done(self) -> bool:
        return self.best is not None and self.best <= self.enough

    def take(self, offset: np.ndarray) -> None:
        """Keep offsets of the solid buffers, if they are the best."""
        size = int(np.max(offset + self.boxes[2], initial=0))
        if self.best is None or size < self.best:
            self.best = size
            self.offsets[self.solid] = offset

    def run(self, over: Callable[[], bool], limited: bool) -> None:
        from moccasin_mzn.addresses.kernel import UNLIMITED, place

        starts = self._orders()
        for number, (order, in_time) in enumerate(starts):
            for best_fit in (False, True):
                if (number or best_fit) and (self.done or over()):
                    return
                place(order, self.boxes, best_fit, in_time, UNLIMITED, self._room, self._offset)
                self.take(self._offset)
        if 0 < len(self.solid) <= MOST_BUFFERS:
            self._repair([order for order, in_time in starts if not in_time], over, limited)

    def _orders(self) -> list[tuple[np.ndarray, bool]]:
        """Permutations to begin with, and whether they are by start."""
        start, end, size, _ = self.boxes
        life, large = (end - start).astype(float), size.astype(float)
        by_time = np.lexsort((-size, start)).astype(np.int64)
        if len(self.solid) > MOST_BUFFERS:
            return [(by_time, True)]
        keys = (large, life * large, life, life * np.sqrt(large))
        return [(np.lexsort((start, -key)).astype(np.int64), False) for key in keys] + [(by_time, True)]

    def _repair(self, starts: list[np.ndarray], over: Callable[[], bool], limited: bool) -> None:
        """Aim lower and lower, from each of the first orders in turn."""
        chunk = max(20, int(CHUNK_WORK / max(1, len(self.solid)) ** 2))
        chunks, tried = FIRST_CHUNKS, 0
        while limited or tried < ROUNDS:
            for share in SHARES:
                order = starts[tried % len(starts)].copy()
                self._aim(share, order, chunk, chunks, over)
                if self.done or over():
                    return
            self._anneal(starts[(tried + LONGEST_FIRST) % len(starts)].copy(), chunks // FIRST_CHUNKS, over)
            if self.done or over():
                return
            tried += 1
            chunks *= 2

    def _anneal(self, order: np.ndarray, longer: int, over: Callable[[], bool]) -> None:
        """One cooling over orders of the skyline, with so many times the moves of the first."""
        from moccasin_mzn.addresses.kernel import UNLIMITED, anneal, skyline

        n, grain = len(self.solid), int(np.gcd.reduce(self.boxes[3]))
        left, height = np.zeros(2 * n + 3, np.int64), np.zeros(2 * n + 3, np.int64)
        todo, trial, best = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        size = skyline(order, self.boxes, grain, UNLIMITED, left, height, todo, best)
        moves = longer * max(LEAST_MOVES, int(ANNEALING_WORK / n**2))
        chunk = max(1, int(CHUNK_WORK / n**2))
        control = np.array([HOT * self.bound, (COLD / HOT) ** (1 / moves), size, size], float)
        for _ in range(0, moves, chunk):
            self.take(best)
            if self.done or over():
                return
            anneal(
                order, self.boxes, grain, chunk, control, self._generator, left, height, todo, trial, self._offset, best
            )
        self.take(best)

    def _aim(self, share: float, order: np.ndarray, chunk: int, chunks: int, over: Callable[[], bool]) -> None:
        """Shrink the arena by a share of its distance to the bound, again and again as long as it works."""
        from moccasin_mzn.addresses.kernel import repair

        spent = 0
        while spent < chunks and not self.done and not over():
            aim = self.best - max(1, round(share * (self.best - self.bound)))
            spent += 1
            if repair(order, self.boxes, aim, chunk, self._generator, self._room, self._offset) >= 0:
                self.take(self._offset)
                spent = 0
