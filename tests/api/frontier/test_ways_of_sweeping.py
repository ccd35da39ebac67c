"""Frontiers asked for in other ways: counted, of a strategy, of arenas; each point is what one budget has."""

from __future__ import annotations

import json

import pytest
from few import few
from soaking.exact import arena_best, best
from soaking.exact_questions import exact_graph
from tight_graphs import drawn

import moccasin_mzn as mz
from moccasin_mzn.problem.judges.schedules import simulate


def budgets_of(graph: mz.ComputationGraph, count: int = 4) -> list[int]:
    low, high = max(graph.working_sets), simulate(graph, graph.input_order()).peak
    return sorted({low - 1 or 1, *(low + (high - low) * k // (count - 1) for k in range(count))})


def told(found: mz.FrontierResult) -> list[tuple[object, ...]]:
    return [(point.budget, point.duration, point.bound, point.sequence, point.status) for point in found.points]


@pytest.mark.parametrize(("seed", "order"), few([(s, o) for s in range(40) for o in ("input", "free")], keep=2))
def test_a_counted_frontier_is_the_same_every_time(seed, order):
    graph = drawn(f"counted {seed}")
    how = {"order": order, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(300)}
    budgets, mode = budgets_of(graph), "free" if order == "free" else "first"
    found = mz.frontier(graph, budgets=budgets, **how)
    assert told(found) == told(mz.frontier(graph, budgets=budgets, **how))
    assert told(mz.frontier(graph, points=4, **how)) == told(mz.frontier(graph, points=4, **how))
    for point in found.points:
        exact = best(exact_graph(graph), point.budget, "free" if order == "free" else "staged", 2)
        wide = best(exact_graph(graph), point.budget, mode, 2)
        assert exact is None or point.bound <= exact[0] and point.status != "infeasible"
        assert point.duration is None or wide is not None and point.duration >= wide[0]
        alone = mz.solve(graph, point.budget, **how)
        assert alone.valid <= point.found, "a search of one budget finds no more"


def test_a_counted_frontier_has_no_limit_of_seconds_by_default(command, tmp_path):
    graph = drawn("command")
    mz.write_graph(graph, tmp_path / "graph.json")
    words = ["frontier", tmp_path / "graph.json", "--iterations", "200", "--points", "3", "--seed", "1", "--json"]
    status, out, err = command(*words)
    assert status == 0, err
    first, second = json.loads(out), json.loads(command(*words)[1])
    for document in (first, second):
        document.pop("seconds")
        for point in document["points"]:
            point.pop("seconds")
    assert first == second


@pytest.mark.parametrize("seed", few(range(40), keep=2))
@pytest.mark.parametrize("strategy", ["keep-all", "dtr", "chen-greedy-ap"])
def test_the_frontier_of_a_strategy_is_what_it_makes_at_each_budget(seed, strategy):
    graph = drawn(f"strategy {seed}", 6)
    budgets = budgets_of(graph)
    found = mz.frontier(graph, budgets=budgets, strategy=strategy, time_limit=30)
    alone = [mz.solve(graph, budget, strategy=strategy) for budget in budgets]
    for point in found.points:
        within = [one.duration for one in alone if one.valid and one.peak <= point.budget]
        assert point.duration == min(within, default=None)
        assert point.status != "infeasible" or best(exact_graph(graph), point.budget, "free", None) is None
        assert point.bound <= sum(graph.durations)


@pytest.mark.parametrize(("seed", "alignment"), few([(s, a) for s in range(40) for a in (1, 2)], keep=((17, 1),)))
def test_the_frontier_of_arenas_is_that_of_brute_force(seed, alignment):
    graph = drawn(f"arenas {seed}", 4, largest=4)
    budgets = budgets_of(graph, 3)
    found = mz.frontier(
        graph, budgets=budgets, addresses=True, alignment=alignment, max_computations=2, time_limit=1.5, threads=1
    )
    for point in found.points:
        exact = arena_best(exact_graph(graph), point.budget, alignment, 2, "first")
        if point.found:
            assert exact is not None and exact[0] <= point.duration and point.peak <= point.budget
        if exact is not None:
            staged = arena_best(exact_graph(graph), point.budget, alignment, 2, "staged")
            assert point.status != "infeasible" and (staged is None or point.bound <= staged[0])
    assert found.details.swept == "an arena"


def test_points_of_arenas_have_offsets(command, tmp_path):
    graph = drawn("offsets")
    mz.write_graph(graph, tmp_path / "graph.json")
    status, out, err = command(
        "frontier", tmp_path / "graph.json", "--addresses", "--budget", "100%", "--time-limit", "3", "--json"
    )
    assert status == 0, err
    (point,) = json.loads(out)["points"]
    assert point["peak"] <= point["arena"] <= point["budget"]
    assert all("offset" in each for each in point["intervals"])
    (tmp_path / "point.json").write_text(json.dumps(point))
    status, out, err = command("validate", tmp_path / "graph.json", tmp_path / "point.json")
    assert status == 0 and "arena" in out, err
