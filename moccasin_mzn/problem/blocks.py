"""Buffers that lie at fixed distances from each other, as one for those who look for offsets. ::

    address   7          +-----+          c at place 4, 2..4       a block of size 7 that lives 0..3 and takes
              4          +-----+                                   the addresses 0..2 at 0..2,
              3  +---------+              a at place 0, 0..2       the addresses 4..6 at 2..3
              0  +---------+
          time   0       2 3   4

What a block takes when are the pieces of all its buffers; there may be several at one time. A buffer in no block is its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.buffer import TOTAL_LIMIT, Buffer, Piece, pieces_of


@dataclass(frozen=True)
class Merged:
    """Buffers, and those that stand for them and may lie anywhere."""

    buffers: tuple[Buffer, ...]
    """One for each block, without gaps, and those in none."""
    pieces: tuple[tuple[Piece, ...], ...]
    """What each of these takes, by start; of a block several pieces may be at one time."""
    of: tuple[int, ...]
    """For each of the original buffers the number of the one that stands for it."""
    places: tuple[int, ...]
    """For each of the original buffers its address in that."""

    def offsets_of(self, offsets: Sequence[int]) -> tuple[int, ...]:
        """The offsets of the original buffers, from those of what stands for them."""
        return tuple(int(offsets[number]) + place for number, place in zip(self.of, self.places, strict=True))

    def offsets_from(self, offsets: Sequence[int]) -> list[int]:
        """The offsets of what stands for the original buffers, from theirs."""
        found = dict(zip(self.of, (at - place for at, place in zip(offsets, self.places, strict=True)), strict=True))
        return [found[number] for number in range(len(self.buffers))]


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
        tuple(_pieces(row, low[key]) for key, row in members.items()),
        tuple(number[key] for key in keys),
        tuple(buffer.place - low[key] for key, buffer in zip(keys, buffers, strict=True)),
    )


def _one(buffers: Sequence[Buffer], low: int) -> Buffer:
    """The buffer of a block whose lowest place is `low`."""
    for buffer in buffers:
        if (buffer.place - low) % buffer.alignment:
            where = f"place {buffer.place - low} in its block"
            raise InputError(f"buffer {buffer.name}: {where} is not a multiple of {buffer.alignment}, its alignment")
    size = max(buffer.place - low + buffer.size for buffer in buffers)
    start, end = min(buffer.start for buffer in buffers), max(buffer.end for buffer in buffers)
    offset = next((one.offset - one.place + low for one in buffers if one.offset is not None), None)
    hint = next((one.hint - one.place + low for one in buffers if one.hint is not None), None)
    alignment = lcm(*(buffer.alignment for buffer in buffers))
    if size >= TOTAL_LIMIT or (offset is not None and (offset < 0 or offset % alignment)):
        raise InputError(f"block {buffers[0].block}: no offsets are possible for all of its buffers")
    name = buffers[0].block or ""
    return Buffer(name, start, end, size, alignment, offset, None if hint is None else max(0, hint))


def _pieces(buffers: Sequence[Buffer], low: int) -> tuple[Piece, ...]:
    found = [
        replace(piece, low=piece.low + buffer.place - low, high=piece.high + buffer.place - low)
        for buffer in buffers
        for piece in pieces_of(buffer)
    ]
    return tuple(sorted(found, key=lambda piece: piece.start))
