"""Tiling with several memories: the problem of the parts, with fractions of whole layers; its answers are exact."""

from __future__ import annotations

import random

import pytest
from few import few
from machine_cases import best_of
from soaking.exact import best
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
def test_parts_are_not_chosen_for_several_memories(name):
    asked, memories = FRACTIONS[name]
    with pytest.raises(mz.InputError, match="^tile auto is for "):
        mz.solve(GRAPH, **asked, **memories, tile="auto")


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
