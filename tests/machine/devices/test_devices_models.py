"""Both models of several devices against brute force, on random problems; and special cases with known answers."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest
from cases import draw_case, least_duration
from device_cases import draw_problem
from device_runs import proven
from few import few
from machine_cases import best_of

from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn.machine.data import decode, encode, machine_data
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Goal, Link, Memory, Platform
from moccasin_mzn.search.options import SearchOptions

pytestmark = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")

TWO_MEMORIES, QUICK = 200, [12]
THREE_MEMORIES = 20
FORMS = [pytest.param(True, id="staged"), pytest.param(False, id="general")]


def seeds(count: int, quick: list[int]) -> list:
    return few(range(count), keep=quick, mark=pytest.mark.slow)


def check_against_oracle(problem: PlanProblem, staged: bool, warm: bool, solver: str = "cp-sat") -> None:
    expected = best_of(problem, "slots") if staged else best_of(problem)
    if expected is None:
        assert proven(problem, staged, solver) == ("infeasible", None)
        return
    plan = expected.plan
    simulation = judge_plan(problem.platform, plan, problem.goal)
    assert simulation.violations == ()
    assert expected.totals == (simulation.duration, simulation.energy, simulation.traffic)
    value = problem.value(simulation)
    assert proven(problem, staged, solver, plan if warm else None) == ("optimal", value)


@pytest.mark.few(1)
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", seeds(TWO_MEMORIES, QUICK))
def test_devices_models_solve_two_memories(seed, staged):
    check_against_oracle(draw_problem(seed), staged, warm=seed % 2 == 0)


@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", seeds(THREE_MEMORIES, []))
def test_devices_models_solve_three_memories(seed, staged):
    check_against_oracle(draw_problem(seed, memories=3, most_nodes=4), staged, warm=seed % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_devices_models_run_on_gecode(seed, staged):
    check_against_oracle(draw_problem(seed, most_nodes=3), staged, warm=seed % 4 == 0, solver="gecode")


@pytest.mark.parametrize("seed", seeds(300, list(range(40))))
def test_a_best_plan_is_a_solution_of_the_reduced_data(seed):
    """A warm start must not be lost; what stands for it in the model is that plan, or one without needless actions."""
    problem = draw_problem(seed, most_nodes=4)
    for staged, expected in ((True, best_of(problem, "slots")), (False, best_of(problem))):
        if expected is None:
            continue
        data = machine_data(problem, staged)
        intervals = encode(data, expected.plan)
        assert intervals is not None
        simulation = judge_plan(problem.platform, decode(data, intervals), problem.goal)
        assert simulation.violations == ()
        assert problem.value(simulation) == expected.totals[OBJECTIVES.index(problem.goal.objective)]


def two_devices(case, second: Memory, copy_cost: int | None, budget: int | None = None) -> PlanProblem:
    """A case of recomputation with a second memory beside; None: without copies."""
    graph = case.graph
    n = len(graph.nodes)
    links = [] if copy_cost is None else [Link(a, 1 - a, [copy_cost] * n, [0] * n) for a in (0, 1)]
    first = Memory("gpu", case.budget if budget is None else budget, graph.durations)
    instance = Instance(graph, graph.input_order(), case.budget, (case.max_computations,) * n)
    return PlanProblem(instance, Platform(graph, (first, second), links))


@pytest.mark.few(1)
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", seeds(40, [2]))
def test_an_infinitely_slow_second_device_changes_nothing(seed, staged):
    """Copies cost more than any schedule: so do they who never finish a computation."""
    case = draw_case(seed, most_nodes=5)
    n = len(case.graph.nodes)
    dear = 1 + case.graph.total_duration * case.max_computations
    problem = two_devices(case, Memory("cpu", None, (None,) * n), dear)
    capped = PlanProblem(problem.instance, problem.platform, Goal(max_duration=dear - 1))
    expected = least_duration(case, "staged" if staged else "general")
    assert proven(capped, staged) == ("infeasible" if expected is None else "optimal", expected)


@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", seeds(40, []))
def test_a_second_device_of_the_same_speed_with_free_copies(seed, staged):
    """With room for everything and copies for nothing, nothing is computed twice."""
    case = draw_case(seed, most_nodes=5)
    problem = two_devices(case, Memory("cpu", None, case.graph.durations), 0)
    assert proven(problem, staged) == ("optimal", case.graph.total_duration)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_slow_memory_is_paging(seed):
    """The general model says of one device and slow memory what the model of paging says."""
    case, rng = draw_case(seed, most_nodes=5), random.Random(seed)
    costs = PagingCosts(out_time=Fraction(rng.randint(0, 2), 2), in_time=Fraction(rng.randint(0, 2), 2))
    platform = paging_platform(case.graph, case.budget, costs, rng.choice([None, None, 6]))
    n = len(case.graph.nodes)
    instance = Instance(case.graph, case.graph.input_order(), case.budget, (case.max_computations,) * n)
    problem = PlanProblem(instance, platform)
    status, value = proven(problem, staged=False)
    paging = solve_problem(problem, PagingFormulation(staged=False), SearchOptions(threads=1, seed=0, search="off"))
    assert (paging.status, paging.value) == (status, value)


@pytest.mark.slow
@pytest.mark.parametrize("staged", FORMS)
@pytest.mark.parametrize("seed", range(20))
def test_more_memory_never_hurts(seed, staged):
    problem = draw_problem(seed, most_nodes=4)
    values = []
    for more in range(3):
        places = [
            replace(memory, budget=None if memory.budget is None else memory.budget + 2 * more)
            for memory in problem.platform.memories
        ]
        platform = replace(problem.platform, memories=places)
        _, value = proven(replace(problem, platform=platform), staged)
        values.append(float("inf") if value is None else value)
    assert values == sorted(values, reverse=True)


def test_staged_plans_are_plans():
    """The staged optimum is never less than the one in any order."""
    for seed in range(40):
        problem = draw_problem(seed, most_nodes=4)
        staged, any_order = best_of(problem, "slots"), best_of(problem)
        if staged is not None:
            assert any_order is not None
            goal = OBJECTIVES.index(problem.goal.objective)
            assert any_order.totals[goal] <= staged.totals[goal]


def test_devices_cases_are_of_all_kinds():
    """Among the random problems some need copies, some recomputations, some both devices, and some have no plan."""
    kinds = set()
    for seed in range(60):
        problem = draw_problem(seed, most_nodes=4)
        found = best_of(problem)
        if found is None:
            kinds.add("none")
            continue
        computed = [(each.node, each.memory) for each in found.plan if each.source is None]
        kinds.update(["copies"] if any(action.source is not None for action in found.plan) else [])
        kinds.update(["both"] if len({m for _, m in computed}) > 1 else [])
        kinds.update(["again"] if len(computed) > len(problem.platform.graph.nodes) else [])
    assert kinds == {"none", "copies", "both", "again"}
