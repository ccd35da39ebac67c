"""The judge of arenas: overlap, alignment, bounds, given offsets. It shares nothing with what places buffers.

A sweep over time keeps the address ranges of the living in order; who comes must fit between its two neighbours there::

    offset    0     2        6       8
              [ a  ]         [ b    ]
                       [ new      ]         begins at 5, but b begins at 6: they overlap

In a gap a buffer takes nothing, or only a window of its addresses: it leaves at the start of the gap, comes back with
the window, and leaves again at the end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Box(NamedTuple):
    """A buffer to be judged."""

    start: int
    end: int
    """Half-open."""
    size: int
    step: int
    """The offset must be a multiple of this number."""
    gaps: tuple[tuple[int, int, int, int], ...] = ()
    """Start, end, and the lowest and the first higher address from the offset on that are taken then; half-open."""
    fixed: int | None = None
    """The offset that is given; None: any."""


@dataclass(frozen=True)
class Flaw:
    """A fault of a placement. Buffers are numbered from 0."""

    kind: str
    """"negative", "misaligned", "moved", "overlap" or, of what is to lie at a distance, "apart"."""
    buffer: int
    other: int | None
    """The other buffer of an overlap, which was there before; the one from which this one has a distance."""
    time: int | None
    """The first time of an overlap, at which both live."""
    detail: str
    """What the offset is; for an overlap both address ranges, that of the other buffer first, ends included."""


def flaws(
    boxes: Sequence[Box] | Sequence[tuple[int, int, int, int]], offsets: Sequence[int]
) -> Iterator[Flaw]:  # fmt: skip
    """All flaws of single buffers, then overlaps in order of time; none for a correct placement.

    At least one overlap is found if there is any; of many between the same buffers not all are reported.

    Args:
        boxes: the buffers, or the first four fields of each.
        offsets: lowest address of each buffer.
    """
    boxes = [Box(*box) for box in boxes]
    for number, (box, offset) in enumerate(zip(boxes, offsets, strict=True)):
        if offset < 0:
            yield Flaw("negative", number, None, None, f"offset {offset} is negative")
        elif offset % box.step:
            yield Flaw("misaligned", number, None, None, f"offset {offset} is not a multiple of {box.step}")
        if box.fixed is not None and offset != box.fixed:
            yield Flaw("moved", number, None, None, f"offset {offset} is not the one given, {box.fixed}")
    changes = []  # (time, 0 for an end and 1 for a start, buffer, range): ends come first, lifespans are half-open
    for number, box in enumerate(boxes):
        for start, end, low, high in _taken(box):
            entry = (offsets[number] + low, offsets[number] + high, number)
            changes += [(start, 1, number, entry), (end, 0, number, entry)]
    living: list[tuple[int, int, int]] = []  # (offset, end of the range, buffer), sorted
    for time, begins, number, entry in sorted(changes):
        if not begins:
            del living[bisect_left(living, entry)]
            continue
        place = bisect_left(living, entry)
        for low, high, other in living[max(0, place - 1) : place + 1]:
            if low < entry[1] and entry[0] < high:
                text = f"{low}..{high - 1} and {entry[0]}..{entry[1] - 1}"
                yield Flaw("overlap", number, other, time, text)
        insort(living, entry)


def apart(groups: Sequence[Sequence[int]], sizes: Sequence[int], offsets: Sequence[int]) -> Iterator[Flaw]:
    """What is read as one and does not lie side by side, each of a group directly after the one before.

    Args:
        groups: numbers of copies.
        sizes, offsets: of each copy.
    """
    for group in groups:
        for before, number in zip(group, group[1:], strict=False):
            end = offsets[before] + sizes[before]
            if offsets[number] != end:
                yield Flaw("apart", number, before, None, f"offset {offsets[number]}, expected {end}")


def moved(blocks: Sequence[Sequence[tuple[int, int]]], offsets: Sequence[int]) -> Iterator[Flaw]:
    """Buffers of a block that lie at another distance from its first one than their places do.

    Args:
        blocks: the numbers of the buffers of each, with their places.
    """
    for (first, origin), *others in blocks:
        for number, place in others:
            expected = offsets[first] + place - origin
            if offsets[number] != expected:
                yield Flaw("apart", number, first, None, f"offset {offsets[number]}, expected {expected}")


def _taken(box: Box) -> Iterator[tuple[int, int, int, int]]:
    """Start, end and range of addresses from the offset on, wherever they change."""
    times = sorted({box.start, box.end, *(time for gap in box.gaps for time in gap[:2])})
    for start, end in zip(times, times[1:], strict=False):
        ranges = [gap[2:] for gap in box.gaps if gap[0] <= start < gap[1]]
        low, high = ranges[0] if ranges else (0, box.size)
        if low < high:
            yield start, end, low, high
