"""GraphML: its text, files of other programs, and what is refused."""

from __future__ import annotations

import networkx
import pytest

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats import graphml
from moccasin_mzn.graphs.formats import text_graph as attributes
from moccasin_mzn.graphs.formats.graphml import graphml_text, parse_text, read_graphml, write_graphml
from moccasin_mzn.graphs.graph import ComputationGraph

TINY = ComputationGraph(
    nodes=[0, "r<1>", "7"],
    durations=[3, 1, 0],
    sizes=[4, 2, 0],
    edges=[(0, 1), (1, 2)],
    order=[0, 1, 2],
    name="tiny & small",
    labels=["conv", "relu\t", "out"],
    size_unit="byte",
    attributes={"made_by": "hand"},
    backward=[False, False, True],
    fixed_memory={"parameters": 9},
)

KEYS = """\
<key id="d" for="node" attr.name="duration" attr.type="long"/><key id="s" for="node" attr.name="size" attr.type="long"/>
<key id="l" for="node" attr.name="label"/><key id="b" for="node" attr.name="backward"/><key id="j" attr.name="id_json"/>
<key id="o" for="graph" attr.name="order"/><key id="a" for="graph" attr.name="attributes"/>"""


def node(name: str = "a", duration: str = "3", size: str = "4", more: str = "") -> str:
    return f'<node id="{name}"><data key="d">{duration}</data><data key="s">{size}</data>{more}</node>'


def document(inside: str, keys: str = KEYS, direction: str = 'edgedefault="directed"') -> str:
    """A file whose elements inside of the graph begin in line 5."""
    return f"<graphml>{keys}\n<graph {direction}>\n{inside}\n</graph></graphml>"


def error_of(text: str, **options: object) -> str:
    with pytest.raises(InputError) as caught:
        parse_text(text, **options)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# --- good files --------------------------------------------------------------------------------------------


def test_written_and_read(tmp_path):
    write_graphml(TINY, tmp_path / "g.graphml")
    assert (tmp_path / "g.graphml").read_text(encoding="utf-8") == graphml_text(TINY)
    assert read_graphml(tmp_path / "g.graphml") == TINY


def test_graphml_text_is_as_documented():
    lines = [line.strip() for line in graphml_text(TINY).splitlines()]
    for line in (
        '<key id="size_unit" for="graph" attr.name="size_unit" attr.type="string" />',
        '<key id="duration" for="node" attr.name="duration" attr.type="long" />',
        '<key id="backward" for="node" attr.name="backward" attr.type="boolean" />',
        '<graph edgedefault="directed">',
        '<data key="name">tiny &amp; small</data>',
        '<data key="order">[0, "r&lt;1&gt;", "7"]</data>',
        '<node id="r&lt;1&gt;">',
        '<data key="label_json">"relu\\t"</data>',
        '<data key="id_json">"7"</data>',
        '<edge source="r&lt;1&gt;" target="7" id="1" />',
    ):
        assert line in lines, line


def test_networkx_reads_it():
    g = networkx.parse_graphml(graphml_text(TINY))
    assert list(g.edges()) == [("0", "r<1>"), ("r<1>", "7")]
    assert g.nodes["0"] == {"duration": 3, "size": 4, "label": "conv", "backward": False}
    assert g.graph["name"] == "tiny & small"


def test_files_of_networkx_are_read(tmp_path):
    g = networkx.DiGraph(name="n", made_by="hand")
    g.add_node(1, duration=3, size=4.0, label="conv", backward=False, colour="red")
    g.add_node("b", duration=0, size=2.0**52, label="relu", backward=True, colour="blue")
    g.add_edge(1, "b", weight=2.5)
    networkx.write_graphml_xml(g, tmp_path / "g.graphml")
    assert read_graphml(tmp_path / "g.graphml") == ComputationGraph(
        [1, "b"],
        [3, 0],
        [4, 2**52],
        [(0, 1)],
        name="n",
        labels=["conv", "relu"],
        backward=[False, True],
        attributes={"made_by": "hand"},
    )


def test_files_of_igraph_are_read():
    text = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
         xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns
         http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">
<!-- Created by igraph -->
  <key id="v_time" for="node" attr.name="time" attr.type="double"/>
  <key id="v_bytes" for="node" attr.name="bytes" attr.type="double"/>
  <graph id="G" edgedefault="directed">
    <node id="n0">
      <data key="v_time">3</data>
      <data key="v_bytes">1e+06</data>
    </node>
    <node id="n1">
      <data key="v_time"> 4 </data>
      <data key="v_bytes">16.0</data>
    </node>
    <edge source="n0" target="n1">
    </edge>
  </graph>
</graphml>
"""
    expected = ComputationGraph(["n0", "n1"], [3, 4], [10**6, 16], [(0, 1)])
    assert parse_text(text, attributes.Amounts("time", "bytes")) == expected


def test_files_of_yed_are_read():
    text = """<?xml version="1.0" encoding="UTF-8" standalone="no"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">
  <key attr.name="Description" attr.type="string" for="graph" id="d0"/>
  <key for="port" id="d1" yfiles.type="portgraphics"/>
  <key attr.name="duration" attr.type="int" for="node" id="d2"><default>5</default></key>
  <key attr.name="size" attr.type="int" for="node" id="d3"/>
  <key for="node" id="d6" yfiles.type="nodegraphics"/>
  <key for="graphml" id="d7" yfiles.type="resources"/>
  <graph edgedefault="directed" id="G">
    <data key="d0"/>
    <node id="n0">
      <data key="d3"><![CDATA[4]]></data>
      <data key="d6"><y:ShapeNode><y:Geometry height="30.0"/><y:NodeLabel>conv<y:Model/></y:NodeLabel></y:ShapeNode>
      </data>
      <port name="p"/>
    </node>
    <node id="n1"><data key="d2">1</data><data key="d3">2</data></node>
    <edge id="e0" source="n0" target="n1" sourceport="p"><data key="d6"/></edge>
  </graph>
  <data key="d7"><y:Resources/></data>
</graphml>
"""
    assert parse_text(text) == ComputationGraph(
        ["n0", "n1"], [5, 1], [4, 2], [(0, 1)], labels=["conv", "n1"], attributes={"Description": ""}
    )


def test_edges_may_stand_before_nodes_and_keep_their_order():
    edges = '<edge source="b" target="c"/><edge source="a" target="c" directed="true"/>'
    graph = parse_text(document(edges + node("a") + node("b") + node("c")))
    assert graph.edges == ((1, 2), (0, 2))


def test_ids_written_as_integers_are_integers():
    names = ["1", "-2", "0", "-0", "01", "1.0", str(2**63 - 1), str(2**63), "+1", "1_0", "\N{ARABIC-INDIC DIGIT ONE}"]
    graph = parse_text(document("".join(map(node, names))))
    assert graph.nodes == (1, -2, 0, "-0", "01", "1.0", 2**63 - 1, str(2**63), "+1", "1_0", names[-1])


@pytest.mark.parametrize("text", ["12", "+12", "12.", "12.0", "1.2e1", "1200E-2", " 12\n", "0" * 30 + "12"])
def test_integral_numbers_of_any_notation(text):
    assert parse_text(document(node(size=text))).sizes == (12,)


def test_largest_amount_is_exact():
    assert parse_text(document(node(size=f"{2**53}.0", duration=str(2**53 - 1)))).sizes == (2**53,)


def test_missing_amounts_taken_and_told():
    text = document('<node id="a"/><node id="b"><data key="s"> </data></node>' + node("c"))
    graph = parse_text(text, attributes.Amounts(missing_duration=1, missing_size=0))
    assert (graph.durations, graph.sizes) == ((1, 1, 3), (0, 0, 4))
    assert graph.attributes["assumed"] == [
        "duration missing, 1 taken: 2 nodes: a, b",
        "size missing, 0 taken: 2 nodes: a, b",
    ]


def test_missing_amounts_in_a_file(tmp_path):
    path = tmp_path / "g.graphml"
    path.write_text(document('<node id="a"><data key="s">2</data></node>'))
    with pytest.raises(InputError) as caught:
        read_graphml(path)
    assert str(caught.value) == f"{path}: node 'a': duration is missing"
    assert read_graphml(path, duration="size", size="x", missing_size=7).sizes == (7,)


def test_declared_encoding_does_not_matter(tmp_path):
    path = tmp_path / "g.graphml"
    path.write_bytes(b"\xef\xbb\xbf" + b'<?xml version="1.0" encoding="ISO-8859-1"?>' + document(node("é")).encode())
    assert read_graphml(path).nodes == ("é",)


# --- refused files -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: no element found (is the file cut short?)"),
        ("<svg/>", "the root element is 'svg', expected graphml"),
        ('<g:graphml xmlns:g="http://example.org"/>', "the root element is 'graphml', expected graphml"),
        ("<graphml/>", "there is no graph in the file"),
        (document(""), "the graph has no nodes"),
        (document("<node/>"), "node without id"),
        (document('<edge source="a"/>'), "edge without target"),
        (document(node() + "\n" + node()), "node 'a' is given twice"),
        (document(node(), direction='edgedefault="undirected"'),
         "edgedefault is 'undirected', expected \"directed\""),
        (document(node(), direction=""), "edgedefault is None, expected \"directed\""),
        (document("<hyperedge/>"), "a hyperedge is not supported"),
        (document('<node id="a"><graph/></node>'), "a graph inside of a node or an edge is not supported"),
        ("<graphml>\n<graph edgedefault='directed'/>\n<graph/></graphml>", "a second graph; expected one"),
        (document(node(more='<data key="s">4</data>')), "'size' is given twice"),
        (document(node(more='<data key="z">4</data>')), "Bad GraphML data: no key z"),
        (document(node(more="<data>4</data>")), "Bad GraphML data: no key None"),
        (document("", keys='<key id="a"/><key id="a"/>'), "key 'a' is given twice"),
        (document(node() + '\n<edge source="a" target="b"/>'), "edge 'a' -> 'b': there is no node 'b'"),
        (document(node() + '\n<edge source="a" target="a"/>'), "edge 'a' -> 'a': the node reads itself"),
        (document(node() + node("b") + '\n<edge source="a" target="b"/>' * 2),
         "edge 'a' -> 'b' is given twice"),
        (document('<edge source="a" target="b" directed="false"/>'), "the edge 'a' -> 'b' is undirected"),
        (document(node() + '<data key="o">0 1</data>'),
         "graph attribute order: line 1 column 3: Extra data"),
        (document(node() + '<data key="o"></data>'), "graph attribute order is empty"),
        (document(node() + '<data key="o">["b"]</data>'), "order[0]: node 'b' is not in the graph"),
        (document(node() + '<data key="o">{}</data>'), '"order" is {}, expected a list of node ids'),
        (document(node() + '<data key="a">[1]</data>'), "graph attribute attributes: [1], expected an object"),
        (document(node() + '<data key="a">{"x": NaN}</data>'), "graph attribute attributes: NaN is not a JSON number"),
        (document(node(more='<data key="j">1.5</data>')), "nodes[0]: id 1.5 is neither an integer nor a string"),
        (document(node(more='<data key="j">b</data>')),
         "node 'a': id_json: line 1 column 1: Expecting value (this is not JSON)"),
        (document(node(more='<data key="b">yes</data>')),
         "node 'a': backward is 'yes', expected true or false"),
        (document(node(more='<data key="b">1</data>') + "\n" + node("b")),
         "node 'b': backward is missing, other nodes have it"),
        (document("<node id=' a'/>" + node()), "node ' a': duration is missing"),
        (document(node() + "</b>"), "line 5 column 67: mismatched tag"),
        (document(node() + "&nbsp;"), "line 5 column 65: undefined entity"),
        (document(node("&#0;")), "line 5 column 11: reference to invalid character number"),
    ],
)  # fmt: skip
def test_graphml_rejects_broken_documents(text, message):
    assert error_of(text) == message


@pytest.mark.parametrize(
    "text",
    ["NaN", "nan", "INF", "-Infinity", "0.5", "1e-1", "-1", "true", "0x10", "1_000", "3 4", "9007199254740993",
     "1e16", "1e999999999", "1e-999999999", "1e99999999999999999999", "9" * 5000, "0." + "0" * 5000, "\u0661"],
)  # fmt: skip
@pytest.mark.parametrize("what", ["duration", "size"])
def test_numbers_that_are_no_amounts(text, what):
    message = error_of(document(node("b") + "\n" + node(**{what: text})))
    assert message.startswith(f"node 'a': {what} is '")
    hint = "; scale all of them to a smaller unit in which they are integers" if text == "0.5" else ""
    assert message.endswith((f"', expected an integer 0 to 2**53{hint}", "..., expected an integer 0 to 2**53"))
    assert len(message) < 160


BILLION = "".join(f'<!ENTITY a{n + 1} "{f"&a{n};" * 10}">' for n in range(9))


@pytest.mark.parametrize(
    "doctype",
    [
        "<!DOCTYPE graphml>",
        '<!DOCTYPE graphml SYSTEM "graphml.dtd">',
        f'<!DOCTYPE graphml [<!ENTITY a0 "ha">{BILLION}]>',
        '<!DOCTYPE graphml [<!ENTITY x SYSTEM "file:///etc/hostname">]>',
        '<!DOCTYPE graphml [<!ENTITY % x SYSTEM "http://127.0.0.1/x"> %x;]>',
    ],
)
def test_document_type_declarations_are_refused(doctype):
    for reference in ("&a9;", "&x;", ""):
        text = f'<?xml version="1.0"?>\n{doctype}\n' + document(node(more=f'<data key="l">{reference}</data>'))
        assert error_of(text) == "a document type declaration (DOCTYPE) is not accepted"


@pytest.mark.parametrize("cut", range(1, 10))
def test_graphml_rejects_truncated_files(cut):
    text = graphml_text(TINY).rstrip()
    message = error_of(text[: len(text) * cut // 10])
    assert message.endswith("(is the file cut short?)")


@pytest.mark.full
def test_deep_nesting_is_no_trouble():
    deep = "<x>" * 200_000 + "</x>" * 200_000
    assert parse_text(document(node(more=deep))).nodes == ("a",)


def test_graphml_rejects_too_long_a_text(monkeypatch):
    text = document(node())
    monkeypatch.setattr(graphml, "TEXT_LIMIT", len(text))
    assert parse_text(text).nodes == ("a",)
    assert "over the limit" in error_of(text + " ")


@pytest.mark.parametrize("options", [{"duration": "x", "size": "x"}, {"missing_size": -1}, {"missing_duration": True}])
def test_options_that_make_no_sense(options):
    with pytest.raises(InputError):
        attributes.Amounts(**options)
