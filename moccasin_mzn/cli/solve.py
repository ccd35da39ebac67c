"""The command `solve`, and the verdicts of MiniZinc's solution checkers on its answer."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import TYPE_CHECKING

import click
from cloup import option, option_group

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.base.option import flag
from moccasin_mzn.cli.common import (
    BUDGET_OR_LEAST,
    COUNT_FIXED,
    EXIT_BAD_INPUT,
    IN_PLACE,
    MAX_COMPUTATIONS,
    ORDER_OR_FREE,
    ZERO_COPY_CONCAT,
    Job,
    check_outputs,
    file_jobs,
    graph_there,
    json_line,
    pictures,
    progress_lines,
    with_checks,
    write_answer,
    write_files,
)
from moccasin_mzn.cli.options import OptionValue, OptionValues, command, grouped, named_options, problem_options
from moccasin_mzn.machine.memories import MemoryOptions
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import own_options

if TYPE_CHECKING:
    from moccasin_mzn.api.json_lines import JsonStream
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.problem.arena import Arena
    from moccasin_mzn.problem.problem import Problem
    from moccasin_mzn.report.plots.picture import Picture
    from moccasin_mzn.search.result import Result


def checker_lines(result: Result) -> list[str]:
    """Return one line of each checker that accepts the answer.

    Raises:
        InputError: a checker rejects the answer, or MiniZinc is missing or fails.
    """
    from moccasin_mzn.machine.addresses.allocate import check_arena

    problem, arenas = result.problem, result.arenas if result.valid else None
    lines = _verdicts(problem, result, arenas)
    if arenas is not None:
        for arena, limit, where in problem.arenas_with_limits(arenas):
            lines.append(check_arena(arena, limit, problem.graph.size_unit) + where)
    return lines


@singledispatch
def _verdicts(problem: Problem, result: Result, arenas: Arena | None) -> list[str]:
    """Return the verdicts on a schedule, with its places where the checker knows them, and on the model's solution."""
    from moccasin_mzn.formulations.checkers import check_solution
    from moccasin_mzn.formulations.solution_checkers import check_schedule
    from moccasin_mzn.machine.addresses.joint import check_placed, is_checked

    solution, form = result.solution, result.formulation
    if arenas is not None and is_checked(problem.graph, result.sequence):
        lines = [check_placed(result.instance, result.sequence, result.simulation, arenas)]
    else:
        lines = [check_schedule(result.instance, result.sequence, result.simulation)]
    return lines if solution is None or form is None else [*lines, check_solution(form.checker, solution)]


@_verdicts.register(PlanProblem)
def _verdicts_on_plan(problem: PlanProblem, result: Result, arenas: object) -> list[str]:
    from moccasin_mzn.formulations.searched import PlanFormulation

    form = result.formulation
    assert isinstance(form, PlanFormulation)  # strategies make no plans
    form = form.in_any_order() if problem.instance.free_order else form
    return form.checked(problem, result.plan, result.simulation, result.solution)


# --- solve ----------------------------------------------------------------------------------------------------


@command()
@click.argument("graph", required=False, type=click.Path(path_type=Path), callback=graph_there)
@option_group(
    "Problem",
    BUDGET_OR_LEAST,
    MAX_COMPUTATIONS,
    ORDER_OR_FREE,
    COUNT_FIXED,
    IN_PLACE,
    ZERO_COPY_CONCAT,
    *problem_options("tile"),
)  # fmt: skip
@option_group(
    "Search",
    *named_options("solver", "time_limit", "until_gap", "iterations", "threads", "seed"),
    *problem_options("warm_start"),
    *named_options("search", "if_none"),
)
@option_group(
    "Output",
    option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write the schedule as JSON."),
    option("--tiled", type=click.Path(path_type=Path), metavar="FILE",
           help="Write the graph of the parts, which the schedule is for; goes with --tile."),
    *problem_options("certificate"),
    option("--plot", type=click.Path(path_type=Path), metavar="FILE",
           help="Draw the schedule: .png, .svg, .pdf or .html."),
    option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout; progress goes to stderr."),
    option("--json-stream", is_flag=True,
           help="Print one JSON object a line: each improvement as it is found, at the end the object of --json."),
    option("--check", is_flag=True, help="Also have solution checkers in MiniZinc judge the schedule."),
)  # fmt: skip
@option_group(
    "Model",
    *named_options("formulation"),
    *problem_options("strategy"),
    *named_options(*own_options(), "like", "two_phase"),
)
@option_group(
    "Addresses",
    *problem_options("addresses"),
    *problem_options("alignment", type=click.IntRange(min=1)),
    option("--buffers", type=click.Path(path_type=Path), metavar="FILE.csv",
           help="Write outputs, lifespans and offsets in the CSV format of minimalloc."),
)  # fmt: skip
@grouped(MemoryOptions)
def solve(
    graph: Path | None, check: bool, output: Path | None, plot: Path | None, as_json: bool, json_stream: bool,
    buffers: Path | None, tiled: Path | None, **options: OptionValue,
) -> int:  # fmt: skip
    """Find the shortest schedule of GRAPH within a memory budget, and prove it.

    Without GRAPH, an example that comes with the package is solved, within 80 % of its peak memory if there is no
    --budget.

    Ctrl-C ends the search and keeps the best schedule found.
    """
    from moccasin_mzn.api.json_lines import JsonStream
    from moccasin_mzn.api.question import Question
    from moccasin_mzn.api.solve import answer
    from moccasin_mzn.base.arguments import check_certificate_file
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.compiled_searches import seconds_spent
    from moccasin_mzn.search.call import Call

    begin = time.monotonic()
    several = MemoryOptions.taken_from(options)
    if graph is None:
        graph, options["budget"] = _example(options["budget"], several)
    if options["budget"] is None and (several is None or not several.own_budgets):
        raise click.MissingParameter(ctx=click.get_current_context(), param_hint="'--budget'", param_type="option")
    certificate: Path | None = options["certificate"]
    outputs = {
        "--output": output, "--plot": plot, "--buffers": buffers, "--certificate": certificate, "--tiled": tiled
    }  # fmt: skip
    _check_files(outputs, {"the graph": graph, "the order": options["order"]}, options)
    if several is not None and buffers is not None:
        several.refuse_others(["buffers"])
    if tiled is not None and options["tile"] is None:
        raise InputError("--tiled goes with --tile")
    _check_answer(outputs, as_json and json_stream, options["addresses"])
    question = Question.of(options, memories=several, spelled=flag)
    check_certificate_file(certificate, graph)
    computation_graph = read_graph(graph)
    read_seconds = time.monotonic() - begin
    request = question.request(computation_graph, partial(click.echo, err=True))
    stream = JsonStream(request.problem, sys.stdout) if json_stream else None
    written = None if stream is None else partial(stream.progress, needed=not any(outputs.values()))
    with progress_lines(request, written) as lines:
        result = answer(request, Call(lines, begin=begin))
    accepted = True
    if check and result.found:
        result, accepted = with_checks(result, lambda: checker_lines(result))
    total = time.monotonic() - begin - seconds_spent()
    result = replace(result, seconds=replace(result.seconds, read=read_seconds, total=total))
    status = _write(result, outputs, as_json, stream, options["time_limit"], computation_graph)
    return status if accepted else EXIT_BAD_INPUT


def _write(
    result: Result, outputs: dict[str, Path | None], as_json: bool, stream: JsonStream | None,
    time_limit: float | None, graph: ComputationGraph,
) -> int:  # fmt: skip
    """Write the files of a result, print it, and return the exit status; `time_limit` is for the certificate of the
    graph that was read."""
    from moccasin_mzn.cli.found_schedules import offer
    from moccasin_mzn.graphs.formats.node_link import graph_text
    from moccasin_mzn.report.schedules import print_result, print_shortfall

    offered = offer(result)
    if result.shortfall is not None and (as_json or stream is not None):
        print_shortfall(result, sys.stderr, offered)
    files = file_jobs(
        (outputs["--output"], lambda: json_line(result)), (outputs["--buffers"], lambda: _buffers_text(result)),
        (outputs["--tiled"], lambda: graph_text(result.problem.graph)),
    )  # fmt: skip
    files += pictures(outputs["--plot"], lambda: _picture(result))
    all_written = write_files(files if result.valid else ())  # before the proof, which takes its time
    proof = _certificate(result, outputs["--certificate"], time_limit, graph)
    all_written &= write_files(proof)  # of an answer, and of there being none
    status = write_answer(
        result, result.valid, (), as_json, stream, lambda found, out: print_result(found, out, offered)
    )
    return status if all_written else EXIT_BAD_INPUT


def _check_files(outputs: dict[str, Path | None], inputs: dict[str, object], given: OptionValues) -> None:
    """Refuse outputs that cannot be written or would overwrite an input."""
    names = {"a limit of computations": "max_computations", "the warm start": "warm_start", "the model": "model"}
    check_outputs(outputs, {**inputs, **{what: given.get(name) for what, name in names.items()}})


def _check_answer(outputs: dict[str, Path | None], json_twice: bool, addresses: bool) -> None:
    """Refuse options about the answer that contradict each other."""
    if json_twice:
        raise InputError("--json and --json-stream: give one of them")
    if not addresses and outputs["--buffers"] is not None:
        raise InputError("--buffers goes with --addresses")


def _example(budget: str | None, several: MemoryOptions | None) -> tuple[Path, str | None]:
    """Return the example and its budget, where no graph is given."""
    from moccasin_mzn.graphs.provenance import BUDGET, example_graph, example_note

    if budget is None and (several is None or not several.own_budgets):
        budget = BUDGET
    click.echo(example_note(budget), err=True)
    return example_graph(), budget


def _buffers_text(result: Result) -> str:
    from moccasin_mzn.problem.files.buffers import buffers_text

    return buffers_text(result.arenas.buffers, result.arenas.offsets)


def _certificate(
    result: Result, path: Path | None, time_limit: float | None, graph: ComputationGraph
) -> list[Job]:  # fmt: skip
    """Return the job that proves a bound, writes the certificate and reports what it proves; none without a path."""

    def write() -> None:
        from moccasin_mzn.base.files import replace_file
        from moccasin_mzn.bounds.certificates.document import certificate_text
        from moccasin_mzn.report.schedules import certificate_line
        from moccasin_mzn.search.certifying import certificate_of

        assert path is not None
        with stopped_by_signals():
            document = certificate_of(result, time_limit, graph)
        replace_file(path, certificate_text(document))
        click.echo(certificate_line(path, document, result.instance.graph), err=True)

    return [] if path is None else [(path, write)]


def _picture(result: Result) -> Picture:
    from moccasin_mzn.report.plots.picture import Picture

    problem = result.problem
    return Picture(problem.platform, problem.as_plan(result.answer or ()), problem.instance.order)
