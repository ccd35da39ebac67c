"""DOT: its text, what is made of pydot's statements, and what is refused."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import dot
from moccasin_mzn.graphs.formats import text_graph as attributes
from moccasin_mzn.graphs.formats.dot import dot_text, parse_text, read_dot, write_dot
from moccasin_mzn.graphs.graph import ComputationGraph

SCALE = "; scale all of them to a smaller unit in which they are integers"

TINY = ComputationGraph(
    nodes=[0, "r", "7", "a b", "node", 'x\\"', "y\\z"],
    durations=[3, 1, 0, 0, 0, 0, 0],
    sizes=[4, 2, 0, 0, 0, 0, 0],
    edges=[(0, 1), (0, 3), (3, 5)],
    order=[0, 1, 2, 3, 4, 5, 6],
    name="tiny graph",
    labels=["conv", "relu\t", "a\nb", "\\N", "", '"', "é"],
    size_unit="byte",
    attributes={"made_by": "hand\n"},
    backward=[False, False, True, False, False, False, False],
    fixed_memory={"parameters": 9},
)

TINY_TEXT = (
    r"""digraph "tiny graph" {
  graph [size_unit="byte", order="[0, \"r\", \"7\", \"a b\", \"node\", \"x\\\\\\\"\", \"y\\\\z\"]", """
    + r"""fixed_memory="{\"parameters\": 9}", attributes="{\"made_by\": \"hand\\n\"}"];
  0 [duration=3, size=4, label="conv", backward=false];
  r [duration=1, size=2, label="relu"""
    + "\ufffd"
    + r"""", label_json="\"relu\\t\"", backward=false];
  7 [duration=0, size=0, id_json="\"7\"", label="a\nb", backward=true, style=dashed];
  "a b" [duration=0, size=0, label="\\N", backward=false];
  "node" [duration=0, size=0, label="", backward=false];
  node_5 [duration=0, size=0, label="\"", backward=false, id_json="\"x\\\\\\\"\""];
  "y\z" [duration=0, size=0, label="é", backward=false];
  0 -> r;
  0 -> "a b";
  "a b" -> node_5;
}
"""
)  # noqa: E501

ONES = attributes.Amounts(missing_duration=1, missing_size=1)


def body(text: str) -> ComputationGraph:
    """The graph with these statements; amounts that are missing are 1."""
    return parse_text(f"digraph {{ {text} }}", ONES)


def arrows(graph: ComputationGraph) -> list[str]:
    return [f"{graph.nodes[tail]}>{graph.nodes[head]}" for tail, head in graph.edges]


def error_of(text: str) -> str:
    with pytest.raises(InputError) as caught:
        parse_text(text, ONES)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# --- good files --------------------------------------------------------------------------------------------


def test_dot_text_is_as_documented(tmp_path):
    write_dot(TINY, tmp_path / "g.dot")
    assert (tmp_path / "g.dot").read_text(encoding="utf-8") == TINY_TEXT == dot_text(TINY)
    assert read_dot(tmp_path / "g.dot") == TINY


def test_what_graphviz_makes_of_the_text():
    """`dot -Tcanon` of Graphviz 16.1 on a graph written here: other quotes, other lines, more attributes."""
    text = r"""digraph "ti\"ny\N" {
	graph [attributes="{\"made_by\": \"hand\\u2028\\n\\\\N\", \"x\": [1, {\"order\": \"\\\"\"}]}",
		bb="0 0 446 131",
		duration_unit=FLOP,
		order="[0, \"r\", \"a\\\\\\\"b\", \"a b\\\\n\", \"node\"]"
	];
	node [label="\N"];
	0	[backward=true,
		duration=3,
		label=conv,
		size=4,
		style=dashed];
	r	[backward=false, duration=1, label="re\nl\\u", size=2];
	0 -> r;
	node_2	[backward=true, duration=0, id_json="\"a\\\\\\\"b\"", label="", size=1, style=dashed];
	"a b\n"	[backward=true, duration=0, label="<b>&'\"", size=1, style=dashed];
	"node"	[backward=true, duration=0, size=1, style=dashed];
}
"""
    assert parse_text(text) == ComputationGraph(
        nodes=[0, "r", 'a\\"b', "a b\\n", "node"],
        durations=[3, 1, 0, 0, 0],
        sizes=[4, 2, 1, 1, 1],
        edges=[(0, 1)],
        order=[0, 1, 2, 3, 4],
        name='ti"ny\\N',
        labels=["conv", "re\nl\\u", "", "<b>&'\"", "node"],
        duration_unit="FLOP",
        attributes={"bb": "0 0 446 131", "made_by": "hand\u2028\n\\N", "x": [1, {"order": '"'}]},
        backward=[True, False, True, True, True],
    )


def test_own_stand_in_for_an_id_avoids_other_ids():
    graph = ComputationGraph(["node_1", "\\", "node_2", '\\"'], [0] * 4, [0] * 4, [(0, 1), (1, 3)])
    assert parse_text(dot_text(graph)) == graph
    assert "node_3 [" in dot_text(graph) and "node_4 [" in dot_text(graph)


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("a; b c\n;d", ["a", "b", "c", "d"]),
        ('1; 0; 01; "-2"; "-2.5"; "-0"; 1.5', [1, 0, "01", -2, "-2.5", "-0", "1.5"]),
        ('"1"', [1]),
        ('"a b"; "a \\"b\\""; "a\\\\b"; "a\\nb"', ["a b", 'a "b"', "a\\\\b", "a\\nb"]),
        ('"a\\\nb"; "c" + "d" + "e"', ["ab", "cde"]),
        ('"a\\\r\nb" //\r\n c', ["ab", "c"]),
        ("é; _x1; ü", ["é", "_x1", "ü"]),
        ('"node"; "digraph"; nodes; subgraph_; stricter', ["node", "digraph", "nodes", "subgraph_", "stricter"]),
        ("/* a */ b // c\n# d\ne /* f\n g */ h // i\n", ["b", "e", "h"]),
        ('"/*"; a "//" /**/ b "--" "<" "{{{"', ["/*", "a", "//", "b", "--", "<", "{{{"]),
        ("a:p; b:p:n; c:1:se; \"d:e\":\"x y\":_ -> a:q", ["a", "b", "c", "d:e"]),
        ("a a a [x=1]", ["a"]),
        ("subgraph s { a } subgraph { b } { c } subgraph s { d }", ["a", "b", "c", "d"]),
        ("graph [a=1]; edge [b=2]; node [c=3]; rankdir=LR; a", ["a"]),
        ("a [x=1, y=2 z=-3 w=.4,] [] [v=5]", ["a"]),
    ],
)  # fmt: skip
def test_dot_nodes_are_read(text, nodes):
    assert list(body(text).nodes) == nodes


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("a -> b -> c [size=9]; a->c", ["a>b", "b>c", "a>c"]),
        ("a:p:n->b:q", ["a>b"]),
        ('1->"-2"->x', ["1>-2", "-2>x"]),
        ("a -> {b c}", ["a>b", "a>c"]),
        ("{a b} -> {c d} -> e", ["a>c", "a>d", "b>c", "b>d", "c>e", "d>e"]),
        ("subgraph s {a; b -> c} -> d", ["b>c", "a>d", "b>d", "c>d"]),
        ("a -> subgraph {b -> {c d}; b} [x=1] c -> d", ["b>c", "b>d", "a>b", "a>c", "a>d", "c>d"]),
        ("{a} -> {b c -> d} -> {e}", ["c>d", "a>b", "a>c", "a>d", "b>e", "c>e", "d>e"]),
        ("a -> {} -> b {} -> c", []),
        ("{a} {b} -> c", ["b>c"]),
    ],
)
def test_dot_edges_are_read(text, edges):
    assert arrows(body(text)) == edges


def test_strict_graphs_have_each_edge_once():
    assert arrows(parse_text("STRICT DiGraph { a -> b; a -> {b c} }", ONES)) == ["a>b", "a>c"]


def test_default_attributes_and_their_scopes():
    graph = body(
        """early [duration=7]
        node [size=2, duration=5]; a
        { node [size=3]; b; { node [duration=6]; c } d -> a }
        subgraph { size=9; graph [size=9]; edge [size=9]; e }
        Node [size=4] f; a [duration=8]; a -> g [size=9]"""
    )
    sizes = dict(zip(graph.nodes, graph.sizes, strict=True))
    assert sizes == {"early": 1, "a": 2, "b": 3, "c": 3, "d": 3, "e": 2, "f": 4, "g": 4}
    durations = dict(zip(graph.nodes, graph.durations, strict=True))
    assert durations == {"early": 7, "a": 8, "b": 5, "c": 6, "d": 5, "e": 5, "f": 5, "g": 5}


def test_attributes_of_the_graph():
    text = 'digraph "g\\n" { size_unit=byte graph [rankdir="L" + "R"] { bgcolor=red } label="\\G: \\"x\\"\\l" }'
    graph = parse_text(text[:-1] + "a }", ONES)
    assert (graph.name, graph.size_unit) == ("g\\n", "byte")
    assert {key: value for key, value in graph.attributes.items() if key != "assumed"} == {
        "rankdir": "LR",
        "label": 'g\\n: "x"\n',
    }


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ('"a\\nb"', "a\nb"),
        ('"a\\lb\\r"', "a\nb\n"),
        ('"\\\\n"', "\\n"),
        ('"\\"\\\\\\""', '"\\"'),
        ('"\\N of \\G"', "v of G"),
        ('"\\q\\é"', "qé"),
        ('"a\\\nb\nc"', "ab\nc"),
        ("-1.50", "-1.50"),
        ('""', ""),
    ],
)
def test_dot_labels_are_read(value, label):
    assert parse_text(f"digraph G {{ v [label={value}] }}", ONES).labels == (label,)


def test_a_node_without_a_label_is_called_by_its_id():
    assert body("a b [label=x] 3").labels == ("a", "x", "3")
    assert body("a b").labels is None


def test_columns_selected_and_missing(tmp_path):
    path = tmp_path / "g.dot"
    path.write_text('digraph {\n a [bytes=2, ms=3.0];\n b [bytes="1e3"]; a -> b }')
    graph = read_dot(path, duration="ms", size="bytes", missing_duration=5)
    assert (graph.durations, graph.sizes) == ((3, 5), (2, 1000))
    assert graph.attributes == {"assumed": ["ms missing, 5 taken: 1 node: b"]}
    with pytest.raises(InputError) as caught:
        read_dot(path, duration="ms", size="bytes")
    assert str(caught.value) == f"{path}: node 'b': ms is missing"


@settings(max_examples=30)
@given(st.text("ab\\\"\nnNlG '<>+é{-/*#"))
def test_any_text_is_a_value(text):
    graph = parse_text(f"digraph {{ a [label={dot.quoted(text)}] }}", ONES)
    assert graph.labels == (text,)


@settings(max_examples=30)
@given(st.text("ab1-.\\\"\nnode '<>+é{/*#").filter(bool))
def test_any_text_is_an_id_or_known_to_be_none(text):
    token = dot.id_text(text)
    if token is None:
        assert "\\" in text
    else:
        statements = dot._Statements(dot._parsed(f"digraph {{ {token} }}"), frozenset())
        assert list(statements.found.nodes) == [text]


# --- refused files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" // nothing\n", "the file is empty"),
        ("digraph {}", "the graph has no nodes"),
        ("\nstrict graph { a }", "the graph is undirected, expected digraph"),
        ("digraph {\n a -- b }", "line 2: '--' in a digraph, expected '->'"),
        ('digraph {\n "a\\\\\nb" }',
         "line 2: '\"a\\\\\\\\\\n' has two backslashes before the end of a line, which pydot misreads"),
        ("tree { a }", "line 1 column 1: cannot be read from 'tree { a }' on (is the file cut short?)"),
        ("digraph {\n a -> b;\n c -> -> d\n}",
         "line 3 column 4: cannot be read from '-> -> d' on (is the file cut short?)"),
        ("digraph {\n a ->", "line 2 column 4: cannot be read from '->' on (is the file cut short?)"),
        ("digraph {\n a\n", "line 3 column 1: unexpected end (is the file cut short?)"),
        ("digraph {\n a } }", "line 2 column 6: cannot be read from '}' on (is the file cut short?)"),
        ("digraph {\n a }\n digraph { b }", "2 graphs, expected one"),
        ("digraph {\n a [size=1e3] }", "line 2: '1e3' is neither a number nor a name; put it in quotes"),
        ("digraph {\n size=1e3; a }", "line 2: '1e3' is neither a number nor a name; put it in quotes"),
        ("digraph {\n a [size=/**/1e3] }",
         "attribute 'e3' has no value (numbers such as 1e3 and texts need quotes)"),
        ("digraph {\n a [size] }", "attribute 'size' has no value (numbers such as 1e3 and texts need quotes)"),
        ("digraph {\n a [label=<b>] }",
         "line 2: '<' begins a string in HTML, which is not read; put text in quotes"),
        ('digraph {\n a [label="b];\n c }', "line 2: '\"' begins a string without its end"),
        ("digraph {\n a /* b\n c }", "line 2: '/*' begins a comment without its end"),
        ("digraph {\n a [name=b] }",
         "pydot cannot read it (Node.__init__() got multiple values for argument 'name')"),
        ("digraph {\n a -> b;\n b -> a }", "cycle: a -> b -> a"),
        ("digraph {\n a -> b;\n a -> b }", "edge 'a' -> 'b' is given twice"),
        ("digraph {\n a -> b -> b }", "edge 'b' -> 'b': the node reads itself"),
        ("digraph {\n b;\n a [size=-1] }", "node 'a': size is '-1', expected an integer 0 to 2**53"),
        ('digraph {\n a [size="NaN"] }', "node 'a': size is 'NaN', expected an integer 0 to 2**53"),
        ("digraph {\n a [duration=.5] }", f"node 'a': duration is '.5', expected an integer 0 to 2**53{SCALE}"),
        ("digraph {\n a [backward=maybe] }", "node 'a': backward is 'maybe', expected true or false"),
        ("digraph {\n a [backward=true]; b }", "node 'b': backward is missing, other nodes have it"),
        ('digraph {\n "" }', "nodes[0]: id '' is empty, has blanks around it or is not printable"),
        ("digraph {\n order=LR; a }", "graph attribute order: line 1 column 1: Expecting value (this is not JSON)"),
        ('digraph {\n order="[a]"; a }', "graph attribute order: line 1 column 2: Expecting value"),
        ('digraph {\n order="[\\"b\\"]"; a }', "order[0]: node 'b' is not in the graph"),
        ('digraph {\n order="[1, 0]"; 0 -> 1 }',
         "order is not topological: edge 0 -> 1, but 1 is at order[0], 0 at order[1]"),
        ('digraph {\n fixed_memory="{\\"x\\": 1.5}"; a }', f"fixed_memory of x: 1.5, expected an integer >= 0{SCALE}"),
        ('digraph {\n fixed_memory="[1]"; a }', "fixed_memory is [1], expected amounts by what they hold"),
        ('digraph {\n a [label_json=1] }', "node a: label is 1, expected a string"),
        ('digraph {\n name_json=1; a }', "name is 1, expected a string"),
    ],
)  # fmt: skip
def test_dot_rejects_what_has_another_meaning(text, message):
    assert error_of(text) == message


@pytest.mark.parametrize("cut", range(1, len(TINY_TEXT) - 1, 70))
def test_dot_rejects_truncated_files(cut):
    assert error_of(TINY_TEXT[:cut]).endswith(("(is the file cut short?)", "without its end"))


# --- files that could take long ------------------------------------------------------------------------------


@pytest.mark.parametrize("piece", ["{", "subgraph s {", '{"}" ', "// }\n{"])
def test_subgraphs_nested_too_deeply(piece):
    assert body(piece * 4 + "a" + "}" * 4).nodes
    assert "counted twice for each subgraph" in error_of("digraph {\n" + piece * 30)
    assert "counted twice for each subgraph" in error_of("digraph {\n" + piece * 10**5)


def test_too_many_edges(monkeypatch):
    monkeypatch.setattr(dot, "EDGE_LIMIT", 10)
    assert error_of("digraph { {a b c d} -> {e f g} }") == "more than 10 edges"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "text",
    ["{", '"', '"\\', "/*", "<", "<!--", "a [b=<" + "<!--", "a->", "[]", "{}->", "a[", '"a"+', "-", "#\n"],
)  # fmt: skip
def test_repeated_pieces_end_in_time(text):
    assert error_of("digraph { " + text * 2_000)  # quadratic time would be minutes


def test_dot_rejects_too_long_a_text(monkeypatch):
    monkeypatch.setattr(dot, "WORK_LIMIT", 20)
    assert parse_text("digraph { a }", ONES).nodes == ("a",)
    assert error_of("digraph { abcdefghijk }").startswith("over the limit of 20 characters")


@pytest.mark.parametrize("escape", ["N", "G"])
def test_names_that_attributes_repeat_are_bounded(escape):
    name = "a" * 20_000
    label = f"\\{escape}" * 20_000  # 400 million characters
    with pytest.raises(InputError, match="names that its attributes repeat make it too long"):
        parse_text(f'digraph {name} {{ {name} [duration=1, size=1, label="{label}"] }}')


def test_dot_names_the_extra_without_pydot(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydot", None)
    monkeypatch.setitem(sys.modules, "pydot.dot_parser", None)
    assert "reading DOT needs pydot: pip install" in error_of("digraph { a }")
    assert dot_text(TINY) == TINY_TEXT
