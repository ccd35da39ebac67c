"""A front as a table for people."""

from __future__ import annotations

from typing import TextIO

from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.formatting import count_text, memory_text
from moccasin_mzn.graphs.wording import graph_text
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table

_HEADINGS = ("budget", "% of peak", "TDI %", "bound %", "gap %", "status", "s")


def print_frontier(frontier: Frontier, out: TextIO) -> None:
    """All points by ascending budget, and what is known of the least one; * marks the Pareto front."""
    to, chosen = console(out), frontier.pareto()
    table = plain_table(graph_text(frontier.graph), _HEADINGS, left=("status",))
    for point in frontier.points:
        table.add_row(*_cells(frontier, point, point in chosen))
    print_table(to, table)
    print_lines(to, _summary(frontier))


def _cells(frontier: Frontier, point: FrontierPoint, pareto: bool) -> list[str]:
    graph = frontier.graph
    cells = [memory_text(point.budget, graph.size_unit), f"{frontier.budget_percent(point.budget):.2f}"]
    cells.append(f"{frontier.increase_percent(point.duration):.3f}" if point.duration is not None else "-")
    cells.append("-" if point.status == "infeasible" else f"{frontier.increase_percent(point.bound):.3f}")
    cells.append(f"{point.gap_percent:.3f}" if point.found else "-")
    return [*cells, f"{point.status} *" if pareto else point.status, f"{point.seconds:.1f}"]


def _summary(frontier: Frontier) -> list[str]:
    graph = frontier.graph

    def amount(budget: int) -> str:
        return f"{memory_text(budget, graph.size_unit)} ({frontier.budget_percent(budget):.2f} % of the peak)"

    lines = [f"budgets are those of {frontier.swept}"] if frontier.swept else []
    lines += [f"proven: no schedule fits less than {amount(frontier.least_bound)}"]
    if frontier.least_found is not None:
        lines.append(f"least peak of a schedule found: {amount(frontier.least_found)}")
    if frontier.fixed:
        lines.append(f"budgets are what fixed memory of {memory_text(frontier.fixed, graph.size_unit)} leaves")
    lines.append(
        f"{frontier.proven} of {count_text(len(frontier.points), 'point')} proven; * not dominated by another point"
    )
    if frontier.scope:
        lines.append(f"proofs are about schedules {frontier.scope}".rstrip(","))
    if frontier.interrupted:
        lines.append("stopped by the user")
    return [*lines, f"seconds: {frontier.seconds:.2f}"]
