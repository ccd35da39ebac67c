"""Running the models of several devices from tests."""

from __future__ import annotations

from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

TIME_LIMIT = 120
"""Seconds; nothing here should take a tenth of it."""


def proven(
    problem: PlanProblem, staged: bool, solver: str = "cp-sat", incumbent: Plan | None = None
) -> tuple[str, int | None]:  # fmt: skip
    """How a run ended, and its best value; every solution on the way must be a plan that the judge accepts."""
    form, values = MachineFormulation(staged), []
    data = form.data(problem)

    def judge(solution) -> None:
        plan = form.plan(data, solution)
        simulation = judge_plan(problem.platform, plan, problem.goal)
        assert simulation.violations == ()
        assert form.out_of_scope(problem, plan) is None
        assert problem.value(simulation) == form.objective(data, solution.objective)
        values.append(problem.value(simulation))

    limit = problem.value(judge_plan(problem.platform, incumbent)) if incumbent else None
    items = form.data_items(data, incumbent, limit)
    limits = Limits(TIME_LIMIT, 1 if solver == "cp-sat" else None, 0)
    outcome = run_model(
        find_backend(solver), form.file, dzn_text(items), limits, OutputListener(judge, lambda bound: None)
    )  # fmt: skip
    return outcome.status, values[-1] if values else None
