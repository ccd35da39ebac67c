"""Allocation by search: many orders of placement, repaired, then branch and bound, then annealed insertion.

Repair ends at the bound, proven, within milliseconds wherever memory is scarce at few times only, as in input orders.
Where it is scarce for long, as in schedules that just fit a budget, those buffers are best placed first that live at
most of the times at which it is, each in the smallest hole; insertion then closes the gaps between them. Of up to some
hundred buffers branch and bound mostly finds an arena that is no larger than is enough, if there is one, or nothing.

Where buffers have offsets of their own, or gaps, `pieces` places in place of `kernel`, and repair from the best arena
known goes on in place of insertion, whose chains begin at 0.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.machine.addresses.branch import MOST, compressed, offsets_within
from moccasin_mzn.problem.arena import Arena, bound_of, buffers_in, check_buffers, steps
from moccasin_mzn.problem.blocks import merged
from moccasin_mzn.problem.buffer import Buffer, Piece

SCARCE = (0.9, 0.95, 0.98, 0.99, 1.0)
"""Memory is scarce where at least such a share of the peak is taken."""
SHARES = (1.0, 0.5, 0.25, 0.1, 0.03)
"""Aims of repair: by such a share of the distance to the bound the arena shall shrink."""
CHUNK_WORK, REPAIRS = 2e7, 8
"""Moves of repair between two looks at the clock are this number by the square of the number of buffers; an aim is
given up after this many times without an arena."""
INSERTION_WORK, MOST_MOVES = 5e9, 10_000
"""If there is no time limit: a cooling takes this many steps, and no more moves."""
CHUNK_STEPS = 1e8
"""Steps of insertion between two looks at the clock; a move takes twice the sum of all lifespans, and more."""
PER_LOOK = 6
HOT, WARM, COLD = 0.7, 0.3, 0.02
"""Temperatures of insertion, in median sizes; every second cooling begins hot where time allows this many moves of
each buffer:"""
MANY_MOVES = 300
BASINS, COOLINGS = 4, 6
"""Coolings of insertion from as many starts, unless a known arena is far better, and from the best arena after that."""
REPAIRED = 0.03
"""Share of a time limit after which repair is over."""
BRANCHED, LOOKS = 0.3, 200
"""Share of a time limit after which branch and bound is over; without a limit it goes on this many times."""
UNITS = 2**30
"""Insertion counts in units; all sizes together are not many more."""
ROUNDS = 20
"""Rounds of repair from the best arena known, without a time limit, where there is no insertion."""
MOST_BUFFERS = 20_000
"""With more, only the order of time is tried, in which the dead are forgotten: other orders take quadratic time."""


def search_arena(
    buffers: Sequence[Buffer], alignment: int = 1, *, enough: int | None = None, time_limit: float | None = None,
    seed: int = 0, begin_with: Sequence[int] | None = None, stop: Callable[[], bool] = lambda: False,
    on_interrupt: Callable[[], None] | None = None, on_arena: Callable[[int], None] = lambda size: None,
) -> Arena:  # fmt: skip
    """A small arena; the same one for the same seed if no time limit cuts the search short.

    Ends when the arena is as small as its bound, when it is no larger than `enough`, or when the time or, without a
    limit, all coolings are over. A first arena is always found.

    Args:
        begin_with: offsets of an arena that is known.
        stop: called often; True ends the search.
        on_interrupt: called on an interrupt from the keyboard, which then ends the search with the best arena so far;
            None: the interrupt is raised.
        on_arena: called with the size of each smaller arena.

    Raises:
        InputError: see `Arena`.
    """
    buffers, alignment = buffers_in(buffers), plain(alignment)
    check_buffers(buffers, alignment)
    search = _Search(buffers, alignment, enough, seed, Deadline(time_limit), stop, on_arena)
    if begin_with is not None:
        search.take(np.array(search.whole.offsets_from(begin_with), np.int64)[search.solid])
    try:
        search.hinted(search.whole.buffers)
        search.run()
    except KeyboardInterrupt:
        if on_interrupt is None or search.best is None:
            raise
        on_interrupt()
    return Arena(buffers, search.whole.offsets_of(search.offsets.tolist()), alignment)


@dataclass(frozen=True)
class _Start:
    """An arena to begin with: its size, the order in which buffers were placed, the rule, and their offsets."""

    size: int
    order: np.ndarray
    best_fit: bool
    offset: np.ndarray


class _Pieces:
    """The arguments of the kernels of `pieces`, in addition to boxes: those of the buffers to place."""

    def __init__(self, buffers: Sequence[Buffer], rows: Sequence[Sequence[Piece]]) -> None:
        counts = np.array([len(row) for row in rows], np.int64)
        self.first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        table = [(piece.start, piece.end, piece.low, piece.high) for row in rows for piece in row]
        self.table = np.array(table, np.int64).reshape(-1, 4).T.copy()
        self.given = np.array([-1 if buffer.offset is None else buffer.offset for buffer in buffers], np.int64)
        together = any(one.end > other.start for row in rows for one, other in itertools.pairwise(row))
        most = int(counts.max(initial=0))  # pieces of a buffer that come one after the other meet fewer others
        self.low, self.high = np.zeros((2, len(table) * most if together else len(table) + len(rows) * most), np.int64)
        self.pinned = int(np.sum(self.given >= 0))
        spans = [(at, *span) for at, row in enumerate(rows) for span in _times(row)]
        self.times = np.array(spans, np.int64).reshape(-1, 3).T.copy()

    def arguments(self, order: np.ndarray) -> tuple[np.ndarray, int]:
        """An order with the buffers at its beginning that have offsets, and how many these are."""
        there = self.given[order] >= 0
        return np.concatenate([order[there], order[~there]]), self.pinned


def _times(pieces: Sequence[Piece]) -> list[tuple[int, int]]:
    """The times at which any of these is there, which are by start, one after the other."""
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        if spans and piece.start < spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], piece.end)
        else:
            spans.append((piece.start, piece.end))
    return spans


class _Search:
    """State of one search. Buffers that never take memory stay at offset 0, or at their own, and take no part."""

    def __init__(
        self, given: tuple[Buffer, ...], alignment: int, enough: int | None, seed: int, deadline: Deadline,
        stop: Callable[[], bool], on_arena: Callable[[int], None] = lambda size: None,
    ) -> None:  # fmt: skip
        from moccasin_mzn.heuristics.compiling import generator_of

        self.deadline, self.stop, self.on_arena = deadline, stop, on_arena
        self.whole = whole = merged(given)
        buffers = whole.buffers
        self.offsets = np.array([buffer.offset or 0 for buffer in buffers], np.int64)
        self.bound = bound_of(given, alignment)
        self.enough = max(self.bound, enough or 0)
        self.solid = np.array([i for i, row in enumerate(whole.pieces) if row], np.int64)
        self.rows = [whole.pieces[i] for i in self.solid]
        alone = all(len(row) <= 1 for row in whole.pieces)
        plain = alone and all(buffer.offset is None and not buffer.gaps for buffer in buffers)
        self.pieces = None if plain else _Pieces([buffers[i] for i in self.solid], self.rows)
        rows = [(b.start, b.end, b.size, step) for b, step in zip(buffers, steps(buffers, alignment), strict=True)]
        self.boxes = tuple(np.array(rows, np.int64).reshape(-1, 4)[self.solid].T.copy())
        n = len(self.solid)
        self.best: int | None = None
        self._generator = generator_of(seed)
        self._placed, self._offset = np.zeros(n, np.int64), np.zeros(n, np.int64)

    @property
    def done(self) -> bool:
        return self.best is not None and self.best <= self.enough

    def over(self, share: float = 1.0) -> bool:
        """True if such a share of the time is over, or the search is to stop."""
        return self.stop() or self.deadline.over(share)

    def take(self, offset: np.ndarray) -> None:
        """Keep offsets of the solid buffers, if they are the best."""
        size = int(np.max(offset + self.boxes[2], initial=0))
        if self.best is None or size < self.best:
            self.best = size
            self.offsets[self.solid] = offset
            self.on_arena(size)

    def hinted(self, buffers: tuple[Buffer, ...]) -> None:
        """Take the arena in which buffers lie at their hints, by start, if there are any hints."""
        from moccasin_mzn.machine.addresses.kernel import UNLIMITED
        from moccasin_mzn.machine.addresses.pieces import place_pieces

        there = [buffers[i] for i in self.solid]
        if all(buffer.hint is None for buffer in there):
            return
        pieces, in_time = self.pieces or _Pieces(there, self.rows), len(there) > MOST_BUFFERS
        hints = np.array([-1 if buffer.hint is None else buffer.hint for buffer in there], np.int64)
        order, pinned = pieces.arguments(
            np.lexsort((hints < 0, self.boxes[0]) if in_time else (self.boxes[0], hints < 0))
        )
        wanted = np.where(pieces.given >= 0, pieces.given, hints)
        place_pieces(
            order, pinned, self.boxes, pieces.first, pieces.table, wanted, False, in_time, UNLIMITED,
            self._placed, pieces.low, pieces.high, self._offset,
        )  # fmt: skip
        self.take(self._offset)

    def _place(self, order: np.ndarray, best_fit: bool, in_time: bool) -> int:
        """Place all in an order; the size of the arena, whose offsets are in `_offset`."""
        from moccasin_mzn.machine.addresses.kernel import UNLIMITED, place
        from moccasin_mzn.machine.addresses.pieces import place_pieces

        pieces = self.pieces
        if pieces is None:
            return place(order, self.boxes, best_fit, in_time, UNLIMITED, self._placed, self._offset)[0]
        order, pinned = pieces.arguments(order)
        return place_pieces(
            order, pinned, self.boxes, pieces.first, pieces.table, pieces.given, best_fit, in_time, UNLIMITED,
            self._placed, pieces.low, pieces.high, self._offset,
        )[0]  # fmt: skip

    def _repair(self, order: np.ndarray, best_fit: bool, aim: int, moves: int) -> bool:
        """Change an order until all ends within an aim; if that is so, offsets are in `_offset`."""
        from moccasin_mzn.machine.addresses.kernel import repair
        from moccasin_mzn.machine.addresses.pieces import repair_pieces

        pieces = self.pieces
        if pieces is None:
            found = repair(order, self.boxes, best_fit, aim, moves, self._generator, self._placed, self._offset)
        else:
            order[:], pinned = pieces.arguments(order)
            found = repair_pieces(
                order, pinned, self.boxes, pieces.first, pieces.table, pieces.given, best_fit, aim, moves,
                self._generator, self._placed, pieces.low, pieces.high, self._offset,
            )  # fmt: skip
        return found >= 0

    def run(self) -> None:
        known, starts = self.best, []
        for number, (order, in_time) in enumerate(self._orders()):
            for best_fit in (False, True):
                if (number or best_fit) and (self.done or self.over()):
                    return
                size = self._place(order, best_fit, in_time)
                self.take(self._offset)
                if not in_time:
                    starts.append(_Start(size, order, best_fit, self._offset.copy()))
        if starts and len(self.solid):
            self._improve(sorted(starts, key=lambda start: start.size), known)

    def _improve(self, starts: list[_Start], known: int | None) -> None:
        """Repair of the best start; then coolings, the first few from other starts, the rest from the best arena."""
        chunk = max(20, int(CHUNK_WORK / max(1, len(self.solid)) ** 2))
        chunk = chunk if self.pieces is None else min(chunk, MOST_MOVES)  # repair is all there is, again and again
        for share in SHARES:
            if not self.done and not self.over(REPAIRED):
                self._aim(share, starts[0], chunk, lambda: self.over(REPAIRED))
        self._branch()
        if self.pieces is not None:
            return self._repair_on(chunk)
        spent = min(BRANCHED, self.deadline.elapsed() / (self.deadline.seconds or np.inf))
        near = known is not None and 2 * (known - self.bound) < starts[0].size - self.bound
        basins = 1 if near else BASINS
        coolings, moves = basins + COOLINGS, 0
        for number in itertools.count():
            if self.done or self.over() or (self.deadline.seconds is None and number == coolings):
                return
            begin = starts[number].offset if 0 < number < basins else self.offsets[self.solid]
            warmth = HOT if number % 2 and moves >= MANY_MOVES * len(begin) else WARM
            until = min(1.0, spent + (1 - spent) * (number + 1) / coolings)
            moves = self._insert(begin, warmth, until)

    def _repair_on(self, chunk: int) -> None:
        """Repair from the best arena known, in either way and with aims of any distance."""
        for number in itertools.count():
            if self.done or self.over() or (self.deadline.seconds is None and number == ROUNDS):
                return
            order = np.argsort(self.offsets[self.solid], kind="stable").astype(np.int64)
            start = _Start(self.best or 0, order, bool(number % 2), self.offsets[self.solid])
            self._aim(SHARES[number // 2 % len(SHARES)], start, chunk, self.over)

    def _branch(self) -> None:
        """An arena that is no larger than is enough, of few buffers, if branch and bound finds one."""
        if self.done or len(self.solid) > MOST:
            return
        looks, pieces = itertools.count(1), self.pieces
        offset, _ = offsets_within(
            self.boxes, self.enough,
            lambda: self.over(BRANCHED) or (self.deadline.seconds is None and next(looks) > LOOKS),
            *(() if pieces is None else (pieces.given, pieces.times)),
        )  # fmt: skip
        if offset is not None:
            self.take(offset)

    def _orders(self) -> list[tuple[np.ndarray, bool]]:
        """Permutations to begin with, and whether they are by start."""
        start, end, size, _ = self.boxes
        life, large = (end - start).astype(float), size.astype(float)
        by_time = np.lexsort((-size, start)).astype(np.int64)
        if len(self.solid) > MOST_BUFFERS:
            return [(by_time, True)]
        keys = [(start, -large), (start, -life * large), (start, -life), (start, -life * np.sqrt(large))]
        keys += [(-life * np.sqrt(large), -scarce) for scarce in self._scarce()]
        return [(by_time, True)] + [(np.lexsort(key).astype(np.int64), False) for key in keys]

    def _scarce(self) -> Iterator[np.ndarray]:
        """Return at how many of the times at which memory is scarce each buffer lives."""
        start, end, size, _ = self.boxes
        times = np.unique(start)
        first, behind = np.searchsorted(times, start), np.searchsorted(times, end)
        taken = np.zeros(len(times) + 1, np.int64)
        np.add.at(taken, first, size)
        np.subtract.at(taken, behind, size)
        memory = np.cumsum(taken)[:-1]
        for share in SCARCE:
            before = np.concatenate([[0], np.cumsum(memory >= share * np.max(memory, initial=0))])
            yield before[behind] - before[first]

    def _insert(self, begin: np.ndarray, warmth: float, until: float) -> int:
        """One cooling of insertion from the order of an arena, until such a share of the time is over; its moves."""
        from moccasin_mzn.machine.addresses.insertion import insertion, settle

        start, end, size, work = self._compressed
        unit = max(1, int(size.sum()) // UNITS)
        order = np.argsort(begin, kind="stable").astype(np.int64)
        critical_lower, head_tail = np.zeros((2, len(order)), np.int64), np.zeros((2, len(order)), np.int32)
        workspace = (*critical_lower, *head_tail, np.zeros(end.max(), np.int32), np.zeros(len(order)))
        top, best = np.zeros(end.max(), np.int64), order.copy()
        moves, chunk = min(MOST_MOVES, int(INSERTION_WORK / work) + 1), int(CHUNK_STEPS / work) + PER_LOOK
        begin_at, since = warmth * float(np.median(size)) / unit, self.deadline.elapsed()
        control, limit = np.array([begin_at, (COLD / warmth) ** (1 / moves), np.inf]), self.enough // unit
        units, done, seconds = (-(-size // unit)).astype(np.int32), 0, self.deadline.seconds
        while done < moves or seconds is not None:
            insertion(order, start, end, units, limit, chunk, PER_LOOK, control, self._generator, workspace, best)
            settle(best, start, end, self.boxes[2], self.boxes[3], top, self._offset)
            self.take(self._offset)
            done += chunk
            if self.done or self.over(until) or control[2] <= limit:
                break
            if seconds is not None:
                part = (self.deadline.elapsed() - since) / (until * seconds - since)
                control[:2] = begin_at * (COLD / warmth) ** part, 1.0
        return done

    @cached_property
    def _compressed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        """Lifespans in fewer times, sizes padded to what all steps are multiples of (int64[n] each), and the steps of a
        move."""
        start, end = compressed(*self.boxes[:2])
        grain = int(np.gcd.reduce(self.boxes[3]))
        return start, end, -(-self.boxes[2] // grain) * grain, 2 * int((end - start).sum()) + 10 * len(start)

    def _aim(self, share: float, start: _Start, chunk: int, over: Callable[[], bool]) -> None:
        """Shrink the arena by a share of its distance to the bound, again and again as long as it works."""
        order, spent = start.order.copy(), 0
        while self.best is not None and spent < REPAIRS and not self.done and not over():
            aim = self.best - max(1, round(share * (self.best - self.bound)))
            spent += 1
            if self._repair(order, start.best_fit, aim, chunk):
                self.take(self._offset)
                spent = 0


def compile_all() -> None:
    """Call every compiled function once, on buffers that no placement fits into as little as the bound."""
    from moccasin_mzn.machine.addresses.branching import RANKINGS

    lives = [(11 * at % 40, 11 * at % 40 + 3 + 7 * at % 17, 1 + 29 * at % 23) for at in range(80)]
    buffers = tuple(Buffer(str(at), *life) for at, life in enumerate(lives))
    search = _Search(buffers, 1, None, 0, Deadline(), lambda: True)
    search.run()
    order = np.arange(len(search.solid), dtype=np.int64)
    answers = iter((False,))
    search._aim(0.5, _Start(search.best or 0, order, False, search.offsets), 1, lambda: next(answers, True))
    search._insert(search.offsets[search.solid], WARM, 1.0)
    looks = itertools.count()
    offsets_within(search.boxes, search.bound, lambda: next(looks) >= len(RANKINGS))
    search = _Search((replace(buffers[0], offset=100, hint=1), *buffers[1:]), 1, None, 0, Deadline(), lambda: True)
    search.hinted((replace(buffers[0], hint=1), *buffers[1:]))
    answers = iter((False,))
    search._aim(0.5, _Start(search.best or 0, order, False, search.offsets), 1, lambda: next(answers, True))
