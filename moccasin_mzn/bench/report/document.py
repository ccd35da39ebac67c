"""A report without a format: sections of paragraphs, tables and figures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from moccasin_mzn.bench.report.statistics import Spread
from moccasin_mzn.formatting import BYTE_STEPS


@dataclass(frozen=True)
class Cell:
    """A piece of plain text in a table."""

    text: str
    strong: bool = False
    """The best of its row."""
    quiet: bool = False
    """Beside the point: published figures, nothing to tell."""
    alarm: bool = False
    """A failure."""
    left: bool = False
    """It is of a column of text; one of numbers is aligned right."""


Row = Mapping[str, Cell | str]
"""By heading; what is no `Cell` is text, aligned left."""
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
    """For anchors and labels."""
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
        """A table of rows, or of groups of rows with titles; the longest row says what columns there are."""
        groups = groups or [("", rows)]
        widest = max((row for _, some in groups for row in some), key=len)

        def cells(row: Row) -> tuple[Cell, ...]:
            told = (row.get(heading, Cell("-", quiet=True)) for heading in widest)
            return tuple(one if isinstance(one, Cell) else Cell(one, left=True) for one in told)

        left = frozenset(at for at, cell in enumerate(cells(widest)) if cell.left)
        made = tuple(Group(tuple(map(cells, some)), title) for title, some in groups)
        return cls(name, caption, tuple(widest), made, left=left)


@dataclass(frozen=True)
class Mark:
    """How a method looks in every figure."""

    color: str
    dashes: tuple[float, ...]
    """On and off in points; empty: a solid line."""
    marker: str
    published: bool = False
    """A figure of the paper: a hollow marker without a line."""


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    draw: Callable[[Axes], None]


@dataclass(frozen=True)
class Figure:
    """Panels that share a legend."""

    name: str
    """Of its files."""
    caption: str
    panels: tuple[Panel, ...]
    legend: tuple[tuple[str, Mark], ...]
    small: bool = False
    """Many panels beside each other, or few large ones?"""
    columns: int = 0
    """Of panels in its files; 0: as the page has room."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it."""

    name: str
    """For anchors."""
    title: str
    paragraphs: tuple[str, ...]
    blocks: tuple[Table | Figure, ...] = ()


@dataclass(frozen=True)
class Document:
    """The whole report."""

    title: str
    summary: tuple[str, ...]
    """What a reader in a hurry wants to know, one sentence each."""
    warnings: tuple[str, ...]
    """What makes the results doubtful."""
    sections: tuple[Section, ...]


# --- Numbers as they stand in tables and sentences ------------------------------------------------------------


def percent(value: float) -> str:
    """Three decimals; none that would be zeros from 100 on."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def seconds_text(value: float) -> str:
    """Three digits, hundredths at most."""
    if not math.isfinite(value):
        return "never"
    return ratio_text(value)


def ratio_text(value: float) -> str:
    """Three digits or more, hundredths at most."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def amount(value: float | None) -> str:
    """An integer with thousands separators; "-" for none."""
    return "-" if value is None else f"{value:,.0f}"


def spread_text(spread: Spread | None, form: Callable[[float], str] = percent) -> str:
    """The median, and the range where there is one that can be seen; "-" for none."""
    if spread is None:
        return "-"
    middle, low, high = form(spread.median), form(spread.low), form(spread.high)
    # A line may break only before the bracket.
    return middle if low == high else f"{middle} [{low}\u00a0to\u00a0{high}]"


def list_text(words: Iterable[object]) -> str:
    """Words with commas and a last "and"."""
    told = [str(word) for word in words]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else "none"


def bytes_text(value: float) -> str:
    """Bytes in binary multiples."""
    for step, name in BYTE_STEPS:
        if value >= step:
            return f"{value / step:.3g} {name}"
    return f"{value:.0f} B"
