"""What `solve` does where there are several memories."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moccasin_mzn.cli.common import (
    EXIT_BAD_INPUT,
    file_jobs,
    json_line,
    pictures,
    stopped_by_signals,
    told,
    with_verdicts,
)
from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.memory_problem import plan_options, platform_problem, refuse_others

if TYPE_CHECKING:
    from moccasin_mzn.report.plan_lines import PlanStream
    from moccasin_mzn.report.plots.picture import Picture
    from moccasin_mzn.search.plan_record import PlanProgress
    from moccasin_mzn.search.plan_result import PlanResult

_MORE = frozenset(("warm_start", "json_stream", "addresses", "alignment"))


def solve_platform(
    graph: Path, budget: str | None, order: str, count_fixed: bool, check: bool, output: Path | None,
    plot: Path | None, as_json: bool, given: dict[str, Any], options: dict[str, Any],
) -> int:  # fmt: skip
    """Find a best plan, and tell it.

    Args:
        given: of the options for several memories, those that are there.
        options: all others of `solve` that are there; not all of them apply.
    """
    from moccasin_mzn.extensions.solve import solve_on_platform
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.heuristics.compiled_searches import seconds_spent
    from moccasin_mzn.problem.files.plans import read_plan
    from moccasin_mzn.report.plans import PlanProgressLines, print_plan_result

    begin = time.monotonic()
    _check_answer(output, plot, as_json, given, options)
    how = plan_options(options)
    computation_graph = read_graph(graph)
    read_seconds = time.monotonic() - begin
    problem, formulation = platform_problem(computation_graph, budget, order, count_fixed, given, options)
    start = options.get("warm_start")
    plan = None if start is None else read_plan(start, computation_graph).plan
    alignment = options.get("alignment", 1) if "addresses" in options else None
    stream = _stream(problem) if "json_stream" in options else None
    lines = PlanProgressLines(problem, sys.stderr)

    def tell(progress: PlanProgress) -> None:
        lines(progress)
        if stream is not None:
            stream.progress(progress, needed=output is None and plot is None)

    with stopped_by_signals():
        result = solve_on_platform(
            problem, formulation, how, tell, begin=begin, warm_start=plan, alignment=alignment
        )  # fmt: skip
    lines.flush()
    accepted = True
    if check and result.found:
        result, accepted = with_verdicts(result, lambda: _verdicts(result))
    seconds = replace(result.seconds, read=read_seconds, total=time.monotonic() - begin - seconds_spent())
    result = replace(result, seconds=seconds)
    files = [*file_jobs((output, lambda: json_line(result))), *pictures(plot, lambda: _picture(result))]
    status = told(result, result.found, files, as_json, stream, print_plan_result, "plan")
    return status if accepted else EXIT_BAD_INPUT


def _check_answer(
    output: Path | None, plot: Path | None, as_json: bool, given: dict[str, Any], options: dict[str, Any]
) -> None:
    """Refuse before the search what cannot be told after it."""
    from moccasin_mzn.files import check_writable

    refuse_others(options, given, _MORE)
    if as_json and "json_stream" in options:
        raise InputError("--json and --json-stream: give one of them")
    if "alignment" in options and "addresses" not in options:
        raise InputError("--alignment goes with --addresses")
    if output is not None:
        check_writable(output)
    if plot is not None:
        from moccasin_mzn.report.plots.files import check_picture_file

        check_picture_file(plot)


def _stream(problem: Any) -> PlanStream:
    from moccasin_mzn.report.plan_lines import PlanStream

    return PlanStream(problem, sys.stdout)


def _picture(result: PlanResult) -> Picture:
    from moccasin_mzn.report.plots.picture import Picture

    return Picture(result.problem.platform, result.plan, result.problem.instance.order)


def _verdicts(result: PlanResult) -> tuple[str, ...]:
    """Of the solution checkers, in MiniZinc."""
    formulation, problem = result.formulation, result.problem
    if problem.instance.free_order:
        formulation = formulation.in_any_order()
    verdicts = formulation.checked(problem, result.plan, result.simulation, result.solution)
    if result.arenas is not None:
        from moccasin_mzn.extensions.addresses.exact import check_arena

        unit = problem.platform.graph.size_unit
        for place, arena in zip(problem.platform.memories, result.arenas.arenas, strict=True):
            limit = arena.size if place.budget is None else place.budget
            verdicts.append(f"{check_arena(arena, limit, unit)}, in {place.name}")
    return tuple(verdicts)
