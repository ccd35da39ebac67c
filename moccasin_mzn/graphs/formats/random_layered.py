"""The random layered graphs published with the MOCCASIN paper (its graphs RL G1 to G4).

networkx node-link JSON: a node's id is `name`, its size `out_cost`, its duration `duration`; a link's ends are
the keys "0" (tail) and "1" (head); `graph.order` is the input topological order of the paper's experiments.
"""

from __future__ import annotations

from moccasin_mzn.graphs.formats.reader import Keys, Reader, first_node, graph_of
from moccasin_mzn.graphs.graph import ComputationGraph


def matches(document: object) -> bool:
    """True if the first node has an `out_cost`, which no other dialect uses."""
    node = first_node(document)
    return node is not None and "out_cost" in node


def parse(document: dict[str, object]) -> ComputationGraph:
    """The graph in a document of this dialect; its drawing positions and tag names are not kept.

    Raises:
        InputError: a missing or malformed key, or no valid graph.
    """
    return graph_of(document, Keys("name", "duration", "out_cost", ("links", "edges"), ("0", "1")))


READER = Reader("name, out_cost and duration (random layered)", matches, parse, is_json=True)
