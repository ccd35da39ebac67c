"""Searches for plans that count their turns: the same every time, and right; no part of them asks a clock."""

from __future__ import annotations

import random
import threading
from fractions import Fraction

import pytest
from few import few
from soaking.exact import copies_best, pools_best
from soaking.exact_questions import draw_graph, exact_graph

import moccasin_mzn as mz

NAMES = "paging", "devices", "memories"
TURNS = 30


def asked(name: str, rng: random.Random, nodes: int) -> tuple[mz.ComputationGraph, dict[str, object], object]:
    """A graph, several memories for it, and what a function of brute force finds."""
    graph = draw_graph(rng, nodes, plain=True)
    while graph.computed_once or graph.has_workspaces or max(graph.working_sets) < 1:
        graph = draw_graph(rng, nodes, plain=True)
    low = max(graph.working_sets)
    budgets, cost = [rng.choice([low, 2 * low]), rng.choice([low, 3 * low])], [2 * size for size in graph.sizes]
    links, slower = {(0, 1): cost, (1, 0): cost}, [3 * each for each in graph.durations]
    given, durations, most = {
        "paging": ({"budget": budgets[0], "paging": {"out_time": 2}, "slow_memory": budgets[1]}, None, [2, 1]),
        "devices": ({"devices": {"a": budgets[0], "b": f"{budgets[1]}:3"}, "copies": {"time": 2}}, slower, [2, 2]),
        "memories": ({"memories": {"a": budgets[0], "b": f"{budgets[1]}:2"}}, None, []),
    }[name]

    def exact(mode: str):
        whole = exact_graph(graph)
        if name == "memories":
            return pools_best(whole, budgets, [0, Fraction(2)], mode, 2)
        return copies_best(whole, budgets, [list(graph.durations), durations], links, most)

    return graph, given, exact


def figures(found: mz.Result) -> tuple[object, ...]:
    return found.status, found.duration, found.bound, found.plan


@pytest.mark.parametrize("order", ["input", "free"])
@pytest.mark.parametrize(("name", "seed"), few([(name, seed) for name in NAMES for seed in range(30)], keep=3))
def test_counted_plans_are_the_same_every_time_and_right(name, seed, order):
    graph, given, exact = asked(name, random.Random(f"{name} {seed}"), 4)
    how = {"order": order, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(TURNS)}
    found = mz.solve(graph, **given, **how)
    assert figures(found) == figures(mz.solve(graph, **given, **how))
    least = exact("free")
    if found.valid:
        assert least is not None and found.duration >= least[0]
    assert found.status != "infeasible" or exact("staged" if order == "input" else "free") is None
    if found.status == "optimal" and order == "free":
        assert found.duration == least[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_busy_machine_makes_no_difference(name):
    """Another thread takes the processor meanwhile: parts that ended by the clock would end earlier."""
    graph, given, _ = asked(name, random.Random(f"busy {name}"), 12)
    how = {"seed": 1, "stop": mz.stop.Iterations(20 if name == "paging" else TURNS)}
    quiet = figures(mz.solve(graph, **given, **how))
    over = threading.Event()
    busy = threading.Thread(target=lambda: [None for _ in iter(over.is_set, True)], daemon=True)
    busy.start()
    try:
        assert figures(mz.solve(graph, **given, **how)) == quiet
    finally:
        over.set()
        busy.join()


@pytest.mark.parametrize("name", NAMES)
def test_more_iterations_find_no_worse_plans(name):
    graph, given, _ = asked(name, random.Random(f"more {name}"), 8)
    values = [
        found.duration if found.valid else float("inf")
        for found in (mz.solve(graph, **given, seed=1, stop=mz.stop.Iterations(count)) for count in (2, 10, 50))
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_frontiers_and_least_budgets_of_plans_are_counted_too(name):
    graph, given, _ = asked(name, random.Random(f"front {name}"), 5)
    first = {"budget": "least"} if name == "paging" else {}
    swept = {what: dict(value) if isinstance(value, dict) else value for what, value in given.items()}
    swept.pop("budget", None)
    if not first:
        swept[name]["a"] = None
    how = {"seed": 1, "stop": mz.stop.Iterations(40)}
    fronts = [mz.frontier(graph, points=3, **swept, **how) for _ in range(2)]
    points = [[(p.budget, p.duration, p.bound, p.sequence, p.status) for p in front.points] for front in fronts]
    assert points[0] == points[1]
    if not first:
        swept[name]["a"] = "least"
    least = [mz.solve(graph, **{**swept, **first}, **how) for _ in range(2)]
    assert figures(least[0]) == figures(least[1]) and least[0].notes == least[1].notes
