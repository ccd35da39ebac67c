"""Colours, dashes and markers: one set for each method, the same in all figures.

The colours are those of Okabe and Ito (Color Universal Design, 2008), which readers with any colour vision can tell
apart, without yellow and black, which vanish on light and dark pages. Dashes and markers tell methods apart without
colour.
"""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.bench.report.document import Mark

INK = "#1a1b1c"
"""Of text and axes; a page may replace it by its own."""
FAINT = "#c6c7c8"
"""Of grids, likewise."""
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#888888")
_MARKERS = ("o", "s", "D", "v", "P", "X", "<", ">", "p", "h", "d")
_DASHES = ((), (4, 1.5), (1.2, 1.2), (6, 1.5, 1.2, 1.5), (3, 1, 1, 1, 1, 1))

VIRTUAL_BEST = Mark(INK, (2.5, 1.2), "")
PUBLISHED = {"moccasin": Mark(INK, (), "*", True), "checkmate": Mark(INK, (), "d", True)}
"""By family of published figures: those that are drawn."""


def marks_for(methods: Sequence[str]) -> dict[str, Mark]:
    """A mark for each method, by its place; colours come again with other dashes and markers."""
    marks = {}
    for place, method in enumerate(methods):
        turn = place // len(COLORS)
        dashes = _DASHES[(place + turn) % len(_DASHES)]
        marks[method] = Mark(COLORS[place % len(COLORS)], dashes, _MARKERS[place % len(_MARKERS)])
    return marks
