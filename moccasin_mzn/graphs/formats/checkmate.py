"""The Checkmate graphs published with the MOCCASIN paper (its graphs CM 1 and CM 2).

networkx node-link JSON: nodes carry `id`, `name` (the layer), `cost_ram` (bytes), `cost_cpu` and `backward`; links
carry `source` and `target`. There is no order: every topological order of these graphs has the same peak.
"""

from __future__ import annotations

from typing import Any

from moccasin_mzn.graphs.formats.fields import (
    check_directed,
    column,
    edge_positions,
    first_node,
    graph_object,
    objects,
    resolve_order,
)
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.graph import ComputationGraph


def matches(document: Any) -> bool:
    """True if the first node has a `cost_ram` or `cost_cpu`, which no other dialect uses."""
    node = first_node(document)
    return node is not None and ("cost_ram" in node or "cost_cpu" in node)


def parse(document: dict[str, Any]) -> ComputationGraph:
    """The graph in a document of this dialect.

    The unit of `cost_cpu` is not stated in the files: floating-point operations in some, measured times in others.

    Raises:
        InputError: a missing or malformed key, or no valid graph.
    """
    check_directed(document)
    about = graph_object(document)
    nodes = objects(document, "nodes")
    ids = column(nodes, "nodes", "id")
    labelled = any("name" in node for node in nodes)
    sided = any("backward" in node for node in nodes)
    return ComputationGraph(
        nodes=tuple(ids),
        durations=tuple(column(nodes, "nodes", "cost_cpu")),
        sizes=tuple(column(nodes, "nodes", "cost_ram")),
        edges=edge_positions(ids, document, ("links", "edges"), ("source", "target")),
        order=resolve_order(ids, about),
        name=about.get("name", ""),
        labels=tuple(column(nodes, "nodes", "name")) if labelled else None,
        size_unit="byte",
        backward=tuple(column(nodes, "nodes", "backward")) if sided else None,
    )


READER = Reader("id, cost_ram and cost_cpu (checkmate)", matches, parse, is_json=True)
