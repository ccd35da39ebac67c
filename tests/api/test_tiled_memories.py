"""Tiling with several memories: the problem of the parts, with fractions of whole layers; its answers are exact."""

from __future__ import annotations

import random

import pytest
from few import few
from machine_cases import best_of, machine_of
from soaking.exact import best
from soaking.exact_plans import account_of_plan
from soaking.exact_questions import chain_of_windows, exact_graph
from test_tiling import GRAPH

import moccasin_mzn as mz
from moccasin_mzn.api.question import Question
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.machine.memories import MemoriesGiven, MemoryOptions
from moccasin_mzn.problem.instance import Instance

PEAK = Instance.build(GRAPH, "100%").baseline.peak
HALF, THIRD = -(-PEAK // 2), -(-PEAK * 3 // 10)
FRACTIONS = {
    "paging": ({"budget": 0.5}, {"paging": {"out_time": 1}, "slow_memory": 0.3}),
    "devices": ({}, {"devices": {"gpu": 0.5, "cpu": "0.3:2"}, "copies": {"time": 1}}),
    "memories": ({}, {"memories": {"fast": 0.5, "slow": "0.3:2"}}),
}
AMOUNTS = {
    "paging": ({"budget": HALF}, {"paging": {"out_time": 1}, "slow_memory": THIRD}),
    "devices": ({}, {"devices": {"gpu": HALF, "cpu": f"{THIRD}:2"}, "copies": {"time": 1}}),
    "memories": ({}, {"memories": {"fast": HALF, "slow": f"{THIRD}:2"}}),
}


@pytest.mark.parametrize("name", FRACTIONS)
def test_fractions_are_of_whole_layers(name):
    asked, memories = FRACTIONS[name]
    posed = Question.of({**asked, "tile": 2}, memories=MemoriesGiven(**memories)).request(GRAPH).problem
    parts, (by_hand, given) = tile(GRAPH, rows=2), AMOUNTS[name]
    assert Instance.build(parts, "100%").baseline.peak != PEAK, "else this shows nothing"
    problem, _ = MemoriesGiven(**given).problem(
        parts, {"max_computations": "auto"}, budget=by_hand.get("budget"), order="free"
    )
    assert posed.platform.memories == problem.platform.memories and posed.graph == parts
    assert posed.instance.free_order and posed.instance.max_computations == problem.instance.max_computations


@pytest.mark.parametrize("name", FRACTIONS)
def test_a_sweep_cuts_first_as_well(name):
    _, given = FRACTIONS[name]
    given = {what: dict(value) if isinstance(value, dict) else value for what, value in given.items()}
    for what, first in (("devices", "gpu"), ("memories", "fast")):
        if what in given:
            given[what][first] = None
    variant = Question.of({"tile": 2}, memories=MemoriesGiven(**given)).sweep(GRAPH)
    assert variant.graph == tile(GRAPH, rows=2)
    assert variant.problem.platform.memories[1].budget == THIRD


@pytest.mark.parametrize(
    "words", [["--budget", "0.5", "--paging", "--page-out-time", "1"], ["--device", "gpu=0.5"], ["--memory", "a=0.5"]]
)
def test_the_command_does(words, command, tmp_path):
    mz.write_graph(GRAPH, tmp_path / "graph.json")
    options = ["--tile", "4", "--time-limit", "2", "--search", "only", "--check"]
    status, out, err = command("solve", tmp_path / "graph.json", *words, *options)
    assert status in (0, 1) and "tiling: 5 of 5 layers" in err and "error" not in err, err


@pytest.mark.parametrize("name", FRACTIONS)
@pytest.mark.parametrize("seed", few(range(20), keep=2))
def test_parts_are_chosen_for_several_memories(name, seed):
    rng = random.Random(f"chosen {name} {seed}")
    network = chain_of_windows(rng)
    low = max(1, *network.working_sets)
    first, second = max(1, low * rng.randint(1, 4) // 4), rng.choice([low, 3 * low])
    given: dict[str, object] = {
        "paging": {"budget": first, "paging": {"out_time": 2}, "slow_memory": second},
        "devices": {"devices": {"a": first, "b": f"{second}:3"}, "copies": {"time": 2}},
        "memories": {"memories": {"a": first, "b": f"{second}:2"}},
    }[name]
    found = mz.solve(network, **given, tile="auto", threads=1, time_limit=1.5, search="only", seed=seed)
    assert found.notes[0].startswith("tiling: ")
    if not found.valid:
        return
    tiny, machine = exact_graph(found.graph), machine_of(found.details.problem.platform)
    judged = account_of_plan(tiny, machine, [(one.node, one.memory, one.source) for one in found.plan])
    budgets = [memory.budget for memory in found.details.problem.platform.memories]
    assert not judged.flaws and judged.totals[0] == found.duration
    assert all(budget is None or peak <= budget for peak, budget in zip(judged.peaks, budgets, strict=True))


@pytest.mark.full
def test_parts_that_need_no_other_memory_are_chosen_at_once():
    found = mz.solve(GRAPH, memories={"a": 0.5, "b": "inf:3"}, tile="auto", time_limit=60, search="only")
    assert found.status == "optimal" and found.duration == found.graph.total_duration and found.peaks["b"] == 0
    whole = mz.solve(GRAPH, memories={"a": 1.0, "b": "inf:3"}, tile="auto", time_limit=60, search="only")
    assert whole.status == "optimal" and whole.graph.parts is None


def test_the_least_budget_of_chosen_parts():
    """Where nothing is computed in the other memory, all of the first one is needed that any parts need there."""
    least = mz.solve(GRAPH, "least", paging={"out_time": 1}, tile="auto", time_limit=3, search="only")
    assert least.valid and least.graph.parts is not None
    assert max(least.graph.working_sets) <= least.peak <= least.budgets["local"] < max(GRAPH.working_sets)


@pytest.mark.parametrize("seed", few(range(60), keep=6))
@pytest.mark.parametrize("name", FRACTIONS)
def test_parts_in_several_memories_are_planned_as_brute_force_does(name, seed):
    rng = random.Random(f"{name} {seed}")
    network, parts, rows = drawn(rng)
    low = max(1, *parts.working_sets)
    first, second = rng.choice([low, low + rng.randint(0, low)]), rng.choice([low, 3 * low])
    given: dict[str, object] = {
        "paging": {"budget": first, "paging": {"out_time": 2}, "slow_memory": second},
        "devices": {"devices": {"a": first, "b": f"{second}:3"}, "copies": {"time": 2}},
        "memories": {"memories": {"a": first, "b": f"{second}:2"}},
    }[name]
    found = mz.solve(network, **given, tile=rows, max_computations=2, threads=1, time_limit=20, seed=seed)
    assert found.graph == parts
    best_plan = best_of(found.details.problem)
    if best_plan is None:
        assert not found.valid
    else:
        least = best_plan.totals[0]
        assert found.bound <= least and (not found.valid or found.duration >= least)
        assert found.status != "infeasible" and (found.status != "optimal" or found.duration == least)


def drawn(rng: random.Random) -> tuple[mz.ComputationGraph, mz.ComputationGraph, int]:
    """A chain of layers, its parts, of which there are few, and the rows of each; mostly it needs more than once each
    in little memory."""
    while True:
        network, rows = chain_of_windows(rng), rng.choice([1, 2, 3])
        parts = tile(network, rows=rows)
        if parts.parts is not None and 1 < len(parts.nodes) <= 5 and best(exact_graph(parts), 10**9) is not None:
            return network, parts, rows


def test_a_platform_of_whole_layers_is_refused_for_parts(tmp_path):
    plan = mz.solve(GRAPH, memories={"a": 1.0, "b": "inf:1"}, search="only", time_limit=1)
    plan.save(tmp_path / "plan.json")
    mz.write_graph(GRAPH, tmp_path / "graph.json")
    memories = MemoryOptions(platform=tmp_path / "plan.json")
    with pytest.raises(mz.InputError, match="plan.json"):
        Question.of({"tile": 2}, memories=memories).request(GRAPH)


@pytest.mark.parametrize("seconds", [0.01, 20])
@pytest.mark.parametrize(
    "place", [{"budget": 0.5, "paging": {"out_time": 1}}, {"devices": {"a": "0.5:1", "b": "0.6:2"}}]
)
def test_a_choice_that_ends_at_once_excludes_nothing(place, seconds):
    """Whole layers are over these budgets, parts are not: that is no answer about what was not tried."""
    assert mz.solve(GRAPH, **place, order="free").status == "infeasible"
    found = mz.solve(GRAPH, **place, tile="auto", search="only", time_limit=seconds, stop=lambda state: True)
    assert found.status != "infeasible", found.reason
