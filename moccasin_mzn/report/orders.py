"""Output of a search for an order of least peak: lines while it runs, a table or JSON at its end."""

from __future__ import annotations

from typing import TextIO

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import graph_text
from moccasin_mzn.heuristics.orders.least_peak import Ordering, OrderProgress
from moccasin_mzn.report.tables import Lines, console, plain_table, print_lines, print_table

_AT_ONCE = 10
"""The number of first lines that are printed at once."""


class OrderLines(Lines):
    """Prints a line for improvements of the order or the bound: the first ten, then a few per second."""

    def __init__(self, input_peak: int, out: TextIO) -> None:
        """`input_peak` is 100 %."""
        super().__init__(out)
        self._input_peak, self._count = input_peak, 0

    def __call__(self, progress: OrderProgress) -> None:
        """Print the line, or delay it if one was printed just before."""
        self._count += 1
        peak, bound = (percent_text(amount, self._input_peak) for amount in (progress.peak, progress.bound))
        text = f"peak {peak} of the input order's  bound {bound}  {progress.source}"
        self._print(progress.seconds, text, at_once=self._count <= _AT_ONCE)


def percent_text(amount: int, whole: int) -> str:
    """Format `amount` in percent of `whole`."""
    return f"{100 * amount / whole:.3f} %" if whole else "-"


def print_ordering(graph: ComputationGraph, input_peak: int, found: Ordering, out: TextIO) -> None:
    """Print a table of the input order and the order found."""
    table = plain_table(graph_text(graph), ("", "input order", "least-peak order"), left=("",))
    peaks, unit = (input_peak, found.peak), graph.size_unit
    table.add_row("peak memory", *(memory_text(peak, unit) for peak in peaks))
    table.add_row("of the input order's", *(percent_text(peak, input_peak) for peak in peaks))
    table.add_row("bound", "", memory_text(found.bound, unit))
    table.add_row("of the input order's", "", percent_text(found.bound, input_peak))
    table.add_row("gap", "", f"{found.gap_percent:.3f} %")
    to = console(out)
    print_table(to, table)
    what = {
        "optimal": "no order that computes every node once has a smaller peak",
        "feasible": "an order of smaller peak is possible, but not below the bound",
    }[found.status]
    by = "the input order, which nothing improved" if found.source == "start" else found.source
    proof = f"order by {by}; bound by {found.bound_source}; seconds: {found.seconds:.2f}"
    print_lines(to, (f"{found.status}: {what}", proof))


def ordering_dict(graph: ComputationGraph, input_peak: int, found: Ordering) -> JsonObject:
    """Return all figures and the order, as ids, for JSON."""
    return {
        "graph": graph.name,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "input_peak": input_peak,
        "peak": found.peak,
        "bound": found.bound,
        "gap_percent": found.gap_percent,
        "status": found.status,
        "seconds": found.seconds,
        "source": found.source,
        "bound_source": found.bound_source,
        "order": [graph.nodes[v] for v in found.order],
        **({"labels": [graph.labels[v] for v in found.order]} if graph.labels else {}),
    }
