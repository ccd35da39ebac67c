"""The commands `frontier` and `compare`: one graph within many budgets, and by all methods."""

from __future__ import annotations

import json
import math
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.base.option import flag
from moccasin_mzn.base.terminal import is_read
from moccasin_mzn.cli.common import (
    COUNT_FIXED,
    EXIT_BAD_INPUT,
    EXIT_FOUND,
    EXIT_NONE,
    GRAPH,
    IN_PLACE,
    MAX_COMPUTATIONS,
    ORDER_OR_FREE,
    ZERO_COPY_CONCAT,
    check_outputs,
    file_jobs,
    graphs_there,
    pictures,
    write_files,
)
from moccasin_mzn.cli.options import (
    OptionValue,
    added,
    command,
    effort,
    grouped,
    named_options,
    problem_options,
)
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.search.options import own_options

if TYPE_CHECKING:
    from moccasin_mzn.api.frontier.points import Frontier
    from moccasin_mzn.api.request import StrategyOptions
    from moccasin_mzn.report.frontiers import Shower
    from moccasin_mzn.search.options import SearchOptions


@command()
@GRAPH
@click.option("--points", type=int, default=20, show_default=True, metavar="N", help="Number of budgets, at most.")
@click.option("--budget", "budgets", multiple=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Only these budgets, in the form of `solve`; may be given several times.")  # fmt: skip
@effort("Seconds for all budgets together.  [default: 600; no limit with --iterations]")
@added(*named_options("formulation", "solver", *own_options(), "search", "iterations"))
@added(*problem_options("strategy", "addresses"), *problem_options("alignment", type=click.IntRange(min=1)))
@MAX_COMPUTATIONS
@ORDER_OR_FREE
@COUNT_FIXED
@IN_PLACE
@ZERO_COPY_CONCAT
@added(
    *problem_options(
        "tile",
        metavar="ROWS|RxC",
        help="Compute outputs in parts of this number of rows, or tiles, in any order; see `tile`.",
    )
)
@grouped(MemoryOptions)
@added(*named_options("until_gap", help="Do not improve a point whose gap is at most this.  [default: 0]"))
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE",
              help="Draw the frontier: .png, .svg, .pdf or .html.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write all points as JSON.")
@click.option("--csv", "table", type=click.Path(path_type=Path), metavar="FILE", help="Write all points as CSV.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr.")
def frontier(
    graph: Path, points: int, budgets: tuple[str, ...], time_limit: float | None, plot: Path | None,
    output: Path | None, table: Path | None, as_json: bool, **options: OptionValue,
) -> int:  # fmt: skip
    """Find the least duration of GRAPH for budgets from the least feasible one to the peak of the input order.

    Each point has a schedule and a lower bound; with --addresses budgets are sizes of the arena, and with --strategy
    the points are those of that strategy. Ctrl-C ends the sweep and keeps what is found. With --paging the
    budgets are those of the local memory. With --device or --memory they are those of the first one, which is then
    given by its name alone.
    """
    from moccasin_mzn.api.frontier.sweep import SWEEP_SECONDS, SweepPlan, sweep
    from moccasin_mzn.api.question import Question
    from moccasin_mzn.base.checks import check_time_limit
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.compiled_searches import check_address_space, ready
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.problem.features import Feature

    begin = time.monotonic()
    if time_limit is None and options["iterations"] is None:
        time_limit = SWEEP_SECONDS
    check_time_limit(time_limit)
    check_address_space()
    plan, amounts = SweepPlan(points, time_limit), [Budget.parse(budget) for budget in budgets]
    inputs = {"the graph": graph, "the order": options["order"], "a limit of computations": options["max_computations"],
              "the model": options["model"]}  # fmt: skip
    check_outputs({"--output": output, "--csv": table, "--plot": plot}, inputs)
    several = MemoryOptions.taken_from(options)
    question = Question.of(options, memories=several and several.swept(), spelled=flag,
                           as_feature=frozenset({Feature.FRONTIER}))  # fmt: skip
    how = _without_minizinc(question.options)
    with stopped_by_signals():
        variant = question.sweep(read_graph(graph), how, partial(click.echo, err=True))
        begin += ready(*variant.compiled)
        plan = SweepPlan(points, time_limit, tuple(variant.amount(amount) for amount in amounts))
        found = sweep(variant, plan, lambda line: click.echo(line, err=True), begin)
    all_written = _write(found, output, table, plot, as_json, getattr(variant, "show", None))
    return (EXIT_FOUND if found.found else EXIT_NONE) if all_written else EXIT_BAD_INPUT


def _without_minizinc(options: SearchOptions | StrategyOptions) -> SearchOptions | StrategyOptions:
    """Drop the model, with a note, if MiniZinc is missing and searches can run without it.

    Raises:
        InputError: a solver is unknown or cannot run, even if no budget should need it.
    """
    from moccasin_mzn.api.request import StrategyOptions
    from moccasin_mzn.search.counted import is_counted
    from moccasin_mzn.solvers.minizinc.drivers import NoNativeMiniZinc
    from moccasin_mzn.solvers.minizinc.solvers import OWN, check_solvers, find_backend

    if isinstance(options, StrategyOptions):
        return options
    names = options.solvers
    check_solvers(names)
    if options.search == "only" or is_counted(options):
        return options
    try:
        for name in names:
            find_backend(name)
    except NoNativeMiniZinc as error:
        if options.search == "off" or any(name.partition("@")[0] not in OWN for name in names):
            raise
        click.echo(f"note: {error}; until then points have searches and bounds, but no model", err=True)
        return replace(options, solver=names[0], search="only")
    return options


def _write(
    found: Frontier, output: Path | None, table: Path | None, plot: Path | None, as_json: bool, shower: Shower | None
) -> bool:  # fmt: skip
    """Write and print the answer; True if all files are written."""
    from moccasin_mzn.report.frontiers import csv_text, json_text, print_frontier
    from moccasin_mzn.report.plots.frontier_picture import FrontierPicture

    files = file_jobs((output, lambda: json_text(found, shower)), (table, lambda: csv_text(found, shower)))
    all_written = write_files([*files, *pictures(plot, lambda: FrontierPicture(found))])
    if as_json:
        sys.stdout.write(json_text(found, shower))
    else:
        print_frontier(found, sys.stdout)
    sys.stdout.flush()
    return all_written


def _longest(methods: int, problems: int, time_limit: float) -> str:
    """Return how long a comparison may take."""
    what = f"{count_text(methods, 'method')} x {count_text(problems, 'problem')}"
    minutes, seconds = divmod(math.ceil(methods * problems * time_limit), 60)
    parts = ((minutes // 60, "h"), (minutes % 60, "min"), (seconds if minutes < 60 else 0, "s"))
    longest = " ".join(f"{amount} {unit}" for amount, unit in parts if amount)
    return f"{what}, at most {longest} with --time-limit {time_limit:g}; --only PATTERN chooses"


# --- compare --------------------------------------------------------------------------------------------------


@command()
@click.argument("graphs", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="GRAPH...",
                callback=graphs_there)  # fmt: skip
@click.option("--budget", "budgets", multiple=True, required=True, metavar="0.8|80%|BYTES|1.5GiB",
              help="Memory budget, in the form of `solve`; may be given several times.")  # fmt: skip
@COUNT_FIXED
@click.option("--only", multiple=True, metavar="PATTERN",
              help='Only the methods that match, such as `chen-*`; may be given several times.')  # fmt: skip
@click.option("--model", "models", multiple=True, metavar="FILE.mzn",
              help="Also compare a model of your own; may be given several times.")  # fmt: skip
@added(*named_options("like"))
@effort("Seconds for each method.", time_limit=60.0)
@click.option(
    "--warm-start", is_flag=True, help="Start models that run without local search from the best schedule found so far."
)
@click.option(
    "--published", type=click.Path(path_type=Path), metavar="FILE", help="CSV of published results, to print alongside."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line on stdout.")
def compare(
    graphs: tuple[Path, ...], budgets: tuple[str, ...], count_fixed: bool, only: tuple[str, ...],
    models: tuple[str, ...], like: str | None, published: Path | None, as_json: bool, **given: OptionValue,
) -> int:  # fmt: skip
    """Run all formulations and strategies on each GRAPH and budget, and print their figures side by side."""
    from moccasin_mzn.api.compare import ComparisonTable, ContenderOptions, contenders
    from moccasin_mzn.api.compare import compare as run_all
    from moccasin_mzn.api.published import read_published
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.budget import Budget

    limits = ContenderOptions(warm=given.pop("warm_start"), **given)
    for budget in budgets:
        Budget.parse(budget)
    chosen = contenders(only, models, like)
    lines = read_published(published) if published is not None else ()
    read = {path: read_graph(path) for path in graphs}
    if not only:
        click.echo(_longest(len(chosen), len(graphs) * len(budgets), limits.time_limit or 0.0), err=True)
    with stopped_by_signals():
        for path in graphs:
            for budget in budgets:
                table = ComparisonTable(sys.stdout, with_published=bool(lines))
                for row in run_all(path.stem, read[path], budget, chosen, limits, lines, count_fixed):
                    if as_json:
                        click.echo(json.dumps(row.as_dict()))
                    else:
                        table.add(row)
                    if not is_read() or (row.result is not None and row.result.interrupted):
                        table.end()
                        return EXIT_FOUND
                table.end()
    return EXIT_FOUND
