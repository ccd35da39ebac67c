"""Buffers that lie at fixed distances from each other, as one buffer for those who look for offsets. ::

    address   7      +=========+          c at place 4, 2..4       the buffer of the block: 0..4, with gaps:
              4      +---------+                                   at 0 and 1 it takes the window 0..3,
              3  +=====+ . . . .          a at place 0, 0..2       at 3 and 4 the window 4..7
              0  +-----+ . . . .
          time   0   2   3   4

At each time the one buffer takes all that lies between the lowest and the highest address of those that are there: more
than these, where what lies between them is not there. A buffer in no block is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import lcm

from moccasin_mzn.errors import InputError
from moccasin_mzn.problem.arena import Arena, ArenaError
from moccasin_mzn.problem.buffer import TOTAL_LIMIT, Buffer, Gap, Piece, pieces_of


@dataclass(frozen=True)
class Merged:
    """Buffers, and those that stand for them and may lie anywhere."""

    buffers: tuple[Buffer, ...]
    """One for each block, and those in none."""
    of: tuple[int, ...]
    """For each of the original buffers the number of the one that stands for it."""
    places: tuple[int, ...]
    """For each of the original buffers its address in that."""

    def offsets_of(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """The offsets of the original buffers, from those of what stands for them."""
        return tuple(offsets[number] + place for number, place in zip(self.of, self.places, strict=True))

    def offsets_from(self, offsets: Sequence[int]) -> list[int]:
        """The offsets of what stands for the original buffers, from theirs."""
        found = dict(zip(self.of, (at - place for at, place in zip(offsets, self.places, strict=True)), strict=True))
        return [found[number] for number in range(len(self.buffers))]


def has_blocks(buffers: Sequence[Buffer]) -> bool:
    """Is any buffer in a block?"""
    return any(buffer.block is not None for buffer in buffers)


def merged(buffers: Sequence[Buffer]) -> Merged:
    """The buffers with one in place of each block.

    Raises:
        InputError: a place in a block that is no multiple of the alignment of its buffer, or a block that is too large.
    """
    members: dict[object, list[Buffer]] = {}
    keys = [at if buffer.block is None else buffer.block for at, buffer in enumerate(buffers)]
    for key, buffer in zip(keys, buffers, strict=True):
        members.setdefault(key, []).append(buffer)
    low = {key: min(buffer.place for buffer in row) for key, row in members.items()}
    number = {key: at for at, key in enumerate(members)}
    return Merged(
        tuple(row[0] if row[0].block is None else _one(row, low[key]) for key, row in members.items()),
        tuple(number[key] for key in keys),
        tuple(buffer.place - low[key] for key, buffer in zip(keys, buffers, strict=True)),
    )


def start_of(whole: Merged, known: Arena) -> list[int] | None:
    """The offsets of an arena, for buffers of which each block is one; None if something lies inside of a block."""
    offsets = whole.offsets_from(known.offsets)
    try:
        Arena(whole.buffers, tuple(offsets), known.alignment)
    except ArenaError:
        return None
    return offsets


def _one(buffers: Sequence[Buffer], low: int) -> Buffer:
    """The buffer of a block whose lowest place is `low`."""
    for buffer in buffers:
        if (buffer.place - low) % buffer.alignment:
            where = f"place {buffer.place - low} in its block"
            raise InputError(f"buffer {buffer.name}: {where} is not a multiple of {buffer.alignment}, its alignment")
    size = max(buffer.place - low + buffer.size for buffer in buffers)
    start, end = min(buffer.start for buffer in buffers), max(buffer.end for buffer in buffers)
    taken = [(piece, buffer.place - low) for buffer in buffers for piece in pieces_of(buffer)]
    offset = next((one.offset - one.place + low for one in buffers if one.offset is not None), None)
    hint = next((one.hint - one.place + low for one in buffers if one.hint is not None), None)
    alignment = lcm(*(buffer.alignment for buffer in buffers))
    if size >= TOTAL_LIMIT or (offset is not None and (offset < 0 or offset % alignment)):
        raise InputError(f"block {buffers[0].block}: no offsets are possible for all of its buffers")
    return Buffer(
        buffers[0].block or "", start, end, size, alignment, offset, hint if hint and hint > 0 else None,
        _gaps(start, end, size, taken),
    )  # fmt: skip


def _gaps(start: int, end: int, size: int, taken: Sequence[tuple[Piece, int]]) -> tuple[Gap, ...]:
    """The times at which a block takes less than all of its memory."""
    gaps: list[Gap] = []
    times = {start, end, *(time for piece, _ in taken for time in (piece.start, piece.end))}
    for begin, until in pairwise(sorted(times)):
        there = [(at + one.low, at + one.high) for one, at in taken if one.start <= begin < one.end]
        window = (min(first for first, _ in there), max(last for _, last in there)) if there else None
        if gaps and gaps[-1].end == begin and gaps[-1].window == window:
            gaps[-1] = Gap(gaps[-1].start, until, window)
        elif window != (0, size) and size:
            gaps.append(Gap(begin, until, window))
    return tuple(gaps)
