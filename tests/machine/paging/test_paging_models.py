"""The models of paging against brute force, and what must hold between costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import oracle
import pytest
from cases import draw_case
from few import few
from paging_cases import best, draw_problem

from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.paging.data import decode_plan, encode_plan
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Goal
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.solvers.minizinc.run import Limits, OutputListener, dzn_text, run_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

GRAPHS = 200
WITH_PAGING = (5,)
"""Seeds of problems whose best plans read back; they are run by default, the others are slow."""
ALONE = SearchOptions(search="off", threads=1, seed=0, time_limit=120)
TOGETHER = SearchOptions(threads=1, seed=0, time_limit=120)


def cases(quick) -> list:
    return few(range(GRAPHS), keep=quick, mark=pytest.mark.slow)


def check(problem: PlanProblem, form: str, options: SearchOptions) -> None:
    """Compare one call of `solve_problem` with the oracle."""
    found = best(problem, form)
    expected = None if found is None else found.totals[OBJECTIVES.index(problem.goal.objective)]
    result = solve_problem(problem, PagingFormulation(form == "staged"), options)
    assert (result.status, result.value) == ("infeasible" if expected is None else "optimal", expected)
    if result.found:
        assert judge_plan(problem.platform, result.plan, problem.goal).feasible
        assert problem.out_of_scope(result.plan) is None
        assert result.bound == result.value


@pytest.mark.few(1)
@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", cases(WITH_PAGING))
def test_paging_by_cp_sat_agrees_with_brute_force(seed, form):
    check(draw_problem(seed), form, ALONE)


@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", few(range(100), keep=(4,), mark=pytest.mark.slow))
def test_paging_models_count_workspaces(seed, form):
    check(draw_problem(seed, workspaces=True), form, ALONE)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", range(20))
def test_paging_by_gecode_agrees_with_brute_force(seed, form):
    check(draw_problem(seed, most_nodes=3), form, replace(ALONE, solver="gecode"))


@pytest.mark.parametrize("seed", cases(()))
def test_paging_search_with_model_agrees_with_brute_force(seed):
    check(draw_problem(seed), "staged", TOGETHER)


def paging_problem(seed: int, cost: Fraction | None, form_nodes: int = 5) -> PlanProblem:
    case = draw_case(seed, form_nodes)
    instance = Instance.build(case.graph, case.budget, max_computations=2)
    return PlanProblem(instance, paging_platform(case.graph, case.budget, PagingCosts(cost, cost)), Goal())


@pytest.mark.few(7)
@pytest.mark.parametrize("seed", range(30))
def test_paging_oracle_respects_costs(seed):
    """Nothing: no increase wherever recomputation fits; dearer is never better; not possible: recomputation alone."""
    values = []
    for cost in (Fraction(0), Fraction(1, 4), Fraction(1), Fraction(4), None):
        found = best(paging_problem(seed, cost), "staged")
        values.append(None if found is None else found.totals[0])
    case = draw_case(seed, 5)
    plain = oracle.best_fixed_order(case.graph, case.graph.input_order(), case.budget, 2)
    assert values[-1] == plain
    if plain is not None:
        assert values[0] == case.graph.total_duration
        assert values == sorted(values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_proofs_are_monotone_in_the_cost(seed):
    results = []
    for cost in (Fraction(0), Fraction(1, 4), Fraction(1), None):
        result = solve_problem(paging_problem(seed, cost), PagingFormulation(), ALONE)
        assert result.status in ("optimal", "infeasible")
        results.append(result.value)
    if results[-1] is not None:
        assert results == sorted(results)
        assert results[0] == draw_case(seed, 5).graph.total_duration


@pytest.mark.few(5)
@pytest.mark.parametrize("form", ["staged", "general"])
@pytest.mark.parametrize("seed", [5, 8, 17, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(18, 50))])
def test_arrays_come_back_as_the_plan_they_stand_for(seed, form):
    problem = draw_problem(seed)
    problem = replace(problem, goal=replace(problem.goal, max_duration=None, max_energy=None, max_traffic=None))
    found = best(problem, form)
    if found is None:
        return
    plan = found.plan
    formulation = PagingFormulation(form == "staged")
    data = formulation.data(problem)
    n = len(problem.instance.order)  # no room is left out, or the plan might not be a solution
    open_model = replace(
        data.model,
        max_computations=problem.instance.max_computations,
        earliest_stage=(1,) * n,
        latest_stage=(n,) * n,
    )
    again = decode_plan(open_model, encode_plan(problem.platform, open_model, plan, formulation.staged))
    before, after = (judge_plan(problem.platform, of, problem.goal) for of in (plan, again))
    assert after.feasible
    assert problem.value(after) <= problem.value(before)
    assert [a for a in again if a.memory == 0] == [a for a in plan if a.memory == 0]


@pytest.mark.full
def test_scarce_slow_memory_is_kept_to():
    """A U of six nodes, in which the outputs of the first two are read again at the end."""
    graph = ComputationGraph(range(6), [5] * 6, [2] * 6, [*((v, v + 1) for v in range(5)), (0, 5), (1, 4)])
    instance = Instance.build(graph, 6)
    values = {}
    for capacity in (0, 2):
        where = paging_platform(graph, 6, PagingCosts(Fraction(1, 2), Fraction(1, 2)), capacity)
        problem = PlanProblem(instance, where)
        result = solve_problem(problem, PagingFormulation(), ALONE)
        assert result.status == "optimal"
        assert result.simulation.peaks[1] <= capacity
        values[capacity] = result.value
        assert result.value == best(problem, "staged").totals[0]
    assert values[0] > values[2]


@pytest.mark.parametrize("form", ["staged", "general"])
def test_a_plan_to_start_from_reaches_the_model(form):
    """As the only solution allowed it is one, with the best total."""
    problem, formulation = draw_problem(17), PagingFormulation(form == "staged")
    found = best(problem, form)
    data = formulation.data(problem)
    items = formulation.data_items(data, found.plan)
    fixed = "constraint active = hint_active /\\ start = hint_start /\\ end = hint_end /\\ paged = incumbent_paged;"
    model = f'include "{formulation.file}";\n{fixed}\n'
    totals = []
    listener = OutputListener(solution=lambda values: totals.append(values.objective), bound=lambda bound: None)
    assert run_model(find_backend("cp-sat"), model, dzn_text(items), Limits(60, 1), listener).status == "optimal"
    assert formulation.objective(data, totals[-1]) == found.totals[OBJECTIVES.index(problem.goal.objective)]
