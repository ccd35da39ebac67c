"""The command `order`: an order of least peak memory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.cli.common import (
    EXIT_BAD_INPUT,
    EXIT_FOUND,
    GRAPH,
    ORDER,
    check_outputs,
    file_jobs,
    write_files,
)
from moccasin_mzn.cli.options import command


@command()
@GRAPH
@ORDER
@click.option("--time-limit", type=float, default=60.0, show_default=True, metavar="SECONDS",
              help="Seconds for the search, which ends earlier with a proof.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Random seed of the search.")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE",
              help="Write the order as a JSON list of ids, which --order reads.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr.")
def order(graph: Path, order: str, time_limit: float, seed: int, output: Path | None, as_json: bool) -> int:
    """Find an order of GRAPH of least peak memory that computes every node once, and a bound on all such orders.

    Ctrl-C ends the search and keeps the best order found.
    """
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
    from moccasin_mzn.problem.instance import chosen_order
    from moccasin_mzn.problem.judges.schedules import simulate
    from moccasin_mzn.report.orders import OrderLines, ordering_dict, print_ordering

    check_outputs({"--output": output}, {"the graph": graph, "the order": order})
    computation_graph = read_graph(graph)
    start = chosen_order(computation_graph, order)
    input_peak = simulate(computation_graph, start).peak
    lines = OrderLines(input_peak, sys.stderr)
    with stopped_by_signals():
        found = least_peak_order(computation_graph, time_limit=time_limit, seed=seed, on_progress=lines, start=start)
    lines.flush()
    document = ordering_dict(computation_graph, input_peak, found)
    all_written = write_files(file_jobs((output, lambda: json.dumps(document["order"]) + "\n")))
    if as_json:
        click.echo(json.dumps(document))
    else:
        print_ordering(computation_graph, input_peak, found, sys.stdout)
    return EXIT_FOUND if all_written else EXIT_BAD_INPUT
