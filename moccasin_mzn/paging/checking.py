"""A second judge for plans of paging: the solution checker among the models, run by MiniZinc."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from moccasin_mzn.checking import CheckError, run_checker
from moccasin_mzn.paging.arrays import encode_plan
from moccasin_mzn.paging.build import LOCAL, SLOW
from moccasin_mzn.paging.formulation import PagingFormulation
from moccasin_mzn.platforms.formulation import PlanProblem
from moccasin_mzn.platforms.judge import PlanSimulation
from moccasin_mzn.platforms.plan import Plan

_VERDICT = re.compile(r"CORRECT: cost (\d+), peak (\d+), slow (\d+)")


def check_plan(problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
    """Have a plan in any order checked, as retention intervals of free events.

    Returns:
        The verdict in one line, in the units of the problem.

    Raises:
        CheckError: it is rejected, or its cost or peaks differ from the judge's.
        InputError: MiniZinc is missing or failed.
    """
    form = PagingFormulation("general")
    data = form.data(problem)
    used = Counter(action.node for action in plan if action.memory == LOCAL)
    data = replace(data, model=replace(data.model, max_computations=tuple(used[v] for v in data.model.order)))
    solution = vars(encode_plan(problem.platform, data.model, plan, staged=False))
    total = [simulation.total(total.what) // total.scale for total in data.totals]
    verdict = run_checker(form.checker, {**form.data_items(data), **solution, "total": total})
    found = _VERDICT.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{form.checker} rejects the plan: {verdict}")
    cost = int(found[1]) * data.totals[0].scale
    peaks = tuple(int(text) * data.model.size_scale for text in found.groups()[1:])
    judged = problem.value(simulation), simulation.peaks[LOCAL], simulation.peaks[SLOW]
    if (cost, *peaks) != judged:
        raise CheckError(f"{form.checker} finds cost and peaks {(cost, *peaks)}, the simulator {judged}")
    return f"{form.checker}: CORRECT: {problem.goal.objective} {cost}, peaks {peaks[LOCAL]} and {peaks[SLOW]}"


def check_paging_solution(solution: dict) -> str:
    """Have a solution, as a solver left it, with the data of its model checked.

    Raises:
        CheckError: it is rejected.
        InputError: MiniZinc is missing or failed.
    """
    verdict = run_checker(PagingFormulation.checker, solution)
    if not _VERDICT.fullmatch(verdict):
        raise CheckError(f"{PagingFormulation.checker} rejects the solver's solution: {verdict}")
    return f"{PagingFormulation.checker}: CORRECT, the solver's own solution"
