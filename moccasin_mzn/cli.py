"""The command line. Exit status 0: a valid schedule; 1: none; 2: bad usage or input, told in one line."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from moccasin_mzn.errors import InputError

EXIT_FOUND, EXIT_NONE, EXIT_BAD_INPUT = 0, 1, 2

GRAPH = click.argument("graph", type=click.Path(path_type=Path))
ORDER = click.option(
    "--order", default="input", show_default=True, metavar="input|topological|FILE",
    help="Input order: the graph file's (else a topological one), a topological one, or a file of node ids.",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="moccasin_mzn", message="%(version)s")
def main() -> None:
    """Decide which tensors of a computation graph to drop and recompute, so that peak memory stays within a budget."""


@main.command()
@GRAPH
@click.option("--budget", required=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Most memory: a fraction of the input order's peak, or an amount.")  # fmt: skip
@click.option("--solver", default="cp-sat", show_default=True, help="cp-sat, or any solver MiniZinc knows.")
@click.option("--formulation", default="staged", show_default=True, metavar="staged|general",
              help="Stages of the input order, or any order.")  # fmt: skip
@click.option("--precedence", default="served-by", show_default=True, metavar="served-by|reservoir",
              help="Form of the precedence constraints.")  # fmt: skip
@click.option("--index", default="affine", show_default=True, metavar="affine|triangular",
              help="Numbering of staged events: without holes, or as published.")  # fmt: skip
@click.option("--max-computations", default="2", show_default=True, metavar="C|auto",
              help="How often a node may be computed.")  # fmt: skip
@click.option("--search", default="on", show_default=True, metavar="on|off|only",
              help="Local search and bounds beside the model, the model alone, or no model.")  # fmt: skip
@ORDER
@click.option("--time-limit", type=float, metavar="SECONDS", help="Default: until proven.")
@click.option("--until-gap", default="0", metavar="1%|0.01", help="Stop at this gap between duration and bound.")
@click.option("--threads", type=int, metavar="N", help="Default: one per core.")
@click.option("--seed", type=int, metavar="N", help="Random seed of all searches.")
@click.option("--two-phase/--one-phase", default=None,
              help="Seek any schedule within the budget first. Default: with cp-sat.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the schedule as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr.")
def solve(
    graph: Path,
    budget: str,
    order: str,
    max_computations: str,
    until_gap: str,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Find the shortest schedule of GRAPH within a memory budget, and prove it.

    Ctrl-C ends the search and keeps the best schedule found.
    """
    from moccasin_mzn.budget import Budget
    from moccasin_mzn.instance import Instance
    from moccasin_mzn.options import Options, parse_count, parse_gap
    from moccasin_mzn.readers import read_graph
    from moccasin_mzn.readers.jsonfile import check_writable, replace_file
    from moccasin_mzn.report import ProgressLines, print_result
    from moccasin_mzn.solve import solve_instance

    begin = time.monotonic()
    if output is not None:
        check_writable(output)
    checked_options = Options(until_gap=parse_gap(until_gap), **options)
    checked_budget, most = Budget.parse(budget), parse_count(max_computations)
    computation_graph = read_graph(graph)
    read_seconds = time.monotonic() - begin
    instance = Instance.build(computation_graph, checked_budget, order=order, max_computations=most)
    progress = ProgressLines(instance, sys.stderr)
    with _stopped_by_signals():
        result = solve_instance(instance, checked_options, progress, begin)
    progress.flush()
    result = replace(result, seconds=replace(result.seconds, read=read_seconds, total=time.monotonic() - begin))
    text = json.dumps(result.as_dict()) + "\n"
    if as_json:
        sys.stdout.write(text)
    else:
        print_result(result, sys.stdout)
    sys.stdout.flush()
    if output is not None and result.found:
        replace_file(output, text)
    if not result.found:
        click.echo(f"no schedule: {result.reason}", err=True)
    return EXIT_FOUND if result.found else EXIT_NONE


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Being told to end (SIGTERM, as from `timeout` or a job scheduler; SIGHUP) stops the search as Ctrl-C does."""
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.signal(getattr(signal, name), signal.default_int_handler) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@main.command()
@GRAPH
@ORDER
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def info(graph: Path, order: str, as_json: bool) -> int:
    """Tell the size of GRAPH, what its input order needs, and below which budget nothing is feasible."""
    from moccasin_mzn.bounds.least_budget import least_budget_bound
    from moccasin_mzn.instance import Instance
    from moccasin_mzn.readers import read_graph
    from moccasin_mzn.report import print_info

    computation_graph = read_graph(graph)
    instance = Instance.build(computation_graph, "100%", order=order)
    if not as_json:
        print_info(instance, order, sys.stdout)
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
    }
    click.echo(json.dumps(facts))
    return EXIT_FOUND


@main.command()
@GRAPH
@click.argument("schedule", type=click.Path(path_type=Path))
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB", help="Default: the one the schedule says it was made for.")
@ORDER
def validate(graph: Path, schedule: Path, budget: str | None, order: str) -> int:
    """Judge SCHEDULE of GRAPH, wherever it was made: exit status 0 if it is valid, else 1 and the first violation.

    SCHEDULE is a JSON list of node ids, or an object such as `solve --output` writes. --order matters only for a
    budget given as a fraction.
    """
    from moccasin_mzn.instance import Instance
    from moccasin_mzn.readers import read_graph, read_schedule
    from moccasin_mzn.simulate import simulate
    from moccasin_mzn.validate import validate_schedule

    computation_graph = read_graph(graph)
    claimed = read_schedule(schedule, computation_graph)
    amount = Instance.build(computation_graph, budget, order=order).budget if budget is not None else claimed.budget
    violations = validate_schedule(computation_graph, claimed, amount)
    if violations:
        click.echo(f"invalid: {violations[0].message}")
        if len(violations) > 1:
            click.echo(f"({len(violations) - 1} more violations follow)")
        return EXIT_NONE
    simulation = simulate(computation_graph, claimed.sequence)
    within = "no budget" if amount is None else f"budget {amount}"
    click.echo(f"valid: peak {simulation.peak}, duration {simulation.duration}, {within}")
    return EXIT_FOUND


@main.command("install-solver")
@click.option("--remove", "removing", is_flag=True, help="Undo it.")
@click.option("--folder", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Default: the folder in which MiniZinc looks for this user's solvers.")  # fmt: skip
def install_solver(removing: bool, folder: Path | None) -> int:
    """Make CP-SAT known to MiniZinc and its IDE: `minizinc --solver cp-sat model.mzn data.dzn`."""
    from moccasin_mzn.flatzinc import install

    folder = folder or install.user_solver_folder()
    try:
        if removing:
            path, was_there = install.remove(folder)
            click.echo(f"removed {path}" if was_there else f"nothing to remove: there is no {path}")
            return EXIT_FOUND
        path, action = install.install(folder)
    except install.InstallError as error:
        raise InputError(str(error)) from None
    click.echo(f"{path} was up to date" if action == "kept" else f"{action} {path}")
    rivals = install.rivals()
    if rivals:
        click.echo(f"other solvers answer to cp-sat as well ({', '.join(rivals)}), hence the full id:")
    if not install.minizinc_is_there():
        click.echo("MiniZinc is not on PATH yet; once it is:")
    name = install.solver_configuration()["id"] if rivals else "cp-sat"
    click.echo(f"minizinc --solver {name} model.mzn data.dzn    # CP-SAT of the Python environment {sys.prefix}")
    click.echo("python -m moccasin_mzn install-solver --remove    # undoes it")
    return EXIT_FOUND


def run(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit status; every refusal is one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a name that the terminal cannot show is no reason to fail
    try:
        return main.main(args=arguments, standalone_mode=False) or EXIT_FOUND
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        return EXIT_BAD_INPUT
    except click.ClickException as error:
        message = error.format_message()
    except InputError as error:
        message = str(error)
    except click.Abort:
        message = "interrupted"
    click.echo(f"error: {message}", err=True)
    return EXIT_BAD_INPUT
