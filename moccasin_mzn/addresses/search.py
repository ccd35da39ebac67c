"""Allocation by search: many orders of lowest-offset placement, repaired towards the bound, and annealed insertion.

Repair ends at the bound, proven, within milliseconds wherever memory is scarce at few times only, as in input orders;
insertion is better by some percent where it is scarce for long, as in schedules that just fit a budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from moccasin_mzn.addresses.buffers import Arena, Buffer, bound_of, check_buffers, steps

SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)
"""Aims of repair: by such a share of the distance to the bound the arena shall shrink."""
CHUNK_WORK = 2e7
"""Moves between two looks at the clock are so many divided by the square of the number of buffers."""
FIRST_CHUNKS = 8
INSERTION_WORK, MOST_MOVES = 5e9, 10_000
"""Without a time limit: the first annealing takes so many steps, and no more moves."""
CHUNK_STEPS = 1e8
"""Steps of insertion between two looks at the clock; a move takes twice the sum of all lifespans, and more."""
PER_LOOK = 6
HOT, COLD = 0.7, 0.02
"""Temperatures of insertion, in median sizes: colder beginnings, also from an arena that is known, end worse."""
REPAIRED, WARMED_UP = 0.03, 0.4
"""Shares of a time limit after which repair, and the first annealing, are over."""
UNITS = 2**30
"""Insertion counts in units, of which all sizes together are not many more."""
ROUNDS = 3
"""Without a time limit; each round takes twice as long as the one before."""
MOST_BUFFERS = 20_000
"""With more, only the order of time is tried, in which the dead are forgotten: other orders take quadratic time."""
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
    try:
        search.run(_Clock(stop, time_limit))
    except KeyboardInterrupt:
        if on_interrupt is None or search.best is None:
            raise
        on_interrupt()
    return Arena(buffers, tuple(search.offsets.tolist()), alignment)


@dataclass
class _Clock:
    """How much of the time is over."""

    stop: Callable[[], bool]
    limit: float | None
    begin: float = field(default_factory=time.monotonic)

    def over(self, share: float = 1.0) -> bool:
        """Is such a share of the time over, or is the search to stop?"""
        return self.stop() or self.share >= share

    @property
    def share(self) -> float:
        return 0.0 if self.limit is None else (time.monotonic() - self.begin) / max(self.limit, 1e-9)


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

    def run(self, clock: _Clock) -> None:
        from moccasin_mzn.addresses.kernel import UNLIMITED, place

        starts = self._orders()
        for number, (order, in_time) in enumerate(starts):
            for best_fit in (False, True):
                if (number or best_fit) and (self.done or clock.over()):
                    return
                place(order, self.boxes, best_fit, in_time, UNLIMITED, self._room, self._offset)
                self.take(self._offset)
        if 0 < len(self.solid) <= MOST_BUFFERS:
            self._improve([order for order, in_time in starts if not in_time], clock)

    def _improve(self, starts: list[np.ndarray], clock: _Clock) -> None:
        """Repair and insertion in turn, longer and longer."""
        tried = 0
        while tried < ROUNDS or clock.limit is not None:
            if clock.limit is None or tried == 0:
                self._repair(starts[tried % len(starts)].copy(), 2**tried * FIRST_CHUNKS, lambda: clock.over(REPAIRED))
            if self.done or clock.over():
                return
            self._insert(2**tried, clock, 1.0 if tried else WARMED_UP)
            if self.done or clock.over():
                return
            tried += 1

    def _orders(self) -> list[tuple[np.ndarray, bool]]:
        """Permutations to begin with, and whether they are by start."""
        start, end, size, _ = self.boxes
        life, large = (end - start).astype(float), size.astype(float)
        by_time = np.lexsort((-size, start)).astype(np.int64)
        if len(self.solid) > MOST_BUFFERS:
            return [(by_time, True)]
        keys = (large, life * large, life, life * np.sqrt(large))
        return [(np.lexsort((start, -key)).astype(np.int64), False) for key in keys] + [(by_time, True)]

    def _repair(self, order: np.ndarray, chunks: int, over: Callable[[], bool]) -> None:
        """Aim lower and lower, from one of the first orders."""
        chunk = max(20, int(CHUNK_WORK / max(1, len(self.solid)) ** 2))
        for share in SHARES:
            self._aim(share, order.copy(), chunk, chunks, over)
            if self.done or over():
                return

    def _insert(self, longer: int, clock: _Clock, until: float) -> None:
        """One cooling of insertion from the best arena: until such a share of the time is over, or so much longer than
        the first one."""
        from moccasin_mzn.addresses.insertion import insertion, settle

        start, end, size, work = self._compressed()
        unit = max(1, int(size.sum()) // UNITS)
        order = np.argsort(self.offsets[self.solid], kind="stable").astype(np.int64)
        room = (
            *np.zeros((2, len(order)), np.int64),
            *np.zeros((2, len(order)), np.int32),
            np.zeros(end.max(), np.int32),
            np.zeros(len(order)),
        )
        top, best = np.zeros(end.max(), np.int64), order.copy()
        moves = longer * min(MOST_MOVES, int(INSERTION_WORK / work) + 1)
        chunk, begin = int(CHUNK_STEPS / work) + PER_LOOK, clock.share
        hot = HOT * float(np.median(size)) / unit
        control, limit = np.array([hot, (COLD / HOT) ** (1 / moves), np.inf]), self.enough // unit
        units, done = (-(-size // unit)).astype(np.int32), 0
        while done < moves or clock.limit is not None:
            insertion(order, start, end, units, limit, chunk, PER_LOOK, control, self._generator, room, best)
            settle(best, start, end, self.boxes[2], self.boxes[3], top, self._offset)
            self.take(self._offset)
            done += chunk
            if self.done or clock.over(until) or control[2] <= limit:
                return
            if clock.limit is not None:
                control[:2] = hot * (COLD / HOT) ** ((clock.share - begin) / (until - begin)), 1.0

    def _compressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Lifespans that count only the times at which a buffer begins, sizes padded to what all steps are multiples of
        (int64[n] each), and the steps of a move."""
        times, grain = np.unique(self.boxes[0]), int(np.gcd.reduce(self.boxes[3]))
        start, end = np.searchsorted(times, self.boxes[0]), np.searchsorted(times, self.boxes[1])
        return start, end, -(-self.boxes[2] // grain) * grain, 2 * int((end - start).sum()) + 10 * len(start)

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
