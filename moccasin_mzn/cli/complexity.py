"""The command `complexity`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH, ORDER
from moccasin_mzn.cli.strict import command
from moccasin_mzn.cli.typed import added, typed


@command()
@GRAPH
@click.option("--budget", default="0.8", show_default=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Most memory: presolve and redundant constraints depend on it.")  # fmt: skip
@click.option("--max-computations", default="2", show_default=True, metavar="C|auto|FILE",
              help="How often a node may be computed, where the formulation limits it.")  # fmt: skip
@ORDER
@added(*typed("model", "like"))
@click.option("--solver", default="cp-sat", show_default=True, metavar="NAME", help="For whom the models are compiled.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def complexity(
    graph: Path, budget: str, max_computations: str, order: str, model: str | None, like: str | None, solver: str,
    as_json: bool,
) -> int:  # fmt: skip
    """Count variables and constraints of each formulation of GRAPH after flattening, beside their order of growth."""
    from moccasin_mzn.formulations.complexity import sizes
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.problem.files.schedules import parse_count, read_counts
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.report.schedules import print_sizes
    from moccasin_mzn.search.options import own_models
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    amount, most, backend = Budget.parse(budget), parse_count(max_computations), find_backend(solver)
    computation_graph = read_graph(graph)
    counts = read_counts(most, computation_graph) if isinstance(most, Path) else most
    instance = Instance.build(computation_graph, amount, order=order, max_computations=counts)
    found = sizes(instance, backend, [form for _, form in own_models([model] if model else [], like)])
    if as_json:
        for size in found:
            click.echo(json.dumps(size.as_dict()))
    else:
        print_sizes(instance, list(found), sys.stdout)
    return EXIT_FOUND
