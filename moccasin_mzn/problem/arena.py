"""The offsets that an arena gives to buffers with lifespans.

Lifespans are half-open everywhere in this package, as in minimalloc: a buffer lives at the times start..end - 1. (The
retention intervals of schedules are closed; `placing` translates.)

::

    offset
       3   +---------------+
           |  b, size 1    |
       2   +-------+-------+-------+
           |  a, size 2    |               a lives at 1 and 2, b at 1 and 2, c at 3
           |       |       |  c    |       arena 3, peak 3
       0   +-------+-------+-------+
     time  1       2       3       4
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.problem.budget import FORMS, Budget
from moccasin_mzn.problem.buffer import TOTAL_LIMIT, Buffer, pieces_of
from moccasin_mzn.problem.judges.arenas import Box, Flaw, flaws, moved


class ArenaError(InputError):
    """Offsets that are no arena: two buffers overlap, or one is misaligned or out of bounds."""


@dataclass(frozen=True)
class Arena:
    """An offset for each buffer. Judged at birth by `check.flaws`, which shares nothing with allocators.

    Raises:
        ArenaError: two buffers that live at the same time share memory, an offset is negative, misaligned, or not the
            one that the buffer has; buffers of one block lie at other distances than their places.
        InputError: lists of different lengths, an offset or alignment that is no int, buffers that are too large, or
            whose own offsets contradict each other.
    """

    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    alignment: int = 1
    """Every offset is a multiple of it, and of the buffer's own alignment."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", buffers_in(self.buffers))
        offsets = sequence(self.offsets, "offsets", "a sequence of integers")
        object.__setattr__(self, "offsets", tuple(plain(offset) for offset in offsets))
        object.__setattr__(self, "alignment", plain(self.alignment))
        check_buffers(self.buffers, self.alignment)
        if len(self.offsets) != len(self.buffers):
            raise InputError(f"{count_text(len(self.offsets), 'offset')} for {count_text(len(self.buffers), 'buffer')}")
        for buffer, offset in zip(self.buffers, self.offsets, strict=True):
            if type(offset) is not int:
                raise InputError(f"buffer {buffer.name}: offset {shown(offset)} is not an integer")
        flaw = next(flaws(_boxes(self.buffers, self.alignment), self.offsets), None)
        flaw = flaw or next(moved(_blocks(self.buffers), self.offsets), None)
        if flaw is not None:
            raise ArenaError(flaw_text(self.buffers, flaw))

    @property
    def size(self) -> int:
        """Largest end of a buffer: how much memory the arena takes."""
        return max((o + b.size for o, b in zip(self.offsets, self.buffers, strict=True) if b.size), default=0)

    @cached_property
    def peak(self) -> int:
        """Most memory of buffers that live at the same time; no arena is smaller."""
        return peak_of(self.buffers)

    @cached_property
    def bound(self) -> int:
        """No arena of these buffers at this alignment is smaller; `peak` or more."""
        return bound_of(self.buffers, self.alignment)

    @property
    def fragmentation_percent(self) -> float:
        """The percentage by which the arena exceeds the peak."""
        return 100 * (self.size / self.peak - 1) if self.peak else 0.0

    @property
    def is_least(self) -> bool:
        """True if the arena is as small as the bound: no allocation of the same lifespans is better."""
        return self.size == self.bound

    def as_dict(self) -> dict[str, int | float]:
        """Return the arena's part of a schedule's JSON object; the offsets are in its intervals.

        That object is a plan for a runtime as it stands: interval t of "intervals" belongs to step t of "sequence".
        Step t computes its node, reads each input at the offset of the latest interval of that node, and writes the
        output to its own offset. Nothing is moved or freed.
        """
        return {
            "arena": self.size,
            "arena_bound": self.bound,
            "alignment": self.alignment,
            "fragmentation_percent": self.fragmentation_percent,
        }


def buffers_in(given: object) -> tuple[Buffer, ...]:
    """Buffers one after the other, as a tuple.

    Raises:
        InputError: it is no sequence, or has something else in it.
    """
    buffers = sequence(given, "buffers", "a sequence of buffers")
    for at, buffer in enumerate(buffers):
        if not isinstance(buffer, Buffer):
            raise InputError(f"buffers[{at}]: {shown(buffer)} is not a buffer")
    return buffers


def check_buffers(buffers: tuple[Buffer, ...], alignment: int, capacity: int | None = None) -> None:
    """Check what allocators rely on.

    Raises:
        InputError: an alignment that is no int from 1 to `TOTAL_LIMIT`; sizes that are together `TOTAL_LIMIT` or more;
            own offsets of buffers that no arena, or none within the capacity, can have.
    """
    check_alignment(alignment)
    total = sum(b.size + step for b, step in zip(buffers, steps(buffers, alignment), strict=True))
    total += max((b.offset for b in buffers if b.offset is not None), default=0)
    if total >= TOTAL_LIMIT:
        raise InputError(f"the buffers take {total} in total, aligned, expected less than {TOTAL_LIMIT}")
    wrong = given_flaw(buffers, alignment, capacity)
    if wrong is not None:
        raise ArenaError(wrong[1])


def given_flaw(buffers: tuple[Buffer, ...], alignment: int = 1, capacity: int | None = None) -> tuple[int, str] | None:
    """The first buffer whose own offset contradicts that of another one, the alignment or the capacity, and how; None:
    there is an arena in which all have them."""
    given = [at for at, buffer in enumerate(buffers) if buffer.offset is not None]
    there = tuple(buffers[at] for at in given)
    offsets = [buffer.offset or 0 for buffer in there]
    for at, (buffer, offset) in enumerate(zip(there, offsets, strict=True)):
        if capacity is not None and offset + buffer.size > capacity:
            text = f"buffer {buffer.name}: offset {offset} and size {buffer.size} are over the capacity {capacity}"
            return given[at], text
    flaw = next(flaws(_boxes(there, alignment), offsets), None)
    return None if flaw is None else (given[flaw.buffer], flaw_text(there, flaw))


def check_alignment(alignment: int) -> None:
    """Check what offsets are to be multiples of.

    Raises:
        InputError: it is no int from 1 to `TOTAL_LIMIT`.
    """
    if type(alignment) is not int or not 1 <= alignment <= TOTAL_LIMIT:
        raise InputError(f"alignment {shown(alignment)} is not an integer from 1 to {TOTAL_LIMIT}")


def capacity_of(given: object) -> int | None:
    """What an arena may take: an int, or text such as "256KiB"; None: anything.

    Raises:
        InputError: it is neither, or negative.
    """
    capacity = plain(given)
    if isinstance(capacity, str):
        try:
            capacity = 0 if capacity.strip() == "0" else Budget.parse(capacity).amount
        except InputError:
            capacity = None
        if capacity is None:
            raise InputError(Page.AMOUNTS.after(f"capacity {shown(given)}: expected an amount of memory ({FORMS})"))
    if capacity is not None and (type(capacity) is not int or capacity < 0):
        raise InputError(f"capacity {shown(capacity)} is not an integer of 0 or more")
    return capacity


def steps(buffers: tuple[Buffer, ...], alignment: int) -> list[int]:
    """Return for each buffer the alignment of its offset."""
    return [math.lcm(buffer.alignment, alignment) for buffer in buffers]


def peak_of(buffers: tuple[Buffer, ...]) -> int:
    """Most memory of buffers that live at the same time."""
    spans = _spans(buffers)
    return max(_at_each_change(spans, [size for *_, size in spans]), default=0)


def bound_of(buffers: tuple[Buffer, ...], alignment: int) -> int:
    """No arena is smaller.

    Whatever begins in memory does so at a multiple of the greatest common divisor of all steps and all windows. Of what
    lives at one time, all but the topmost takes a multiple of it up to the next one; the topmost saves at most the
    largest padding. And no arena ends below a buffer of it, which has room as a whole.
    """
    lows = [gap.window[0] for b in buffers for gap in b.gaps if gap.window is not None]
    common = math.gcd(*steps(buffers, alignment), *lows) if buffers else 1
    whole = max(((b.offset or 0) + b.size for b in buffers if b.size), default=0)
    best = max(whole, peak_of(buffers))
    if common == 1:
        return best
    spans = sorted(_spans(buffers))
    padded = [-(-size // common) * common for *_, size in spans]
    live: list[int] = []
    at = 0
    for time, total in zip(sorted({start for start, *_ in spans}), _at_each_change(spans, padded), strict=True):
        live = [i for i in live if spans[i][1] > time]
        while at < len(spans) and spans[at][0] == time:
            live.append(at)
            at += 1
        if total > best:
            best = max(best, total - max(padded[i] - spans[i][2] for i in live))
    return best


def _spans(buffers: tuple[Buffer, ...]) -> list[tuple[int, int, int]]:
    """Start, end and amount of what buffers take, wherever that changes."""
    return [(piece.start, piece.end, piece.high - piece.low) for b in buffers for piece in pieces_of(b)]


def _at_each_change(spans: list[tuple[int, int, int]], amounts: list[int]) -> list[int]:
    """The sum of the amounts of what lives at each start, in order of time: it is largest at one of them."""
    change: dict[int, int] = {}
    for (start, end, _), amount in zip(spans, amounts, strict=True):
        change[start] = change.get(start, 0) + amount
        change[end] = change.get(end, 0) - amount
    starts = {start for start, *_ in spans}
    level, levels = 0, []
    for time in sorted(change):
        level += change[time]
        if time in starts:
            levels.append(level)
    return levels


def _boxes(buffers: tuple[Buffer, ...], alignment: int) -> list[Box]:
    return [
        Box(b.start, b.end, b.size, step, tuple((g.start, g.end, *(g.window or (0, 0))) for g in b.gaps), b.offset)
        for b, step in zip(buffers, steps(buffers, alignment), strict=True)
    ]


def _blocks(buffers: tuple[Buffer, ...]) -> list[list[tuple[int, int]]]:
    """The numbers and places of the buffers of each block."""
    blocks: dict[str, list[tuple[int, int]]] = {}
    for number, buffer in enumerate(buffers):
        if buffer.block is not None:
            blocks.setdefault(buffer.block, []).append((number, buffer.place))
    return [*blocks.values()]


def flaw_text(buffers: tuple[Buffer, ...], flaw: Flaw) -> str:
    """A flaw in one line, with the names of the buffers."""
    name = buffers[flaw.buffer].name
    if flaw.kind == "apart" and flaw.other is not None:
        return f"buffers {buffers[flaw.other].name} and {name} are of one block: {flaw.detail}"
    if flaw.other is not None:
        return f"buffers {buffers[flaw.other].name} and {name} overlap at time {flaw.time}: {flaw.detail}"
    return f"buffer {name}: {flaw.detail}"
