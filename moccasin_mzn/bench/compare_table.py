"""The rows of a comparison as a Markdown table that grows while the contenders run."""

from __future__ import annotations

from typing import TextIO

from moccasin_mzn.bench.compare import Row
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.words import count_text, memory_text

_HEADINGS = ("contender", "status", "TDI %", "peak / budget", "gap %", "s")
_PUBLISHED = ("paper: TDI %", "peak", "s")
_WIDTHS = (34, 12, 9, 13, 7, 7, 12, 9, 7)


class ComparisonTable:
    """Prints a heading with the first row; notes of those that do not apply come below the last."""

    def __init__(self, out: TextIO, with_published: bool) -> None:
        self._out = out
        self._headings = _HEADINGS + (_PUBLISHED if with_published else ())
        self._begun = False
        self._notes: list[str] = []

    def add(self, row: Row) -> None:
        """Print a row."""
        if not self._begun:
            self._begin(row)
        result = row.result
        if result is None:
            self._notes.append(f"{row.contender.label}: {row.note}")
        cells = [row.contender.label, result.status if result else "-"]
        if result is not None and result.peak is not None:
            budget = row.instance.budget
            cells += [f"{result.tdi_percent:.3f}", f"{result.peak / budget:.3f}" if budget else "-"]
        else:
            cells += ["-", "-"]
        gap = result.gap_percent if result is not None and result.formulation is not None else None
        cells += ["-" if gap is None else f"{gap:.2f}", f"{result.seconds.total:.1f}" if result else "-"]
        self._line([*cells, *row.published])

    def end(self) -> None:
        """Print the notes."""
        for note in self._notes:
            self._out.write(f"\n{note}\n")
        self._out.flush()

    def _begin(self, row: Row) -> None:
        self._begun = True
        graph, budget = row.instance.graph, memory_text(row.instance.budget, row.instance.graph.size_unit)
        nodes, edges = count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")
        share = "" if Budget.parse(row.budget).fraction is None else f" ({row.budget})"
        title = f"{row.graph}: {nodes}, {edges}, budget {budget}{share}"
        self._out.write(f"\n{title}\n\n")
        self._line(list(self._headings))
        self._line(["-" * min(len(heading), 3) for heading in self._headings])

    def _line(self, cells: list[str]) -> None:
        padded = (cell.ljust(width) for cell, width in zip(cells[: len(self._headings)], _WIDTHS, strict=False))
        self._out.write(f"| {' | '.join(padded)} |\n")
        self._out.flush()
