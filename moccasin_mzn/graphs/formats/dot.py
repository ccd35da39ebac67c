"""Graphviz DOT, with durations and sizes as attributes of nodes; read by pydot. ::

    digraph tiny {
      graph [size_unit="byte", order="[0, \\"r\\"]"];
      0 [duration=3, size=4, label="conv"];
      r [duration=1, size=2, label="relu"];
      0 -> r;
    }

See `text_graph` for the names of attributes. The graph's name is the id after `digraph`. Graphviz draws what is written
here as it is: labels are its own, nodes of the backward pass are dashed.

pydot gives statements, not a graph: defaults and their scopes, subgraphs as ends of edges and escapes are resolved
here. What it would read in another way than Graphviz, or not in bounded time, is refused before it begins: HTML
strings, `--`, numbers without quotes such as 1e3, and text that is long or nested (see `WORK_LIMIT`). It takes half a
minute for 2000 nodes with 8000 edges, so that GraphML or JSON is the format of larger graphs.

Source: the grammar at graphviz.org/doc/info/lang.html, and Graphviz's scanner for what backslashes do in strings.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Mapping

from moccasin_mzn.base.errors import InputError, missing, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.formats.text_graph import (
    TEXT_LIMIT,
    Amounts,
    TextGraph,
    computation_graph,
    graph_attributes,
    node_attributes,
    reading,
    writing,
)
from moccasin_mzn.graphs.graph import ComputationGraph

WORK_LIMIT = 2**18
"""Most characters that pydot is given, each counted 2**d times in d nested subgraphs, which its parser reads so often.
It reads some 10,000 characters a second, and a tenth of that in the worst texts."""

EDGE_LIMIT = 2**22
"""Most edges: an edge between two subgraphs joins all nodes of one with all nodes of the other."""

_BARE = frozenset(("duration", "size", "workspace", "backward"))
_BLANKS = re.compile(r"(?:\s++|//[^\n]*+|#[^\n]*+|/\*(?s:.*?)\*/)*+")
_HEADER = re.compile(r"(?:di)?graph\b", re.IGNORECASE)
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_MISREAD = re.compile(r'"(?:[^"\\]|\\[^\\]|\\\\(?!\r?\n))*+\\\\\r?\n', re.DOTALL)
"""The beginning of a string up to two backslashes before a line's end: pydot takes the second and that end away."""
_PLAIN_ID = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|[0-9]+")
_KEYWORDS = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict"))
_PIECE = re.compile(
    rf"""(?P<backslashes>{_MISREAD.pattern}) | {_QUOTED.pattern} | //[^\n]* | \#[^\n]* | /\*.*?\*/ | (?P<brace>[{{}}])
    | (?P<number>=\s*-?[0-9.]+[^\W\d]\w*) | (?P<mark>--) | (?P<html><) | (?P<string>") | (?P<comment>/\*)""",
    re.DOTALL | re.VERBOSE,
)
_REFUSED = {
    "backslashes": "has two backslashes before the end of a line, which pydot misreads",
    "number": "is neither a number nor a name; put it in quotes",
    "mark": "in a digraph, expected '->'",
    "html": "begins a string in HTML, which is not read; put text in quotes",
    "string": "begins a string without its end",
    "comment": "begins a comment without its end",
}
_ESCAPE_IN_VALUE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_IN_STRING = re.compile(r'\\(\r?\n|["\\])')
_ONE_AT_A_TIME = threading.Lock()
"""pydot's parser is not safe in threads."""

_Statement = Mapping[str, Json]
"""What pydot keeps of a graph, a node or an edge: its `obj_dict`."""


def matches_text(text: str) -> bool:
    """Return True if the text begins with "digraph" or "graph", comments and "strict" apart."""
    at = _after_blanks(text, 0)
    if text[at : at + 6].lower() == "strict":
        at = _after_blanks(text, at + 6)
    return _HEADER.match(text, at) is not None


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return at if blanks is None else blanks.end()


def parse_text(text: str, amounts: Amounts | None = None) -> ComputationGraph:
    """Read the graph in a text of this format.

    Ids of nodes are as Graphviz has them: in a quoted string a backslash counts as such, but for one before a quote
    or a line's end. In values of attributes backslashes are undone as Graphviz does it when it draws a label.

    Raises:
        InputError: pydot is not installed; a syntax error, an undirected graph, several graphs, what the head of this
            module names, more than `WORK_LIMIT` or `EDGE_LIMIT`, or no valid graph.
    """
    amounts = amounts or Amounts()
    if not text[_after_blanks(text, 0) :]:
        raise InputError("the file is empty")
    _check(text)
    return computation_graph(_Statements(_parsed(text), amounts.wanted).found, amounts)


def _check(text: str) -> None:
    """Refuse what pydot would misread, and what would keep it busy for long."""
    depth = work = at = 0
    for piece in itertools.chain(_PIECE.finditer(text), (None,)):
        start = len(text) if piece is None else piece.start()
        work += (start - at) << max(depth - 1, 0)
        at = start
        if work > WORK_LIMIT or depth > 20:
            raise InputError(
                f"over the limit of {WORK_LIMIT} characters, counted twice for each subgraph around them; "
                "use GraphML or JSON"
            )
        if piece is None:
            return
        if piece.lastgroup == "brace":
            depth += 1 if piece[0] == "{" else -1
        elif piece.lastgroup is not None:
            where = f"line {text.count(chr(10), 0, start) + 1}: {shown(piece[0].lstrip('= '))}"
            raise InputError(f"{where} {_REFUSED[piece.lastgroup]}")


def _parsed(text: str) -> _Statement:
    """Return what pydot makes of the one graph in the text."""
    try:
        from pydot.dot_parser import GraphParser
        from pyparsing import ParseException
    except ImportError:
        raise missing("pydot", "dot", "reading DOT") from None
    try:
        with _ONE_AT_A_TIME:
            graphs = list(GraphParser.parser.parse_string(text, parse_all=True))
    except ParseException as error:
        rest = text[error.loc : error.loc + 30].split("\n")[0].strip()
        what = f"cannot be read from {shown(rest)} on" if rest else "unexpected end"
        raise InputError(f"line {error.lineno} column {error.column}: {what} (is the file cut short?)") from None
    except Exception as error:  # attributes with the names of its own parameters, and what else it stumbles over
        raise InputError(f"pydot cannot read it ({' '.join(str(error).split())[:120]})") from None
    if len(graphs) != 1:
        raise InputError(f"{len(graphs)} graphs, expected one")
    statement: _Statement = graphs[0].obj_dict
    if statement["type"] != "digraph":
        raise InputError("the graph is undirected, expected digraph")
    return statement


class _Statements:
    """What pydot's statements mean, in the order of the file."""

    def __init__(self, root: _Statement, wanted: frozenset[str]) -> None:
        self.found = TextGraph()
        self._wanted = wanted
        self._strict = bool(root["strict"])
        self._pairs: set[tuple[str, str]] = set()
        self._members: dict[int, list[str]] = {}  # nodes of the subgraphs that are ends of edges
        self._expanded = 0
        name = _text(root["name"])
        about = dict(root["attributes"])
        for statement in root["nodes"].get("graph", ()):
            about.update(statement["attributes"])
        if name:
            self.found.about["name"] = name
        self._walk(root, {})
        for key, value in self._values(about).items():
            self.found.about[_text(key)] = self._unescaped(value, "", name)
        for node, values in self.found.nodes.items():
            values.update((key, self._unescaped(value, node, name)) for key, value in values.items())

    def _walk(self, graph: _Statement, defaults: Mapping[str, str]) -> list[str]:
        """Take all statements of a graph or subgraph; return the nodes that they name, once each."""
        defaults = dict(defaults)
        named: dict[str, None] = {}
        kinds = ((kind, graph[kind]) for kind in ("nodes", "edges", "subgraphs"))
        statements = [(kind, one) for kind, groups in kinds for group in groups.values() for one in group]
        for kind, statement in sorted(statements, key=lambda each: each[1]["sequence"]):
            if kind == "subgraphs":
                named.update(dict.fromkeys(self._walk(statement, defaults)))
            elif kind == "edges":
                tails, heads = (self._ends(end, defaults) for end in statement["points"])
                named.update(dict.fromkeys((*tails, *heads)))
                self._join(tails, heads)
            elif statement["name"] == "node":
                defaults.update(self._values(statement["attributes"], self._wanted))
            elif statement["name"] not in ("graph", "edge"):
                node = self._node(statement["name"], defaults)
                named[node] = None
                self.found.nodes[node].update(self._values(statement["attributes"], self._wanted))
        return list(named)

    def _ends(self, end: str | _Statement, defaults: Mapping[str, str]) -> list[str]:
        if isinstance(end, str):
            return [self._node(end, defaults)]
        if id(end) not in self._members:
            self._members[id(end)] = self._walk(end, defaults)
        return self._members[id(end)]

    def _node(self, token: str, defaults: Mapping[str, str]) -> str:
        quoted = _QUOTED.match(token)  # what stands behind it, or behind a colon, is a port
        node = _text(quoted[0]) if quoted else token.partition(":")[0]
        self.found.nodes.setdefault(node, dict(defaults))
        return node

    def _join(self, tails: list[str], heads: list[str]) -> None:
        if len(self.found.edges) + len(tails) * len(heads) > EDGE_LIMIT:
            raise InputError(f"more than {EDGE_LIMIT} edges")
        for pair in itertools.product(tails, heads):
            if not self._strict or pair not in self._pairs:
                self._pairs.add(pair)
                self.found.edges.append(pair)

    def _values(self, attributes: Mapping[str, str | None], wanted: frozenset[str] | None = None) -> dict[str, str]:
        without = next((key for key, value in attributes.items() if value is None), None)
        if without is not None:
            raise InputError(f"attribute {shown(without)} has no value (numbers such as 1e3 and texts need quotes)")
        texts = {_text(key): _text(value or "") for key, value in attributes.items()}
        return {key: value for key, value in texts.items() if wanted is None or key in wanted}

    def _unescaped(self, value: str, node: str, graph: str) -> str:
        """A value with backslashes undone: lines end at n, l and r, N is the node's id, G the graph's."""
        if "\\" not in value:
            return value
        self._expanded += value.count("\\N") * len(node) + value.count("\\G") * len(graph)
        if self._expanded > TEXT_LIMIT:
            raise InputError("names that its attributes repeat make it too long")
        meaning = {"n": "\n", "l": "\n", "r": "\n", "N": node, "G": graph}
        return _ESCAPE_IN_VALUE.sub(lambda found: meaning.get(found[1], found[1]), value)


def _text(token: str) -> str:
    """What Graphviz's scanner makes of a token: of a string, only a backslash before a quote or a line's end goes."""
    if not token.startswith('"'):
        return token
    return _ESCAPE_IN_STRING.sub(lambda found: {'"': '"', "\\": "\\\\"}.get(found[1], ""), token[1:-1])


def dot_text(graph: ComputationGraph) -> str:
    """Return the content of the file that `write_dot` writes: one line per node and per edge.

    Raises:
        InputError: `graph.attributes` holds what is not JSON.
    """
    about = graph_attributes(graph)
    name = about.pop("name", None)
    title = None if name is None or "\n" in name else id_text(name)
    if name is not None and title is None:
        about["name_json"] = json.dumps(name)
    ids, replaced = _ids(graph)
    lines = [f"digraph {title} {{" if title else "digraph {"]
    if about:
        lines.append(f"  graph [{_attributes(about)}];")
    for node, real, values in zip(ids, graph.nodes, node_attributes(graph), strict=True):
        if node in replaced:
            values["id_json"] = json.dumps(real)
        style = ", style=dashed" if values.get("backward") == "true" else ""
        lines.append(f"  {node} [{_attributes(values)}{style}];")
    lines += [f"  {ids[tail]} -> {ids[head]};" for tail, head in graph.edges]
    return "\n".join([*lines, "}", ""])


def _ids(graph: ComputationGraph) -> tuple[list[str], set[str]]:
    """The id of each node as a token, and those that stand in for one that the language cannot write."""
    ids, replaced = [], set()
    taken = set(map(str, graph.nodes))
    for v, node in enumerate(graph.nodes):
        token = id_text(str(node))
        if token is None:
            token = next(name for n in itertools.count(v) if (name := f"node_{n}") not in taken)
            taken.add(token)
            replaced.add(token)
        ids.append(token)
    return ids, replaced


def id_text(text: str) -> str | None:
    """`text` as an id; None if no id of the language has exactly these characters."""
    if _PLAIN_ID.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    candidate = '"' + text.replace('"', '\\"') + '"'
    exact = _QUOTED.fullmatch(candidate) and not _MISREAD.match(candidate) and _text(candidate) == text
    return candidate if exact else None


def _attributes(values: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value if key in _BARE else quoted(value)}" for key, value in values.items())


def quoted(text: str) -> str:
    """`text` as a value of an attribute: a quoted string that this module and Graphviz's labels read back."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


read_dot, write_dot = reading(parse_text), writing(dot_text)
READER = Reader("DOT", matches_text, parse_text)
