"""Arenas of counted searches: the same for a seed, right, and on time without a clock."""

from __future__ import annotations

import pytest
from few import few
from soaking.exact import arena_best
from soaking.exact_questions import exact_graph
from tight_graphs import drawn

import moccasin_mzn as mz


def figures(found: mz.Result) -> tuple[object, ...]:
    offsets = None if found.details.arenas is None else found.details.arenas.offsets
    return found.status, found.duration, found.bound, found.positions, found.arena, offsets


@pytest.mark.parametrize("order", ["input", "free"])
@pytest.mark.parametrize("seed", few(range(60), keep=(13,)))
def test_counted_arenas_are_the_same_every_time_and_right(seed, order):
    graph = drawn(f"counted arenas {seed}", 4, largest=4)
    budget = max(graph.working_sets) + seed % 3
    how = {"order": order, "addresses": True, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(200)}
    found = mz.solve(graph, budget, **how)
    assert figures(found) == figures(mz.solve(graph, budget, **how))
    exact = arena_best(exact_graph(graph), budget, 1, 2, "free" if order == "free" else "first")
    staged = arena_best(exact_graph(graph), budget, 1, 2, "free" if order == "free" else "staged")
    if found.valid:
        assert exact is not None and found.duration >= exact[0] and found.arena <= budget
    assert staged is None or (found.status != "infeasible" and found.bound <= staged[0])
    assert found.status != "optimal" or staged is None or found.duration <= staged[0]


def test_frontiers_and_least_arenas_are_counted_too():
    graph, how = drawn("all", 5, largest=4), {"addresses": True, "stop": mz.stop.Iterations(100), "seed": 1}
    fronts = [mz.frontier(graph, points=3, **how) for _ in range(2)]
    points = [[(p.budget, p.duration, p.bound, p.sequence, p.status) for p in front.points] for front in fronts]
    assert points[0] == points[1]
    assert figures(mz.solve(graph, "least", **how)) == figures(mz.solve(graph, "least", **how))


@pytest.mark.parametrize("strategy", ["dtr", "chen-greedy-ap"])
def test_a_strategy_with_an_arena_is_counted(strategy):
    graph = drawn("rule", 7)
    how = {"strategy": strategy, "addresses": True, "stop": mz.stop.Iterations(3)}
    assert figures(mz.solve(graph, 0.9, **how)) == figures(mz.solve(graph, 0.9, **how))
