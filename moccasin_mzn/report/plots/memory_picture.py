"""The contents of a picture of memory over time by what it is for, as plain numbers: nothing here draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, groupby

from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.report.plots.picture import MemoryScale

PALETTE = ("#4D4D4D", "#9A9A9A", "#CCBB44", "#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7")
"""Colours of layers from below, distinct to the colour-blind (after Okabe and Ito)."""
_COLUMNS = 1200
"""The most points in time that are drawn; of more, the worst of several is."""
_NARROWEST = 0.02
"""The least share of the width at which a module is named."""


@dataclass(frozen=True)
class Span:
    """Consecutive points in time that have something in common."""

    name: str
    start: int
    end: int
    """The point after the last."""


@dataclass(frozen=True)
class MemoryPicture:
    """Memory over time, to be drawn."""

    title: str
    layers: Mapping[str, Sequence[int]]
    """Bytes at each point in time, by what they are for, from below."""
    places: Sequence[tuple[str, str]]
    """For each point in time the phase of the step, and the module that runs; "" outside of modules."""
    limit: tuple[str, int] | None = None
    """A name and bytes: how much there is."""

    @cached_property
    def chosen(self) -> tuple[int, ...]:
        """The points in time that are drawn."""
        whole = self.totals
        step = -(-len(whole) // _COLUMNS)
        starts = range(0, len(whole), max(1, step))
        return tuple(max(range(at, min(at + step, len(whole))), key=whole.__getitem__) for at in starts)

    @cached_property
    def totals(self) -> tuple[int, ...]:
        """Bytes of all layers at each point in time."""
        return tuple(map(sum, zip(*self.layers.values(), strict=True)))

    @property
    def drawn_layers(self) -> dict[str, list[int]]:
        """The layers that have anything, at the points that are drawn."""
        kept = {name: [values[at] for at in self.chosen] for name, values in self.layers.items()}
        return {name: values for name, values in kept.items() if any(values)}

    @property
    def peak(self) -> tuple[int, int]:
        """The point that is drawn with most memory, and the bytes."""
        at = max(range(len(self.chosen)), key=lambda each: self.totals[self.chosen[each]])
        return at, self.totals[self.chosen[at]]

    @property
    def phases(self) -> list[Span]:
        """The phases of the step."""
        return _spans(self.places[at][0] for at in self.chosen)

    @property
    def modules(self) -> list[Span]:
        """The modules that run for long enough to be named."""
        least = _NARROWEST * len(self.chosen)
        spans = _spans("\n".join(self.places[at]) for at in self.chosen)
        named = [Span(span.name.partition("\n")[2], span.start, span.end) for span in spans]
        return [span for span in named if span.name and span.end - span.start >= least]

    @property
    def subtitle(self) -> str:
        """The peak, in one line."""
        where = self.places[self.chosen[self.peak[0]]]
        text = f"peak {memory_text(self.peak[1], 'byte')} in the {where[0]}"
        return f"{text}, in {where[1]}" if where[1] else text

    @cached_property
    def scale(self) -> MemoryScale:
        """The scale of the vertical axis."""
        return MemoryScale.of(max(self.totals, default=0), "byte")


def _spans(names: Iterable[str]) -> list[Span]:
    groups = [(name, len(list(each))) for name, each in groupby(names)]
    ends = list(accumulate(length for _, length in groups))
    return [Span(name, end - length, end) for (name, length), end in zip(groups, ends, strict=True)]
