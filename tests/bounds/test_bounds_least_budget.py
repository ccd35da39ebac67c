"""The lower bound on budgets: never above brute force; for a node alone exactly what it needs."""

from __future__ import annotations

import time
from itertools import permutations

import pytest
from cases import draw_case
from oracle import best_free_order
from tiny_graphs import U_SHAPE, graph_of

from moccasin_mzn.bounds.least_budget import LeastBudget, enough_budget, least_budget_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate


def least_budget(graph: ComputationGraph) -> int:
    """By brute force, with up to three computations of each node."""
    budget = graph.largest_working_set().memory
    while best_free_order(graph, budget, 3) is None:
        budget += 1
    return budget


@pytest.mark.parametrize("start", [0, pytest.param(1000, marks=pytest.mark.slow)])
def test_least_budget_is_never_above_brute_force(start):
    exact = 0
    for seed in range(start, start + (300 if start else 40)):
        graph = draw_case(seed).graph
        bound, best = least_budget_bound(graph), least_budget(graph)
        assert graph.largest_working_set().memory <= bound.memory <= best
        assert least_budget_bound(graph, work=5).memory <= bound.memory
        for enough in (bound.memory - 1, bound.memory, bound.memory + 1):
            assert (least_budget_bound(graph, enough).memory > enough) == (bound.memory > enough)
        exact += bound.memory == best
    assert exact > 0.9 * (300 if start else 40)


def anew(graph: ComputationGraph, v: int) -> tuple[int, ...]:
    """Compute v from nothing, its inputs one by one in the order in which that takes least."""
    inputs = [anew(graph, u) for u in graph.predecessors[v]]
    ways = [(*(x for each in way for x in each), v) for way in permutations(inputs)]
    return min(ways, key=lambda way: simulate(graph, way).peak)


@pytest.mark.parametrize("workspaces", [False, True])
def test_sufficient_budget_has_a_schedule(workspaces):
    met = 0
    for seed in range(60):
        graph = draw_case(seed, workspaces=workspaces).graph
        sequence = [x for v in graph.input_order() for x in anew(graph, v)]
        found, enough = simulate(graph, sequence), enough_budget(graph)
        assert not found.violations
        assert min(found.peak, simulate(graph, graph.input_order()).peak) <= enough
        bound = least_budget_bound(graph).memory
        assert bound <= enough
        met += bound == enough
    assert met >= 30


def test_two_inputs_are_computed_one_after_the_other():
    # 4 reads 2 and 3; the later of them is computed beside the other: 3 + 1 + 9, not 3 + 3 + 1.
    graph = graph_of([1] * 5, [9, 9, 3, 3, 1], [(0, 2), (1, 3), (2, 4), (3, 4)])
    assert graph.largest_working_set().memory == 12
    assert least_budget_bound(graph) == LeastBudget(15, 4)


def test_working_set_suffices_for_a_u_shape():
    assert least_budget_bound(U_SHAPE).memory == 3


@pytest.mark.full
def test_large_graphs_take_seconds():
    n = 20_000
    edges = sorted({(v - d, v) for v in range(n) for d in (1, 2, 7, 50, 900) if v >= d})
    graph = ComputationGraph(range(n), [1] * n, [1 + v % 13 for v in range(n)], edges)
    start = time.monotonic()
    assert least_budget_bound(graph).memory >= graph.largest_working_set().memory
    assert time.monotonic() < start + 20
