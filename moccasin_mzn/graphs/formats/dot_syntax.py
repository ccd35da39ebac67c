"""Graphviz's DOT language: text to tokens to nodes, edges and attributes.

All of the language is read: quoted strings and their concatenation, HTML strings, comments, ports, chains of edges,
subgraphs as ends of edges, default attributes with their scopes. Undirected graphs are refused; the attributes of
edges and of subgraphs, and all attributes of nodes but the wanted ones, are read over.

Why not a parser from the package index: pydot 4.0.1 took 26 s for 10,000 nodes, refuses the id -2.5 and a second list
of attributes, prints syntax errors with the wrong line, and leaves the scopes of defaults to its caller.

Source: the grammar at graphviz.org/doc/info/lang.html, and Graphviz's scanner for what backslashes do in strings.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.formats.text_graph import TEXT_LIMIT, TextGraph

DEPTH_LIMIT = 50
"""Deepest nesting of subgraphs: each level of them, as an end of an edge, costs one walk over its nodes."""

EDGE_LIMIT = 2**22
"""Most edges: an edge between two subgraphs joins all nodes of one with all nodes of the other."""

_BLANKS = r"(?: [\ \t\r\n\f\v]++ | //[^\n]*+ | ^\#[^\n]*+ | /\*(?s:.*?)\*/ )*+"
_TOKEN = re.compile(
    _BLANKS
    + r"""(?: (?P<word>[A-Za-z_\u0080-\U0010ffff][A-Za-z_0-9\u0080-\U0010ffff]*+(?!\.|-[0-9.]))
      | (?P<number>-?(?:\.[0-9]++|[0-9]++(?:\.[0-9]*+)?)(?![A-Za-z_\u0080-\U0010ffff.]|-[0-9.]))
      | (?P<quoted>"(?:[^"\\]++|\\(?s:.))*+")
      | (?P<mark>->|--|[{}\[\];,=:+])
      | (?P<html><)
      | (?P<end>\Z)
    )""",
    re.VERBOSE | re.MULTILINE,
)
_BLANK = re.compile(_BLANKS, re.VERBOSE | re.MULTILINE)
_UNQUOTED = re.compile(r"[-.\w]*")
_PLAIN_ID = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|-?[0-9]+")
_QUOTED = re.compile(r'"(?:[^"\\]++|\\(?s:.))*+"')
_HEADER = re.compile(r"(?:di)?graph\b", re.IGNORECASE)
_HTML_PART = re.compile(r"<!--|<|>")
_ESCAPE_IN_VALUE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPE_IN_STRING = re.compile(r'\\(\r?\n|"|\\)')
_KEYWORDS = frozenset(("node", "edge", "graph", "digraph", "subgraph", "strict"))
_IDS = ("word", "number", "quoted", "html")


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANK.match(text, at)
    return at if blanks is None else blanks.end()


def matches(text: str) -> bool:
    """True if the text begins like a graph in this language, comments apart."""
    at = _after_blanks(text, 0)
    if text[at : at + 6].lower() == "strict":
        at = _after_blanks(text, at + 6)
    return _HEADER.match(text, at) is not None


def parse_dot(text: str, wanted: frozenset[str]) -> TextGraph:
    """The one graph in `text`; its name is the attribute "name" of the graph.

    Ids of nodes are as Graphviz has them: in a quoted string a backslash counts as such, but for one before a quote
    or a line's end. In values of attributes backslashes are undone as Graphviz does it when it draws a label.

    Args:
        wanted: attributes of nodes to keep.

    Raises:
        InputError: a syntax error, an undirected graph, several graphs, `DEPTH_LIMIT` or `EDGE_LIMIT` exceeded, an
            edge given twice in a graph that is not strict; with its line.
    """
    return _Parser(text, wanted).parse()


def quoted(text: str) -> str:
    """`text` as a value of an attribute: a quoted string that `parse_dot` and Graphviz's labels read back."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def id_text(text: str) -> str | None:
    """`text` as an id; None if no id of the language has exactly these characters."""
    if _PLAIN_ID.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    candidate = '"' + text.replace('"', '\\"') + '"'
    return candidate if _QUOTED.fullmatch(candidate) and _string(candidate) == text else None


def _string(token: str) -> str:
    """What Graphviz's scanner makes of a quoted string: only a backslash before a quote or a line's end goes."""
    if "\\" not in token:
        return token[1:-1]
    return _ESCAPE_IN_STRING.sub(lambda found: {'"': '"', "\\": "\\\\"}.get(found[1], ""), token[1:-1])


@dataclass
class _Scope:
    """The root graph or a subgraph that is being read."""

    defaults: dict[str, str]
    """Attributes of nodes that begin to exist here."""
    first: int
    """Its nodes are mentioned from this place on."""
    ends: list[tuple[list[str], int]] = field(default_factory=list)
    """Ends of the chain of edges that is being read: ids and place of each."""
    arrow: bool = False
    """An arrow was read, so that another end must follow."""


class _Parser:
    """One token ahead; subgraphs are on a stack of their own, so that no nesting exhausts Python's."""

    def __init__(self, text: str, wanted: frozenset[str]) -> None:
        self.text = text
        self.wanted = wanted
        self.found = TextGraph(line_of=self.line_of)
        self.mentioned: list[str] = []  # ids in the order of the text: those of a subgraph stand together
        self.scopes: list[_Scope] = []
        self.strict = False
        self.pairs: set[tuple[str, str]] = set()
        self.kind, self.token, self.keyword = "", "", ""
        self.start = self.end = 0
        self.expanded = 0  # characters that names of nodes and of the graph add to attributes that stand for them

    # --- tokens ----------------------------------------------------------------------------------------------

    def line_of(self, place: int) -> int:
        return bisect_left(self.line_ends, place) + 1

    @cached_property
    def line_ends(self) -> list[int]:
        return [found.start() for found in re.finditer("\n", self.text)]

    def error(self, message: str, place: int | None = None) -> InputError:
        return InputError(f"line {self.line_of(self.start if place is None else place)}: {message}")

    def unexpected(self, expected: str) -> InputError:
        if self.kind == "end":
            return self.error(f"unexpected end of the file, expected {expected} (is the file cut short?)")
        return self.error(f"unexpected {shown(self.token)}, expected {expected}")

    def advance(self) -> None:
        match = _TOKEN.match(self.text, self.end)
        if match is None:
            raise self.no_token()
        self.kind = match.lastgroup or ""
        self.start, self.end = match.span(self.kind)
        self.token = token = match[self.kind]
        self.keyword = ""
        if self.kind == "word":
            if len(token) <= 8 and token.lower() in _KEYWORDS:
                self.keyword = token.lower()
        elif self.kind == "html":
            self.end = self.html_end()
            self.token = self.text[self.start : self.end]

    def no_token(self) -> InputError:
        at = _after_blanks(self.text, self.end)
        if self.text[at] == '"':
            return self.error("a string without its end", at)
        if self.text.startswith("/*", at):
            return self.error("a comment without its end", at)
        word = _UNQUOTED.match(self.text, at, at + 80)
        if word and word[0]:  # such as conv-1, which Graphviz takes for two nodes
            return self.error(f"{shown(word[0])} is neither a number nor a name; put it in quotes", at)
        return self.error(f"unexpected character {shown(self.text[at])}", at)

    def html_end(self) -> int:
        depth, at = 1, self.end
        while depth:
            part = _HTML_PART.search(self.text, at)
            if part is None:
                raise self.error("an HTML string without its end")
            at = part.end()
            if part[0] == "<!--":
                at = self.text.find("-->", at) + 3
                if at < 3:
                    raise self.error("an HTML string without its end")
            else:
                depth += 1 if part[0] == "<" else -1
        return at

    def accept(self, mark: str) -> bool:
        if self.kind != "mark" or self.token != mark:
            return False
        self.advance()
        return True

    def expect(self, mark: str) -> None:
        if not self.accept(mark):
            raise self.unexpected(f"'{mark}'")

    def read_id(self, what: str) -> str:
        """The id that comes next; in it, `unescaped` has still to undo backslashes if it is a value."""
        if self.kind not in _IDS or self.keyword:
            raise self.unexpected(what)
        kind, token = self.kind, self.token
        self.advance()
        if kind == "html":
            return token[1:-1].replace("\\", "\\\\")
        if kind != "quoted":
            return token
        parts = [_string(token)]
        while self.accept("+"):
            if self.kind != "quoted":
                raise self.unexpected("a quoted string")
            parts.append(_string(self.token))
            self.advance()
        return "".join(parts)

    # --- statements ------------------------------------------------------------------------------------------

    def parse(self) -> TextGraph:
        self.header()
        while self.scopes:
            self.part()
        if self.kind != "end":
            raise self.error(f"{shown(self.token)} after the end of the graph; expected one graph")
        name = self.found.about.get("name", "")
        for node, values in self.found.nodes.items():
            for key, value in values.items():
                if "\\" in value:
                    values[key] = unescaped(value, node, name)
                    self.expanded += len(values[key]) - len(value)
                    if self.expanded > TEXT_LIMIT:
                        what = "names that its attributes repeat make it too long"
                        raise self.error(f"node {shown(node)}: {what}", self.found.places[node])
        return self.found

    def header(self) -> None:
        self.advance()
        if self.kind == "end":
            raise InputError("the file is empty")
        if self.keyword == "strict":
            self.strict = True
            self.advance()
        if self.keyword == "graph":
            raise self.error("the graph is undirected, expected digraph")
        if self.keyword != "digraph":
            raise self.unexpected("digraph")
        self.advance()
        if self.token != "{" or self.kind != "mark":
            self.found.about["name"] = self.read_id("a name or '{'")
        self.expect("{")
        self.scopes.append(_Scope({}, 0))

    def part(self) -> None:
        """Read a statement, or as far as the next end of an edge."""
        scope = self.scopes[-1]
        if self.keyword == "subgraph" or (self.kind == "mark" and self.token == "{"):
            self.open_subgraph(scope)
        elif self.kind in _IDS and not self.keyword:
            self.node_or_setting(scope)
        elif scope.arrow:
            raise self.unexpected("a node or a subgraph")
        elif self.keyword in ("node", "edge", "graph"):
            self.defaults(scope)
        elif self.accept("}"):
            self.close(scope)
        elif not self.accept(";"):
            raise self.unexpected("a statement or '}'")

    def open_subgraph(self, scope: _Scope) -> None:
        if len(self.scopes) > DEPTH_LIMIT:
            raise self.error(f"subgraphs nested more than {DEPTH_LIMIT} deep")
        if self.keyword:
            self.advance()
            if not (self.kind == "mark" and self.token == "{"):
                self.read_id("a name or '{'")
        self.expect("{")
        self.scopes.append(_Scope(dict(scope.defaults), len(self.mentioned)))

    def close(self, scope: _Scope) -> None:
        self.scopes.pop()
        if not self.scopes:
            return
        outer = self.scopes[-1]
        if outer.arrow or (self.kind == "mark" and self.token in ("->", "--")):
            self.end_of_edge(outer, list(dict.fromkeys(self.mentioned[scope.first :])), self.start)

    def defaults(self, scope: _Scope) -> None:
        kind = self.keyword
        self.advance()
        if not (self.kind == "mark" and self.token == "["):
            raise self.unexpected("'['")
        for key, value in self.attributes():
            if kind == "node" and key in self.wanted:
                scope.defaults[key] = value
            elif kind == "graph" and len(self.scopes) == 1:
                self.set_about(key, value)

    def set_about(self, key: str, value: str) -> None:
        self.found.about[key] = unescaped(value, "", self.found.about.get("name", ""))

    def node_or_setting(self, scope: _Scope) -> None:
        place = self.start
        node = self.read_id("a node")
        if not scope.arrow and self.accept("="):
            value = self.read_id("a value")
            if len(self.scopes) == 1:
                self.set_about(node, value)
            return
        for _ in range(2):  # a port and a compass point
            if self.accept(":"):
                self.read_id("a port")
        if node not in self.found.nodes:
            self.found.nodes[node] = dict(scope.defaults)
            self.found.places[node] = place
        self.mentioned.append(node)
        self.end_of_edge(scope, [node], place)

    def end_of_edge(self, scope: _Scope, nodes: list[str], place: int) -> None:
        """Take one end of a chain of edges, and its attributes if it is the last."""
        scope.ends.append((nodes, place))
        scope.arrow = self.accept("->")
        if scope.arrow:
            return
        if self.kind == "mark" and self.token == "--":
            raise self.error("'--' in a digraph, expected '->'")
        attributes = self.attributes()
        if len(scope.ends) == 1:
            values = self.found.nodes[nodes[0]]
            values.update((key, value) for key, value in attributes if key in self.wanted)
        for (tails, _), (heads, at) in zip(scope.ends, scope.ends[1:], strict=False):
            self.join(tails, heads, at)
        scope.ends = []

    def join(self, tails: list[str], heads: list[str], place: int) -> None:
        if len(self.found.edges) + len(tails) * len(heads) > EDGE_LIMIT:
            raise self.error(f"more than {EDGE_LIMIT} edges", place)
        for tail in tails:
            for head in heads:
                if self.strict:
                    if (tail, head) in self.pairs:
                        continue
                    self.pairs.add((tail, head))
                self.found.edges.append((tail, head, place))

    def attributes(self) -> list[tuple[str, str]]:
        """The lists of attributes that come next; one without a value is "true"."""
        pairs = []
        while self.accept("["):
            while not self.accept("]"):
                key = self.read_id("an attribute or ']'")
                pairs.append((key, self.read_id("a value") if self.accept("=") else "true"))
                self.accept(",") or self.accept(";")
        return pairs


def unescaped(value: str, node: str, graph: str) -> str:
    """A value of an attribute with backslashes undone: lines end at n, l and r, N is the node's id, G the graph's.

    Raises:
        InputError: it would be over `TEXT_LIMIT`.
    """
    if (value.count("\\N") * len(node) + value.count("\\G") * len(graph)) > TEXT_LIMIT:
        raise InputError(f"node {shown(node)}: names that its attributes repeat make it too long")
    meaning = {"n": "\n", "l": "\n", "r": "\n", "N": node, "G": graph}
    return _ESCAPE_IN_VALUE.sub(lambda found: meaning.get(found[1], found[1]), value)
