"""GraphML, which yEd, networkx, igraph and Gephi write. ::

    <graphml xmlns="http://graphml.graphdrawing.org/xmlns">
    <key id="duration" for="node" attr.name="duration" attr.type="long"/>
    <key id="size" for="node" attr.name="size" attr.type="long"/>
    <graph edgedefault="directed">
    <node id="a"><data key="duration">3</data><data key="size">4</data></node>
    <node id="b"><data key="duration">1</data><data key="size">2</data></node>
    <edge source="a" target="b"/>
    </graph>
    </graphml>

See `attributes` for the names of attributes. The parser is expat, which tells lines; a document type declaration is
refused before anything in it is looked at, so that there are no entities to expand or to fetch. networkx's own reader
is no alternative: it merges parallel edges, forgets the order of edges and the types of ids, and tells no lines.

Source: Brandes et al., GraphML Progress Report, Graph Drawing 2001; graphml.graphdrawing.org.
"""

from __future__ import annotations

from typing import Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.formats.text_graph import (
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

NAMESPACE = "http://graphml.graphdrawing.org/xmlns"

_TYPES = {"duration": "long", "size": "long", "workspace": "long", "backward": "boolean"}
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_QUOTED_ESCAPES = {**_ESCAPES, ord('"'): "&quot;"}


def matches_text(text: str) -> bool:
    """True if the text looks like XML; no other format of graphs begins with "<"."""
    return text.lstrip().startswith("<")


def parse_text(text: str, amounts: Amounts | None = None) -> ComputationGraph:
    """The graph in a text of this format.

    Raises:
        InputError: a text over `TEXT_LIMIT`, no well-formed XML, a document type declaration, no GraphML, an
            undirected or nested graph, a hyperedge, or no valid graph.
    """
    from xml.parsers import expat

    check_length(text)
    amounts = amounts or Amounts()
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    reader = _Reader(parser, amounts.wanted)
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        cut = error.lineno > text.rstrip().count("\n") and what in ("no element found", "unclosed token")
        hint = " (is the file cut short?)" if cut or what.startswith("unclosed") else ""
        raise InputError(f"line {error.lineno} column {error.offset + 1}: {what}{hint}") from None
    finally:
        reader.release()
    if not reader.graph_found:
        raise InputError("there is no graph in the file")
    return computation_graph(reader.found, amounts)


class _Reader:
    """Takes expat's events; elements it does not know are skipped with all they hold."""

    def __init__(self, parser: Any, wanted: frozenset[str]) -> None:
        self.found = TextGraph(line_of=lambda line: line)
        self.graph_found = False
        self._parser = parser
        self._wanted = wanted
        self._keys: dict[str, tuple[str, str]] = {}  # id: what it is for, its name
        self._node_defaults: dict[str, str] = {}
        self._graph_defaults: dict[str, str] = {}
        self._open: list[str] = []
        self._skipped = 0
        self._text: list[str] | None = None
        self._key: tuple[str, str] = ("", "")
        self._values: dict[str, str] = {}
        self._yed_label: str | None = None
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._doctype

    def release(self) -> None:
        """Undo the cycle of references between the reader and the parser."""
        del self._parser

    def _error(self, message: str) -> InputError:
        return InputError(f"line {self._parser.CurrentLineNumber}: {message}")

    def _doctype(self, *_: Any) -> None:
        raise self._error("a document type declaration (DOCTYPE) is not accepted")

    def _characters(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        space, _, local = name.rpartition(" ")
        if self._skipped:
            self._skipped += 1
            if local == "NodeLabel" and self._open[-2:-1] == ["node"]:  # yEd has labels inside of its drawing
                self._text = []
            return
        parent = self._open[-1] if self._open else ""
        known = _STARTS.get((parent, local)) if not space or space.startswith(NAMESPACE) else None
        if known is None:
            if not parent:
                raise self._error(f"the root element is {shown(local)}, expected graphml")
            self._skipped = 1
            return
        self._open.append(local)
        known(self, attributes)

    def _end(self, name: str) -> None:
        if self._skipped:
            self._skipped -= 1
            if name.endswith(" NodeLabel") and self._text is not None:
                if self._yed_label is None:
                    self._yed_label = "".join(self._text).strip()
                self._text = None
            return
        local = self._open.pop()
        if local == "data":
            self._end_data()
        elif local == "default":
            kind, name = self._key
            self._take_default(kind, name, "".join(self._text or ()))
            self._text = None
        elif local == "node":
            if self._yed_label is not None:
                self._values.setdefault("label", self._yed_label)
            for key, value in self._node_defaults.items():
                self._values.setdefault(key, value)
        elif local == "graph":
            self.found.about = {**self._graph_defaults, **self.found.about}

    def _start_key(self, attributes: dict[str, str]) -> None:
        key = self._attribute("key", attributes, "id")
        if key in self._keys:
            raise self._error(f"key {shown(key)} is given twice")
        # A key without a name is yEd's, for its drawing.
        self._key = self._keys[key] = attributes.get("for", "all"), attributes.get("attr.name", "")

    def _start_default(self, attributes: dict[str, str]) -> None:
        self._text = []

    def _take_default(self, kind: str, name: str, value: str) -> None:
        if kind in ("node", "all") and name in self._wanted:
            self._node_defaults[name] = value
        if kind == "graph" and name:
            self._graph_defaults[name] = value

    def _start_graph(self, attributes: dict[str, str]) -> None:
        if self.graph_found:
            raise self._error("a second graph; expected one")
        self.graph_found = True
        directed = attributes.get("edgedefault")
        if directed != "directed":
            raise self._error(f'edgedefault is {shown(directed)}, expected "directed"')

    def _start_node(self, attributes: dict[str, str]) -> None:
        node = self._attribute("node", attributes, "id")
        if node in self.found.nodes:
            first = self.found.places[node]
            raise self._error(f"node {shown(node)} is given twice, first in line {first}")
        self._values = self.found.nodes[node] = {}
        self._yed_label = None
        self.found.places[node] = self._parser.CurrentLineNumber

    def _start_edge(self, attributes: dict[str, str]) -> None:
        tail, head = (self._attribute("edge", attributes, end) for end in ("source", "target"))
        if attributes.get("directed", "true") != "true":
            raise self._error(f"the edge {shown(tail)} -> {shown(head)} is undirected")
        self.found.edges.append((tail, head, self._parser.CurrentLineNumber))

    def _start_data(self, attributes: dict[str, str]) -> None:
        key = self._attribute("data", attributes, "key")
        if key not in self._keys:
            raise self._error(f"data has the unknown key {shown(key)}")
        self._key = self._keys[key]
        self._text = []

    def _end_data(self) -> None:
        name = self._key[1]
        of_node = self._open[-1] == "node"
        values = self._values if of_node else self.found.about
        if name and (name in self._wanted or not of_node):
            if name in values:
                raise self._error(f"{shown(name)} is given twice")
            values[name] = "".join(self._text or ())
        self._text = None

    def _attribute(self, element: str, attributes: dict[str, str], name: str) -> str:
        if name not in attributes:
            raise self._error(f"{element} without {name}")
        return attributes[name]

    def _refuse_nested(self, attributes: dict[str, str]) -> None:
        raise self._error("a graph inside of a node or an edge is not supported")

    def _refuse_hyperedge(self, attributes: dict[str, str]) -> None:
        raise self._error("a hyperedge is not supported")

    def _nothing(self, attributes: dict[str, str]) -> None:
        pass


_STARTS = {
    ("", "graphml"): _Reader._nothing,
    ("graphml", "key"): _Reader._start_key,
    ("key", "default"): _Reader._start_default,
    ("graphml", "graph"): _Reader._start_graph,
    ("graph", "data"): _Reader._start_data,
    ("graph", "node"): _Reader._start_node,
    ("graph", "edge"): _Reader._start_edge,
    ("node", "data"): _Reader._start_data,
    ("node", "graph"): _Reader._refuse_nested,
    ("edge", "graph"): _Reader._refuse_nested,
    ("graph", "hyperedge"): _Reader._refuse_hyperedge,
}


def graphml_text(graph: ComputationGraph) -> str:
    """The content of the file `write_graphml` writes: one line per node and per edge.

    Raises:
        InputError: `graph.attributes` holds what is not JSON.
    """
    about = graph_attributes(graph)
    nodes = list(node_attributes(graph))
    used = dict.fromkeys(key for values in nodes for key in values)
    ids = [str(node).translate(_QUOTED_ESCAPES) for node in graph.nodes]
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            f'<graphml xmlns="{NAMESPACE}">',
            *(_key_line("graph", key) for key in about),
            *(_key_line("node", key) for key in used),
            '<graph edgedefault="directed">',
            *(_data(key, value) for key, value in about.items()),
            *(
                f'<node id="{node}">{"".join(_data(key, value) for key, value in values.items())}</node>'
                for node, values in zip(ids, nodes, strict=True)
            ),
            *(f'<edge source="{ids[tail]}" target="{ids[head]}"/>' for tail, head in graph.edges),
            "</graph>",
            "</graphml>",
            "",
        ]
    )


def _key_line(kind: str, key: str) -> str:
    return f'<key id="{key}" for="{kind}" attr.name="{key}" attr.type="{_TYPES.get(key, "string")}"/>'


def _data(key: str, value: str) -> str:
    return f'<data key="{key}">{value.translate(_ESCAPES)}</data>'


read_graphml, write_graphml = reading(parse_text), writing(graphml_text)
READER = Reader("GraphML", matches_text, parse_text)
