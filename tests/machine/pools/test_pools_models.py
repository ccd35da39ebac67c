"""One device with several memories: bounds, search and judge against brute force, on random problems; the model is in
`test_devices_exact`."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from few import few
from machine_cases import best_of
from pools_cases import draw_pools

from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.data import machine_data
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.pools.bound import one_memory
from moccasin_mzn.machine.pools.search import PoolsSearch
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Memory, Platform
from moccasin_mzn.search.options import SearchOptions

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


def best(problem, staged):
    """The oracle's best plan and its value, which the judge confirms; None: there is none."""
    found = best_of(problem, "staged" if staged else "free")
    if found is None:
        return None
    simulation = judge_plan(problem.platform, found.plan, problem.goal)
    assert simulation.violations == () and simulation.duration == found.totals[0]
    return found.plan, found.totals[0]


@pytest.mark.parametrize("seed", few(range(100), keep=range(30)))
def test_bounds_of_pools_are_none_above_the_best_plan(seed):
    problem = draw_pools(seed)
    for staged in (True, False):
        expected = best(problem, staged)
        if expected is not None:
            assert problem.least_value() <= expected[1]
            assert MachineFormulation(staged).instant_bound(problem) <= expected[1]
            assert problem.instance.baseline  # it has one


@pytest.mark.parametrize("seed", few(range(100), keep=range(30)))
def test_a_plan_is_no_shorter_than_its_schedule_in_one_memory(seed):
    problem = draw_pools(seed)
    expected = best(problem, staged=False)
    if expected is not None:
        alone = one_memory(problem)
        simulation = judge(alone.graph, [action.node for action in expected[0]], alone.budget)
        assert simulation.feasible and simulation.duration <= expected[1]


@pytest.mark.parametrize("seed", few(few(range(60), keep=range(30), mark=pytest.mark.slow), keep=range(6)))
@pytest.mark.few(3)
def test_the_search_of_pools_finds_the_best_plan_of_a_small_graph(seed):
    """Which is no promise, but so small a graph leaves little to miss."""
    problem = draw_pools(seed)
    expected, found = best(problem, staged=True), []
    turns = iter(range(2000 if expected is None else 20_000))

    def stop():
        return next(turns, None) is None or bool(found and problem.judge(found[-1]).duration == expected[1])

    PoolsSearch(problem, seed).run(found.append, stop)
    for plan in found:
        assert problem.judge(plan).feasible
        assert MachineFormulation().out_of_scope(problem, plan) is None
    if expected is None:
        assert not found
    else:
        assert found and problem.value(problem.judge(found[-1])) == expected[1]


@needs_minizinc
@pytest.mark.parametrize("seed", few(range(20), keep=range(1)))
def test_all_searches_together_prove_the_best_plan(seed):
    problem, options = draw_pools(seed), SearchOptions(time_limit=60, threads=2)
    result = solve_problem(problem, MachineFormulation(), options)
    expected = best(problem, staged=True)
    if expected is None:
        assert result.status == "infeasible"
        return
    assert (result.status, result.value) == ("optimal", expected[1])
    assert MachineFormulation(staged=False).check_plan(problem, result.answer, result.simulation).startswith("machine")


@pytest.mark.parametrize("offset", range(-3, 4))
def test_bounds_of_pools_are_exact_for_large_costs(offset):
    """Costs for a unit of size that differ, and do not as floating-point numbers: the order of items matters."""
    sizes = [1003 + offset, 1001, 0, 0]
    graph = ComputationGraph(list("abvw"), [1] * 4, sizes, [(0, 3), (1, 3), (2, 3)])
    for least in (10**11 + 1, 10**12 + 7):
        slow = tuple(max(0, least * size - 1) for size in sizes)
        memories = (
            Memory("fast", max(sizes), (1,) * 4, accesses=(0,) * 4),
            Memory("slow", None, (1,) * 4, accesses=slow),
        )
        problem = PlanProblem(
            Instance.build(graph, "100%", max_computations=1), Platform(graph, memories, devices=(0, 0))
        )
        assert MachineFormulation().instant_bound(problem) <= best_of(problem, "staged").totals[0]


def test_the_budget_of_all_memories_together_is_no_more_than_there_is():
    """More would be of no use, and integers of some solvers end at 2**31."""
    for seed in range(20):
        problem = draw_pools(seed, memories=3)
        memories = tuple(replace(memory, budget=None) for memory in problem.platform.memories)
        data = machine_data(replace(problem, platform=replace(problem.platform, memories=memories)), staged=True)
        assert data.budget == sum(data.sizes) + max(data.workspaces, default=0)
