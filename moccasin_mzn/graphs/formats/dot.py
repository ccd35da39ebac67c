"""Graphviz DOT, with durations and sizes as attributes of nodes. ::

    digraph tiny {
      graph [size_unit="byte", order="[0, \\"r\\"]"];
      0 [duration=3, size=4, label="conv"];
      r [duration=1, size=2, label="relu"];
      0 -> r;
    }

See `attributes` for the names of attributes, `dot_syntax` for the language. The graph's name is the id after `digraph`.
Graphviz draws what is written here as it is: labels are its own, nodes of the backward pass are dashed.
"""

from __future__ import annotations

import itertools
import json

from moccasin_mzn.graphs.formats import dot_syntax
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.formats.text_graph import (
    Amounts,
    check_length,
    computation_graph,
    graph_attributes,
    node_attributes,
    reading,
    writing,
)
from moccasin_mzn.graphs.graph import ComputationGraph

_BARE = frozenset(("duration", "size", "workspace", "backward"))


def matches_text(text: str) -> bool:
    """True if the text begins with "digraph" or "graph", comments and "strict" apart."""
    return dot_syntax.matches(text)


def parse_text(text: str, amounts: Amounts | None = None) -> ComputationGraph:
    """The graph in a text of this format.

    Raises:
        InputError: a text over `TEXT_LIMIT`, what `parse_dot` raises, or no valid graph.
    """
    check_length(text)
    amounts = amounts or Amounts()
    return computation_graph(dot_syntax.parse_dot(text, amounts.wanted), amounts)


def dot_text(graph: ComputationGraph) -> str:
    """The content of the file `write_dot` writes: one line per node and per edge.

    Raises:
        InputError: `graph.attributes` holds what is not JSON.
    """
    about = graph_attributes(graph)
    name = about.pop("name", None)
    title = None if name is None or "\n" in name else dot_syntax.id_text(name)
    if name is not None and title is None:
        about["name_json"] = json.dumps(name)
    ids, unsaid = _ids(graph)
    lines = [f"digraph {title} {{" if title else "digraph {"]
    if about:
        lines.append(f"  graph [{_attributes(about)}];")
    for node, real, values in zip(ids, graph.nodes, node_attributes(graph), strict=True):
        if node in unsaid:
            values["id_json"] = json.dumps(real)
        style = ", style=dashed" if values.get("backward") == "true" else ""
        lines.append(f"  {node} [{_attributes(values)}{style}];")
    lines += [f"  {ids[tail]} -> {ids[head]};" for tail, head in graph.edges]
    return "\n".join([*lines, "}", ""])


def _ids(graph: ComputationGraph) -> tuple[list[str], set[str]]:
    """The id of each node as a token, and those that stand in for one that the language cannot write."""
    ids, unsaid = [], set()
    taken = set(map(str, graph.nodes))
    for v, node in enumerate(graph.nodes):
        token = dot_syntax.id_text(str(node))
        if token is None:
            token = next(name for n in itertools.count(v) if (name := f"node_{n}") not in taken)
            taken.add(token)
            unsaid.add(token)
        ids.append(token)
    return ids, unsaid


def _attributes(values: dict[str, str]) -> str:
    return ", ".join(f"{key}={value if key in _BARE else dot_syntax.quoted(value)}" for key, value in values.items())


read_dot, write_dot = reading(parse_text), writing(dot_text)
READER = Reader("DOT", matches_text, parse_text)
