"""A second judge for plans of paging: the solution checker among the models, run by MiniZinc."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from moccasin_mzn.extensions.paging.arrays import decode_plan, encode_plan
from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.extensions.paging.data import totals_of
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.formulations.solution_checkers import CheckError, run_checker
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.words import memory_text

VERDICT = re.compile(r"CORRECT: cost (\d+), peak (\d+), slow (\d+)")


def check_plan(form: PlanFormulation, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
    """Have a plan in any order checked, as retention intervals of free events, by the general form of paging.

    The intervals do not tell of writes that nothing reads back, nor of when the others take place: peaks are compared
    with those of the plan that has each write as late as can be.

    Returns:
        The verdict in one line, in the units of the problem.

    Raises:
        CheckError: it is rejected, or its cost or peaks differ from the judge's.
        InputError: MiniZinc is missing or failed.
    """
    data = form.data(problem)
    used = Counter(action.node for action in plan if action.memory == LOCAL)
    model = replace(data.model, max_computations=tuple(used[v] for v in data.model.order))
    data = replace(data, model=model, totals=totals_of(problem, model))
    intervals = encode_plan(problem.platform, model, plan, staged=False)
    latest = decode_plan(model, intervals)
    with_late_writes = judge_plan(problem.platform, latest, problem.goal)
    if len(latest) < len(plan):
        simulation = with_late_writes
    solution = vars(intervals)
    total = [simulation.total(total.what) // total.scale for total in data.totals]
    verdict = run_checker(form.checker, {**form.data_items(data), **solution, "total": total})
    found = VERDICT.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{form.checker} rejects the plan: {verdict}")
    cost = int(found[1]) * data.totals[0].scale
    peaks = tuple(int(text) * data.model.size_scale for text in found.groups()[1:])
    judged = problem.value(simulation), *with_late_writes.peaks
    if (cost, *peaks) != judged:
        raise CheckError(f"{form.checker} finds cost and peaks {(cost, *peaks)}, the simulator {judged}")
    graph, what = problem.platform.graph, problem.goal.objective
    local, slow = (memory_text(peaks[m], graph.size_unit) for m in (LOCAL, SLOW))
    return f"{form.checker}: CORRECT: {what} {total_text(graph, what, cost)}, peaks {local} and {slow}"
