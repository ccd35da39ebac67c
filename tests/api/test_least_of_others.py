"""The least budget of other questions: counted, of a strategy, of an arena, of the first of several memories."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace

import pytest
from few import few
from machine_cases import best_of
from soaking.exact import arena_best, least_peak
from soaking.exact_questions import draw_graph, exact_graph
from tight_graphs import drawn

import moccasin_mzn as mz


def claimed(found: mz.Result) -> int:
    """The amount that is proven to be needed, by the note on the least budget."""
    claim = re.match(r"budget: ([0-9,]+), the (?:least that any|.*; ([0-9,]+) are proven)", found.notes[0])
    return 0 if claim is None else int((claim[2] or claim[1]).replace(",", ""))


@pytest.mark.parametrize(("seed", "order"), few([(s, o) for s in range(40) for o in ("input", "free")], keep=2))
def test_a_counted_least_budget_is_the_same_every_time(seed, order):
    graph = drawn(f"least counted {seed}")
    how = {"order": order, "max_computations": 2, "seed": seed, "stop": mz.stop.Iterations(300)}
    found, again = (mz.solve(graph, "least", **how) for _ in range(2))
    assert (found.budget, found.positions, found.bound, found.notes) == (
        again.budget, again.positions, again.bound, again.notes
    )  # fmt: skip
    exact = least_peak(exact_graph(graph), "free" if order == "free" else "first", 2)
    assert found.valid and found.peak <= found.budget and claimed(found) <= exact <= found.budget


@pytest.mark.parametrize("seed", few(range(40), keep=2))
@pytest.mark.parametrize("strategy", ["keep-all", "dtr", "chen-greedy-ap"])
def test_the_least_budget_of_a_strategy_is_one_that_it_keeps(seed, strategy):
    graph = drawn(f"least strategy {seed}", 6)
    found = mz.solve(graph, "least", strategy=strategy, time_limit=10)
    if found.valid:
        assert found.peak <= found.budget and found.details.strategy == strategy
        assert claimed(found) <= least_peak(exact_graph(graph), "free", None) <= found.budget
    if strategy == "keep-all":
        assert found.budget == mz.solve(graph, 1.0, strategy="keep-all").peak


@pytest.mark.parametrize("seed", few(range(40), keep=(24,)))
def test_the_least_arena_is_no_less_than_brute_force_needs(seed):
    graph = drawn(f"least arena {seed}", 4, largest=4)
    found = mz.solve(graph, "least", addresses=True, max_computations=2, time_limit=1.5, threads=1, if_none="stop")
    if found.valid:
        assert found.arena is not None and found.arena <= found.budget
        assert arena_best(exact_graph(graph), found.budget, 1, 2, "first") is not None
    least = next(a for a in range(1, 99) if arena_best(exact_graph(graph), a, 1, 2, "staged") is not None)
    assert claimed(found) <= least and (not found.valid or found.budget <= 2 * least)


@pytest.mark.parametrize("seed", few(range(60), keep=2))
@pytest.mark.parametrize("name", ["paging", "devices", "memories"])
def test_the_least_budget_of_the_first_memory(name, seed):
    rng = random.Random(f"{name} {seed}")
    graph = draw_graph(rng, 3)
    while max(graph.working_sets) < 1 or max(graph.sizes) > 99:
        graph = draw_graph(rng, 3)
    low = max(graph.working_sets)
    other = rng.choice([low, 3 * low, max(1, low // 2)])
    given = {
        "paging": {"budget": "least", "paging": {"out_time": 2}, "slow_memory": other},
        "devices": {"devices": {"a": "least", "b": f"{other}:3"}, "copies": {"time": 2}},
        "memories": {"memories": {"a": "least", "b": f"{other}:2"}},
    }[name]

    found = mz.solve(graph, **given, order="free", max_computations=2, time_limit=1.5, threads=1, seed=seed)
    problem = found.details.problem

    def within(budget: int) -> bool:
        memory, *others = problem.platform.memories
        platform = replace(problem.platform, memories=(replace(memory, budget=budget), *others))
        return best_of(replace(problem, platform=platform)) is not None

    first = found.details.problem.platform.memories[0]
    least = next(budget for budget in range(graph.total_size + max(graph.workspace_of) + 1) if within(budget))
    assert claimed(found) <= least
    if found.valid:
        assert within(first.budget) and found.peaks[first.name] <= first.budget
    else:
        assert found.status != "infeasible" or not within(first.budget)


def test_the_command_seeks_the_least_local_memory(command, tmp_path):
    """With one computation of each 8 are needed; the others are recomputed or, which takes less, read back."""
    edges = [(v, v + 1) for v in range(5)] + [(0, 5), (1, 4)]
    graph = mz.ComputationGraph([f"n{v}" for v in range(6)], [9] * 6, [2] * 6, edges, order=range(6))
    mz.write_graph(graph, tmp_path / "graph.json")
    words = ["solve", tmp_path / "graph.json", "--time-limit", "4", "--threads", "1", "--json"]
    status, out, err = command(*words, "--budget", "least", "--max-computations", "1", "--if-none", "stop")
    assert status == 0 and "budget: 8, the least that any schedule" in err, err
    status, out, err = command(*words, "--budget", "least", "--paging", "--page-out-time", "1")
    assert status == 0 and "budget: 6, the least that" in err, err
    paged = json.loads(out)
    assert paged["peaks"]["local"] == 6 and 54 < paged["duration"] < 54 + 9
    status, out, err = command(*words, "--memory", "fast=least", "--memory", "slow=4:1")
    assert status == 0 and json.loads(out)["peaks"]["fast"] <= 4 and re.search("budget: [0-4]", err), err


@pytest.mark.parametrize(
    "words", [["--device", "gpu=9"], ["--memory", "fast=9"], ["--memory", "fast=least"], ["--platform", "plan.json"]]
)
def test_the_least_budget_is_given_once(words, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mz.write_graph(drawn("once"), tmp_path / "graph.json")
    status, out, err = command("solve", "graph.json", "--budget", "least", *words)
    assert (status, out) == (2, "") and err.startswith("error: --budget is for one memory"), err


def test_only_the_first_memory_may_have_the_least_budget():
    graph = drawn("first")
    with pytest.raises(mz.InputError, match="^memory b: .*least"):
        mz.solve(graph, memories={"a": 9, "b": "least"})
