"""A graph as flat numpy arrays, for compiled code: no objects, no ids, all numbers along one order.

The graph a -> b, a -> d, b -> c, c -> d along the order a, b, c, d::

    number         0  1  2  3
    succ_ptr       0  2  3  4  4          readers of v: succ[succ_ptr[v] : succ_ptr[v + 1]]
    succ           1  3 |2 |3 |
    pred_ptr       0  0  1  2  4          inputs of v: pred[pred_ptr[v] : pred_ptr[v + 1]]
    pred             |0 |1 |0  2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.graphs.graph import ComputationGraph

Array = np.ndarray

_TYPES = {
    "duration": np.int64,
    "size": np.int64,
    "workspace": np.int64,
    "pred_ptr": np.int64,
    "pred": np.int32,
    "succ_ptr": np.int64,
    "succ": np.int32,
}


@dataclass(frozen=True, eq=False)
class GraphArrays:
    """Durations, sizes and both directions of the edges in compressed sparse rows.

    Nodes are numbered 0..n-1 along an order, so every edge goes from a smaller to a larger number. All arrays are
    contiguous. They are not marked read-only, because numba compiles a function again for read-only arrays; treat
    them as such.

    Raises:
        InputError: an array of another type or length than stated, or rows that are not as described; see
        `_check_rows`.
    """

    duration: Array
    """int64[n], in the graph's duration unit."""
    size: Array
    """int64[n], in the graph's size unit."""
    workspace: Array
    """int64[n], the same unit: memory that a computation of each node takes in addition to its inputs and its
    output."""
    pred_ptr: Array
    """int64[n + 1]: where the inputs of each node begin in `pred`; the last one is m."""
    pred: Array
    """int32[m]: the nodes each node reads, node by node, ascending within a node."""
    succ_ptr: Array
    """int64[n + 1]: where the readers of each node begin in `succ`; the last one is m."""
    succ: Array
    """int32[m]: the nodes that read each node, node by node, ascending within a node."""

    def __post_init__(self) -> None:
        n, m = len(self.duration), len(self.pred)
        lengths = {"duration": n, "size": n, "workspace": n, "pred_ptr": n + 1, "pred": m, "succ_ptr": n + 1, "succ": m}
        for name, kind in _TYPES.items():
            array = getattr(self, name)
            if array.dtype != kind or array.shape != (lengths[name],) or not array.flags.c_contiguous:
                expected = f"{np.dtype(kind)} of shape ({lengths[name]},), contiguous"
                raise InputError(f"{name} is {array.dtype} of shape {array.shape}, expected {expected}")
        _check_rows("pred", self.pred_ptr, self.pred, n)
        _check_rows("succ", self.succ_ptr, self.succ, n)

    @property
    def node_count(self) -> int:
        """n."""
        return len(self.duration)


def graph_arrays(graph: ComputationGraph, order: Sequence[int]) -> GraphArrays:
    """The arrays of `graph` along `order`, in time proportional to nodes and edges but for two sorts.

    Args:
        order: a topological order, positions in `graph.nodes`; node k of the arrays is `order[k]`.

    Raises:
        InputError: `order` is no topological order of the graph.
    """
    n = len(graph.nodes)
    place = _places(graph, order)
    tail, head = place[graph.edge_ends].T
    if np.any(tail >= head):
        graph.check_order(order)  # names the edge
    along = np.asarray(order, np.int64)
    succ_ptr, succ = _rows(n, tail, head)
    pred_ptr, pred = _rows(n, head, tail)
    return GraphArrays(
        duration=np.array(graph.durations, np.int64)[along],
        size=np.array(graph.sizes, np.int64)[along],
        workspace=np.array(graph.workspace_of, np.int64)[along],
        pred_ptr=pred_ptr,
        pred=pred,
        succ_ptr=succ_ptr,
        succ=succ,
    )


def _places(graph: ComputationGraph, order: Sequence[int]) -> Array:
    """Place of each position of `graph.nodes` in `order`."""
    n = len(graph.nodes)
    whole = len(order) == n and all(type(v) is int for v in order) and sorted(order) == list(range(n))
    if not whole:
        graph.check_order(order)  # names the node
    place = np.empty(n, np.int64)
    place[np.asarray(order, np.int64)] = np.arange(n)
    return place


def _rows(n: int, at: Array, to: Array) -> tuple[Array, Array]:
    """Pointers and contents of rows 0..n-1: for every pair, `to` in row `at`, ascending."""
    keys = at * n + to
    keys.sort()
    pointers = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(at, minlength=n), out=pointers[1:])
    keys %= n
    return pointers, keys.astype(np.int32)


def _check_rows(name: str, pointers: Array, contents: Array, n: int) -> None:
    """Rows must tile `contents` and hold nodes 0..n-1, ascending within a row."""
    if pointers[0] != 0 or pointers[-1] != len(contents) or np.any(np.diff(pointers) < 0):
        raise InputError(f"{name}_ptr does not ascend from 0 to the {count_text(len(contents), 'edge')}")
    if len(contents) and (contents.min() < 0 or contents.max() >= n):
        raise InputError(f"{name} holds a number that is not a node 0..{n - 1}")
    falls = np.flatnonzero(np.diff(contents) <= 0) + 1  # only where a new row begins
    if not np.isin(falls, pointers).all():
        raise InputError(f"{name}: a row does not ascend")
