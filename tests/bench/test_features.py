"""Features of instances: each is what its definition says."""

from __future__ import annotations

import csv
import io
import json
import random
from pathlib import Path

import networkx as nx
import pytest

from moccasin_mzn.bench.features import STEPS, features
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.generators.families import random_dag
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

ROOT = Path(__file__).resolve().parents[2]
GRAPH = ComputationGraph(("a", "b", "c", "d"), (1, 2, 3, 0), (4, 4, 4, 1), ((0, 1), (1, 2), (2, 3), (0, 3)))
BY_HAND = {
    "nodes": 4, "edges": 4, "density": 4 / 6, "depth": 4, "width": 1, "sources": 1 / 4, "sinks": 1 / 4, "inputs_max": 2,
    "readers_max": 2, "readers_variation": 0.5**0.5, "span_mean": 6 / 4 / 4, "span_max": 3 / 4, "size_max": 4 / 13,
    "size_variation": 27**0.5 / 13, "duration_variation": 1.25**0.5 / 1.5, "duration_max": 0.5, "instant": 1 / 4,
    "duration_size": 4.5 / 33.75**0.5, "floor_ratio": 9 / 12, "memory_mean": 33 / 48,
    "computations": 2, "budget_ratio": 10 / 12, "slack": 10 / 9, "excess": 2 / 10, "excess_mean": 2 / 40,
    "overloaded": 1 / 4, "overloaded_runs": 1, "critical_stages": 1, "reads_by_copies": 16,
}  # fmt: skip
"""Memory of the input order is 4, 8, 12, 9."""


def test_features_by_hand():
    found, seconds = features(Instance.build(GRAPH, 10))
    assert {name: found[name] for name in BY_HAND} == pytest.approx(BY_HAND)
    assert set(found) - set(BY_HAND) == {"recomputable", "bits"} and set(seconds) == set(STEPS)
    assert found["recomputable"] == 3 / 4  # nothing reads d
    assert found["bits"] == (2 * (4 + 4 + 4) + 1).bit_length()  # sizes of all copies


@pytest.mark.parametrize("seed", range(6))
def test_levels_are_antichains_and_scaling_changes_nothing_that_is_a_ratio(seed):
    graph = random_dag(14, seed=seed)
    found, _ = features(Instance.build(graph, "0.8"))
    antichains = nx.antichains(nx.DiGraph(graph.edges) if graph.edges else nx.DiGraph([(0, 1)]))
    assert found["width"] <= max(map(len, antichains)) + graph_isolated(graph)
    assert found["depth"] == nx.dag_longest_path_length(nx.DiGraph(graph.edges), default_weight=1) + 1
    times = random.Random(seed).randint(2, 9)
    sizes = tuple(times * size for size in graph.sizes)
    larger = ComputationGraph(graph.nodes, graph.durations, sizes, graph.edges, order=graph.order)
    assert features(Instance.build(larger, times * Instance.build(graph, "0.8").budget))[0] == pytest.approx(found)


def graph_isolated(graph):
    return sum(not heads and not tails for heads, tails in zip(graph.successors, graph.predecessors, strict=True))


@pytest.mark.parametrize("graph", [
    ComputationGraph(("a",), (0,), (0,), ()), ComputationGraph((1, 2), (0, 0), (0, 0), ((0, 1),)),
])  # fmt: skip
def test_nothing_is_divided_by_nothing(graph):
    found, _ = features(Instance.build(graph, 1))
    assert all(value == value and abs(value) < 10 for value in found.values())


def test_info_prints_them_in_three_forms(command, tmp_path):
    path = tmp_path / "graph.json"
    write_graph(GRAPH, path)
    asked = ("info", path, "--budget", 10, "--features")
    found, _ = features(Instance.build(GRAPH, 10))
    status, out, _ = command(*asked, "--json")
    assert status == 0 and json.loads(out) == {"graph": "", "budget": 10, **found}
    (row,) = csv.DictReader(io.StringIO(command(*asked, "--csv")[1]))
    assert {name: float(row[name]) for name in found} == found and row["budget"] == "10"
    table = command(*asked)[1]
    assert all(feature.name in table and feature.meaning in table for those in STEPS.values() for feature in those)
    alone = json.loads(command("info", path, "--features", "--json")[1])
    assert list(alone) == ["graph", "budget", *(feature.name for feature in STEPS["graph"])]


@pytest.mark.parametrize(("options", "expected"), [
    (("--budget", "10"), "--budget is for --features"),
    (("--csv",), "--csv is for --features"),
    (("--features", "--csv", "--json"), "--csv and --json: give one of them"),
    (("--features", "--max-computations", "3"), "give --budget"),
    (("--features", "--budget", "ten"), "budget 'ten'"),
    (("--features", "--budget", "10", "--max-computations", "0"), "max computations '0'"),
])  # fmt: skip
def test_what_does_not_go_together_is_one_line(command, tmp_path, options, expected):
    path = tmp_path / "graph.json"
    write_graph(GRAPH, path)
    status, _, err = command("info", path, *options)
    assert status == 2 and expected in err and err.count("\n") == 1


def test_the_page_defines_all_of_them():
    page = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    for step, those in STEPS.items():
        for feature in those:
            assert f"| {step} | `{feature.name}` | {feature.meaning} |\n" in page
