"""Pictures as files, whose suffix gives the form, and as plain text."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from moccasin_mzn.base.errors import InputError, require
from moccasin_mzn.base.files import check_writable, replace_file
from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
from moccasin_mzn.report.plots.memory_picture import MemoryPicture
from moccasin_mzn.report.plots.picture import Bar, Panel, Picture, row_name
from moccasin_mzn.report.schedules import block, shares

Drawable: TypeAlias = Picture | FrontierPicture | MemoryPicture
_LIBRARIES = {".png": "matplotlib", ".svg": "matplotlib", ".pdf": "matplotlib", ".html": "plotly"}


def check_picture_file(path: str | PathLike[str]) -> None:
    """Refuse now what `write_picture` would refuse after a long search.

    Raises:
        InputError: a suffix that is not .png, .svg, .pdf or .html; its drawing library is not installed; no file can be
            written there.
    """
    library = _LIBRARIES.get(_suffix(path))
    if library is None:
        raise InputError(f"{path}: expected a name that ends in {', '.join(list(_LIBRARIES)[:-1])} or .html")
    require("plot", library)
    check_writable(path)


def write_picture(path: str | PathLike[str], picture: Drawable) -> None:
    """Draw `picture` in the form that the suffix of `path` names; the file has its old content or all of the new.

    Raises:
        InputError: what `check_picture_file` raises; the file cannot be written and is then as it was.
    """
    check_picture_file(path)
    form = _suffix(path).removeprefix(".")
    if form == "html":
        return replace_file(path, page_of(picture))
    from moccasin_mzn.report.plots import static

    if isinstance(picture, FrontierPicture):
        return replace_file(path, static.render_frontier(picture, form))
    if isinstance(picture, MemoryPicture):
        from moccasin_mzn.report.plots import static_memory

        return replace_file(path, static_memory.render_memory(picture, form))
    replace_file(path, static.render(picture, form))


def page_of(picture: Drawable) -> str:
    """Return the interactive picture, as an HTML page of its own.

    Raises:
        InputError: the drawing library is not installed.
    """
    require("plot", "plotly")
    from moccasin_mzn.report.plots import interactive, interactive_frontier, interactive_memory

    if isinstance(picture, FrontierPicture):
        return interactive_frontier.render_frontier(picture)
    if isinstance(picture, MemoryPicture):
        return interactive_memory.render_memory(picture)
    return interactive.render(picture)


def _suffix(path: str | PathLike[str]) -> str:
    return Path(path).suffix.lower()


# --- Plain text, for terminals, logs and pages: a row for each node, a column for each position ---------------

# 1 computed, 2 recomputed, = kept
# a 1==   a is read at 3 for the last time
# b  1=
# c   1


_WIDEST = 100
"""The most columns; of longer plans a column stands for several positions, and shows the last that begins there."""
_MOST_ROWS = 60
"""The most rows; of larger graphs only nodes that are recomputed or copied are shown, and of these the first."""
_NARROWEST = 40
"""The least width of lines of text, in columns, which every window has."""
_KEPT, _COPIED, _OFTEN = "=", "c", "+"


def render_text(picture: Picture) -> str:
    """Return the picture as text."""
    return "\n".join(line.rstrip() for line in _lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    columns = min(len(picture.plan), _WIDEST)
    numbers = _numbers(picture.bars)
    for text in (picture.title, picture.subtitle):
        yield from textwrap.wrap(text, max(_NARROWEST, columns))
    copied = f", {_COPIED} copied" if picture.copies else ""
    yield f"1 computed, 2 recomputed, {_KEPT} kept{copied}"
    for panel in picture.panels:
        yield ""
        if panel.name:
            yield panel.name
        yield from _rows(picture, panel, numbers, columns)


def _numbers(bars: Sequence[Bar]) -> dict[Bar, str]:
    """Return the character that begins each copy: how often the node is computed by then, or a letter."""
    seen: Counter[int] = Counter()
    numbers = {}
    for bar in bars:
        seen[bar.node] += bar.kind != "copied"
        number = str(seen[bar.node]) if seen[bar.node] <= 9 else _OFTEN
        numbers[bar] = _COPIED if bar.kind == "copied" else number
    return numbers


def _rows(picture: Picture, panel: Panel, numbers: dict[Bar, str], columns: int) -> Iterator[str]:
    positions = len(picture.plan)
    nodes = panel.order if len(panel.order) <= _MOST_ROWS else panel.marked[:_MOST_ROWS]
    names = {v: row_name(picture.graph, v) for v in nodes}
    width = max(map(len, (*names.values(), "memory")))
    rows = {v: [" "] * columns for v in nodes}
    for bar in panel.bars:
        if bar.node in rows:
            first, last = ((p - 1) * columns // positions for p in (bar.start, bar.end))
            rows[bar.node][first : last + 1] = [numbers[bar], *_KEPT * (last - first)]
    for v, row in rows.items():
        yield f"{names[v]:>{width}} {''.join(row)}"
    if len(nodes) < len(panel.order):
        yield f"{'...':>{width}} {len(panel.order) - len(nodes):,} nodes more"
    memory = shares(panel.after.memory, columns)
    yield f"{'memory':>{width}} {''.join(block(amount, panel.most) for amount in memory)}"
