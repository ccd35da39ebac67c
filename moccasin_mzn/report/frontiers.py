"""Frontiers as JSON, as CSV, and as a table for people."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from typing import TextIO

from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.graphs.wording import graph_text, total_text
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table

CSV_COLUMNS = (
    "budget", "budget_percent", "status", "duration", "tdi_percent", "duration_bound", "bound_percent", "gap_percent",
    "peak", "pareto", "source", "bound_source", "seconds", "value", "bound", "sequence",
)  # fmt: skip

Shower = Callable[[Json, int], JsonObject]
"""A function that makes the JSON object of a schedule and the budget it is for."""


def as_dict(frontier: Frontier, shower: Shower | None = None) -> JsonObject:
    """Return the object that `frontier --json` prints, with keys as in that of `solve --json` and node ids of the file.

    Args:
        shower: for schedules that are not sequences of positions; its object becomes part of that of the point.
    """
    graph = frontier.graph
    return {
        "graph": graph.name,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "size_unit": graph.size_unit,
        "duration_unit": graph.duration_unit,
        "baseline_peak": frontier.peak,
        "baseline_duration": frontier.baseline if frontier.objective == "duration" else None,
        "baseline": frontier.baseline,
        "fixed_memory": frontier.fixed,
        "least_bound": frontier.least_bound,
        "least_found": frontier.least_found,
        "proofs": f"no schedule {frontier.scope}".strip(),
        "swept": frontier.swept or None,
        "objective": frontier.objective,
        "interrupted": frontier.interrupted,
        "seconds": round(frontier.seconds, 3),
        "points": _points(frontier, shower or _ids(frontier)),
    }


def json_text(frontier: Frontier, shower: Shower | None = None) -> str:
    """Return `as_dict` as one line of JSON."""
    return json.dumps(as_dict(frontier, shower)) + "\n"


def csv_text(frontier: Frontier, shower: Shower | None = None) -> str:
    """Return a CSV table with a line for each point; unknown values are empty. The sequence, or with several memories
    the plan, is a JSON list."""
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for values in _points(frontier, shower or _ids(frontier)):
        sequence = values.get("plan", values["sequence"])
        writer.writerow({**values, "sequence": "" if sequence is None else json.dumps(sequence)})
    return file.getvalue()


def _ids(frontier: Frontier) -> Shower:
    nodes = frontier.graph.nodes

    def show(sequence: Sequence[int], budget: int) -> JsonObject:
        return {"sequence": [nodes[v] for v in sequence]}

    return show


def _points(frontier: Frontier, shower: Shower) -> list[JsonObject]:
    chosen = frontier.pareto()
    return [_point(frontier, point, point in chosen, shower) for point in frontier.points]


def _point(frontier: Frontier, point: FrontierPoint, pareto: bool, shower: Shower) -> JsonObject:
    bounded, of_durations = point.status != "infeasible", frontier.objective == "duration"
    found = shower(point.sequence, point.budget) if point.found else {}
    duration = point.duration if of_durations else None
    return {
        "budget": point.budget,
        "budget_percent": frontier.budget_percent(point.budget),
        "status": point.status,
        "duration": duration,
        "tdi_percent": None if duration is None else frontier.increase_percent(duration),
        "duration_bound": point.bound if bounded and of_durations else None,
        "bound_percent": frontier.increase_percent(point.bound) if bounded and frontier.in_percent else None,
        "gap_percent": point.gap_percent,
        "peak": point.peak,
        "pareto": pareto,
        "source": point.source,
        "bound_source": point.bound_source,
        "seconds": point.seconds,
        "value": point.duration,
        "bound": point.bound if bounded else None,
        "sequence": None,
        **found,
    }


# --- The table for people -------------------------------------------------------------------------------------


def _headings(frontier: Frontier) -> tuple[str, ...]:
    unit = " %" if frontier.in_percent else ""
    total = "TDI" if frontier.objective == "duration" else frontier.objective
    return "budget", "% of peak", "peak", f"{total}{unit}", f"bound{unit}", "gap %", "status", "s"


def print_frontier(frontier: Frontier, out: TextIO) -> None:
    """Print all points by ascending budget, and what is known of the least one; * marks the Pareto front."""
    to, chosen = console(out), frontier.pareto()
    table = plain_table(graph_text(frontier.graph), _headings(frontier), left=("status",))
    for point in frontier.points:
        table.add_row(*_cells(frontier, point, point in chosen))
    print_table(to, table)
    print_lines(to, _summary(frontier))


def _cells(frontier: Frontier, point: FrontierPoint, pareto: bool) -> list[str]:
    graph = frontier.graph
    cells = [memory_text(point.budget, graph.size_unit), f"{frontier.budget_percent(point.budget):.2f}"]
    cells.append("-" if point.peak is None else memory_text(point.peak, graph.size_unit))
    cells.append("-" if point.duration is None else _total_text(frontier, point.duration))
    cells.append("-" if point.status == "infeasible" else _total_text(frontier, point.bound))
    cells.append(f"{point.gap_percent:.3f}" if point.found else "-")
    return [*cells, f"{point.status} *" if pareto else point.status, f"{point.seconds:.1f}"]


def _total_text(frontier: Frontier, total: int) -> str:
    if frontier.in_percent:
        return f"{frontier.increase(total):.3f}"
    return total_text(frontier.graph, frontier.objective, total)


def _summary(frontier: Frontier) -> list[str]:
    graph = frontier.graph

    def amount(budget: int) -> str:
        return f"{memory_text(budget, graph.size_unit)} ({frontier.budget_percent(budget):.2f} % of the peak)"

    lines = [f"budgets are those of {frontier.swept}"] if frontier.swept else []
    lines += [f"proven: no schedule {frontier.scope} fits less than {amount(frontier.least_bound)}".replace("  ", " ")]
    if frontier.least_found is not None:
        lines.append(f"least peak of a schedule found: {amount(frontier.least_found)}")
        if frontier.more_may_fit:
            lines.append("with more computations per node less may do: --max-computations auto")
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
