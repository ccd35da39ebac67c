"""The search without a model: its compiled figures against the judge, and what it finds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from paging_cases import best, draw_problem
from strategies import graphs

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.paging.kernel import LIMIT_EXCESS, LOCAL_EXCESS, NONE, SLOW_EXCESS, VALUE, run
from moccasin_mzn.machine.paging.search import PagingSearch, plan_of, problem_of, set_of, workspace_for
from moccasin_mzn.machine.platforms import LOCAL, SLOW, PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Goal


@st.composite
def sets(draw):
    """A problem of some nodes, and a set of second and third intervals for it."""
    graph = draw(graphs(workspaces=True))
    amounts = st.integers(0, 3000)
    goal = Goal(draw(st.sampled_from(OBJECTIVES)), *(draw(st.none() | amounts) for _ in OBJECTIVES))
    fractions = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(2)])
    costs = PagingCosts(*(draw(fractions) for _ in range(5)))
    budget = draw(st.integers(1, 3000))
    instance = Instance.build(graph, budget, max_computations=3)
    problem = PlanProblem(instance, paging_platform(graph, budget, costs, draw(st.none() | amounts)), goal)
    compiled = problem_of(problem)
    n, slots = len(graph.nodes), len(compiled.slot_node)
    stage = [draw(st.sampled_from([NONE, *range(v + 1, n)])) for v in compiled.slot_node.tolist()]
    back = draw(st.lists(st.booleans(), min_size=slots, max_size=slots))
    return problem, compiled, np.array(stage, np.int64), np.array(back, np.int64)


@settings(max_examples=examples(60))
@given(sets())
def test_compiled_figures_are_the_judges(drawn):
    problem, compiled, stage, back = drawn
    figures = np.zeros(4, np.int64)
    valid = run(compiled, stage, back, workspace_for(compiled), figures)
    places = [(int(k), int(v)) for k, v in zip(stage, compiled.slot_node, strict=True) if k != NONE]
    assert valid == (len(set(places)) == len(places))
    if not valid:
        return
    plan = plan_of(problem.instance, compiled, stage, back)
    simulation = judge_plan(problem.platform, plan, problem.goal)
    assert {v.kind for v in simulation.violations} <= {
        "over-budget", "over-duration", "over-energy", "over-traffic"
    }  # fmt: skip
    assert figures[VALUE] == problem.value(simulation)
    over = [
        sum(max(0, used - m.budget) for used in profile) if m.budget is not None else 0
        for m, profile in zip(problem.platform.memories, simulation.memory, strict=True)
    ]
    assert (figures[LOCAL_EXCESS] > 0, figures[SLOW_EXCESS] > 0) == (over[LOCAL] > 0, over[SLOW] > 0)
    events = [t for t, action in enumerate(plan) if action.memory == LOCAL]
    budget = problem.platform.memories[LOCAL].budget
    assert figures[LOCAL_EXCESS] == sum(max(0, simulation.memory[LOCAL][t] - budget) for t in events)
    limits = [(simulation.total(what), problem.goal.limit(what)) for what in OBJECTIVES]
    assert figures[LIMIT_EXCESS] == sum(max(0, total - limit) for total, limit in limits if limit is not None)
    assert PagingFormulation().out_of_scope(problem, plan) is None or len(plan) > len(events) + len(stage)


@settings(max_examples=examples(30))
@given(sets())
def test_a_set_comes_back_from_its_plan(drawn):
    problem, compiled, stage, back = drawn
    if not run(compiled, stage, back, workspace_for(compiled), np.zeros(4, np.int64)):
        return
    plan = plan_of(problem.instance, compiled, stage, back)
    assert plan_of(problem.instance, compiled, *set_of(problem.instance, compiled, plan)) == plan


def searched(problem: PlanProblem, rounds: int) -> int | None:
    """The best value of so many rounds; every plan offered is judged."""
    values = [None]

    def offer(plan):
        simulation = judge_plan(problem.platform, plan, problem.goal)
        assert simulation.feasible
        assert PagingFormulation().out_of_scope(problem, plan) is None
        values.append(problem.value(simulation))

    PagingSearch(problem, seed=1).run(offer, lambda: False, max_rounds=rounds)
    return values[-1]


@pytest.mark.parametrize("seed", [5, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(18, 60))])
def test_small_problems_are_mostly_solved(seed):
    problem = draw_problem(seed)
    found, expected = searched(problem, 2), best(problem, "staged")
    if expected is None:
        assert found is None
    elif found is not None:
        assert found >= expected.totals[OBJECTIVES.index(problem.goal.objective)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        ("checkmate_resnet50_train", "0.8"),
        pytest.param("checkmate_resnet50_train", "0.6", marks=pytest.mark.slow),
        pytest.param("checkmate_resnet50_train", "0.5", marks=pytest.mark.slow),
        pytest.param("random_layered_n250", "0.9", marks=pytest.mark.slow),
        pytest.param("random_layered_n250", "0.8", marks=pytest.mark.slow),
        pytest.param("random_layered_n250", "0.7", marks=pytest.mark.slow),
    ],
)
def test_paging_for_nothing_takes_no_longer(shared, name, budget):
    graph = read_graph(shared / "data" / f"{name}.json")
    instance = Instance.build(graph, budget)
    problem = PlanProblem(instance, paging_platform(graph, instance.budget, PagingCosts()))
    assert searched(problem, 2) == graph.total_duration


def test_amounts_beyond_64_bits_limit_nothing():
    graph = ComputationGraph(range(4), [5] * 4, [2] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    instance = Instance.build(graph, 10**30)
    goal = Goal(max_duration=10**30, max_energy=10**30, max_traffic=10**30)
    problem = PlanProblem(instance, paging_platform(graph, 10**30, PagingCosts(), 10**30), goal)
    compiled, data = problem_of(problem), PagingFormulation().data(problem)
    assert (compiled.budget, compiled.slow_capacity) == (graph.total_size, graph.total_size)
    assert compiled.limit.min() >= 2**60
    assert data.model.budget == data.slow_capacity == graph.total_size // data.model.size_scale
    assert max(total.limit for total in data.totals) < 2**31
    assert searched(problem, 1) == graph.total_duration


@pytest.mark.full
def test_the_same_seed_finds_the_same():
    problem = draw_problem(17)
    assert searched(problem, 1) == searched(problem, 1)
