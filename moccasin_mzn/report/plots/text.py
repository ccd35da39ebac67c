"""Pictures as plain text, for terminals, logs and pages: a row for each node, a column for each position. ::

1 computed, 2 again, = kept
a 1==   a is read at 3 for the last time
b  1=
c   1
"""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from moccasin_mzn.report.plots.names import row_name
from moccasin_mzn.report.plots.picture import Bar, Panel, Picture
from moccasin_mzn.report.schedules import block, shares

_WIDEST = 100
"""Columns: of longer plans each stands for several positions, and has the last thing that begins there."""
_MOST_ROWS = 60
"""Of larger graphs only nodes that are computed again or copied are told, and of these the first."""
_NARROWEST = 40
"""Columns that every window has."""
_KEPT, _COPIED, _OFTEN = "=", "c", "+"


def render(picture: Picture) -> str:
    """The picture, in lines."""
    return "\n".join(line.rstrip() for line in _lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    columns = min(len(picture.plan), _WIDEST)
    numbers = _numbers(picture.bars)
    for text in (picture.title, picture.subtitle):
        yield from textwrap.wrap(text, max(_NARROWEST, columns))
    copied = f", {_COPIED} copied" if picture.copies else ""
    yield f"1 computed, 2 again, {_KEPT} kept{copied}"
    for panel in picture.panels:
        yield ""
        if panel.name:
            yield panel.name
        yield from _rows(picture, panel, numbers, columns)


def _numbers(bars: Sequence[Bar]) -> dict[Bar, str]:
    """What each copy begins with: how often the node is computed by then, or a letter."""
    seen: Counter[int] = Counter()
    numbers = {}
    for bar in bars:
        seen[bar.node] += bar.kind != "copied"
        number = str(seen[bar.node]) if seen[bar.node] <= 9 else _OFTEN
        numbers[bar] = _COPIED if bar.kind == "copied" else number
    return numbers


def _rows(picture: Picture, panel: Panel, numbers: dict[Bar, str], columns: int) -> Iterator[str]:
    positions = len(picture.plan)
    told = panel.order if len(panel.order) <= _MOST_ROWS else panel.marked[:_MOST_ROWS]
    names = {v: row_name(picture.graph, v) for v in told}
    width = max(map(len, (*names.values(), "memory")))
    rows = {v: [" "] * columns for v in told}
    for bar in panel.bars:
        if bar.node in rows:
            first, last = ((p - 1) * columns // positions for p in (bar.start, bar.end))
            rows[bar.node][first : last + 1] = [numbers[bar], *_KEPT * (last - first)]
    for v, row in rows.items():
        yield f"{names[v]:>{width}} {''.join(row)}"
    if len(told) < len(panel.order):
        yield f"{'...':>{width}} {len(panel.order) - len(told):,} nodes more"
    memory = shares(panel.after.memory, columns)
    yield f"{'memory':>{width}} {''.join(block(amount, panel.most) for amount in memory)}"
