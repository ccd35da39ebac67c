"""Every broken file of every format ends in one line on stderr that names the file and says what is wrong where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.dot import dot_text
from moccasin_mzn.graphs.formats.graphml import graphml_text
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.graph import ComputationGraph

GOOD = ComputationGraph(
    nodes=["a", "b", 3],
    durations=[1, 2, 3],
    sizes=[4, 5, 6],
    edges=[(0, 1), (1, 2)],
    order=[0, 1, 2],
    name="good",
    labels=["x", "y y", "z"],
    attributes={"made_by": "hand"},
    backward=[False, False, True],
    fixed_memory={"parameters": 7},
)
TEXTS = {"json": graph_text(GOOD), "graphml": graphml_text(GOOD), "dot": dot_text(GOOD)}

# What the second node looks like in each format, and the value of its size there.
SIZE_5 = {"json": '"size": 5', "graphml": '<data key="size">5</data>', "dot": "size=5"}
EDGE = {
    "json": '{"source": "a", "target": "b"}',
    "graphml": '<edge source="a" target="b" id="0" />',
    "dot": "  a -> b;",
}
BETWEEN_EDGES = {"json": ",\n", "graphml": "\n", "dot": "\n"}
ORDER = {"json": '["a", "b", 3]', "graphml": '["a", "b", 3]', "dot": r"[\"a\", \"b\", 3]"}
WRONG_ORDER = {"json": '["b", "a", 3]', "graphml": '["b", "a", 3]', "dot": r"[\"b\", \"a\", 3]"}
DEEP = 100_000

_Broken = tuple[bytes, str]


def changed(form: str, old: str, new: str) -> bytes:
    text = TEXTS[form]
    assert text.count(old) == 1, (form, old)
    return text.replace(old, new).encode()


def in_all_formats() -> dict[str, _Broken]:
    """What can be wrong in any format: name, content and what the message must say."""
    files: dict[str, _Broken] = {}
    for form in TEXTS:
        quote = '"{}"'.format if form == "dot" else str
        size = SIZE_5[form]
        for name, value in (
            ("negative", "-5"),
            ("fraction", "5.5"),
            ("over 2**53", str(2**53 + 1)),
            ("5,000 digits", "9" * 5000),
            ("NaN", "NaN"),
            ("infinity", "Infinity"),
            ("minus infinity", "-Infinity"),
            ("1e999", "1e999"),
            ("boolean", "true"),
            ("no number", "[]"),
        ):
            bad = size.replace("5", quote(value))
            say = {"NaN": "NaN", "infinity": "Infinity", "minus infinity": "Infinity", "5,000 digits": ""}
            where = say.get(name, "node b: size is") if form == "json" else "node 'b': size is"
            files[f"{form}: size: {name}"] = changed(form, size, bad), where
        missing = "" if form == "graphml" else size.replace("size", "x")
        files[f"{form}: size missing"] = changed(form, size, missing), "size"
        edge, between = EDGE[form], BETWEEN_EDGES[form]
        for name, new, say in (
            (
                "self loop",
                edge.replace("b", "a") if form != "json" else '{"source": "a", "target": "a"}',
                "reads itself",
            ),
            ("unknown node", edge.replace('"a"', '"q"').replace("a ->", "q ->"), "q"),
            ("duplicate edge", edge + between + edge, "given twice"),
            ("cycle", edge + between + _reverse(form), "cycle: a -> b -> a"),
        ):
            files[f"{form}: {name}"] = changed(form, edge, new), say
        files[f"{form}: wrong order"] = changed(form, ORDER[form], WRONG_ORDER[form]), "order is not topological"
        files[f"{form}: order too short"] = changed(form, ORDER[form], "[]"), "order: node a is missing"
        files[f"{form}: order too deep"] = changed(form, ORDER[form], "[" * DEEP), "nested too deeply"
        for tenths in (1, 3, 5, 7, 9):
            cut = TEXTS[form].encode()[: len(TEXTS[form]) * tenths // 10]
            files[f"{form}: cut at {tenths}/10"] = cut, "line "
        files[f"{form}: empty"] = b"", ""
        files[f"{form}: blank"] = b" \n\t\n", ""
        files[f"{form}: not UTF-8"] = TEXTS[form].encode().replace(b"y y", b"y \xe9"), "line "
        files[f"{form}: UTF-16"] = TEXTS[form].encode("utf-16"), "is not UTF-8"
        files[f"{form}: zero bytes"] = TEXTS[form].encode().replace(b"\n", b"\0"), ""
        files[f"{form}: zeros only"] = b"\0" * 100, ""
        files[f"{form}: binary"] = bytes(range(256)), "is not UTF-8"
    return files


def _reverse(form: str) -> str:
    return {
        "json": '{"source": "b", "target": "a"}',
        "graphml": '<edge source="b" target="a"/>',
        "dot": "  b -> a;",
    }[form]


JSON_NODE_B = '{"id": "b", "duration": 2, "size": 5, "label": "y y", "backward": false}'
ENTITIES = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(9))
BOMB = f'<!DOCTYPE graphml [<!ENTITY e0 "x">{ENTITIES}]>'
FETCH = '<!DOCTYPE graphml [<!ENTITY e SYSTEM "file:///etc/hostname">]>'
XML = "<graphml"


def with_node(name: str) -> bytes:
    """The JSON file with one more node."""
    return changed("json", JSON_NODE_B, JSON_NODE_B + ",\n" + JSON_NODE_B.replace('"b"', name))


IN_ONE_FORMAT: dict[str, _Broken] = {
    "json: duplicate id": (with_node('"a"'), "id 'a' is given twice"),
    "json: ids written alike": (with_node('"3"'), "written like"),
    "json: key twice": (changed("json", '"size": 5', '"size": 5, "size": 6'), "key 'size' is given twice"),
    "json: wrong version": (changed("json", '"version": 1', '"version": 2'), '"version" is 2'),
    "json: other format": (changed("json", "moccasin-graph", "other"), "\"format\" is 'other'"),
    "json: undirected": (changed("json", '"directed": true', '"directed": false'), '"directed" is False'),
    "json: multigraph": (changed("json", '"multigraph": false', '"multigraph": true'), '"multigraph" is True'),
    "json: no object": (b"[1, 2]", "no known graph format"),
    "json: a number": (b"12", "no known graph format"),
    "json: nested too deeply": (b"[" * DEEP, "nested too deeply"),
    "json: nodes no list": (json.dumps({"format": "moccasin-graph", "nodes": 3, "edges": []}).encode(), '"nodes" is 3'),
    "json: label no string": (changed("json", '"label": "y y"', '"label": 5'), "node b: label is 5"),
    "json: string without its end": (changed("json", '"y y"', '"y y'), "line "),
    "graphml: duplicate id": (changed("graphml", 'node id="b"', 'node id="a"'), "node 'a' is given twice"),
    "graphml: undirected": (changed("graphml", '"directed"', '"undirected"'), "edgedefault is 'undirected'"),
    "graphml: undirected edge": (changed("graphml", '"b" id', '"b" directed="false" id'), "is undirected"),
    "graphml: doctype": (changed("graphml", XML, "<!DOCTYPE graphml>" + XML), "a document type"),
    "graphml: entity bomb": (changed("graphml", XML, BOMB + XML).replace(b"y y", b"&e9;"), "a document type"),
    "graphml: external entity": (changed("graphml", XML, FETCH + XML).replace(b"y y", b"&e;"), "a document type"),
    "graphml: unknown entity": (changed("graphml", "y y", "&e;"), "undefined entity"),
    "graphml: other root": (b"<html><body/></html>", "the root element is 'html'"),
    "graphml: comment without its end": (changed("graphml", "</graph>", "<!-- </graph>"), "line "),
    "graphml: tags crossed": (changed("graphml", "y y</data>", "y y</node>"), "mismatched tag"),
    "graphml: unknown key": (changed("graphml", '<key id="size"', '<key id="bytes"'), "no key size"),
    "graphml: nested too deeply": (b"<graphml>" * DEEP, "line 1 column"),
    "graphml: attributes no JSON": (changed("graphml", '{"made_by": "hand"}', "{made"), "attributes: line 1"),
    "dot: undirected": (b"graph { a -- b }", "'--' in a digraph"),
    "dot: undirected edge": (changed("dot", "a -> b", "a -- b"), "line 6: '--' in a digraph"),
    "dot: string without its end": (changed("dot", '"z"', '"z'), "a string without its end"),
    "dot: comment without its end": (changed("dot", "  a -> b", "/*  a -> b"), "line 6: '/*' begins a comment"),
    "dot: HTML without its end": (changed("dot", '"z"', "<<<<z"), "line 5: '<' begins a string in HTML"),
    "dot: two graphs": (TEXTS["dot"].encode() * 2, "2 graphs, expected one"),
    "dot: nested too deeply": (b"digraph {\n" + b"{" * DEEP, "for each subgraph around them"),
    "dot: arrow to nothing": (changed("dot", "a -> b", "a -> "), "line 6 column 5: cannot be read"),
    "dot: cyclic by a chain": (changed("dot", "a -> b;", "a -> b -> a;"), "cycle: a -> b -> a"),
    "dot: attributes no JSON": (changed("dot", r"{\"made_by", r"{made_by"), "attributes: line 1"),
}  # fmt: skip

BROKEN = in_all_formats() | IN_ONE_FORMAT


@pytest.mark.parametrize("form", TEXTS)
def test_the_unbroken_files_are_good(form, tmp_path):
    path = tmp_path / f"good.{form}"
    path.write_text(TEXTS[form], encoding="utf-8")
    assert read_graph(path) == GOOD


@pytest.mark.parametrize("name", BROKEN)
def test_broken_file(name, tmp_path, command):
    form = name.partition(":")[0]
    content, say = BROKEN[name]
    path = tmp_path / f"broken.{form}"
    path.write_bytes(content)
    status, out, err = command("info", path)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {path}: ") and err.endswith("\n") and len(err.splitlines()) == 1
    message, page, _ = err.removeprefix(f"error: {path}: ").partition(" (see Graph files: docs/graphs.md#graph-files)")
    assert page or "not UTF-8" in message  # of what is no text nothing is known
    assert say in message
    assert 10 < len(message) < 250


def test_no_file(tmp_path, command):
    for path in (tmp_path / "missing", tmp_path):
        status, out, err = command("info", path)
        assert (status, out) == (2, "")
        # The command line looks itself whether the file exists.
        assert str(path) in err and len(err.splitlines()) == 1


# --- fuzzing ---------------------------------------------------------------------------------------------------


_PIECES = [*(bytes([byte]) for byte in b"\0\xff\"'\\<>{}[]&-;="), b"/*", b"9" * 30, b"e9", b"->", b"<!--"]
_BEGINNINGS = [b"", b"<", b"digraph", b"digraph{", b"{"]


@st.composite
def mutations(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` after one to four changes: cut off, bytes changed, pieces left out, said twice, moved or put in."""
    for _ in range(draw(st.integers(1, 4))):
        start, end = sorted((draw(st.integers(0, len(content))), draw(st.integers(0, len(content)))))
        kind = draw(st.sampled_from(["cut", "flip", "without", "twice", "moved", "put in"]))
        if kind == "cut":
            content = content[:end]
        elif kind == "flip" and start < len(content):
            content = content[:start] + bytes([draw(st.integers(0, 255))]) + content[start + 1 :]
        elif kind == "without":
            content = content[:start] + content[end:]
        elif kind == "twice":
            content = content[:end] + content[start:]
        elif kind == "moved":
            content = content[end:] + content[start:end] + content[:start]
        else:
            content = content[:start] + draw(st.sampled_from(_PIECES)) + content[start:]
    return content


@pytest.mark.parametrize("form", TEXTS)
@settings(max_examples=examples(500))
@given(data=st.data())
def test_mutated_files_are_read_or_refused(form, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"mutated.{form}"
    check_read_or_refused(path, data.draw(mutations(TEXTS[form].encode())))


@settings(max_examples=examples(500))
@given(beginning=st.sampled_from(_BEGINNINGS), content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(beginning, content, tmp_path_factory):
    check_read_or_refused(tmp_path_factory.getbasetemp() / "bytes", beginning + content)


def check_read_or_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    message = f"{path}: read"
    try:
        read_graph(path)
    except InputError as error:
        message = str(error)
    assert message.startswith(f"{path}: ") and len(message.splitlines()) == 1
