"""The layers of a tiled graph and the places of their parts, and both as arrays for compiled code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Part
from moccasin_mzn.problem.instance import Instance

COPYING = frozenset(("SLICE", "CONCATENATION", "PAD", "PADV2", "Slice", "Concat", "Pad"))
"""Operators, as labels begin with them, that bring together what a part reads, where kernels cannot read parts."""
_COPIES = " copies"


@dataclass(frozen=True)
class Layers:
    """The layer of each node and its place in that; layers are numbered 0.. in a topological order.

    Raises:
        InputError: arrays of different lengths, an entry below 0, or a layer without nodes.
    """

    layer: tuple[int, ...]
    band: tuple[int, ...]
    """The band of rows, from the top."""
    column: tuple[int, ...]
    """The part of the band, from the left."""

    def __post_init__(self) -> None:
        if not len(self.layer) == len(self.band) == len(self.column):
            raise InputError(
                f"{len(self.layer)} layers, {len(self.band)} bands and {len(self.column)} columns, expected as many"
            )
        least = min(map(min, (self.layer, self.band, self.column)), default=0)
        if least < 0 or set(self.layer) != set(range(max(self.layer, default=-1) + 1)):
            raise InputError("layers are not numbered 0, 1, ... without a gap, or a band or column is below 0")

    def order(self) -> tuple[int, ...]:
        """Return all nodes layer by layer, the parts of a layer by band and column."""
        return tuple(np.lexsort((self.column, self.band, self.layer)).tolist())


def layers_of(graph: ComputationGraph, order: Sequence[int]) -> Layers:
    """Return the layers of a tiled graph, bands along the first axis that is cut and columns along the others; what
    only copies for parts of a layer is one layer, with the places of these parts, and anything else that is no part is
    a layer of its own.

    Args:
        order: a topological order; layers are numbered as they begin in it, but after those that they need. Where two
            need each other, every node is a layer of its own.
    """
    parts = _with_copies(graph, order)
    names = [part.layer if part is not None else f"node {v}" for v, part in enumerate(parts)]
    number = {name: x for x, name in enumerate(dict.fromkeys(names[v] for v in order))}
    begun = [number[name] for name in names]
    turns = _in_order(len(number), {(begun[tail], begun[head]) for tail, head in graph.edges})
    if turns is None:
        return single_layers(order)
    layers = [turns[x] for x in begun]
    places = [(*(begin for begin, _ in part.box), part.step or 0) if part is not None else (0,) for part in parts]
    bands, columns = [0] * len(parts), [0] * len(parts)
    of_layer: list[list[int]] = [[] for _ in number]
    for v, x in enumerate(layers):
        of_layer[x].append(v)
    for nodes in of_layer:
        cut = [axis for axis in range(len(places[nodes[0]])) if len({places[v][axis] for v in nodes}) > 1]
        begins = sorted({places[v][cut[0]] for v in nodes}) if cut else []
        rest = sorted({tuple(places[v][axis] for axis in cut[1:]) for v in nodes})
        band_of, column_of = ({each: at for at, each in enumerate(of)} for of in (begins, rest))
        for v in nodes if cut else ():
            bands[v] = band_of[places[v][cut[0]]]
            columns[v] = column_of[tuple(places[v][axis] for axis in cut[1:])]
    return Layers(tuple(layers), tuple(bands), tuple(columns))


def _with_copies(graph: ComputationGraph, order: Sequence[int]) -> list[Part | None]:
    """The part of each node; of what only copies for parts, such as a slice, that of the first one that reads it, in a
    layer of all such copies."""
    parts: list[Part | None] = list(graph.parts or (None,) * len(order))
    if graph.parts is None or graph.labels is None:
        return parts
    place = {v: at for at, v in enumerate(order)}
    for v in reversed(order):
        if parts[v] is None and graph.labels[v].split(" ")[0] in COPYING and graph.successors[v]:
            reader = parts[min(graph.successors[v], key=place.__getitem__)]
            if reader is not None:
                copies = reader.layer if reader.layer.endswith(_COPIES) else f"{reader.layer}{_COPIES}"
                parts[v] = Part(copies, reader.box)
    return parts


def _in_order(count: int, edges: Iterable[tuple[int, int]]) -> list[int] | None:
    """The turn of each layer: the first one that begins, of those whose inputs have had their turns; None: a circle."""
    readers: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for tail, head in edges:
        if tail != head:
            readers[tail].append(head)
            missing[head] += 1
    ready = [x for x in range(count) if not missing[x]]
    turns, turn = [0] * count, 0
    while ready:
        x = heappop(ready)
        turns[x], turn = turn, turn + 1
        for y in readers[x]:
            missing[y] -= 1
            if not missing[y]:
                heappush(ready, y)
    return turns if turn == count else None


def single_layers(order: Sequence[int]) -> Layers:
    """Return layers of one node each, along an order of a graph."""
    layer = np.empty(len(order), np.int64)
    layer[list(order)] = np.arange(len(order))
    nothing = (0,) * len(order)
    return Layers(tuple(layer.tolist()), nothing, nothing)


class StreamArrays(NamedTuple):
    """A tiled graph. Nodes are numbered layer by layer, parts of a layer by band and column."""

    duration: np.ndarray
    size: np.ndarray
    workspace: np.ndarray
    pred_ptr: np.ndarray
    pred: np.ndarray
    most: np.ndarray
    """How often each node may be computed."""
    layer: np.ndarray
    """The layer of each node."""
    band: np.ndarray
    """The band of each node within its layer."""
    first: np.ndarray
    """Parts of layer x are the nodes first[x]..first[x + 1] - 1."""
    width: np.ndarray
    """The number of parts of a band of each layer; of all of its parts if bands differ."""
    last: np.ndarray
    """True for layers that no other layer reads."""
    separates: np.ndarray
    """True for layers all of which is read, of them and those before, by layers after them: with it whole, nothing
    before it is needed any more. Also for the last one."""
    is_read: np.ndarray
    """True for nodes that others read."""


def stream_arrays(instance: Instance, layers: Layers) -> tuple[tuple[int, ...], StreamArrays]:
    """Return the nodes as they are numbered in the arrays, positions in `graph.nodes`, and the arrays.

    Raises:
        InputError: layers of another graph, or not in a topological order.
    """
    graph: ComputationGraph = instance.graph
    if len(layers.layer) != len(graph.nodes):
        raise InputError(f"layers of {len(layers.layer)} nodes, expected {len(graph.nodes)}")
    order = layers.order()
    graph.check_order(order)
    arrays, at = graph_arrays(graph, order), np.array(order)
    layer = np.array(layers.layer, np.int64)
    tail, head = layer[graph.edge_ends.T]
    last = np.ones(layer.max() + 1, np.bool_)
    last[tail[tail != head]] = False
    farthest = np.arange(len(last))
    np.maximum.at(farthest, tail, head)
    before = np.maximum.accumulate(np.concatenate(([0], farthest[:-1])))
    layer, band = layer[at], np.array(layers.band, np.int64)[at]
    first = np.searchsorted(layer, np.arange(len(last) + 1)).astype(np.int64)
    return order, StreamArrays(
        duration=arrays.duration, size=arrays.size, workspace=arrays.workspace, pred_ptr=arrays.pred_ptr,
        pred=arrays.pred, most=np.array(instance.max_computations, np.int64)[at], layer=layer, band=band, first=first,
        width=_widths(first, band), last=last, separates=before <= np.arange(len(last)),
        is_read=np.diff(arrays.succ_ptr) > 0,
    )  # fmt: skip


def _widths(first: np.ndarray, band: np.ndarray) -> np.ndarray:
    """Parts of each band of each layer; all parts of a layer if its bands differ."""
    widths = np.diff(first)
    for x in range(len(widths)):
        counts = np.unique(band[first[x] : first[x + 1]], return_counts=True)[1]
        if np.all(counts == counts[0]):
            widths[x] = counts[0]
    return widths
