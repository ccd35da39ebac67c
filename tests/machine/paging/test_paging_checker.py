"""The solution checker of paging: it accepts what solvers find and names what is wrong with damaged solutions."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import pytest
from paging_cases import best, draw_problem
from platform_support import PLAN, A, B, C, D, compute, platform, read, write

from moccasin_mzn.formulations.checkers import CheckError, run_checker
from moccasin_mzn.machine.paging.data import encode_plan
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

WHERE = platform(12, 8)
PROBLEM = PlanProblem(Instance.build(WHERE.graph, 12), WHERE, Goal(max_traffic=16))
FORM = PagingFormulation(staged=False)
DATA = FORM.data(PROBLEM)
SOLUTION = {**vars(encode_plan(WHERE, DATA.model, PLAN, staged=False)), "total": [120, 16]}
"""Intervals of a, a, b, b, c, c, d: events 1, 4, 2, 6, 3, 7, 5."""


def verdict(**changed) -> str:
    return run_checker(FORM.checker, {**FORM.data_items(DATA), **SOLUTION, **changed})


def with_value(array: str, interval: int, value) -> dict:
    values = list(SOLUTION[array])
    values[interval - 1] = value
    return {array: values}


@pytest.mark.full
def test_paging_checker_accepts_a_solution_by_hand():
    assert SOLUTION["start"] == (1, 4, 2, 6, 3, 7, 5)
    assert verdict() == "CORRECT: cost 120, peak 12, slow 8"


DAMAGED = [
    (with_value("end", 1, 4), "node 1 is read back at event 4, but written after event 4"),
    (with_value("end", 1, 1), "node 2 at event 2 reads node 1, which is not held"),
    ({"slow_capacity": 7}, "slow memory 8 at moment 8 is over 7"),
    ({"total": [119, 16]}, "total 1 is 119, the actions take 120"),
]
MORE_DAMAGED = [
    (with_value("active", 5, False), "node 3 is never computed"),
    (with_value("end", 1, 3), "memory 14 at moment 6 is over 12"),
    (with_value("start", 2, 3), "two intervals start at event 3"),
    (with_value("paged", 7, True), "node 4 is never computed"),
    (with_value("end", 3, 1), "the interval of node 2 from event 2 ends before, at 1"),
    (with_value("end", 1, 5), "node 1 comes again at event 4, but its interval from event 1 is held until 5"),
    (with_value("end", 2, 4), "node 4 at event 5 reads node 1, which is not held"),
    (with_value("paged", 2, False), "total 1 is 120, the actions take 11"),
    ({"budget": 11}, "memory 12 at moment 4 is over 11"),
    ({"pageable": [False] * 4}, "node 1 is read back, but cannot be"),
    ({"cost_limit": [1000, 15]}, "total 2 16 is over the limit 15"),
]


@pytest.mark.full
@pytest.mark.parametrize(
    ("changed", "complaint"),
    [*DAMAGED[:2], *(pytest.param(*row, marks=pytest.mark.slow) for row in (*DAMAGED[2:], *MORE_DAMAGED))],
)
def test_paging_checker_rejects_damaged_solutions(changed, complaint):
    assert verdict(**changed) == f"INCORRECT: {complaint}"


@pytest.mark.parametrize("workspaces", [False, True])
@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(17, 60))])
def test_plans_in_any_order_are_checked(seed, workspaces):
    problem = draw_problem(seed, workspaces=workspaces)
    found = best(problem, "general")
    if found is None:
        return
    plan = found.plan
    line = FORM.check_plan(problem, plan, judge_plan(problem.platform, plan, problem.goal))
    value = problem.value(judge_plan(problem.platform, plan))
    assert re.fullmatch(rf"paging.mzc.mzn: CORRECT: \w+ {value}, peaks \d+ and \d+", line)


@pytest.mark.full
def test_paging_checker_rejects_writes_without_an_interval():
    """D is written and never read back; A is written from its first copy, although a second one is there before b."""
    plan = (compute(A), write(A), compute(A), compute(B), compute(C), read(A), compute(D), write(D))
    simulation = judge_plan(WHERE, plan)
    assert simulation.feasible
    assert simulation.duration == 1 + 10 + 1 + 2 + 3 + 100 + 4 + 40
    line = FORM.check_plan(replace(PROBLEM, goal=Goal()), plan, simulation)
    assert line == "paging.mzc.mzn: CORRECT: duration 121, peaks 12 and 8"


def test_other_figures_than_the_judge_has_are_an_error():
    with pytest.raises(CheckError, match="rejects the plan: INCORRECT: total 1 is 10, the actions take 120"):
        FORM.check_plan(PROBLEM, PLAN, judge_plan(platform(), tuple(map(compute, range(4)))))
