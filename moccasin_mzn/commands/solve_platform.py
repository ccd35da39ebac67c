"""What `solve` does where there are several memories."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from moccasin_mzn.commands.common import EXIT_FOUND, EXIT_NONE, stopped_by_signals
from moccasin_mzn.commands.device_options import device_problem
from moccasin_mzn.commands.platform_options import goal_of, paging_costs, slow_capacity
from moccasin_mzn.errors import InputError

_TAKEN = {
    "formulation",
    "solver",
    "max_computations",
    "search",
    "warm_start",
    "time_limit",
    "until_gap",
    "threads",
    "seed",
}


def solve_platform(
    graph: Path, budget: str | None, order: str, count_fixed: bool, check: bool, output: Path | None, as_json: bool,
    given: dict[str, Any], options: dict[str, Any],
) -> int:  # fmt: skip
    """Find a best plan, and tell it.

    Args:
        given: of the options for several memories, those that are there.
        options: all others of `solve` that are there; not all of them apply.
    """
    from moccasin_mzn.platforms.documents import read_plan
    from moccasin_mzn.platforms.report import PlanProgressLines
    from moccasin_mzn.platforms.solve import solve_plan
    from moccasin_mzn.readers import read_graph
    from moccasin_mzn.readers.jsonfile import check_writable

    begin = time.monotonic()
    if output is not None:
        check_writable(output)
    for name in options:
        if name not in _TAKEN:
            raise InputError(f"--{name.replace('_', '-')} is for one memory, it does not go with --paging")
    if order == "free":
        raise InputError("--order free is for one memory; of plans, --formulation general leaves the order open")
    plan_options = _options(options)
    computation_graph = read_graph(graph)
    read_seconds = time.monotonic() - begin
    problem, formulation = _problem(computation_graph, budget, order, count_fixed, given, options)
    start = options.get("warm_start")
    plan = None if start is None else read_plan(start, computation_graph).plan
    lines = PlanProgressLines(problem, sys.stderr)
    with stopped_by_signals():
        result = solve_plan(problem, formulation, plan_options, lines, begin, plan)
    lines.flush()
    if check and result.found:
        verdicts = formulation.checked(problem, result.plan, result.simulation, result.solution)
        result = replace(result, checks=tuple(verdicts))
    seconds = replace(result.seconds, read=read_seconds, total=time.monotonic() - begin)
    return _told(replace(result, seconds=seconds), output, as_json)


def _options(options: dict[str, Any]) -> Any:
    from moccasin_mzn.options import parse_gap
    from moccasin_mzn.platforms.options import PlanOptions

    names = ("solver", "search", "time_limit", "until_gap", "threads", "seed")
    chosen = {name: options[name] for name in names if name in options}
    if "until_gap" in chosen:
        chosen["until_gap"] = parse_gap(chosen["until_gap"])
    return PlanOptions(**chosen)


def _problem(
    graph: Any, budget: str | None, order: str, count_fixed: bool, given: dict[str, Any], options: dict[str, Any]
) -> tuple[Any, Any]:
    """The `PlanProblem`, and the formulation for it."""
    from moccasin_mzn.instance import Instance
    from moccasin_mzn.options import parse_count
    from moccasin_mzn.paging.build import paging_platform
    from moccasin_mzn.paging.formulation import PagingFormulation
    from moccasin_mzn.platforms.formulation import PlanProblem
    from moccasin_mzn.readers import read_counts

    if "device" in given:
        return device_problem(graph, budget, order, count_fixed, given, options)
    costs = paging_costs(given)
    formulation = PagingFormulation(options.get("formulation", "staged"))
    most = parse_count(options["max_computations"]) if "max_computations" in options else 2
    counts = read_counts(most, graph) if isinstance(most, Path) else most
    instance = Instance.build(graph, budget, order=order, max_computations=counts, count_fixed=count_fixed)
    capacity = slow_capacity(given, instance.baseline.peak)
    platform = paging_platform(graph, max(0, instance.budget), costs, capacity)
    return PlanProblem(instance, platform, goal_of(given, instance.baseline.duration)), formulation


def _told(result: Any, output: Path | None, as_json: bool) -> int:
    """Print and write the answer; the exit status."""
    from moccasin_mzn.platforms.report import print_plan_result
    from moccasin_mzn.readers.jsonfile import replace_file

    text = json.dumps(result.as_dict()) + "\n"
    if as_json:
        sys.stdout.write(text)
    else:
        print_plan_result(result, sys.stdout)
    sys.stdout.flush()
    if output is not None and result.found:
        replace_file(output, text)
    if not result.found:
        click.echo(f"no plan: {result.reason}", err=True)
    return EXIT_FOUND if result.found else EXIT_NONE
