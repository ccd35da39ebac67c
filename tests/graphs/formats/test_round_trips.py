"""Written and read again, a graph is the same in every field and every type, whatever the format."""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import given
from strategies import graphs, odd_graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import dot, graphml, node_link, read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Part, Reach, Read


class Format(NamedTuple):
    suffix: str
    text: Callable[[ComputationGraph], str]
    parse: Callable[[str], ComputationGraph]
    write: Callable
    read: Callable


FORMATS = (
    Format("json", node_link.graph_text, lambda text: node_link.parse(json.loads(text)), write_graph, read_graph),
    Format("graphml", graphml.graphml_text, graphml.parse_text, graphml.write_graphml, graphml.read_graphml),
    Format("dot", dot.dot_text, dot.parse_text, dot.write_dot, dot.read_dot),
)
each_format = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.suffix)

WHOLE = ComputationGraph(
    nodes=[0, "r", "1", -7, "further", "beside", "reads both"],
    durations=[3, 0, 2**50, 1, 0, 2, 2],
    sizes=[4, 2, 0, 2**52, 1, 3, 1],
    edges=[(3, 1), (0, 1), (0, 2), (5, 6), (4, 6)],
    order=[3, 0, 4, 2, 1, 5, 6],
    name="tiny",
    labels=["conv", "conv", "", "a\nb", "f", "g", "h"],
    duration_unit="FLOP",
    size_unit="byte",
    attributes={"made_by": {"seed": 3, "options": [1.5, None, True, "x"]}},
    backward=[False, True, False, True, False, True, True],
    fixed_memory={"parameters": 9, "optimizer": 18},
    device_durations={"gpu": [3, 0, 1, 1, 0, 1, 1], 'c"pu': [12, None, 2**50, 0, 0, 0, None]},
    workspaces=[0, 7, 0, 2**51, 0, 0, 0],
    in_place=[(), (3,), (0,), (), (), (), ()],
    computed_once=[3, 1],
    operators=[
        None,
        Operator("sum", (2, 3), (Read(3, (5,), (None,)), Read(0, (4, 3), (Reach(0, 2, 3, 2, -1, 2, True), Reach(1))))),
        Operator("mean", (), (Read(0, (4, 3), (None, None)), Read(None, (1,), (None,))), 4),
        Operator("read", (5,)),
        None,
        None,
        Operator("Concat", (4,), (Read(5, (3,), (Reach(0),)), Read(4, (1,), (Reach(0, before=3),))), 0, True),
    ],
    parts=[None, Part("r", ((0, 1), (2, 3))), Part("r", ((1, 2), (0, 3)), 2), *[None] * 4],
    output_of=[None, None, None, None, 0, None, None],
    adjacent=[(), (), (), (), (), (), ((5, 4),)],
)


def assert_same(read: ComputationGraph, graph: ComputationGraph) -> None:
    assert read == graph
    assert repr(read) == repr(graph)  # and no 1 for True, no 1.0 for 1


@each_format
@given(graph=graphs() | odd_graphs())
def test_graph_text_is_read_back(form, graph):
    assert_same(form.parse(form.text(graph)), graph)


@pytest.mark.few(2)
@each_format
@given(graph=odd_graphs())
def test_same_graph_same_text(form, graph):
    text = form.text(graph)
    assert form.text(copy.deepcopy(graph)) == text
    assert form.text(form.parse(text)) == text


@given(graph=odd_graphs())
def test_through_all_formats(graph):
    there = graph
    for form in FORMATS:
        there = form.parse(form.text(there))
    assert_same(there, graph)


@pytest.mark.few(1)
@each_format
@given(graph=odd_graphs())
def test_graph_file_is_read_back(form, graph, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"round.{form.suffix}"
    form.write(graph, path)
    assert_same(form.read(path), graph)
    assert path.read_bytes() == form.text(graph).encode()


@each_format
def test_every_field_of_a_graph_is_kept(form):
    for field in dataclasses.fields(WHOLE):  # so that a new field cannot be forgotten here
        assert getattr(WHOLE, field.name) not in ((), {}, None, "")
    assert_same(form.parse(form.text(WHOLE)), WHOLE)


@each_format
def test_every_optional_field_of_a_graph_may_be_missing(form):
    bare = ComputationGraph(["a"], [0], [0], [])
    assert_same(form.parse(form.text(bare)), bare)


@each_format
def test_text_no_file_can_hold(form, tmp_path):
    lone = "\ud800"  # half of a surrogate pair, as some decoders leave it in strings
    graph = dataclasses.replace(WHOLE, name=lone, labels=[lone] * 7, size_unit=lone, attributes={lone: lone})
    form.write(graph, tmp_path / "g")
    assert_same(form.read(tmp_path / "g"), graph)


@each_format
@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"x", 10**5000], ids=lambda v: type(v).__name__)
def test_attributes_that_are_no_json(form, value):
    graph = ComputationGraph(["a"], [0], [0], [], attributes={"x": value})
    with pytest.raises(InputError, match="^the graph's attributes are not JSON: ") as caught:
        form.text(graph)
    assert len(str(caught.value).splitlines()) == 1


@each_format
def test_published_graphs_are_read_and_written(form, shared):
    paths = sorted((shared / "data").glob("*_n100.json")) + sorted((shared / "data").glob("checkmate_fcn8*.json"))
    assert paths
    for path in paths[:1] if form.suffix == "dot" else paths:  # pydot takes seconds for each
        graph = read_graph(path)
        assert_same(form.parse(form.text(graph)), graph)


@pytest.mark.parametrize(
    ("text", "recognised_by"),
    [
        ('<?xml version="1.0"?><graphml/>', "graphml"),
        ("  \n<graphml/>", "graphml"),
        ("digraph{}", "dot"),
        ("Graph G {}", "dot"),
        ("// made by hand\n# 1 file\n/* and\n more */ strict /**/ DIGRAPH g {", "dot"),
        ('{"nodes": []}', None),
        ("[1, 2]", None),
        ("graphs are fine", None),
        ("strictly", None),
        ("/* digraph {", None),
        ("", None),
    ],
)
def test_recognised_by_content(text, recognised_by):
    matching = [form for form, module in (("graphml", graphml), ("dot", dot)) if module.matches_text(text)]
    assert matching == ([recognised_by] if recognised_by else [])
