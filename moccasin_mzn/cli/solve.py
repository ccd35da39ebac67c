"""The command `solve`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moccasin_mzn.cli.common import (
    COUNT_FIXED,
    EXIT_BAD_INPUT,
    ORDER_OR_FREE,
    file_jobs,
    json_line,
    pictures,
    stopped_by_signals,
    told,
    with_verdicts,
)
from moccasin_mzn.cli.memory_options import platform_options, require_budget, taken_out
from moccasin_mzn.cli.outputs import check_apart
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.memory_problem import asks_for_platform

if TYPE_CHECKING:
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.report.plots.picture import Picture
    from moccasin_mzn.search.result import Listener, Progress, Result

Run = Callable[..., "Result"]
"""Takes a listener; and, to solve another instance, that and its time limit in seconds."""


@command()
@click.argument("graph", required=False, type=click.Path(path_type=Path))
@click.option("--budget", metavar="0.8|80%|BYTES|1.5GiB",
              help="Most memory: a fraction of the input order's peak, or an amount.")  # fmt: skip
@click.option("--formulation", metavar="NAME", help="A model, see the command list.  [default: staged]")
@click.option("--strategy", metavar="NAME", help="Instead of a model: a rule, see the command list.")
@click.option("--solver", metavar="NAME",
              help="cp-sat, highs, scip, or any solver MiniZinc knows; A,B,C race.  [default: cp-sat]")  # fmt: skip
@click.option("--precedence", metavar="served-by|reservoir", help="Form of the precedence constraints.")
@click.option("--index", metavar="affine|triangular",
              help="Numbering of staged events: without holes, or as published.")  # fmt: skip
@click.option("--max-computations", metavar="C|auto|FILE",
              help="How often a node may be computed; a JSON file may say it for each.  [default: 2]")  # fmt: skip
@click.option("--search", metavar="on|off|only",
              help="Local search and bounds beside the model, the model alone, or none.  [default: on]")  # fmt: skip
@ORDER_OR_FREE
@COUNT_FIXED
@platform_options
@click.option("--warm-start", type=click.Path(path_type=Path), metavar="FILE", help="A schedule to start from.")
@click.option("--time-limit", type=float, metavar="SECONDS", help="Default: until proven.")
@click.option("--until-gap", metavar="1%|0.01", help="Stop at this gap between duration and bound.  [default: 0]")
@click.option("--threads", type=int, metavar="N", help="Default: one per core.")
@click.option("--seed", type=int, metavar="N", help="Random seed of all searches.")
@click.option("--two-phase/--one-phase", default=None,
              help="Seek any schedule within the budget first. Default: with cp-sat.")  # fmt: skip
@click.option("--if-none", metavar="more|hint|stop",
              help="No schedule found: try more computations per node and answer with that; try it, and a free order, "
              "and tell; or neither.  [default: more, hint if --max-computations is given]")  # fmt: skip
@click.option("--check", is_flag=True, help="Have MiniZinc's solution checkers judge the schedule as well.")
@click.option("--addresses", is_flag=True, help="Give outputs offsets in one arena, which the budget is then for.")
@click.option("--alignment", type=click.IntRange(min=1), metavar="N", help="Offsets are multiples of it.  [default: 1]")
@click.option("--buffers", type=click.Path(path_type=Path), metavar="FILE.csv",
              help="Write outputs, lifespans and offsets as minimalloc's CSV.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Write the schedule as JSON.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the answer: .png, .svg or .html.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr.")
@click.option("--json-stream", is_flag=True,
              help="Print JSON objects, one a line: every improvement as it comes, then that of --json.")  # fmt: skip
def solve(
    graph: Path | None, budget: str | None, order: str, count_fixed: bool, strategy: str | None, check: bool,
    output: Path | None, plot: Path | None, as_json: bool, json_stream: bool, addresses: bool, alignment: int | None,
    buffers: Path | None, **options: Any,
) -> int:  # fmt: skip
    """Find the shortest schedule of GRAPH within a memory budget, and prove it.

    Without GRAPH it solves an example, at 80 % of its memory if there is no --budget.

    Ctrl-C ends the search and keeps the best schedule found.
    """
    from moccasin_mzn.files import check_writable
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.compiled_searches import seconds_spent
    from moccasin_mzn.problem.arena import check_alignment
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.report.json_lines import JsonStream
    from moccasin_mzn.report.schedules import ProgressLines, print_result, print_shortfall

    begin = time.monotonic()
    platform = taken_out(options)
    if graph is None:
        graph, budget = _example(budget, platform)
    require_budget(budget, platform)
    outputs = {"--output": output, "--plot": plot, "--buffers": buffers}
    others = {"a limit of computations": options["max_computations"], "the warm start": options["warm_start"]}
    check_apart(outputs, {"the graph": graph, "the order": order, **others})
    if asks_for_platform(platform):
        from moccasin_mzn.cli.solve_plan import solve_platform

        named = {"strategy": strategy, "json_stream": json_stream or None, **options}
        named |= {"addresses": addresses or None, "alignment": alignment, "buffers": buffers}
        others = {name: value for name, value in named.items() if value is not None}
        return solve_platform(graph, budget, order, count_fixed, check, output, plot, as_json, platform, others)
    if as_json and json_stream:
        raise InputError("--json and --json-stream: give one of them")
    if output is not None:
        check_writable(output)
    if not addresses and (alignment is not None or buffers is not None):
        raise InputError(f"--{'buffers' if alignment is None else 'alignment'} goes with --addresses")
    check_alignment(alignment or 1)
    if buffers is not None:
        check_writable(buffers)
    if plot is not None:
        from moccasin_mzn.report.plots.files import check_picture_file

        check_picture_file(plot)
    given = {name: value for name, value in options.items() if value is not None}
    prepare = _of_model(given) if strategy is None else _of_strategy(strategy, given)
    checked_budget = Budget.parse(budget)
    computation_graph = read_graph(graph)
    read_seconds = time.monotonic() - begin
    problem = {"graph": computation_graph, "budget": checked_budget, "order": order, "count_fixed": count_fixed}
    instance, run = prepare(problem, begin)
    lines = ProgressLines(instance, sys.stderr, named="," in (options["solver"] or ""))
    stream = JsonStream(computation_graph, sys.stdout) if json_stream else None

    def tell(progress: Progress) -> None:
        lines(progress)
        if stream is not None:
            stream.progress(progress, needed=not any(outputs.values()))

    with stopped_by_signals():
        result = _with_addresses(instance, run, tell, alignment or 1, options) if addresses else run(tell)
    lines.flush()
    accepted = True
    if check and result.found:
        result, accepted = with_verdicts(result, lambda: _verdicts(result))
    total = time.monotonic() - begin - seconds_spent()
    result = replace(result, seconds=replace(result.seconds, read=read_seconds, total=total))
    if result.shortfall is not None and (as_json or json_stream):
        print_shortfall(result, sys.stderr)
    files = file_jobs((output, lambda: json_line(result)), (buffers, lambda: _buffers_text(result)))
    status = told(
        result, result.valid, [*files, *pictures(plot, lambda: _picture(result))], as_json, stream, print_result
    )
    return status if accepted else EXIT_BAD_INPUT


def _example(budget: str | None, platform: dict[str, Any]) -> tuple[Path, str | None]:
    """The example and its budget, where no graph is given."""
    from moccasin_mzn.graphs.example import BUDGET, example_graph, example_note

    if budget is None and "device" not in platform:
        budget = BUDGET
    click.echo(example_note(budget), err=True)
    return example_graph(), budget


def _of_model(given: dict[str, Any]) -> Callable[..., tuple[Any, Run]]:
    """What to do with the options of a model, which are checked before any file is read."""
    from moccasin_mzn.problem.files.counts import read_counts
    from moccasin_mzn.problem.files.schedules import read_schedule
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.search.options import STOP, Options, default_if_none, parse_count, parse_gap
    from moccasin_mzn.search.solve import solve_instance

    _refuse_strategy(given.get("formulation"))
    most, start = given.pop("max_computations", None), given.pop("warm_start", None)
    if "until_gap" in given:
        given["until_gap"] = parse_gap(given["until_gap"])
    options = Options(**{"if_none": default_if_none(most), **given})
    most = options.default_computations(None if most is None else parse_count(most))

    def prepare(problem: dict[str, Any], begin: float) -> tuple[Any, Run]:
        graph = problem["graph"]
        counts = read_counts(most, graph) if isinstance(most, Path) else most
        instance = Instance.build(**problem, max_computations=counts)
        sequence = None if start is None else read_schedule(start, graph).sequence

        def run(listener: Listener, other: Instance | None = None, seconds: float | None = None) -> Result:
            if other is None:
                return solve_instance(instance, options, listener, begin, sequence)
            start_from = sequence if other is instance else None
            part = replace(options, time_limit=seconds, if_none=STOP)
            return solve_instance(other, part, listener, warm_start=start_from)

        return instance, run

    return prepare


def _refuse_strategy(name: str | None) -> None:
    from moccasin_mzn.formulations import FORMULATIONS
    from moccasin_mzn.strategies import strategies

    if name is not None and name not in FORMULATIONS and name in {rule.name for rule in strategies()}:
        raise InputError(f"{name} is a strategy: --strategy {name}")


def _of_strategy(name: str, given: dict[str, Any]) -> Callable[..., tuple[Any, Run]]:
    """What to do with the options of a strategy, which has few."""
    from moccasin_mzn.checks import check_time_limit
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.search.apply_strategy import apply
    from moccasin_mzn.strategies import find_strategy

    strategy = find_strategy(name)
    time_limit = given.pop("time_limit", None)
    check_time_limit(time_limit)
    if given:
        option = "two-phase" if "two_phase" in given else next(iter(given)).replace("_", "-")
        raise InputError(f"--{option} is for models, {name} is a strategy")

    def prepare(problem: dict[str, Any], begin: float) -> tuple[Any, Run]:
        if problem["order"] == "free":
            raise InputError(f"--order free is for models, {name} is a strategy")
        instance = Instance.build(**problem, max_computations="unlimited")

        def run(listener: Listener, other: Instance | None = None, seconds: float | None = None) -> Result:
            if other is None:
                return apply(instance, strategy, time_limit, listener, begin)
            return apply(other, strategy, seconds, listener)

        return instance, run

    return prepare


def _with_addresses(
    instance: Instance, run: Run, listener: Listener, alignment: int, options: dict[str, Any]
) -> Result:
    """Run, and run again with less memory, until the outputs have offsets within the budget."""
    from moccasin_mzn.extensions.addresses.arrange import solve_with_addresses

    return solve_with_addresses(
        instance, lambda other, seconds: run(listener, other, seconds), alignment,
        time_limit=options["time_limit"], threads=options["threads"], seed=options["seed"] or 0,
    )  # fmt: skip


def _buffers_text(result: Result) -> str:
    from moccasin_mzn.problem.files.buffers import buffers_text

    return buffers_text(result.arena.buffers, result.arena.offsets)


def _verdicts(result: Result) -> list[str]:
    """Of the solution checkers, in MiniZinc."""
    from moccasin_mzn.extensions.addresses.exact import check_arena
    from moccasin_mzn.formulations.solution_checkers import check_schedule, check_solution

    verdicts = [check_schedule(result.instance, result.sequence, result.simulation)]
    if result.arena is not None and result.valid:
        verdicts.append(check_arena(result.arena, result.instance.budget, result.instance.graph.size_unit))
    if result.solution is not None:
        verdicts.append(check_solution(result.formulation.checker, result.solution))
    return verdicts


def _picture(result: Result) -> Picture:
    from moccasin_mzn.report.plots.picture import Picture

    instance = result.instance
    return Picture.of_schedule(instance.graph, result.sequence, instance.order, instance.budget)
