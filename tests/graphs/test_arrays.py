"""The array view of a graph says what the graph says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from strategies import graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.graph import ComputationGraph

GRAPH = ComputationGraph(["d", "c", "b", "a"], (1, 2, 3, 4), (5, 6, 7, 8), ((3, 0), (3, 2), (2, 1), (1, 0)))
ORDER = (3, 2, 1, 0)


def rows(pointers, contents) -> list[list[int]]:
    return [contents[pointers[v] : pointers[v + 1]].tolist() for v in range(len(pointers) - 1)]


def test_the_graph_of_the_docstring():
    arrays = graph_arrays(GRAPH, ORDER)
    assert (arrays.node_count, len(arrays.succ)) == (4, 4)
    assert arrays.duration.tolist() == [4, 3, 2, 1]
    assert arrays.size.tolist() == [8, 7, 6, 5]
    assert (arrays.succ_ptr.tolist(), arrays.succ.tolist()) == ([0, 2, 3, 4, 4], [1, 3, 2, 3])
    assert (arrays.pred_ptr.tolist(), arrays.pred.tolist()) == ([0, 0, 1, 2, 4], [0, 1, 0, 2])


@given(graphs())
def test_arrays_are_the_graph_along_the_order(graph):
    order = graph.input_order()
    number = {v: k for k, v in enumerate(order)}
    arrays = graph_arrays(graph, order)
    assert rows(arrays.pred_ptr, arrays.pred) == [sorted(number[u] for u in graph.predecessors[v]) for v in order]
    assert rows(arrays.succ_ptr, arrays.succ) == [sorted(number[x] for x in graph.successors[v]) for v in order]
    assert arrays.duration.tolist() == [graph.durations[v] for v in order]
    assert arrays.size.tolist() == [graph.sizes[v] for v in order]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((3, 2, 1), "order: node d is missing"),
        ((3, 2, 2, 0), r"order\[2\]: node b was already at order\[1\]"),
        ((3, 2, 1, 4), r"order\[3\]: 4 is not a position 0..3"),
        ((3, 2, 1, 0.0), r"order\[3\]: 0.0 is not a position 0..3"),
        ((3, 2, 0, 1), "order is not topological: edge c -> d"),
    ],
)
def test_an_order_that_is_none_is_refused(order, message):
    with pytest.raises(InputError, match=message):
        graph_arrays(GRAPH, order)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"size": np.zeros(3, np.int64)}, r"size is int64 of shape \(3,\), expected int64 of shape \(4,\)"),
        ({"succ": np.zeros(4, np.int64)}, r"succ is int64 of shape \(4,\), expected int32 of shape \(4,\)"),
        ({"succ_ptr": np.array([0, 2, 1, 4, 4])}, "succ_ptr does not ascend from 0 to the 4 edges"),
        ({"succ": np.array([1, 4, 2, 3], np.int32)}, "succ holds a number that is not a node 0..3"),
        ({"succ": np.array([3, 1, 2, 3], np.int32)}, "succ: a row does not ascend"),
    ],
)
def test_bad_arrays_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        replace(graph_arrays(GRAPH, ORDER), **changes)
