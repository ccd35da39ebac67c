"""Tables of benchmarks, printed row by row as they come: as aligned columns, or in Markdown.

print_columns(("net", "peak", "s"), rows, left=("net",))
print_markdown(("graph", "nodes"), rows, left=("graph",))
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


def print_columns(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] = ()) -> None:
    """Print each row on stderr when it is there, and the table on stdout at the end; `left`: columns of words."""
    from moccasin_mzn.report.tables import console, plain_table, print_table  # not in what measures itself

    table = plain_table(None, tuple(headings), left)
    for row in rows:
        print(*row, sep=" | ", file=sys.stderr, flush=True)
        table.add_row(*row)
    print_table(console(sys.stdout), table)


def kept(
    found: Iterable[dict[str, Any]], cells: Callable[[dict[str, Any]], list[str]], output: Path | None
) -> Iterator[list[str]]:
    """The cells of each row, and all rows so far in a JSON file, where one is given."""
    rows = []
    for row in found:
        rows.append(row)
        if output is not None:
            output.write_text(json.dumps(rows, indent=1) + "\n")
        yield cells(row)


def print_markdown(headings: Sequence[str], rows: Iterable[Sequence[str]], left: Collection[str] | None = None) -> None:
    """Print a Markdown table, each row when it is there; `left`: columns of words, None: the first column."""
    words = headings[:1] if left is None else left
    for row in (headings, ["---" if heading in words else "---:" for heading in headings]):
        print(f"| {' | '.join(row)} |")
    for row in rows:
        print(f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |", flush=True)
