"""What a call of `solve` has to do, by what it asks for: a model, a strategy, or a plan for several memories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.memory_problem import plan_options, platform_problem

if TYPE_CHECKING:
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.problem.problem import Problem
    from moccasin_mzn.search.progress import Listener
    from moccasin_mzn.search.result import Result

Run = Callable[..., "Result"]
"""Takes a listener; and, to solve another instance, that and its time limit in seconds."""


@dataclass(frozen=True)
class Task:
    """What a call of `solve` has to do, whatever it asks for."""

    problem: Problem
    run: Callable[[Listener], Result]
    verdicts: Callable[[Result], Sequence[str]]
    """Of the solution checkers, in MiniZinc."""


Prepare = Callable[[dict[str, Any], float], Task]
"""Takes graph, budget, order and whether fixed memory counts, by name, and when the time began to run."""


def of_model(given: dict[str, Any], alignment: int | None) -> Prepare:
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

    def prepare(problem: dict[str, Any], begin: float) -> Task:
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

        return _task(instance, run, alignment, options.time_limit, options.threads, options.seed or 0)

    return prepare


def _refuse_strategy(name: str | None) -> None:
    from moccasin_mzn.strategies import strategies

    if name in {rule.name for rule in strategies()}:
        raise InputError(f"{name} is a strategy: --strategy {name}")


def of_strategy(name: str, given: dict[str, Any], alignment: int | None) -> Prepare:
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

    def prepare(problem: dict[str, Any], begin: float) -> Task:
        if problem["order"] == "free":
            raise InputError(f"--order free is for models, {name} is a strategy")
        instance = Instance.build(**problem, max_computations="unlimited")

        def run(listener: Listener, other: Instance | None = None, seconds: float | None = None) -> Result:
            if other is None:
                return apply(instance, strategy, time_limit, listener, begin)
            return apply(other, strategy, seconds, listener)

        return _task(instance, run, alignment, time_limit)

    return prepare


def _task(
    instance: Instance, run: Run, alignment: int | None, time_limit: float | None, threads: int | None = None,
    seed: int = 0,
) -> Task:  # fmt: skip
    """To find a schedule; with an alignment, to do so again with less memory until outputs have offsets within it."""
    if alignment is None:
        return Task(instance, run, _verdicts)

    def placed(listener: Listener) -> Result:
        from moccasin_mzn.extensions.addresses.arrange import solve_with_addresses

        return solve_with_addresses(
            instance, lambda other, seconds: run(listener, other, seconds), alignment,
            time_limit=time_limit, threads=threads, seed=seed,
        )  # fmt: skip

    return Task(instance, placed, _verdicts)


def _verdicts(result: Result) -> list[str]:
    """Of the solution checkers, in MiniZinc."""
    from moccasin_mzn.extensions.addresses.exact import check_arena
    from moccasin_mzn.formulations.solution_checkers import check_schedule, check_solution

    verdicts = [check_schedule(result.instance, result.sequence, result.simulation)]
    if result.arenas is not None and result.valid:
        verdicts.append(check_arena(result.arenas, result.instance.budget, result.instance.graph.size_unit))
    if result.solution is not None:
        verdicts.append(check_solution(result.formulation.checker, result.solution))
    return verdicts


def of_plan(given: dict[str, Any], platform: dict[str, Any], alignment: int | None) -> Prepare:
    """What to do with the options, which are checked before any file is read.

    Args:
        given: options of `solve` that are there and go with several memories.
        platform: of the options for several memories, those that are there.
        alignment: of offsets, if those are asked for.
    """
    from moccasin_mzn.extensions.solve import solve_on_platform
    from moccasin_mzn.problem.files.plans import read_plan

    options, start = plan_options(given), given.get("warm_start")

    def prepare(asked: dict[str, Any], begin: float) -> Task:
        problem, formulation = platform_problem(**asked, given=platform, options=given)
        plan = None if start is None else read_plan(start, asked["graph"]).plan

        def run(listener: Listener) -> Result:
            return solve_on_platform(
                problem, formulation, options, listener, begin=begin, warm_start=plan, alignment=alignment
            )

        return Task(problem, run, _plan_verdicts)

    return prepare


def _plan_verdicts(result: Result) -> list[str]:
    """Of the solution checkers, in MiniZinc."""
    formulation, problem = result.formulation, result.problem
    if problem.instance.free_order:
        formulation = formulation.in_any_order()
    verdicts = formulation.checked(problem, result.plan, result.simulation, result.solution)
    if result.arenas is not None:
        from moccasin_mzn.extensions.addresses.exact import check_arena

        unit = problem.graph.size_unit
        for place, arena in zip(problem.platform.memories, result.arenas.arenas, strict=True):
            limit = arena.size if place.budget is None else place.budget
            verdicts.append(f"{check_arena(arena, limit, unit)}, in {place.name}")
    return verdicts
