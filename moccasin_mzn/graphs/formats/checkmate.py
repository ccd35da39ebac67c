"""The Checkmate graphs published with the MOCCASIN paper (its graphs CM 1 and CM 2).

networkx node-link JSON: nodes carry `id`, `name` (the layer), `cost_ram` (bytes), `cost_cpu` and `backward`; links
carry `source` and `target`. There is no order: every topological order of these graphs has the same peak.
"""

from __future__ import annotations

from moccasin_mzn.graphs.formats.reader import Keys, Reader, first_node, graph_of
from moccasin_mzn.graphs.graph import ComputationGraph


def matches(document: object) -> bool:
    """True if the first node has a `cost_ram` or `cost_cpu`, which no other dialect uses."""
    node = first_node(document)
    return node is not None and ("cost_ram" in node or "cost_cpu" in node)


def parse(document: dict[str, object]) -> ComputationGraph:
    """The graph in a document of this dialect.

    The unit of `cost_cpu` is not stated in the files: floating-point operations in some, measured times in others.

    Raises:
        InputError: a missing or malformed key, or no valid graph.
    """
    keys = Keys("id", "cost_cpu", "cost_ram", ("links", "edges"), ("source", "target"), "name", "backward")
    return graph_of(document, keys, size_unit="byte")


READER = Reader("id, cost_ram and cost_cpu (checkmate)", matches, parse, is_json=True)
