"""Files to graphs, one module per format.

A format is recognised by what is in the file, never by its name. The modules of GraphML and DOT offer
`matches_text(text)` and `parse_text(text)`, each dialect of JSON `matches(document)` and `parse(document)`; to match
they look at as little as they need, and an `InputError` from them is without the file's name; `read_graph` adds that.
"""

from __future__ import annotations

from os import PathLike

from moccasin_mzn.errors import InputError
from moccasin_mzn.files import load_text, parse_json
from moccasin_mzn.graphs.formats import checkmate, dot, graphml, node_link, random_layered
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph

__all__ = ["read_graph", "write_graph"]

# The own format first: it says what it is.
_DIALECTS = (node_link, random_layered, checkmate)


def read_graph(path: str | PathLike[str]) -> ComputationGraph:
    """Read a graph in JSON of any known dialect, in GraphML or in DOT.

    Raises:
        InputError: the file cannot be read, is broken, is in no known dialect, or holds no valid graph.
    """
    text = load_text(path)
    for form in (graphml, dot):
        if form.matches_text(text):
            try:
                return form.parse_text(text)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
    document = parse_json(text, path)
    try:
        for dialect in _DIALECTS:
            if dialect.matches(document):
                return dialect.parse(document)
        raise InputError(
            'no known graph format; expected GraphML, DOT or a JSON object with "nodes" that have id, duration and '
            "size (moccasin-graph), name, out_cost and duration (random layered) or id, cost_ram and cost_cpu "
            "(checkmate)"
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
