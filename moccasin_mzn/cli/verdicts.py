"""What the solution checkers say of an answer, in MiniZinc."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moccasin_mzn.search.result import Result


def verdicts(result: Result) -> list[str]:
    """One line of each checker that accepts the answer.

    Raises:
        InputError: one of them rejects it, or MiniZinc is missing or fails.
    """
    return _of_plan(result) if result.problem.noun == "plan" else _of_schedule(result)


def _of_schedule(result: Result) -> list[str]:
    from moccasin_mzn.extensions.addresses.allocate import check_arena
    from moccasin_mzn.formulations.solution_checkers import check_schedule, check_solution

    verdicts = [check_schedule(result.instance, result.sequence, result.simulation)]
    if result.arenas is not None and result.valid:
        verdicts.append(check_arena(result.arenas, result.instance.budget, result.instance.graph.size_unit))
    if result.solution is not None:
        verdicts.append(check_solution(result.formulation.checker, result.solution))
    return verdicts


def _of_plan(result: Result) -> list[str]:
    formulation, problem = result.formulation, result.problem
    if problem.instance.free_order:
        formulation = formulation.in_any_order()
    verdicts = formulation.checked(problem, result.plan, result.simulation, result.solution)
    if result.arenas is not None:
        from moccasin_mzn.extensions.addresses.allocate import check_arena

        unit = problem.graph.size_unit
        for place, arena in zip(problem.platform.memories, result.arenas.arenas, strict=True):
            limit = arena.size if place.budget is None else place.budget
            verdicts.append(f"{check_arena(arena, limit, unit)}, in {place.name}")
    return verdicts
