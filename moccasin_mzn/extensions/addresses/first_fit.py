"""First fit in a few orders, in plain Python: most small sets of buffers need nothing compiled."""

from __future__ import annotations

from collections.abc import Callable

from moccasin_mzn.problem.arena import Arena, steps
from moccasin_mzn.problem.buffer import Buffer, Piece, pieces_of

MOST_PIECES = 300
"""With more pieces of buffers the compiled search is faster: time grows with the square."""
_ORDERS: tuple[Callable[[Buffer], int], ...] = (
    lambda buffer: -buffer.size,
    lambda buffer: -buffer.size * (buffer.end - buffer.start),
    lambda buffer: buffer.start,
    lambda buffer: buffer.start - buffer.end,
)
"""Buffers are placed in ascending order of each of these, those with an offset of their own before all others."""


def first_fit(buffers: tuple[Buffer, ...], alignment: int, enough: int) -> Arena | None:
    """An arena of at most `enough`; None: no order gives one, a buffer has a hint, or there are too many of them."""
    pieces = [pieces_of(buffer) for buffer in buffers]
    if sum(map(len, pieces)) > MOST_PIECES or any(buffer.hint is not None for buffer in buffers):
        return None
    step = steps(buffers, alignment)
    for rank in _ORDERS:
        offsets = [buffer.offset or 0 for buffer in buffers]
        placed = [at for at, buffer in enumerate(buffers) if buffer.offset is not None]
        for at in sorted(set(range(len(buffers))).difference(placed), key=lambda at: (rank(buffers[at]), at)):
            offsets[at] = _lowest(pieces[at], step[at], [(offsets[of], pieces[of]) for of in placed])
            placed.append(at)
        arena = Arena(buffers, tuple(offsets), alignment)
        if arena.size <= enough:
            return arena
    return None


def _lowest(pieces: list[Piece], step: int, placed: list[tuple[int, list[Piece]]]) -> int:
    """The lowest offset at which pieces of a buffer overlap none of those that are placed."""
    taken = [
        (offset + other.low - piece.high, offset + other.high - piece.low)
        for offset, others in placed
        for other in others
        for piece in pieces
        if piece.start < other.end and other.start < piece.end
    ]
    lowest = 0
    for above, below in sorted(taken):  # offsets between these two, both excluded, overlap
        if lowest <= above:
            break
        if lowest < below:
            lowest = -(-below // step) * step
    return lowest
