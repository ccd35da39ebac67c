"""What the solution checkers, in MiniZinc, find out about an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moccasin_mzn.search.result import Result


def verdicts(result: Result) -> list[str]:
    """One line of each checker that accepts the answer.

    Raises:
        InputError: one of them rejects it, or MiniZinc is missing or fails.
    """
    from moccasin_mzn.extensions.addresses.allocate import check_arena
    from moccasin_mzn.formulations import in_any_order
    from moccasin_mzn.formulations.plan_formulation import PlanFormulation
    from moccasin_mzn.formulations.solution_checkers import check_schedule, check_solution
    from moccasin_mzn.problem.plan_problem import PlanProblem

    problem, solution = result.problem, result.solution
    if isinstance(problem, PlanProblem):
        form = in_any_order(result.formulation) if problem.instance.free_order else result.formulation
        assert isinstance(form, PlanFormulation)
        lines = form.checked(problem, result.plan, result.simulation, solution)
    else:
        lines = [check_schedule(result.instance, result.sequence, result.simulation)]
        lines += [] if solution is None else [check_solution(result.formulation.checker, solution)]
    if result.arenas is not None and result.valid:
        for arena, limit, where in problem.arenas_with_limits(result.arenas):
            lines.append(check_arena(arena, limit, problem.graph.size_unit) + where)
    return lines
