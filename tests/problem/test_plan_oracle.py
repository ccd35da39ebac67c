"""The oracle of plans against the one of schedules, and against the judge."""

from __future__ import annotations

import oracle
import pytest
from cases import draw_case
from paging_cases import best, draw_problem
from plan_oracle import best_plan, best_staged_paging, places_of

from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Link, Memory, Platform


@pytest.mark.parametrize("seed", range(12))
def test_without_links_it_is_recomputation(seed):
    case = draw_case(seed, 5)
    graph = case.graph
    places = places_of(Platform(graph, (Memory("only", case.budget, graph.durations),)), case.max_computations)
    found = best_plan(places)
    assert (found and found.totals[0]) == oracle.best_free_order(graph, case.budget, case.max_computations)


@pytest.mark.parametrize("seed", range(12))
def test_with_links_that_do_not_pay_it_is_staged_recomputation(seed):
    case = draw_case(seed, 5)
    graph = case.graph
    dear = (10**6,) * len(graph.nodes)
    memories = (Memory("local", case.budget, graph.durations), Memory("slow", None))
    where = Platform(graph, memories, (Link(0, 1, dear, dear), Link(1, 0, dear, dear)))
    found = best_staged_paging(places_of(where, case.max_computations), graph.input_order())
    expected = oracle.best_fixed_order(graph, graph.input_order(), case.budget, case.max_computations)
    assert (found and found.totals[0] < 10**6 and found.totals[0]) == expected or expected is None


@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", [0, 3, 5, 6, 8, 17])
def test_the_judge_accepts_its_plans_at_their_cost(seed, form):
    problem = draw_problem(seed)
    found = best(problem, form)
    if found is None:
        return
    plan = tuple(Action(*action) for action in found.plan)
    simulation = judge_plan(problem.platform, plan, problem.goal)
    assert simulation.violations == ()
    assert tuple(map(simulation.total, OBJECTIVES)) == found.totals
    assert problem.out_of_scope(plan) is None
