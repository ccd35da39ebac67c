"""Files: round trips, dialects, and one clear line for every way a file can be broken."""

from __future__ import annotations

import json
import os
import stat

import pytest
from hypothesis import given
from strategies import graphs

from moccasin_mzn.base import files as jsonfile
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.formats.node_link import graph_text, parse
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.files.schedules import read_order, read_schedule
from moccasin_mzn.problem.judges.schedules import Interval

SCALE = "; scale all of them to a smaller unit in which they are integers"

PAIR = ComputationGraph([1, "b"], [3, 4], [5, 6], [(0, 1)])

TINY_TEXT = """\
{
"format": "moccasin-graph",
"version": 1,
"directed": true,
"multigraph": false,
"graph": {"name": "tiny", "duration_unit": "FLOP", "size_unit": "byte", "made_by": "hand", "order": [0, "r"]},
"nodes": [
{"id": 0, "duration": 3, "size": 4, "label": "conv"},
{"id": "r", "duration": 1, "size": 2, "label": "relu"}
],
"edges": [
{"source": 0, "target": "r"}
]
}
"""

TINY = ComputationGraph(
    nodes=[0, "r"],
    durations=[3, 1],
    sizes=[4, 2],
    edges=[(0, 1)],
    order=[0, 1],
    name="tiny",
    labels=["conv", "relu"],
    duration_unit="FLOP",
    size_unit="byte",
    attributes={"made_by": "hand"},
)


def document(**changes: object) -> dict:
    """A good file's content, with some keys replaced, or left out where the value is ..."""
    whole = {
        "format": "moccasin-graph",
        "version": 1,
        "directed": True,
        "multigraph": False,
        "graph": {"name": "pair", "order": [1, "b"]},
        "nodes": [{"id": 1, "duration": 3, "size": 5}, {"id": "b", "duration": 4, "size": 6}],
        "edges": [{"source": 1, "target": "b"}],
        **changes,
    }
    return {key: value for key, value in whole.items() if value is not ...}


def second_node(**changes: object) -> dict:
    """A document whose second node has some keys replaced."""
    node = {"id": "b", "duration": 4, "size": 6, **changes}
    return document(nodes=[{"id": 1, "duration": 3, "size": 5}, {k: v for k, v in node.items() if v is not ...}])


def lonely(**changes: object) -> dict:
    """Like `second_node`, and nothing else in the document names that node."""
    return {**second_node(**changes), "graph": {}, "edges": []}


def error_of(call, *arguments) -> str:
    with pytest.raises(InputError) as caught:
        call(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- good files --------------------------------------------------------------------------------------------


def test_node_link_text_is_as_documented(tmp_path):
    write_graph(TINY, tmp_path / "tiny.json")
    assert (tmp_path / "tiny.json").read_bytes() == TINY_TEXT.encode()
    assert read_graph(tmp_path / "tiny.json") == TINY


@given(graphs())
def test_readers_read_what_writers_write(graph):
    assert parse(json.loads(graph_text(graph))) == graph


def test_networkx_output_is_read(tmp_path):
    import networkx

    path = tmp_path / "g.json"
    for key in ("edges", "links"):
        path.write_text(json.dumps(networkx.node_link_data(TINY.to_networkx(), edges=key)))
        assert read_graph(path) == TINY


def test_byte_order_mark_is_skipped(tmp_path):
    (tmp_path / "g.json").write_bytes(b"\xef\xbb\xbf" + TINY_TEXT.encode())
    assert read_graph(tmp_path / "g.json") == TINY


def test_random_layered_dialect(tmp_path):
    (tmp_path / "g.json").write_text(
        '{"directed": true, "multigraph": false, "graph": {"name": "rl", "order": [3, 2], "pos": {}},'
        '"nodes": [{"name": 2, "out_cost": 7, "duration": 1}, {"name": 3, "out_cost": 8, "duration": 2}],'
        '"links": [{"0": 3, "1": 2}]}'
    )
    assert read_graph(tmp_path / "g.json") == ComputationGraph([2, 3], [1, 2], [7, 8], [(1, 0)], [1, 0], "rl")


def test_checkmate_dialect(tmp_path):
    (tmp_path / "g.json").write_text(
        '{"directed": true, "multigraph": false, "graph": {"name": "cm"}, "nodes": ['
        '{"id": 0, "name": "conv", "cost_cpu": 7, "cost_ram": 1, "backward": false},'
        '{"id": 1, "name": "loss", "cost_cpu": 8, "cost_ram": 2, "backward": true}],'
        '"links": [{"source": 0, "target": 1}]}'
    )
    expected = ComputationGraph(
        [0, 1], [7, 8], [1, 2], [(0, 1)], name="cm", labels=["conv", "loss"], size_unit="byte", backward=[False, True]
    )
    assert read_graph(tmp_path / "g.json") == expected


def test_published_orders_are_kept(shared):
    graph = read_graph(shared / "data" / "random_layered_n250.json")
    assert [graph.nodes[v] for v in graph.order][:5] == [0, 3, 9, 2, 4]
    assert read_graph(shared / "data" / "checkmate_fcn8_train.json").order is None


# --- writing -----------------------------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "g.json"
    path.write_text("old")

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert error_of(write_graph, TINY, path) == f"{path}: cannot write: No space left on device"
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["g.json"]


def test_write_into_a_missing_folder(tmp_path):
    path = tmp_path / "no" / "g.json"
    assert error_of(write_graph, TINY, path) == f"{path}: cannot write: No such file or directory"


def test_a_written_file_has_usual_permissions(tmp_path):
    (tmp_path / "plain").write_text("")
    write_graph(TINY, tmp_path / "g.json")
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("plain", "g.json")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"made_by": float("nan")}, "the graph's attributes are not JSON: Out of range float values"),
        ({"made_by": {1, 2}}, "the graph's attributes are not JSON: Object of type set"),
        ({"order": [1]}, "attribute 'order' has the name of a key of the format"),
    ],
)
def test_attributes_that_cannot_be_written(attributes, message):
    graph = ComputationGraph([1], [1], [1], [], attributes=attributes)
    assert error_of(graph_text, graph).startswith(message)


# --- broken graph files ------------------------------------------------------------------------------------

BROKEN_TEXTS = {
    "empty": (b"", "the file is empty"),
    "blank": (b" \n\n", "the file is empty"),
    "truncated": (
        TINY_TEXT[:150].encode(),
        "line 6 column 65: Unterminated string starting at (is the file cut short?)",
    ),
    "truncated after a comma": (b'{"nodes": [1,\n', "line 2 column 1: Expecting value (is the file cut short?)"),
    "broken": (b'{"nodes": [\n  {"id": 1 "size": 2}]}', "line 2 column 12: Expecting ',' delimiter"),
    "other text": (b"\n\n  nodes: 3\n", "line 3 column 3: Expecting value (this is not JSON)"),
    "trailing text": (b"{}\n{}", "line 2 column 1: Extra data"),
    "not UTF-8": (b'{"a":\n"\xff"}', "line 2: byte 0xff is not UTF-8"),
    "binary": (b"\x89PNG\r\n", "line 1: byte 0x89 is not UTF-8"),
    "NaN": (b'{"nodes": [{"id": 1, "size": NaN}]}', "NaN is not a JSON number"),
    "infinity": (b'{"nodes": [{"id": 1, "size": -Infinity}]}', "-Infinity is not a JSON number"),
    "huge integer": (b'{"a": ' + b"9" * 5000 + b"}", "an integer has too many digits"),
    "nested": (b"[" * 200_000, "nested too deeply"),
    "key twice": (b'{"nodes": [{"id": 1, "size": 1, "size": 2}]}', "key 'size' is given twice in one object"),
}

UNKNOWN = (
    'no known graph format; expected GraphML, DOT or a JSON object with "nodes" that have id, duration and size '
    "(moccasin-graph), name, out_cost and duration (random layered) or id, cost_ram and cost_cpu (checkmate)"
)

BROKEN_DOCUMENTS = {
    "a list": ([1, 2], UNKNOWN),
    "a number": (3, UNKNOWN),
    "unknown": ({"nodes": [{"key": 1}]}, UNKNOWN),
    "other format": (document(format="onnx"), '"format" is \'onnx\', expected "moccasin-graph"'),
    "other version": (document(version=2), '"version" is 2, this program reads version 1'),
    "undirected": (document(directed=False), '"directed" is False, expected true'),
    "multigraph": (document(multigraph=True), '"multigraph" is True, expected false'),
    "graph is a list": (document(graph=[]), '"graph" is [], expected an object'),
    "no nodes": (document(nodes=[], edges=[], graph={}), "the graph has no nodes"),
    "nodes missing": (document(nodes=...), 'expected one key "nodes", found none'),
    "nodes is an object": (document(nodes={"1": 2}), "\"nodes\" is {'1': 2}, expected a list"),
    "node is a number": (document(nodes=[7]), "nodes[0] is 7, expected an object"),
    "edges missing": (document(edges=...), 'expected one key "edges" or "links", found none'),
    "edges and links": (document(links=[]), 'expected one key "edges" or "links", found all'),
    "id missing": (second_node(id=...), 'nodes[1]: key "id" is missing'),
    "size missing": (second_node(size=...), "nodes[1] (id 'b'): key \"size\" is missing"),
    "duration missing": (second_node(duration=...), "nodes[1] (id 'b'): key \"duration\" is missing"),
    "size misspelt": (second_node(size=..., sise=6), "nodes[1] (id 'b'): key \"size\" is missing, there is 'sise'"),
    "workspace misspelt": (second_node(workspce=6), "nodes: key 'workspce' is unknown, did you mean \"workspace\"?"),
    "computed_once misspelt": (
        document(graph={"computed_onec": [1]}),
        '"graph": key \'computed_onec\' is unknown, did you mean "computed_once"?',
    ),
    "fixed_memory misspelt": (
        document(graph={"fixed_memry": {"x": 1}}),
        '"graph": key \'fixed_memry\' is unknown, did you mean "fixed_memory"?',
    ),
    "version misspelt": (document(versoin=1), "key 'versoin' is unknown, did you mean \"version\"?"),
    "label on one node": (second_node(label="x"), 'nodes[0] (id 1): key "label" is missing'),
    "backward on one node": (second_node(backward=True), 'nodes[0] (id 1): key "backward" is missing'),
    "backward is text": (
        document(
            nodes=[
                {"id": 1, "duration": 3, "size": 5, "backward": False},
                {"id": "b", "duration": 4, "size": 6, "backward": "true"},
            ]
        ),
        "node b: backward flag is 'true', expected true or false",
    ),
    "id is null": (lonely(id=None), "nodes[1]: id None is neither an integer nor a string"),
    "id twice": (lonely(id=1), "nodes[1]: id 1 is given twice"),
    "size is text": (second_node(size="6"), "node b: size is '6', expected an integer >= 0"),
    "size is a float": (second_node(size=6.5), f"node b: size is 6.5, expected an integer >= 0{SCALE}"),
    "size is a whole float below 0": (second_node(size=-6.0), "node b: size is -6, expected an integer >= 0"),
    "size is a list": (second_node(size=[6]), "node b: size is [6], expected an integer >= 0"),
    "size is negative": (second_node(size=-6), "node b: size is -6, expected an integer >= 0"),
    "duration is true": (second_node(duration=True), "node b: duration is True, expected an integer >= 0"),
    "duration is null": (second_node(duration=None), "node b: duration is None, expected an integer >= 0"),
    "size is huge": (
        second_node(size=10**300),
        "node b: size is an integer of 997 bits, over the limit 2**53; use a larger unit",
    ),
    "ids collide": (lonely(id="1"), "nodes[1]: id '1' is written like the id 1"),
    "target missing": (document(edges=[{"source": 1}]), 'edges[0]: key "target" is missing'),
    "target unknown": (document(edges=[{"source": 1, "target": "z"}]), "edges[0]: node 'z' is not in the graph"),
    "target of the wrong type": (
        document(edges=[{"source": "1", "target": "b"}]),
        "edges[0]: node '1' is not in the graph",
    ),
    "target is a list": (document(edges=[{"source": 1, "target": []}]), "edges[0]: node [] is not in the graph"),
    "self loop": (document(edges=[{"source": 1, "target": 1}]), "edges[0]: node 1 reads itself"),
    "edge twice": (document(edges=[{"source": 1, "target": "b"}] * 2), "edges[1]: edge 1 -> b is given twice"),
    "cycle": (document(edges=[{"source": 1, "target": "b"}, {"source": "b", "target": 1}]), "cycle: 1 -> b -> 1"),
    "order is text": (document(graph={"order": "1b"}), "\"order\" is '1b', expected a list of node ids"),
    "order names a stranger": (document(graph={"order": [1, "c"]}), "order[1]: node 'c' is not in the graph"),
    "order is too short": (document(graph={"order": [1]}), "order: node b is missing"),
    "order is backwards": (
        document(graph={"order": ["b", 1]}),
        "order is not topological: edge 1 -> b, but b is at order[0], 1 at order[1]",
    ),
    "name is a number": (document(graph={"name": 5}), "name is 5, expected a string"),
    "random layered without duration": (
        {"nodes": [{"name": 1, "out_cost": 2}], "links": []},
        'nodes[0]: key "duration" is missing',
    ),
    "checkmate without cost_ram": (
        {"nodes": [{"id": 1, "cost_cpu": 2}], "links": []},
        'nodes[0] (id 1): key "cost_ram" is missing',
    ),
}


@pytest.mark.parametrize("case", BROKEN_TEXTS)
def test_broken_text(tmp_path, case):
    data, message = BROKEN_TEXTS[case]
    path = tmp_path / "g.json"
    path.write_bytes(data)
    told = f"{path}: {message}"
    assert error_of(read_graph, path) == (told if "not UTF-8" in message else Page.GRAPH_FILES.after(told))


@pytest.mark.parametrize("case", BROKEN_DOCUMENTS)
def test_broken_document(tmp_path, case):
    content, message = BROKEN_DOCUMENTS[case]
    path = tmp_path / "g.json"
    path.write_text(json.dumps(content))
    assert error_of(read_graph, path) == Page.GRAPH_FILES.after(f"{path}: {message}")


def test_whole_floats_in_a_document_are_integers(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(second_node(duration=16.0, size=1e3)))
    graph = read_graph(tmp_path / "g.json")
    assert (graph.durations[1], graph.sizes[1]) == (16, 1000) and type(graph.durations[1]) is int


def test_good_document_is_good(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(document()))
    assert read_graph(tmp_path / "g.json").edges == PAIR.edges


def test_unknown_keys_are_ignored_with_one_note(tmp_path, caplog):
    path = tmp_path / "g.json"
    content = document(
        nodes=[{"id": 1, "duration": 3, "size": 5, "colour": 1}, {"id": "b", "duration": 4, "size": 6, "shape": [6]}],
        edges=[{"source": 1, "target": "b", "weight": 2}],
        graph={"made_by": "hand"},
        comment="an extension",
    )
    path.write_text(json.dumps(content))
    with caplog.at_level("INFO", logger="moccasin_mzn.notes"):
        assert read_graph(path) == read_graph(path)
    ignored = '"comment", "colour", "shape" of nodes, "weight" of edges'
    assert caplog.messages == [f"note: {path}: unknown keys are ignored: {ignored}"]
    assert read_graph(path).attributes == {"made_by": "hand"}


def test_bytes_are_the_unit_byte(tmp_path):
    (tmp_path / "g.json").write_text(json.dumps(document(graph={"size_unit": "bytes"})))
    assert read_graph(tmp_path / "g.json").size_unit == "byte"


def test_an_attribute_that_would_not_be_read_is_not_written(tmp_path):
    graph = ComputationGraph([1], [1], [1], [], attributes={"Order": [1]})
    assert error_of(write_graph, graph, tmp_path / "g.json") == (
        "attributes: key 'Order' is unknown, did you mean \"order\"?"
    )


def test_missing_file_and_folder(tmp_path):
    path = tmp_path / "none.json"
    assert error_of(read_graph, path) == f"{path}: cannot read: No such file or directory"
    assert error_of(read_graph, tmp_path) == f"{tmp_path}: cannot read: Is a directory"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read any file")
def test_unreadable_file(tmp_path):
    path = tmp_path / "g.json"
    path.write_text(TINY_TEXT)
    path.chmod(0)
    assert error_of(read_graph, path) == f"{path}: cannot read: Permission denied"


def test_file_over_the_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "SIZE_LIMIT", 100)
    path = tmp_path / "g.json"
    path.write_text(TINY_TEXT)
    assert error_of(read_graph, path) == f"{path}: larger than the limit of 100 bytes"


# --- schedules and orders ----------------------------------------------------------------------------------


def write(tmp_path, content: object):
    path = tmp_path / "s.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_schedule_as_a_list(tmp_path):
    schedule = read_schedule(write(tmp_path, [1, "1", "b"]), PAIR)
    assert schedule.sequence == (0, 0, 1)
    assert (schedule.intervals, schedule.peak, schedule.duration, schedule.budget) == (None,) * 4


def test_schedule_as_an_object(tmp_path):
    content = {
        "sequence": [1, "b"],
        "intervals": [{"node": 1, "start": 1, "end": 2}],
        "peak": 11,
        "duration": 7,
        "budget": None,
        "solver": "any",
    }
    schedule = read_schedule(write(tmp_path, content), PAIR)
    assert schedule.sequence == (0, 1)
    assert schedule.intervals == (Interval(0, 1, 2),)
    assert (schedule.peak, schedule.duration, schedule.budget) == (11, 7, None)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (5, "expected a list of node ids or an object, got 5"),
        ({}, 'expected a key "sequence" with a list of node ids'),
        ({"sequence": "1b"}, 'expected a key "sequence" with a list of node ids'),
        ([1, "c"], "sequence[1]: node 'c' is not in the graph"),
        ([1, True], "sequence[1]: node True is not in the graph"),
        ({"sequence": [1], "intervals": 3}, '"intervals" is 3, expected a list'),
        ({"sequence": [1], "intervals": [{"node": 1, "start": 1}]}, 'intervals[0]: key "end" is missing'),
        (
            {"sequence": [1], "intervals": [{"node": 9, "start": 1, "end": 1}]},
            "intervals[0]: node 9 is not in the graph",
        ),
        (
            {"sequence": [1], "intervals": [{"node": 1, "start": 1, "end": 1.5}]},
            "intervals[0]: start 1, end 1.5: expected integers",
        ),
        ({"sequence": [1], "peak": "12"}, "\"peak\" is '12', expected an integer >= 0"),
        ({"sequence": [1], "duration": -1}, '"duration" is -1, expected an integer >= 0'),
        ({"sequence": [1], "budget": True}, '"budget" is True, expected an integer >= 0'),
        ("[1,", "line 1 column 4: Expecting value (is the file cut short?)"),
    ],
)
def test_broken_schedule(tmp_path, content, message):
    path = write(tmp_path, content)
    assert error_of(read_schedule, path, PAIR) == Page.PLAN_FORMAT.after(f"{path}: {message}")


@pytest.mark.parametrize("content", ["1\nb\n", "\n 1 \r\n\nb", '["1", "b"]', ' [1, "b"]'])
def test_order_file_is_read(tmp_path, content):
    assert read_order(write(tmp_path, content), PAIR) == (0, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "order: node 1 is missing"),
        ("1\n\nx", "line 3: node 'x' is not in the graph"),
        ("1", "order: node b is missing"),
        ("b\n1", "order is not topological: edge 1 -> b, but b is at order[0], 1 at order[1]"),
        ('[1, "b", "b"]', "order[2]: node b was already at order[1]"),
        ("[1", "line 1 column 3: Expecting ',' delimiter (is the file cut short?)"),
    ],
)
def test_broken_order(tmp_path, content, message):
    path = write(tmp_path, content)
    assert error_of(read_order, path, PAIR) == f"{path}: {message}"
