"""Files to graphs, one module per format.

A dialect is recognised by what is in the file, never by its name. Each dialect module offers
`matches(document)`, which looks at as little as it needs, and `parse(document)`, which raises an `InputError`
without the file's name; `read_graph` adds that.
"""

from __future__ import annotations

from os import PathLike

from moccasin_mzn.errors import InputError
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.readers import checkmate, node_link, random_layered
from moccasin_mzn.readers.counts import read_counts
from moccasin_mzn.readers.jsonfile import load_json
from moccasin_mzn.readers.node_link import write_graph
from moccasin_mzn.readers.schedule import ClaimedSchedule, read_order, read_schedule

__all__ = ["ClaimedSchedule", "read_counts", "read_graph", "read_order", "read_schedule", "write_graph"]

# The own format first: it says what it is.
_DIALECTS = (node_link, random_layered, checkmate)


def read_graph(path: str | PathLike[str]) -> ComputationGraph:
    """Read a graph in any known JSON dialect.

    Raises:
        InputError: the file cannot be read, is broken, is in no known dialect, or holds no valid graph.
    """
    document = load_json(path)
    try:
        for dialect in _DIALECTS:
            if dialect.matches(document):
                return dialect.parse(document)
        raise InputError(
            'no known graph format; expected a JSON object with "nodes" that have id, duration and size '
            "(moccasin-graph), name, out_cost and duration (random layered) or id, cost_ram and cost_cpu (checkmate)"
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
