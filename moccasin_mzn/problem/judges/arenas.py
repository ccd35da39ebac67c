"""The judge of arenas: overlap, alignment, bounds. It imports nothing and shares nothing with what places buffers.

A sweep over time keeps the address ranges of the living in order; who comes must fit between its two neighbours there::

    offset    0     2        6       8
              [ a  ]         [ b    ]
                       [ new      ]         begins at 5, but b begins at 6: they overlap
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Flaw:
    """What is wrong with a placement. Buffers are numbered from 0."""

    kind: str
    """"negative", "misaligned" or "overlap"."""
    buffer: int
    other: int | None
    """For an overlap: the other buffer, which was there before."""
    time: int | None
    """For an overlap: the first time at which both live."""
    detail: str
    """What the offset is; for an overlap both address ranges, that of the other buffer first, ends included."""


def flaws(boxes: Sequence[tuple[int, int, int, int]], offsets: Sequence[int]) -> Iterator[Flaw]:
    """All flaws of single buffers, then overlaps in order of time; none for a correct placement.

    At least one overlap is found if there is any; of many between the same buffers not all are told.

    Args:
        boxes: (start, end, size, step) of each buffer: a half-open lifespan, and what the offset must be a multiple of.
        offsets: lowest address of each buffer.
    """
    for number, ((_, _, _, step), offset) in enumerate(zip(boxes, offsets, strict=True)):
        if offset < 0:
            yield Flaw("negative", number, None, None, f"offset {offset} is negative")
        elif offset % step:
            yield Flaw("misaligned", number, None, None, f"offset {offset} is not a multiple of {step}")
    changes = []  # (time, 0 for an end and 1 for a start, buffer): ends come first, lifespans are half-open
    for number, (start, end, size, _) in enumerate(boxes):
        if size:
            changes += [(start, 1, number), (end, 0, number)]
    living: list[tuple[int, int, int]] = []  # (offset, end of the range, buffer), sorted
    for time, begins, number in sorted(changes):
        entry = (offsets[number], offsets[number] + boxes[number][2], number)
        if not begins:
            del living[bisect_left(living, entry)]
            continue
        place = bisect_left(living, entry)
        for low, high, other in living[max(0, place - 1) : place + 1]:
            if low < entry[1] and entry[0] < high:
                text = f"{low}..{high - 1} and {entry[0]}..{entry[1] - 1}"
                yield Flaw("overlap", number, other, time, text)
        insort(living, entry)
