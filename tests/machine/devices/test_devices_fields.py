"""Durations by device as a field of graphs: checked at birth, and carried by every format and by reductions."""

from __future__ import annotations

import dataclasses
import json

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import dot, graphml, node_link, read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.reduction import reduce_graph

FORMATS = {
    "json": (node_link.graph_text, lambda text: node_link.parse(json.loads(text))),
    "graphml": (graphml.graphml_text, graphml.parse_text),
    "dot": (dot.dot_text, dot.parse_text),
}
NAMES = st.text("gpu0 \"'<&é\\", min_size=1, max_size=4)


@st.composite
def graphs_of_devices(draw) -> ComputationGraph:
    graph = draw(graphs())
    n = len(graph.nodes)
    durations = st.lists(st.none() | st.integers(0, 2**49), min_size=n, max_size=n)
    return dataclasses.replace(graph, device_durations=draw(st.dictionaries(NAMES, durations, max_size=3)))


@pytest.mark.few(1)
@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=examples(40))
@given(graph=graphs_of_devices())
def test_device_durations_are_written_and_read_back(form, graph):
    write, parse = FORMATS[form]
    assert parse(write(graph)).device_durations == graph.device_durations


@settings(max_examples=examples(40))
@given(graph=graphs_of_devices())
def test_device_durations_survive_networkx(graph):
    assert ComputationGraph.from_networkx(graph.to_networkx()).device_durations == graph.device_durations


def test_device_durations_written_by_hand_are_read(tmp_path):
    nodes = [
        {"id": "a", "duration": 3, "size": 4, "device_durations": {"gpu": 3, "cpu": 12, "npu": None}},
        {"id": "b", "duration": 1, "size": 2, "device_durations": {"npu": 7, "gpu": 1, "cpu": 2}},
    ]
    path = tmp_path / "graph.json"
    path.write_text(json.dumps({"nodes": nodes, "edges": [{"source": "a", "target": "b"}]}))
    graph = read_graph(path)
    assert graph.device_durations == {"gpu": (3, 1), "cpu": (12, 2), "npu": (None, 7)}
    assert graph.attributes_of(0)["device_durations"] == {"gpu": 3, "cpu": 12, "npu": None}


@pytest.mark.parametrize(
    ("given_durations", "complaint"),
    [
        ([1, 2], "device_durations is [1, 2], expected durations by device"),
        ({"": [1, 2]}, "device_durations: '' is not a printable name of a device"),
        ({"gpu": [1]}, "2 nodes, but 1 gpu duration"),
        ({"gpu": [1, -2]}, "node b: gpu duration is -2, expected an integer >= 0"),
        ({"gpu": [True, 2]}, "node a: gpu duration is True, expected an integer >= 0"),
        ({"gpu": [2**53, 1]}, f"the gpu durations sum to {2**53 + 1}, over the limit 2**53; use a larger unit"),
    ],
)
def test_device_durations_reject_wrong_values(given_durations, complaint):
    with pytest.raises(InputError) as caught:
        ComputationGraph(["a", "b"], [1, 1], [1, 1], [], device_durations=given_durations)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("durations", "complaint"),
    [
        (5, "node 'b': device_durations is 5, expected an object"),
        ({"cpu": 1}, "node 'b': device_durations has not the devices of the first node: gpu"),
        (
            {"gpu": 1.5},
            "node b: gpu duration is 1.5, expected an integer >= 0; scale all of them to a smaller unit in "
            "which they are integers",
        ),
    ],
)
def test_device_durations_in_a_file_reject_wrong_values(durations, complaint):
    nodes = [{"id": "a", "duration": 1, "size": 1, "device_durations": {"gpu": 1}}]
    nodes.append({"id": "b", "duration": 1, "size": 1, "device_durations": durations})
    with pytest.raises(InputError) as caught:
        node_link.parse({"nodes": nodes, "edges": []})
    assert str(caught.value) == complaint


def test_merged_nodes_take_the_sum_on_each_device():
    graph = ComputationGraph(
        ["a", "b", "c"], [1, 2, 3], [4, 4, 1], [(0, 1), (1, 2)], labels=["conv", "relu", "fc"],
        device_durations={"gpu": [1, 2, 3], "cpu": [5, None, 7]},
    )  # fmt: skip
    reduced = reduce_graph(graph).graph
    assert reduced.nodes == ("a", "c")
    assert reduced.device_durations == {"gpu": (3, 3), "cpu": (None, 7)}
