"""The command `info`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH, ORDER
from moccasin_mzn.cli.strict import command


@command()
@GRAPH
@ORDER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def info(graph: Path, order: str, as_json: bool) -> int:
    """Tell the size of GRAPH, what its input order needs, and below which budgets nothing is feasible."""
    from moccasin_mzn.bounds.least_budget import least_budget_bound
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.orders.least_peak import peak_bound
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.report.schedules import print_info

    computation_graph = read_graph(graph)
    instance = Instance.build(computation_graph, "100%", order=order)
    order_bound = peak_bound(computation_graph, instance.order)
    if not as_json:
        print_info(instance, order, order_bound, sys.stdout)
        return EXIT_FOUND
    need = least_budget_bound(computation_graph)
    facts = {
        "graph": computation_graph.name,
        "nodes": len(computation_graph.nodes),
        "edges": len(computation_graph.edges),
        "peak": instance.baseline.peak,
        "duration": instance.baseline.duration,
        "least_budget_bound": need.memory,
        "least_budget_node": computation_graph.nodes[need.node],
        "order_peak_bound": order_bound,
    }
    click.echo(json.dumps(facts))
    return EXIT_FOUND
