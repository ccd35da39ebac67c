"""The rows of a comparison as a Markdown table that grows while the contenders run."""

from __future__ import annotations

from typing import TextIO

from moccasin_mzn.bench.compare import Row
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.problem.budget import Budget

_WIDTHS = {"contender": 34, "status": 12}
"""Of columns with longer texts than headings."""


class ComparisonTable:
    """Prints a heading with the first row; notes of those that do not apply come below the last."""

    def __init__(self, out: TextIO, with_published: bool) -> None:
        self._out = out
        self._with_published = with_published
        self._begun = False
        self._notes: list[str] = []

    def add(self, row: Row) -> None:
        """Print a row."""
        told = self._told(row)
        if not self._begun:
            self._begin(row, [heading for heading, _ in told])
        if row.result is None:
            self._notes.append(f"{row.contender.label}: {row.note}")
        self._line(told)

    def _told(self, row: Row) -> list[tuple[str, str]]:
        result, budget = row.result, row.instance.budget
        answer = result if result is not None and result.found else None
        model = result if result is not None and result.formulation is not None else None
        told = [
            ("contender", row.contender.label),
            ("status", result.status if result else "-"),
            ("TDI %", f"{answer.tdi_percent:.3f}" if answer else "-"),
            ("peak / budget", f"{answer.peak / budget:.3f}" if answer and budget else "-"),
            ("gap %", f"{model.gap_percent:.2f}" if model and model.gap_percent is not None else "-"),
            ("s", f"{result.seconds.total:.1f}" if result else "-"),
        ]
        published = zip(("paper: TDI %", "peak", "s"), row.published, strict=True)
        return [*told, *published] if self._with_published else told

    def end(self) -> None:
        """Print the notes."""
        for note in self._notes:
            self._out.write(f"\n{note}\n")
        self._out.flush()

    def _begin(self, row: Row, headings: list[str]) -> None:
        self._begun = True
        graph, budget = row.instance.graph, memory_text(row.instance.budget, row.instance.graph.size_unit)
        nodes, edges = count_text(len(graph.nodes), "node"), count_text(len(graph.edges), "edge")
        share = "" if Budget.parse(row.budget).fraction is None else f" ({row.budget})"
        title = f"{row.graph}: {nodes}, {edges}, budget {budget}{share}"
        self._out.write(f"\n{title}\n\n")
        self._line([(heading, heading) for heading in headings])
        self._line([(heading, "-" * min(len(heading), 3)) for heading in headings])

    def _line(self, cells: list[tuple[str, str]]) -> None:
        padded = (text.ljust(_WIDTHS.get(heading, max(len(heading), 7))) for heading, text in cells)
        self._out.write(f"| {' | '.join(padded)} |\n")
        self._out.flush()
