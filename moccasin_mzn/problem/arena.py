"""Buffers with lifespans, and the offsets that an arena gives them.

Lifespans are half-open everywhere in this package, as in minimalloc: a buffer lives at the times start..end - 1. (The
retention intervals of schedules are closed; `plan_arenas.buffers_of` translates.)

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

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.problem.judges.arenas import Flaw, flaws
from moccasin_mzn.words import count_text

TOTAL_LIMIT = 2**53
"""The sizes of all buffers together, rounded up to their alignment, stay below it: so does every offset."""
TIME_LIMIT = 2**40


@dataclass(frozen=True)
class Buffer:
    """What needs `size` consecutive units of memory from time `start` until just before time `end`.

    Raises:
        InputError: a name that is no str, an amount that is no int, a lifespan that is empty or begins before 0, a
            negative size, an alignment below 1.
    """

    name: str
    start: int
    end: int
    """Half-open: the first time at which the memory may hold something else."""
    size: int
    """0 or more; a buffer of size 0 overlaps nothing."""
    alignment: int = 1
    """The offset must be a multiple of it."""

    def __post_init__(self) -> None:
        if type(self.name) is not str:
            raise InputError(f"buffer name {shown(self.name)} is not a string")
        for what, least, most in (
            ("start", 0, TIME_LIMIT), ("end", 0, TIME_LIMIT), ("size", 0, TOTAL_LIMIT), ("alignment", 1, TOTAL_LIMIT)
        ):  # fmt: skip
            value = getattr(self, what)
            if type(value) is not int or not least <= value <= most:
                raise InputError(f"buffer {self.name}: {what} {shown(value)} is not an integer from {least} to {most}")
        if self.start >= self.end:
            raise InputError(f"buffer {self.name}: lifespan from {self.start} to before {self.end} is empty")


class ArenaError(InputError):
    """Offsets that are no arena: two buffers overlap, or one is misaligned or out of bounds."""


@dataclass(frozen=True)
class Arena:
    """An offset for each buffer. Judged at birth by `check.flaws`, which shares nothing with allocators.

    Raises:
        ArenaError: two buffers that live at the same time share memory, an offset is negative or misaligned.
        InputError: lists of different lengths, an offset or alignment that is no int, buffers that are too large.
    """

    buffers: tuple[Buffer, ...]
    offsets: tuple[int, ...]
    alignment: int = 1
    """Every offset is a multiple of it, and of the buffer's own alignment."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffers", tuple(self.buffers))
        object.__setattr__(self, "offsets", tuple(self.offsets))
        check_buffers(self.buffers, self.alignment)
        if len(self.offsets) != len(self.buffers):
            raise InputError(f"{count_text(len(self.offsets), 'offset')} for {count_text(len(self.buffers), 'buffer')}")
        for buffer, offset in zip(self.buffers, self.offsets, strict=True):
            if type(offset) is not int:
                raise InputError(f"buffer {buffer.name}: offset {shown(offset)} is not an integer")
        flaw = next(flaws(_boxes(self.buffers, self.alignment), self.offsets), None)
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
        """By how many percent the arena exceeds the peak."""
        return 100 * (self.size / self.peak - 1) if self.peak else 0.0

    @property
    def is_least(self) -> bool:
        """True if the arena is as small as the bound: no allocation of the same lifespans is better."""
        return self.size == self.bound

    def as_dict(self) -> dict[str, int | float]:
        """What a schedule's JSON object says of its arena; the offsets are in its intervals.

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


def check_buffers(buffers: tuple[Buffer, ...], alignment: int) -> None:
    """Check what allocators rely on.

    Raises:
        InputError: an alignment that is no int from 1 to `TOTAL_LIMIT`; sizes that together reach `TOTAL_LIMIT`.
    """
    check_alignment(alignment)
    total = sum(b.size + step for b, step in zip(buffers, steps(buffers, alignment), strict=True))
    if total >= TOTAL_LIMIT:
        raise InputError(f"the buffers take {total} in all, aligned, expected less than {TOTAL_LIMIT}")


def check_alignment(alignment: int) -> None:
    """Check what offsets are to be multiples of.

    Raises:
        InputError: it is no int from 1 to `TOTAL_LIMIT`.
    """
    if type(alignment) is not int or not 1 <= alignment <= TOTAL_LIMIT:
        raise InputError(f"alignment {shown(alignment)} is not an integer from 1 to {TOTAL_LIMIT}")


def steps(buffers: tuple[Buffer, ...], alignment: int) -> list[int]:
    """What the offset of each buffer must be a multiple of."""
    return [math.lcm(buffer.alignment, alignment) for buffer in buffers]


def peak_of(buffers: tuple[Buffer, ...]) -> int:
    """Most memory of buffers that live at the same time."""
    return max(_at_each_change(buffers, [b.size for b in buffers]), default=0)


def bound_of(buffers: tuple[Buffer, ...], alignment: int) -> int:
    """No arena is smaller.

    All offsets are multiples of the greatest common divisor g of all steps. Of the buffers that live at one time, all
    but the topmost take a multiple of g up to the next one; the topmost saves at most the largest padding.
    """
    common = math.gcd(*steps(buffers, alignment)) if buffers else 1
    solid = tuple(b for b in buffers if b.size)
    padded = [-(-b.size // common) * common for b in solid]
    best, times = 0, sorted({b.start for b in solid})
    if common == 1:
        return peak_of(buffers)
    totals = _at_each_change(solid, padded)
    events = sorted(range(len(solid)), key=lambda i: solid[i].start)
    live: list[int] = []
    at = 0
    for time, total in zip(times, totals, strict=True):
        live = [i for i in live if solid[i].end > time]
        while at < len(events) and solid[events[at]].start == time:
            live.append(events[at])
            at += 1
        if total > best:
            best = max(best, total - max(padded[i] - solid[i].size for i in live))
    return max(best, peak_of(buffers))


def _at_each_change(buffers: tuple[Buffer, ...], amounts: list[int]) -> list[int]:
    """The sum of the amounts of live buffers at each start of one, in order of time: it is largest at one of them."""
    change: dict[int, int] = {}
    starts = set()
    for buffer, amount in zip(buffers, amounts, strict=True):
        change[buffer.start] = change.get(buffer.start, 0) + amount
        change[buffer.end] = change.get(buffer.end, 0) - amount
        starts.add(buffer.start)
    level, levels = 0, []
    for time in sorted(change):
        level += change[time]
        if time in starts:
            levels.append(level)
    return levels


def _boxes(buffers: tuple[Buffer, ...], alignment: int) -> list[tuple[int, int, int, int]]:
    return [(b.start, b.end, b.size, step) for b, step in zip(buffers, steps(buffers, alignment), strict=True)]


def flaw_text(buffers: tuple[Buffer, ...], flaw: Flaw) -> str:
    """A flaw in one line, with the names of the buffers."""
    name = buffers[flaw.buffer].name
    if flaw.other is not None:
        return f"buffers {buffers[flaw.other].name} and {name} overlap at time {flaw.time}: {flaw.detail}"
    return f"buffer {name}: {flaw.detail}"
