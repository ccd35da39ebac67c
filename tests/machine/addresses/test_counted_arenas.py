"""Arenas of counted searches: the same for a seed, right, and on time without a clock."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from few import few
from machine_cases import best_of
from soaking.exact import arena_best
from soaking.exact_questions import exact_graph
from tight_graphs import drawn

import moccasin_mzn as mz


def figures(found: mz.Result) -> tuple[object, ...]:
    offsets = None if found.details.arenas is None else found.details.arenas.offsets
    return found.status, found.duration, found.bound, found.positions, found.arena, offsets


@pytest.mark.parametrize("order", ["input", "free"])
@pytest.mark.parametrize("seed", few(range(60), keep=(13,)))
@pytest.mark.few(1)
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


def of_several(name: str, first: object, other: int) -> dict[str, object]:
    return {
        "paging": {"budget": first, "paging": {"out_time": 1}, "slow_memory": other},
        "devices": {"devices": {"a": first, "b": f"{other}:2"}, "copies": {"time": 1}},
        "memories": {"memories": {"a": first, "b": f"{other}:1"}},
    }[name]


def plan_figures(found: mz.Result) -> tuple[object, ...]:
    return found.status, found.duration, found.bound, found.plan, tuple(found.arenas.items()), found.offsets


@pytest.mark.parametrize("name", ["paging", "devices", "memories"])
@pytest.mark.parametrize("seed", few(range(30), keep=(4,)))
def test_counted_arenas_of_plans_are_the_same_every_time_and_right(seed, name):
    graph = drawn(f"counted plans {seed}", 4, largest=4)
    low = max(graph.working_sets)
    given = of_several(name, low + seed % 3, low + seed % 2)
    how = {**given, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(20), "addresses": True}
    found = mz.solve(graph, **how)
    assert plan_figures(found) == plan_figures(mz.solve(graph, **how))
    staged = "slots" if name == "devices" else "staged"
    exact, wide = (best_of(found.details.problem, mode) for mode in (staged, "free"))
    if found.valid:
        assert all(size <= (found.budgets[place] or size) for place, size in found.arenas.items())
        assert wide is not None and found.duration >= wide.totals[0]
    assert found.status != "infeasible" or exact is None


@pytest.mark.parametrize("name", ["paging", "devices", "memories"])
@pytest.mark.parametrize("seed", few(range(20), keep=(3,)))
@pytest.mark.few(1)
def test_arenas_of_plans_have_a_least_budget_and_a_frontier(seed, name):
    graph = drawn(f"least of arenas {seed}", 4, largest=4)
    low = max(graph.working_sets)
    how = {"max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(20), "addresses": True}
    least = mz.solve(graph, **of_several(name, "least", low), **how)
    first = next(iter(least.budgets))
    if least.valid:
        assert least.arenas[first] <= least.budgets[first]

    given = of_several(name, "inf", low)
    given.pop("budget", None)
    front = mz.frontier(graph, points=3, **given, **how)
    points = [(point.budget, point.duration, point.bound) for point in front.points]
    assert points == [(p.budget, p.duration, p.bound) for p in mz.frontier(graph, points=3, **given, **how).points]
    memory, *others = least.details.problem.platform.memories
    for point in (one for one in front.points if one.found):
        platform = replace(least.details.problem.platform, memories=(replace(memory, budget=point.budget), *others))
        exact = best_of(replace(least.details.problem, platform=platform))
        assert exact is not None and point.bound <= point.duration and exact.totals[0] <= point.duration


def test_a_frontier_of_arenas_is_of_the_first_memory(command, tmp_path):
    graph = drawn("front", 6, largest=4)
    mz.write_graph(graph, tmp_path / "graph.json")
    words = ["frontier", tmp_path / "graph.json", "--memory", "a", "--memory", "b=9:1", "--addresses", "--points", "3"]
    status, out, err = command(*words, "--iterations", "60", "--json")
    assert status == 0, err
    document = json.loads(out)
    assert document["swept"] == "an arena in a, alongside b with 9"
    for point in (one for one in document["points"] if one["status"] in ("optimal", "feasible")):
        assert point["arenas"]["a"]["arena"] <= point["budget"] and point["arenas"]["b"]["arena"] <= 9
        assert len(point["intervals"]) == len(point["plan"]) and all("offset" in each for each in point["intervals"])
