"""What a reader of one format is, and what readers of JSON share: lists of objects, their keys, ids to positions."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain, repeat
from operator import itemgetter

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId


@dataclass(frozen=True)
class Reader:
    """How a format is distinguished from all others, and read.

    `matches` looks at as little as it needs, and never at the file's name. An `InputError` from `parse` is without that
    name, which `read_graph` adds.
    """

    looks: str
    """What messages call such files; of a dialect of JSON, what the objects under "nodes" have."""
    matches: Callable[[Json], bool]
    """Return True for a file's text or, if `is_json`, for the document in it, that has this format."""
    parse: Callable[[Json], ComputationGraph]
    is_json: bool = False
    ignored: Callable[[Json], str] = lambda content: ""
    """Return the keys of a file that was read that nothing is done with, in words; empty: there are none."""


_MISSPELT, _PROBABLY = 0.8, 0.7
"""Least similarity of an unknown key to an optional one for which it is refused, one or two letters differ; and to a
missing one for which the message shows it."""


def unknown_keys(found: Iterable[str], known: Collection[str], optional: Collection[str]) -> list[str]:
    """The keys that are not known, each once, in order.

    Args:
        optional: those of the known keys that may be missing, so that nothing else reports that one is misspelt.

    Raises:
        InputError: one is nearly an optional one, such as "workspce".
    """
    unknown = [key for key in dict.fromkeys(found) if key not in known]
    for key in unknown:
        if near := get_close_matches(key.casefold(), optional, 1, _MISSPELT):
            raise InputError(f'key {shown(key)} is unknown, did you mean "{near[0]}"?')
    return unknown


def keys_of(values: Iterable[JsonObject]) -> Iterable[str]:
    """All keys of many objects, each once, in order."""
    return dict.fromkeys(chain.from_iterable(values))


def first_node(document: object) -> JsonObject | None:
    """The first object under "nodes", or None if the document has none: what dialects are distinguished by."""
    nodes = document.get("nodes") if isinstance(document, dict) else None
    return nodes[0] if isinstance(nodes, list) and nodes and isinstance(nodes[0], dict) else None


def attributes_json(value: object) -> str:
    """Attributes of a graph as JSON.

    Raises:
        InputError: they are none.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"the graph's attributes are not JSON: {error}") from None
    except RecursionError:
        raise InputError("the graph's attributes are nested too deeply") from None


def check_directed(document: JsonObject) -> None:
    """Refuse undirected graphs and multigraphs; a file that has no mark of either is neither.

    Raises:
        InputError: "directed" is not true or "multigraph" is not false.
    """
    for key, wanted in (("directed", True), ("multigraph", False)):
        if document.get(key, wanted) is not wanted:
            raise InputError(f'"{key}" is {shown(document[key])}, expected {str(wanted).lower()}')


def graph_object(document: JsonObject) -> JsonObject:
    """The object under "graph", empty if absent."""
    about = document.get("graph", {})
    if not isinstance(about, dict):
        raise InputError(f'"graph" is {shown(about)}, expected an object')
    return about


def objects(document: JsonObject, *names: str) -> list[JsonObject]:
    """The list of objects under the one key of `names` that is there.

    Raises:
        InputError: none or several are there, or it is no list of objects.
    """
    present = [name for name in names if name in document]
    if len(present) != 1:
        wanted = " or ".join(f'"{name}"' for name in names)
        raise InputError(f"expected one key {wanted}, found {'none' if not present else 'all'}")
    values = document[present[0]]
    if not isinstance(values, list):
        raise InputError(f'"{present[0]}" is {shown(values)}, expected a list')
    if not set(map(type, values)) <= {dict}:
        at = next(at for at, value in enumerate(values) if not isinstance(value, dict))
        raise InputError(f"{present[0]}[{at}] is {shown(values[at])}, expected an object")
    return values


def column(values: list[JsonObject], what: str, key: str) -> list[Json]:
    """The value of `key` in each object of a list that messages call `what`.

    Raises:
        InputError: an object has no such key.
    """
    try:
        return list(map(itemgetter(key), values))
    except KeyError:
        at = next(at for at, value in enumerate(values) if key not in value)
        there = get_close_matches(key, values[at], 1, _PROBABLY)
        hint = f", there is {shown(there[0])}" if there else ""
        named = f" (id {shown(values[at]['id'])})" if "id" in values[at] else ""
        raise InputError(f'{what}[{at}]{named}: key "{key}" is missing{hint}') from None


def resolve(ids: list[NodeId], what: str, values: list[Json]) -> list[int]:
    """Positions of `values` in `ids`; the type counts, so "1" is not 1.

    Raises:
        InputError: a value is not among the ids.
    """
    return _resolved(_index(ids), what, values)


def _index(ids: list[NodeId]) -> dict[NodeId, int]:
    return {node: at for at, node in enumerate(ids) if type(node) in (int, str)}


def _resolved(index: dict[NodeId, int], what: str, values: list[Json]) -> list[int]:
    if set(map(type, values)) <= {int, str}:
        found = list(map(index.get, values, repeat(-1)))
    else:
        found = [index.get(value, -1) if type(value) in (int, str) else -1 for value in values]
    if -1 in found:
        at = found.index(-1)
        raise InputError(f"{what}[{at}]: node {shown(values[at])} is not in the graph")
    return found


def edge_positions(
    ids: list[NodeId], document: JsonObject, names: tuple[str, ...], ends: tuple[str, str]
) -> tuple[tuple[int, int], ...]:
    """The edges of a document as pairs of positions, tail first.

    Args:
        names: the keys the list of edges may be under.
        ends: the keys of the tail and of the head in each edge.
    """
    what = next((name for name in names if name in document), names[0])
    edges = objects(document, *names)
    tails, heads = (resolve(ids, what, column(edges, what, end)) for end in ends)
    return tuple(zip(tails, heads, strict=True))


def resolve_list(ids: list[NodeId], about: JsonObject, key: str) -> tuple[int, ...] | None:
    """The list of ids under a key, such as "order", as positions, None if absent."""
    found = about.get(key)
    if found is None:
        return None
    if not isinstance(found, list):
        raise InputError(f'"{key}" is {shown(found)}, expected a list of node ids')
    return tuple(resolve(ids, key, found))


@dataclass(frozen=True)
class Keys:
    """The keys of a dialect of JSON; None: it has no such key."""

    node: str
    """The key of ids in each node."""
    duration: str
    size: str
    edges: tuple[str, str]
    """See `edge_positions`, as for `ends`."""
    ends: tuple[str, str]
    label: str | None = None
    """The key of what all nodes have, or none, as for `backward`."""
    backward: str | None = None
    workspace: str | None = None
    """The key of workspaces, which are 0 where it is missing."""
    in_place: str | None = None
    """The key of lists of inputs that may be overwritten, empty where it is missing."""


def graph_of(document: JsonObject, keys: Keys, **facts: Json) -> ComputationGraph:
    """The graph of a document.

    Args:
        facts: what else the graph is made with.

    Raises:
        InputError: a missing or malformed key, or no valid graph.
    """
    check_directed(document)
    about = graph_object(document)
    nodes = objects(document, "nodes")
    ids = column(nodes, "nodes", keys.node)

    def where_any(key: str | None) -> tuple[Json, ...] | None:
        return tuple(column(nodes, "nodes", key)) if key is not None and any(key in at for at in nodes) else None

    overwritten, workspace, in_place = None, keys.workspace, keys.in_place
    if in_place is not None and any(in_place in at for at in nodes):
        overwritten = overwritable(ids, [at.get(in_place, []) for at in nodes])
    return ComputationGraph(
        nodes=tuple(ids),
        durations=tuple(column(nodes, "nodes", keys.duration)),
        sizes=tuple(column(nodes, "nodes", keys.size)),
        edges=edge_positions(ids, document, keys.edges, keys.ends),
        order=resolve_list(ids, about, "order"),
        name=about.get("name", ""),
        labels=where_any(keys.label),
        backward=where_any(keys.backward),
        workspaces=None if workspace is None else tuple(at.get(workspace, 0) for at in nodes),
        in_place=overwritten,
        **facts,
    )


def overwritable(ids: list[NodeId], given: list[Json]) -> tuple[tuple[int, ...], ...]:
    """The inputs that each node may overwrite, as positions.

    Args:
        given: for each node a list of ids.

    Raises:
        InputError: something else, or an id that is not in the graph.
    """
    for node, row in zip(ids, given, strict=True):
        if not isinstance(row, list):
            raise InputError(f"node {shown(node)}: in_place is {shown(row)}, expected a list of node ids")
    index = _index(ids)
    return tuple(tuple(_resolved(index, f"in_place of node {node}", row)) for node, row in zip(ids, given, strict=True))
