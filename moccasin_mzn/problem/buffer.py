"""Buffers: what needs consecutive memory for a time, perhaps at a given offset, perhaps not all of it all the time. ::

    offset + size   +-----+     +-----+       lifespan 0..9, a gap 2..4 in which it takes nothing,
                    |     |     |     +---+   a gap 6..8 in which it takes the window 1..3 of its 4 units
                    |     |     |     |   |
          offset    +-----+     +-----+---+

Lifespans and gaps are half-open, as in minimalloc.
"""

from __future__ import annotations

from dataclasses import dataclass

from moccasin_mzn.base.arguments import named
from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.errors import InputError, shown

TOTAL_LIMIT = 2**53
"""The sizes of all buffers together, rounded up to their alignment, stay below it: so does every offset."""
TIME_LIMIT = 2**40


@named
@dataclass(frozen=True)
class Gap:
    """Times start..end - 1 at which a buffer takes no memory, or only a part of its own.

    Raises:
        InputError: an amount that is no int; times or a window that are empty or begin before 0.
    """

    start: int
    end: int
    window: tuple[int, int] | None = None
    """The addresses that it takes then, from its offset on: window[0]..window[1] - 1; None: nothing."""

    def __post_init__(self) -> None:
        _take_integers(self, ("start", "end"), "gap", TIME_LIMIT)
        if self.start >= self.end:
            raise InputError(f"gap from {self.start} to before {self.end} is empty")
        if self.window is None:
            return
        window = tuple(plain(amount) for amount in sequence(self.window, "window of a gap", "a pair of integers"))
        if len(window) != 2 or not all(type(a) is int and 0 <= a <= TOTAL_LIMIT for a in window):
            raise InputError(f"window {shown(self.window)} of a gap is not a pair of integers from 0 to {TOTAL_LIMIT}")
        if window[0] >= window[1]:
            raise InputError(f"window from {window[0]} to before {window[1]} of a gap is empty")
        object.__setattr__(self, "window", window)


@named
@dataclass(frozen=True)
class Buffer:
    """A buffer needs `size` consecutive units of memory from time `start` until just before time `end`.

    Raises:
        InputError: a name that is no str, an amount that is no int, a lifespan that is empty or begins before 0, a
            negative size, an alignment below 1, a given offset that is negative or misaligned, a gap that reaches
            beyond the lifespan, into another gap or above the size.
    """

    name: str
    start: int
    end: int
    """Half-open: the first time at which the memory may contain something else."""
    size: int
    """0 or more; a buffer of size 0 overlaps nothing."""
    alignment: int = 1
    """The offset must be a multiple of it."""
    offset: int | None = None
    """The buffer's address, if given; None: it is to be found."""
    hint: int | None = None
    """The address at which a search puts it first, if there is room; it need not stay there."""
    gaps: tuple[Gap, ...] = ()
    """The times at which it takes less; kept sorted."""
    block: str | None = None
    """Buffers of one block, by its name, lie as far apart as their places are; None: it lies where there is room."""
    place: int = 0
    """The buffer's address in its block."""

    def __post_init__(self) -> None:
        if type(self.name) is not str:
            raise InputError(f"buffer name {shown(self.name)} is not a string")
        where = f"buffer {self.name}:"
        _take_integers(self, ("start", "end"), where, TIME_LIMIT)
        _take_integers(self, ("size", "alignment", "place"), where, TOTAL_LIMIT)
        _take_integers(
            self, [name for name in ("offset", "hint") if getattr(self, name) is not None], where, TOTAL_LIMIT
        )
        if self.start >= self.end:
            raise InputError(f"{where} lifespan from {self.start} to before {self.end} is empty")
        if self.offset is not None and self.offset % self.alignment:
            raise InputError(f"{where} offset {self.offset} is not a multiple of {self.alignment}, its alignment")
        if self.block is not None and type(self.block) is not str:
            raise InputError(f"{where} block {shown(self.block)} is not a string")
        if self.block is None and self.place:
            raise InputError(f"{where} place {self.place}, but it is in no block")
        self._check_gaps(where)

    def _check_gaps(self, where: str) -> None:
        gaps = sequence(self.gaps, f"{where} gaps", "a sequence of gaps")
        for gap in gaps:
            if not isinstance(gap, Gap):
                raise InputError(f"{where} {shown(gap)} is not a gap")
            if not self.start <= gap.start < gap.end <= self.end:
                life = f"the lifespan {self.start}..{self.end - 1}"
                raise InputError(f"{where} gap {gap.start}..{gap.end - 1} is not within {life}")
            if gap.window is not None and gap.window[1] > self.size:
                raise InputError(
                    f"{where} window {gap.window[0]}..{gap.window[1] - 1} of a gap is over its size {self.size}"
                )
        gaps = tuple(sorted(gaps, key=lambda gap: gap.start))
        for one, other in zip(gaps, gaps[1:], strict=False):
            if one.end > other.start:
                raise InputError(f"{where} gaps {one.start}..{one.end - 1} and {other.start}..{other.end - 1} overlap")
        object.__setattr__(self, "gaps", gaps)


@dataclass(frozen=True)
class Piece:
    """The memory that a buffer takes at the times start..end - 1: addresses low..high - 1 from its offset on."""

    start: int
    end: int
    low: int
    high: int


def pieces_of(buffer: Buffer) -> list[Piece]:
    """Return what a buffer takes, by time; nothing if its size is 0 or its whole life is gaps."""
    if not buffer.size:
        return []
    pieces, at = [], buffer.start
    for gap in buffer.gaps:
        if at < gap.start:
            pieces.append(Piece(at, gap.start, 0, buffer.size))
        if gap.window is not None:
            pieces.append(Piece(gap.start, gap.end, *gap.window))
        at = gap.end
    return [*pieces, Piece(at, buffer.end, 0, buffer.size)] if at < buffer.end else pieces


def _take_integers(record: Buffer | Gap, names: list[str] | tuple[str, ...], where: str, most: int) -> None:
    for name in names:
        value, least = plain(getattr(record, name)), int(name == "alignment")
        if type(value) is not int or not least <= value <= most:
            raise InputError(f"{where} {name} {shown(value)} is not an integer from {least} to {most}")
        object.__setattr__(record, name, value)
