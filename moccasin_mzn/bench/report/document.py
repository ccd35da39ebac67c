"""A report without a format: sections of paragraphs, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from moccasin_mzn.base.formatting import BYTE_STEPS
from moccasin_mzn.bench.report.statistics import Spread


@dataclass(frozen=True)
class Cell:
    """A piece of plain text in a table."""

    text: str
    strong: bool = False
    """True for the best of its row, set in bold."""
    quiet: bool = False
    """True for what matters less, such as published figures and missing values; set in grey."""
    alarm: bool = False
    """True for a failure, set in red."""
    left: bool = False
    """True for text, aligned left; numbers are aligned right."""


Row = Mapping[str, Cell | str]
"""The cells of a row by heading; what is no `Cell` is text, aligned left."""
Rows = Sequence[Row]


@dataclass(frozen=True)
class Group:
    """Rows that belong together."""

    rows: tuple[tuple[Cell, ...], ...]
    title: str = ""
    """A line above them; empty: none."""


@dataclass(frozen=True)
class Table:
    """Rows in groups; the first `keys` cells of a group's rows are the same and are shown once."""

    name: str
    """The name for anchors and labels."""
    caption: str
    headings: tuple[str, ...]
    groups: tuple[Group, ...]
    keys: int = 0
    left: frozenset[int] = frozenset({0})
    """Columns of text; all others are numbers, aligned right."""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.headings) for group in self.groups for row in group.rows):
            raise ValueError(f"table {self.name}: rows and headings differ in length")

    @classmethod
    def of(cls, name: str, caption: str, rows: Rows = (), groups: Sequence[tuple[str, Rows]] = ()) -> Table:
        """Make a table of rows, or of groups of rows with titles; the longest row has all columns."""
        groups = groups or [("", rows)]
        widest = max((row for _, some in groups for row in some), key=len)

        def cells(row: Row) -> tuple[Cell, ...]:
            found = (row.get(heading, Cell("-", quiet=True)) for heading in widest)
            return tuple(one if isinstance(one, Cell) else Cell(one, left=True) for one in found)

        left = frozenset(at for at, cell in enumerate(cells(widest)) if cell.left)
        made = tuple(Group(tuple(map(cells, some)), title) for title, some in groups)
        return cls(name, caption, tuple(widest), made, left=left)


@dataclass(frozen=True)
class Mark:
    """The look of a method in all figures."""

    color: str
    dashes: tuple[float, ...]
    """On and off in points; empty: a solid line."""
    marker: str
    published: bool = False
    """True for a figure of the paper: a hollow marker without a line."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """Panels that share a legend."""

    name: str
    """The name of its files."""
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, Mark], ...]
    small: bool = False
    """True for many small panels side by side, False for few large ones."""
    columns: int = 0
    """The columns of panels in its files; 0: as many as the page has room for."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    name: str
    """The name for anchors."""
    title: str
    paragraphs: tuple[str, ...]
    blocks: tuple[Table | Figure, ...] = ()


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    summary: tuple[str, ...]
    """The main results, one sentence each."""
    warnings: tuple[str, ...]
    """Reasons to doubt the results, one sentence each."""
    sections: tuple[Section, ...]


# --- Numbers as texts, for tables and sentences ---------------------------------------------------------------


def percent(value: float) -> str:
    """Format with three decimals, from 100 on with one."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def seconds_text(value: float) -> str:
    """Format seconds with three digits, hundredths at most; "never" if infinite."""
    if not math.isfinite(value):
        return "never"
    return ratio_text(value)


def ratio_text(value: float) -> str:
    """Format with three digits or more, hundredths at most."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def amount(value: float | None) -> str:
    """Format an integer with thousands separators; "-" for None."""
    return "-" if value is None else f"{value:,.0f}"


def spread_text(spread: Spread | None, form: Callable[[float], str] = percent) -> str:
    """Format the median, and the range where its ends differ in print; "-" for None."""
    if spread is None:
        return "-"
    middle, low, high = form(spread.median), form(spread.low), form(spread.high)
    # A line may break only before the bracket.
    return middle if low == high else f"{middle} [{low}\u00a0to\u00a0{high}]"


def list_text(words: Iterable[object]) -> str:
    """Join words with commas and a last "and"; "none" without any."""
    texts = [str(word) for word in words]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}" if texts else "none"


def bytes_text(value: float) -> str:
    """Format bytes in binary multiples."""
    for step, name in BYTE_STEPS:
        if value >= step:
            return f"{value / step:.3g} {name}"
    return f"{value:.0f} B"
