"""Searches for plans that count their turns: the same every time, and right; no part of them asks a clock."""

from __future__ import annotations

import random
import threading

import pytest
from few import few
from machine_cases import best_of
from soaking.exact_questions import draw_graph

import moccasin_mzn as mz

NAMES = "paging", "devices", "memories"
TURNS = 30


def asked(name: str, rng: random.Random, nodes: int) -> tuple[mz.ComputationGraph, dict[str, object]]:
    """A graph, and several memories for it."""
    graph = draw_graph(rng, nodes)
    while max(graph.working_sets) < 1:
        graph = draw_graph(rng, nodes)
    low = max(graph.working_sets)
    first, second = rng.choice([low, 2 * low]), rng.choice([low, 3 * low])
    given: dict[str, dict[str, object]] = {
        "paging": {"budget": first, "paging": {"out_time": 2}, "slow_memory": second},
        "devices": {"devices": {"a": first, "b": f"{second}:3"}, "copies": {"time": 2}},
        "memories": {"memories": {"a": first, "b": f"{second}:2"}},
    }
    return graph, given[name]


def figures(found: mz.Result) -> tuple[object, ...]:
    return found.status, found.duration, found.bound, found.plan


@pytest.mark.parametrize("order", ["input", "free"])
@pytest.mark.parametrize(("name", "seed"), few([(name, seed) for name in NAMES for seed in range(30)], keep=3))
def test_counted_plans_are_the_same_every_time_and_right(name, seed, order):
    graph, given = asked(name, random.Random(f"{name} {seed}"), 4)
    how = {"order": order, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(TURNS)}
    found = mz.solve(graph, **given, **how)
    assert figures(found) == figures(mz.solve(graph, **given, **how))
    problem, form = found.details.problem, found.details.formulation
    best = best_of(problem)
    if found.valid:
        assert best is not None and found.duration >= best.totals[0]
    scope = "free" if order == "free" else "slots" if form.name == "machine" else "staged"
    assert found.status != "infeasible" or best_of(problem, scope) is None
    if found.status == "optimal" and order == "free":
        assert found.duration == best.totals[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_busy_machine_makes_no_difference(name):
    """Another thread takes the processor meanwhile: parts that ended by the clock would end earlier."""
    graph, given = asked(name, random.Random(f"busy {name}"), 12)
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
    graph, given = asked(name, random.Random(f"more {name}"), 8)
    values = [
        found.duration if found.valid else float("inf")
        for found in (mz.solve(graph, **given, seed=1, stop=mz.stop.Iterations(count)) for count in (2, 10, 50))
    ]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize("name", NAMES)
def test_frontiers_and_least_budgets_of_plans_are_counted_too(name):
    graph, given = asked(name, random.Random(f"front {name}"), 5)
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
