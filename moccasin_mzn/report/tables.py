"""Tables that never cut or break a number or a name: what is too wide for a terminal folds where there is prose."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TextIO

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

_UNLIMITED = 1_000_000
"""Columns of what is no terminal: a file or another program takes a line as it is."""
_BETWEEN = 3
"""Blanks between two columns."""


def console(out: TextIO) -> Console:
    """Names from files are shown as they are: nothing in them is markup."""
    width = None if out.isatty() else _UNLIMITED
    return Console(file=out, width=width, markup=False, highlight=False, emoji=False)


def plain_table(
    title: str | None, headings: Collection[str], left: Collection[str] = (), prose: Collection[str] = ()
) -> Table:
    """A table without rows.

    Args:
        left: of the headings, those of columns of words, which begin at the left; others are of numbers.
        prose: of the headings, those whose cells may be folded between two words.
    """
    columns = [
        Column(heading, justify="left" if heading in left or heading in prose else "right",
               no_wrap=heading not in prose, overflow="fold")
        for heading in headings
    ]  # fmt: skip
    return Table(*columns, title=title, box=box.SIMPLE_HEAD, pad_edge=False)


def print_lines(to: Console, lines: Iterable[str]) -> None:
    """Print lines as they are, however long."""
    for line in lines:
        to.print(line, soft_wrap=True)


def print_table(to: Console, table: Table) -> None:
    """Print a table; where the terminal is too narrow for what cannot be folded, its lines are longer than it is."""
    title, table.title = table.title, None
    if title is not None:
        to.print(title, style="table.title", soft_wrap=True)  # the table would break it at its own width
    width, least = to.width, 0
    for column in table.columns:
        column.min_width = _least_width(column)
        least += column.min_width + _BETWEEN
    to.width = max(width, least)
    to.print(table)
    to.width = width


def _least_width(column: Column) -> int:
    """Of the widest line of a column, or of its longest word if it may be folded."""
    cells = [str(column.header), *map(str, column.cells)]
    pieces = (piece for cell in cells for piece in (cell.splitlines() if column.no_wrap else cell.split()))
    return max(map(cell_len, pieces), default=0)
