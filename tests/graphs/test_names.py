"""Names of nodes for people: labels where there are any, ids where labels repeat; and back from names to nodes."""

from __future__ import annotations

import json
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

import moccasin_mzn as mz
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.exporting import decoded, read_solution
from moccasin_mzn.formulations.formulation import header
from moccasin_mzn.graphs.wording import names_of
from moccasin_mzn.problem.instance import Instance

EDGES = [("19", "5"), ("5", "7"), ("19", "7")]


def graph(labels, nodes=("19", "5", "7")):
    return mz.ComputationGraph(nodes, [1] * 3, [4, 2, 1], [(0, 1), (1, 2), (0, 2)], labels=labels)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (None, ("19", "5", "7")),
        (("conv", "relu", "loss"), ("conv", "relu", "loss")),
        (("conv", "relu", "relu"), ("conv", "relu (5)", "relu (7)")),
        (("", "", "loss"), (" (19)", " (5)", "loss")),
        (("relu", "relu", "relu (5)"), ("19", "5", "7")),  # else two nodes had one name
        (("a\nb", 'q"', "\\"), ("a\\nb", 'q"', "\\")),
    ],
)
def test_labels_are_names_with_ids_where_they_repeat(labels, names):
    assert names_of(graph(labels)) == names
    made = header(graph(labels), (2, -1, 0), [1, 0, 1], [1, 0, 4], [], 9)
    assert made["name"] == [names[2], "", names[0]]


@given(st.lists(st.text(max_size=3), min_size=3, max_size=3), st.permutations(range(3)))
def test_a_sequence_of_names_is_read_back_whatever_the_labels(labels, sequence):
    one = graph(tuple(labels))
    names = names_of(one)
    assert len(set(names)) == 3
    for spelled in (names, [str(node) for node in one.nodes]) if not set(names) & set(one.nodes) else (names,):
        text = f"sequence {json.dumps([spelled[v] for v in sequence])}\n----------\n"
        instance, form = Instance.build(one, "100%"), find_formulation("staged")
        assert decoded(instance, form, read_solution(text)) == tuple(sequence)


def test_plain_minizinc_prints_labels_and_they_are_read_back(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes, labels = (2, 1, 7, 1, 1), ("input", "conv", "relu", "relu", 'it\'s "the" loss')
    nodes = [
        {"id": str(10 + k), "duration": 1, "size": size, "label": label}
        for k, (size, label) in enumerate(zip(sizes, labels, strict=True))
    ]
    edges = [{"source": str(10 + u), "target": str(10 + v)} for u, v in ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))]
    document = {"format": "moccasin-graph", "version": 1, "nodes": nodes, "edges": edges}
    (tmp_path / "g.json").write_text(json.dumps(document))
    assert command("export", "g.json", "--budget", 8, "-o", "out")[0] == 0
    files = ["out/model.mzn", "out/data.dzn"]
    ran = subprocess.run(["minizinc", "--solver", "gecode", *files], capture_output=True, text=True, check=True)
    assert 'again ["input"]' in ran.stdout and '"relu (12)", "relu (13)"' in ran.stdout
    (tmp_path / "printed").write_text(ran.stdout)
    status, told, _ = command("validate", "g.json", "printed", "--arrays", "--budget", 8, "-o", "schedule.json")
    assert status == 0 and told.startswith("valid: peak 8, ")
    written = json.loads((tmp_path / "schedule.json").read_text())
    assert written["sequence"] == ["10", "11", "12", "10", "13", "14"] or written["sequence"].count("10") == 2
    named = dict(zip((node["id"] for node in nodes), labels, strict=True))
    assert all(named[interval["node"]] == interval["label"] for interval in written["intervals"])


def test_json_has_ids_and_labels_beside_them(command, tmp_path):
    path = tmp_path / "g.json"
    mz.write_graph(graph(("conv", "relu", "loss")), path)
    ordered = json.loads(command("order", path, "--json")[1])
    assert (ordered["order"], ordered["labels"]) == (["19", "5", "7"], ["conv", "relu", "loss"])
    info = json.loads(command("info", path, "--json")[1])
    assert (info["least_budget_node"], info["least_budget_label"]) == ("7", "loss")
    solved = json.loads(command("solve", path, "--budget", "100%", "--search", "only", "--json")[1])
    assert [(one["node"], one["label"]) for one in solved["intervals"]] == list(
        zip(("19", "5", "7"), ("conv", "relu", "loss"), strict=True)
    )
    mz.write_graph(graph(None), path)
    assert "labels" not in command("order", path, "--json")[1] and "label" not in command("info", path, "--json")[1]
