"""GraphML, which yEd, networkx, igraph and Gephi write, by networkx. ::

    <graphml xmlns="http://graphml.graphdrawing.org/xmlns">
    <key id="duration" for="node" attr.name="duration" attr.type="long"/>
    <key id="size" for="node" attr.name="size" attr.type="long"/>
    <graph edgedefault="directed">
    <node id="a"><data key="duration">3</data><data key="size">4</data></node>
    <node id="b"><data key="duration">1</data><data key="size">2</data></node>
    <edge source="a" target="b"/>
    </graph>
    </graphml>

See `text_graph` for the names of attributes. networkx decodes keys, defaults, data and yEd's labels. What it would read
over or merge without a word is refused before: nodes or data given twice, nested graphs, missing ends of edges, and
any document type declaration, so that there are no entities to expand or to fetch. Nodes and edges keep the order of
the file; networkx loses that of edges, so they are read from the XML tree, and written with their positions as ids.

Source: Brandes et al., GraphML Progress Report, Graph Drawing 2001; graphml.graphdrawing.org.
"""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn
from xml.etree import ElementTree

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.formats.text_graph import (
    TEXT_LIMIT,
    Amounts,
    TextGraph,
    check_length,
    computation_graph,
    graph_attributes,
    node_attributes,
    reading,
    writing,
)
from moccasin_mzn.graphs.graph import ComputationGraph

if TYPE_CHECKING:
    from networkx.readwrite.graphml import GraphMLReader

_SPACE = "{http://graphml.graphdrawing.org/xmlns}"
_ROOT, _GRAPH, _NODE, _EDGE = (_SPACE + name for name in ("graphml", "graph", "node", "edge"))
_DATA, _KEY, _DEFAULT, _HYPEREDGE = (_SPACE + name for name in ("data", "key", "default", "hyperedge"))
_TYPES: dict[str, Callable[[str], object]] = {
    "duration": int, "size": int, "workspace": int, "backward": "true".__eq__
}  # fmt: skip


def matches_text(text: str) -> bool:
    """Return True if the text looks like XML; no other format of graphs begins with "<"."""
    return text.lstrip().startswith("<")


def parse_text(text: str, amounts: Amounts | None = None) -> ComputationGraph:
    """Read the graph in a text of this format.

    Raises:
        InputError: a text over `TEXT_LIMIT`, no well-formed XML, a document type declaration, no GraphML, an
            undirected or nested graph, a hyperedge, or no valid graph.
    """
    from networkx import NetworkXError
    from networkx.readwrite.graphml import GraphMLReader

    check_length(text, TEXT_LIMIT)
    root = _tree(text)
    graph = _only_graph(root)
    reader = GraphMLReader()
    reader.python_type = defaultdict(lambda: str)  # numbers stay the text that they are, whatever type a key declares
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ports, and of keys without a type
        try:
            found = _text_graph(reader, root, graph)
        except NetworkXError as error:
            raise InputError(str(error)) from None
    return computation_graph(found, amounts or Amounts())


class _Builder(ElementTree.TreeBuilder):
    def doctype(self, name: str, public: str | None, system: str | None) -> NoReturn:
        raise InputError("a document type declaration (DOCTYPE) is not accepted")


def _tree(text: str) -> ElementTree.Element:
    """Parse XML; the namespace may be left out, as networkx allows."""
    from xml.parsers import expat

    parser = ElementTree.XMLParser(target=_Builder())
    try:
        parser.feed(text)
        root = parser.close()
    except ElementTree.ParseError as error:
        line, column = error.position
        what = expat.ErrorString(error.code)
        cut = line > text.rstrip().count("\n") and what in ("no element found", "unclosed token")
        hint = " (is the file cut short?)" if cut or what.startswith("unclosed") else ""
        raise InputError(f"line {line} column {column + 1}: {what}{hint}") from None
    if root.tag == "graphml":
        for element in root.iter():
            element.tag = element.tag if element.tag.startswith("{") else _SPACE + element.tag
    if root.tag != _ROOT:
        raise InputError(f"the root element is {shown(root.tag.rpartition('}')[2])}, expected graphml")
    return root


def _only_graph(root: ElementTree.Element) -> ElementTree.Element:
    """Return the one graph of the document.

    Raises:
        InputError: there is none, a second one, one inside of a node or an edge, one that is undirected, or a
            hyperedge.
    """
    graphs = root.findall(_GRAPH)
    if not graphs:
        raise InputError("there is no graph in the file")
    if len(graphs) > 1:
        raise InputError("a second graph; expected one")
    graph = graphs[0]
    if sum(1 for _ in root.iter(_GRAPH)) > 1:
        raise InputError("a graph inside of a node or an edge is not supported")
    if graph.find(_HYPEREDGE) is not None:
        raise InputError("a hyperedge is not supported")
    if graph.get("edgedefault") != "directed":
        raise InputError(f'edgedefault is {shown(graph.get("edgedefault"))}, expected "directed"')
    return graph


def _text_graph(reader: GraphMLReader, root: ElementTree.Element, graph: ElementTree.Element) -> TextGraph:
    _refuse_twice("key", (key.get("id") for key in root.findall(_KEY)))
    for default in root.iter(_DEFAULT):
        default.text = default.text or ""
    keys, given = reader.find_graphml_keys(root)
    defaults: dict[str, dict[str, str]] = {"node": {}, "graph": {}}
    for key, value in given.items():
        for kind in ("node",) if keys[key]["for"] in (None, "all") else (keys[key]["for"],):
            defaults.setdefault(kind, {})[keys[key]["name"]] = value

    def attributes(element: ElementTree.Element, kind: str) -> dict[str, str]:
        data = reader.decode_data_elements(keys, element)
        _refuse_twice("", (keys[each.get("key")]["name"] for each in element.findall(_DATA)))
        return {**defaults[kind], **{name: value for name, value in data.items() if value is not None}}

    nodes = graph.findall(_NODE)
    _refuse_twice("node", (_attribute(node, "node", "id") for node in nodes))
    found = TextGraph(
        about=attributes(graph, "graph"), nodes={node.attrib["id"]: attributes(node, "node") for node in nodes}
    )
    for edge in sorted(graph.findall(_EDGE), key=_written_position):
        tail, head = (_attribute(edge, "edge", end) for end in ("source", "target"))
        if edge.get("directed", "true") != "true":
            raise InputError(f"the edge {shown(tail)} -> {shown(head)} is undirected")
        found.edges.append((tail, head))
    return found


def _attribute(element: ElementTree.Element, what: str, name: str) -> str:
    if name not in element.attrib:
        raise InputError(f"{what} without {name}")
    return element.attrib[name]


def _refuse_twice(what: str, names: Iterable[str | None]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(f"{what} {shown(twice)} is given twice".lstrip())


def _written_position(edge: ElementTree.Element) -> int:
    """Return the position that `graphml_text` wrote as an id; 0, so that the order stays, for other ids."""
    name = edge.get("id", "")
    return int(name) if len(name) < 10 and name.isdecimal() else 0


def graphml_text(graph: ComputationGraph) -> str:
    """Return the content of the file that `write_graphml` writes.

    Raises:
        InputError: `graph.attributes` holds what is not JSON.
    """
    import networkx as nx

    ids = [str(node) for node in graph.nodes]
    drawn = nx.MultiDiGraph(**graph_attributes(graph))
    for node, values in zip(ids, node_attributes(graph), strict=True):
        drawn.add_node(node)
        drawn.nodes[node].update((key, _TYPES.get(key, str)(value)) for key, value in values.items())
    drawn.add_edges_from((ids[tail], ids[head], at) for at, (tail, head) in enumerate(graph.edges))
    return "\n".join(nx.generate_graphml(drawn, named_key_ids=True)) + "\n"


read_graphml, write_graphml = reading(parse_text), writing(graphml_text)
READER = Reader("GraphML", matches_text, parse_text)
