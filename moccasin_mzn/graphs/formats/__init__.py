"""Files to graphs, one module per format: a module has a `READER`, and its name in `MODULES`."""

from __future__ import annotations

from importlib import import_module
from os import PathLike

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained, located, shown
from moccasin_mzn.base.files import Json, load_text, parse_json
from moccasin_mzn.base.log import note_once
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.formats.reader import Reader
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.zero_copy import changed_graph

__all__ = ["kinds_text", "read_graph", "write_graph"]

MODULES = ("graphml", "dot", "node_link", "random_layered", "checkmate")
"""The modules of formats; of dialects of JSON our own first, which names itself."""


@checked()
def read_graph(path: str | PathLike[str]) -> ComputationGraph:
    """Read a graph in JSON of any known dialect, or in any known format of text.

    Raises:
        InputError: the file cannot be read, is broken, is in no known dialect, or holds no valid graph.
    """
    text = load_text(path)
    with explained(Page.GRAPH_FILES):
        return _read(text, path)


def graph_given(
    given: ComputationGraph | str | PathLike[str], in_place: bool = False, zero_copy: int | None = None
) -> ComputationGraph:
    """The graph that is given, or that in the file that is given; to run in place, if wanted.

    Args:
        zero_copy: concatenations that need copy nothing at this alignment are taken out; None: none are.

    Raises:
        InputError: it is neither, or see `read_graph` and `zero_copy_concat`.
    """
    if not isinstance(given, ComputationGraph | str | PathLike):
        hint = "; ComputationGraph.from_networkx makes one of it" if hasattr(given, "is_multigraph") else ""
        raise InputError(f"graph: expected a ComputationGraph or its file, got {shown(given)}{hint}")
    graph = given if isinstance(given, ComputationGraph) else read_graph(given)
    return changed_graph(graph, in_place, zero_copy)


def _read(content: Json, path: str | PathLike[str]) -> ComputationGraph:
    readers = _readers()
    found = next((one for one in readers if not one.is_json and one.matches(content)), None)
    if found is None:
        content = parse_json(content, path)
        found = next((one for one in readers if one.is_json and one.matches(content)), None)
    with located(path):
        if found is None:
            raise InputError(f"no known graph format; expected {_expected(readers)}")
        graph = found.parse(content)
    if ignored := found.ignored(content):
        note_once(f"note: {path}: unknown keys are ignored: {ignored}")
    return graph


def kinds_text() -> str:
    """What a file of a graph may be, in words."""
    *others, last = ("JSON", *(one.looks for one in _readers() if not one.is_json))
    return f"{', '.join(others)} or {last}"


def _readers() -> list[Reader]:
    return [import_module(f"{__name__}.{module}").READER for module in MODULES]


def _expected(readers: list[Reader]) -> str:
    texts = ", ".join(one.looks for one in readers if not one.is_json)
    *others, last = (one.looks for one in readers if one.is_json)
    return f'{texts} or a JSON object with "nodes" that have {", ".join(others)} or {last}'
