"""The project's own format: networkx's node-link JSON with fixed keys. ::

    {
    "format": "moccasin-graph",
    "version": 1,
    "directed": true,
    "multigraph": false,
    "graph": {"name": "tiny", "duration_unit": "FLOP", "size_unit": "byte", "order": [0, 1],
              "fixed_memory": {"parameters": 9}, "made_by": {"command": "by hand"}},
    "nodes": [
    {"id": 0, "duration": 3, "size": 4, "label": "conv"},
    {"id": 1, "duration": 1, "size": 2, "label": "relu"}
    ],
    "edges": [
    {"source": 0, "target": 1}
    ]
    }

Ids are integers or strings. In "graph" all keys are optional; "computed_once" lists the ids of nodes that no search may
recompute; unknown keys are kept as the graph's `attributes`. Elsewhere unknown keys are ignored. A key that is nearly
an optional one is refused as misspelt.
Each node may have a "label", and in a training graph "backward": true for the nodes of its backward pass; all nodes
have one, or none has; so with "device_durations", such as {"gpu": 3, "cpu": 12, "npu": null}, where null is for what a
device cannot compute. A node may have a "workspace": memory that a computation of it takes while it goes on, in
addition to its inputs and its output; without one that is 0. It may have "in_place", a list of ids: those of its inputs
whose memory its output may take if they are not read later. "operator" is what a node computes, and "part" what a node
of a tiled graph is a part of: see `graphs.operators`. Each output of an operation is a node: the first is computed, and
further ones, of duration 0, have its id as "output_of"; the edges from it and from what it reads need not be given.
"adjacent" has lists of ids: inputs that a node reads as one, so that each lies directly after the one before in memory.
On reading, "links" may stand for "edges" (older networkx), and "format" and "version" may be missing, so plain output
of networkx's `node_link_data` is read as well.
"""

from __future__ import annotations

import json
from functools import partial
from os import PathLike

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.errors import InputError, located, shown, some_of
from moccasin_mzn.base.files import JsonObject, replace_file
from moccasin_mzn.graphs.adjacency import adjacent_in
from moccasin_mzn.graphs.checks import by_device, output_of_in
from moccasin_mzn.graphs.formats.reader import (
    Keys,
    Reader,
    attributes_json,
    check_directed,
    column,
    first_node,
    graph_object,
    graph_of,
    keys_of,
    objects,
    resolve_list,
    unknown_keys,
)
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import operators_in, parts_in

FORMAT = "moccasin-graph"
VERSION = 1
KEYS = Keys(
    "id", "duration", "size", ("edges", "links"), ("source", "target"), "label", "backward", "workspace", "in_place"
)

_OWN_KEYS = ("name", "order", "duration_unit", "size_unit", "fixed_memory", "computed_once")
_NODE_KEYS = (
    "workspace",
    "in_place",
    "label",
    "backward",
    "device_durations",
    "operator",
    "part",
    "output_of",
    "adjacent",
)
"""The optional ones."""
_KEYS = ("format", "version", "directed", "multigraph", "graph", "nodes", "edges", "links")


def matches(document: object) -> bool:
    """True if the document names this format, or its first node has one of this format's own keys."""
    if isinstance(document, dict) and "format" in document:
        return True
    node = first_node(document)
    return node is not None and "id" in node and ("duration" in node or "size" in node)


def parse(document: dict[str, object]) -> ComputationGraph:
    """The graph in a document of this format.

    Raises:
        InputError: another format or version, a missing or malformed key, or no valid graph.
    """
    if document.get("format", FORMAT) != FORMAT:
        raise InputError(f'"format" is {shown(document["format"])}, expected "{FORMAT}"')
    version = document.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        raise InputError(f'"version" is {shown(version)}, this program reads version {VERSION}')
    check_directed(document)
    about = graph_object(document)
    nodes = objects(document, "nodes")
    _unknown(document)
    timed = any("device_durations" in node for node in nodes)
    ids = column(nodes, "nodes", "id")
    index = {node: at for at, node in enumerate(ids)}
    return graph_of(
        document,
        KEYS,
        duration_unit=about.get("duration_unit", "unit"),
        size_unit=about.get("size_unit", "unit"),
        attributes={key: value for key, value in about.items() if key not in _OWN_KEYS},
        fixed_memory=about.get("fixed_memory", {}),
        computed_once=resolve_list(ids, about, "computed_once") or (),
        device_durations=by_device(ids, column(nodes, "nodes", "device_durations")) if timed else {},
        operators=operators_in(ids, nodes),
        parts=parts_in(ids, nodes),
        output_of=output_of_in(index, nodes),
        adjacent=adjacent_in(index, nodes),
    )  # fmt: skip


def _unknown(document: JsonObject) -> tuple[tuple[str, list[str]], ...]:
    """The keys that this format does not know, by where they are; those of "graph" are checked, and no others of it.

    Raises:
        InputError: one is misspelt.
    """
    with located('"graph"'):
        unknown_keys(graph_object(document), _OWN_KEYS, _OWN_KEYS)
    nodes, edges = document["nodes"], document.get("edges", document.get("links", []))
    with located("nodes"):
        of_nodes = unknown_keys(keys_of(nodes), ("id", "duration", "size", *_NODE_KEYS), _NODE_KEYS)
    of_edges = unknown_keys(keys_of(edges), ("source", "target"), ()) if isinstance(edges, list) else []
    return ("", unknown_keys(document, _KEYS, _KEYS)), (" of nodes", of_nodes), (" of edges", of_edges)


def _ignored(document: JsonObject) -> str:
    return ", ".join(f"{some_of(map(json.dumps, keys))}{where}" for where, keys in _unknown(document) if keys)


@checked()
def write_graph(graph: ComputationGraph, path: str | PathLike[str]) -> None:
    """Write `graph` to a file, whole or not at all; the same graph always gives the same bytes.

    Raises:
        InputError: the file cannot be written, or `graph.attributes` holds what is not JSON.
    """
    if not isinstance(graph, ComputationGraph):
        raise InputError(f"graph: expected a ComputationGraph, got {shown(graph)}")
    replace_file(path, graph_text(graph))


def graph_text(graph: ComputationGraph) -> str:
    """The content of the file `write_graph` writes: one line per node and per edge, so that diffs read well."""
    about: dict[str, object] = {key: getattr(graph, key) for key in ("name", "duration_unit", "size_unit")}
    taken = [key for key in graph.attributes if key in _OWN_KEYS]
    if taken:
        raise InputError(f"attribute {shown(taken[0])} has the name of a key of the format")
    with located("attributes"):
        unknown_keys([key for key in graph.attributes if isinstance(key, str)], _OWN_KEYS, _OWN_KEYS)
    if graph.fixed_memory:
        about["fixed_memory"] = dict(graph.fixed_memory)
    if graph.computed_once:
        about["computed_once"] = [graph.nodes[v] for v in graph.computed_once]
    about.update(graph.attributes)
    if graph.order is not None:
        about["order"] = [graph.nodes[v] for v in graph.order]
    nodes = [{"id": node, **graph.attributes_of(v)} for v, node in enumerate(graph.nodes)]
    edges = [{"source": graph.nodes[tail], "target": graph.nodes[head]} for tail, head in graph.edges]
    head = {"format": FORMAT, "version": VERSION, "directed": True, "multigraph": False, "graph": about}
    lines = [f"{_json(key)}: {attributes_json(value)}" for key, value in head.items()]
    for key, values in (("nodes", nodes), ("edges", edges)):
        lines.append(f'"{key}": ' + ("[\n" + ",\n".join(map(_json, values)) + "\n]" if values else "[]"))
    return "{\n" + ",\n".join(lines) + "\n}\n"


_json = partial(json.dumps, allow_nan=False)


READER = Reader("id, duration and size (moccasin-graph)", matches, parse, is_json=True, ignored=_ignored)
