"""Fronts of random small graphs against brute force, at every budget there is."""

from __future__ import annotations

from dataclasses import replace

import oracle
import pytest
from cases import draw_case

from moccasin_mzn.api.frontier.sweep import SweepPlan, sweep
from moccasin_mzn.api.frontier.variants import Rematerialization
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.search.options import Options

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)
SECONDS = 300


def bending_seeds(count: int) -> list[int]:
    """Seeds of cases whose input order needs more than its largest working set, so that there may be a front."""
    found, seed = [], 0
    while len(found) < count:
        graph = draw_case(seed, 5).graph
        if simulate(graph, graph.input_order()).peak > graph.largest_working_set().memory:
            found.append(seed)
        seed += 1
    return found


def check(seed: int) -> None:
    case = draw_case(seed, 5)
    graph, most, order = case.graph, case.max_computations, case.graph.input_order()
    variant = Rematerialization.of(graph, Options(threads=1), max_computations=most)
    front = sweep(variant, SweepPlan(100, SECONDS))

    def best(budget: int) -> int | None:
        return oracle.best_fixed_order(graph, order, budget, most)

    for point in front.points:
        assert (point.duration, point.bound, point.status) == (best(point.budget), point.duration, "optimal")
        simulation = judge(graph, point.sequence, point.budget)
        assert simulation.feasible
        assert (simulation.duration, simulation.peak) == (point.duration, point.peak)
    assert front.least_bound == front.least_found
    assert best(front.least_bound - 1) is None
    assert best(front.least_bound) is not None
    steps = front.pareto()
    for budget in range(front.least_bound, front.peak + 1):
        assert min(point.duration for point in steps if point.peak <= budget) == best(budget)


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", bending_seeds(12))
def test_the_frontier_is_that_of_brute_force(seed):
    check(seed)


@pytest.mark.slow
def test_the_frontiers_of_200_graphs_are_those_of_brute_force():
    for seed in bending_seeds(212)[12:]:
        check(seed)


@pytest.mark.slow
def test_frontiers_in_any_order_are_within_those_of_brute_force():
    for seed in bending_seeds(6):
        case = draw_case(seed, 5)
        graph, most = case.graph, case.max_computations
        front = sweep(
            Rematerialization.of(graph, Options(threads=1), max_computations=most, order="free"), SweepPlan(9, 30)
        )
        for point in front.points:
            best = oracle.best_free_order(graph, point.budget, most)
            assert point.bound <= best <= point.duration
            assert judge(graph, point.sequence, point.budget).duration == point.duration
        assert oracle.best_free_order(graph, front.least_bound - 1, most) is None
        assert front.scope.startswith("in any order")


@pytest.mark.full
@pytest.mark.parametrize("formulation", ["general", "checkmate-milp"])
def test_frontier_by_other_formulations(formulation):
    variant = Rematerialization.of(SKIP, Options(formulation=formulation, search="off", threads=1))
    front = sweep(variant, SweepPlan(2, SECONDS))
    assert [(point.peak, point.duration) for point in front.pareto()] == [(8, 14), (10, 9)]
    assert (front.least_bound, front.least_found, front.proven) == (8, 8, len(front.points))


def test_frontier_without_schedules_is_reported():
    """With one computation per node there is nothing but the input order."""
    front = sweep(Rematerialization.of(SKIP, Options(threads=1), max_computations=1), SweepPlan(10, SECONDS))
    assert [(point.budget, point.status) for point in front.points] == [(10, "optimal")]
    assert (front.least_bound, front.least_found) == (10, 10)


@pytest.mark.parametrize("budget", [8, 9])
def test_a_point_is_what_solve_answers(budget):
    variant = Rematerialization.of(SKIP, Options(threads=1))
    front = sweep(variant, SweepPlan(budgets=(budget,), seconds=SECONDS))
    result = solve_instance(replace(variant.problem, budget=budget), Options(threads=1))
    (point,) = front.points
    assert (point.duration, point.bound, point.status) == (result.duration, result.bound, result.status)
