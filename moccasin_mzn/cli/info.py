"""The commands `info`, `complexity` and `list`: graphs, models and methods in figures."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.cli.common import EXIT_FOUND, GRAPH, IN_PLACE, ORDER, ZERO_COPY_CONCAT, graph_read
from moccasin_mzn.cli.options import added, command, named_options

if TYPE_CHECKING:
    from moccasin_mzn.base.files import JsonObject
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.instance import Instance


@command()
@GRAPH
@ORDER
@IN_PLACE
@ZERO_COPY_CONCAT
@click.option(
    "--features",
    is_flag=True,
    help="Print features for algorithm selection, with their meanings, in place of all else.",
)
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="With --features: also those of this budget.")
@click.option("--max-computations", metavar="C|auto|FILE", help="With --features: as for `solve`.  [default: 2]")
@click.option("--csv", "as_csv", is_flag=True, help="With --features: print a line of names and a line of numbers.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def info(
    graph: Path, order: str, in_place: bool, zero_copy_concat: bool, features: bool, budget: str | None,
    max_computations: str | None, as_csv: bool, as_json: bool,
) -> int:  # fmt: skip
    """Print the size of GRAPH, the peak memory of its input order, and the least budgets that may be feasible."""
    from moccasin_mzn.heuristics.orders.least_peak import peak_bound
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.report.schedules import print_info

    if features:
        _print_features(
            graph_read(graph, in_place, zero_copy_concat), graph, order, budget, max_computations, as_csv, as_json
        )
        return EXIT_FOUND
    for name, given in (("--budget", budget), ("--max-computations", max_computations), ("--csv", as_csv)):
        if given:
            raise InputError(f"{name} is for --features")
    computation_graph = graph_read(graph, in_place, zero_copy_concat)
    instance = Instance.build(computation_graph, "100%", order=order)
    order_bound = peak_bound(computation_graph, instance.order)
    if not as_json:
        print_info(instance, order, order_bound, sys.stdout)
        return EXIT_FOUND
    click.echo(json.dumps(_facts(instance, order_bound)))
    return EXIT_FOUND


def _facts(instance: Instance, order_bound: int) -> JsonObject:
    """Return the object that `info --json` prints; `order_bound` is the least peak of any order, as proven."""
    from moccasin_mzn.bounds.least_budget import enough_budget, least_budget_bound
    from moccasin_mzn.problem.instance import Instance

    graph = instance.graph
    need = least_budget_bound(graph)
    facts = {
        "graph": graph.name,
        "nodes": len(graph.nodes),
        "edges": len(graph.edges),
        "peak": instance.baseline.peak,
        "duration": instance.baseline.duration,
        "least_budget_bound": need.memory,
        "least_budget_node": graph.nodes[need.node],
        **({"least_budget_label": graph.labels[need.node]} if graph.labels else {}),
        "enough_budget": enough_budget(graph),
        "order_peak_bound": order_bound,
    }
    if graph.workspaces is not None:
        largest = graph.largest_workspace()
        plain = Instance.build(graph.without_workspaces(), "100%", order=instance.order)
        facts |= {
            "largest_workspace": graph.workspaces[largest],
            "largest_workspace_node": graph.nodes[largest],
            **({"largest_workspace_label": graph.labels[largest]} if graph.labels else {}),
            "peak_without_workspaces": plain.baseline.peak,
        }
    if graph.in_place is not None:
        facts["may_overwrite"] = sum(map(bool, graph.in_place))
    if graph.output_of is not None:
        facts["several_outputs"] = sum(map(bool, graph.outputs_of))
    if graph.adjacent is not None:
        facts["read_as_one"] = sum(map(bool, graph.adjacent))
    if graph.computed_once:
        facts["computed_once"] = len(graph.computed_once)
    if graph.overwritable is not None:
        plain = Instance.build(graph.run_in_place(False), "100%", order=instance.order)
        facts["peak_not_in_place"] = plain.baseline.peak
    return facts


def _print_features(
    graph: ComputationGraph, path: Path, order: str, budget: str | None, most: str | None, as_csv: bool, as_json: bool
) -> None:
    import csv

    from moccasin_mzn.bench.features import STEPS, features
    from moccasin_mzn.problem.files.schedules import USUAL_COUNT, counts_of
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.report.tables import console, plain_table, print_table

    if as_csv and as_json:
        raise InputError("--csv and --json: give one of them")
    if most is not None and budget is None:
        raise InputError("--max-computations is for the features of a budget: give --budget")
    counts = USUAL_COUNT if most is None else counts_of(most, graph)
    instance = Instance.build(graph, budget or "100%", order=order, max_computations=counts)
    steps = {step: those for step, those in STEPS.items() if budget is not None or step == "graph"}
    found, _ = features(instance, steps)
    if as_json:
        click.echo(json.dumps({"graph": graph.name, "budget": instance.budget if budget else None, **found}))
    elif as_csv:
        lines = csv.writer(sys.stdout, lineterminator="\n")
        lines.writerow(["graph", "budget", *found])
        lines.writerow([graph.name or path.stem, budget or "", *found.values()])
    else:
        table = plain_table(graph.name or "graph", ("feature", "", "meaning"), left=("feature",), prose=("meaning",))
        for feature in (feature for those in steps.values() for feature in those):
            value = found[feature.name]
            table.add_row(feature.name, f"{value:,}" if isinstance(value, int) else f"{value:.4f}", feature.meaning)
        print_table(console(sys.stdout), table)


# --- complexity -----------------------------------------------------------------------------------------------


@command()
@GRAPH
@click.option("--budget", default="0.8", show_default=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Memory budget, on which presolve and redundant constraints depend.")  # fmt: skip
@click.option("--max-computations", default="2", show_default=True, metavar="C|auto|FILE",
              help="How often a node may be computed, where the formulation has such a limit.")  # fmt: skip
@ORDER
@added(*named_options("model", "like"))
@click.option("--solver", default="cp-sat", show_default=True, metavar="NAME", help="Solver to compile for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def complexity(
    graph: Path, budget: str, max_computations: str, order: str, model: str | None, like: str | None, solver: str,
    as_json: bool,
) -> int:  # fmt: skip
    """Count the variables and constraints of each formulation for GRAPH as compiled, with their asymptotic growth."""
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


# --- list -----------------------------------------------------------------------------------------------------


@command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def list_methods(as_json: bool) -> int:
    """List formulations, strategies and solvers, and what each guarantees. Solvers are listed if MiniZinc is there."""
    from moccasin_mzn.report.schedules import print_catalogue
    from moccasin_mzn.search.catalogue import entries
    from moccasin_mzn.solvers.minizinc.solvers import solver_list

    solvers, problem = [], ""
    try:
        solvers = solver_list()
    except InputError as error:
        problem = str(error)
    if as_json:
        document = {
            "methods": [asdict(entry) for entry in entries()],
            "solvers": [solver.name for solver in solvers],
            "solver_versions": [asdict(solver) for solver in solvers],
            **({"no_solvers": problem} if problem else {}),
        }
        click.echo(json.dumps(document))
    else:
        print_catalogue(entries(), solvers, sys.stdout)
        if problem:
            click.echo(f"--solver, for formulations: none; {problem}")
    return EXIT_FOUND
