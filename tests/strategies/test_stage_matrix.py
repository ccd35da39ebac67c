"""Stage matrices: the least completion of what is kept, and its sequence."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from strategies import graphs

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.strategies.strategy import MOST_NODES, complete, nothing_kept, sequence_of

SKIP = ComputationGraph(tuple("abcd"), (1, 1, 1, 1), (1, 1, 1, 1), ((0, 1), (1, 2), (2, 3), (0, 3)))
"""a -> b -> c -> d, and d also reads a."""


def kept(*rows: str) -> np.ndarray:
    """One string per stage, # where an output is kept."""
    return np.array([[mark == "#" for mark in row] for row in rows])


def by_definition(graph: ComputationGraph, order: tuple[int, ...], keep: np.ndarray) -> np.ndarray:
    """What `complete` finds, one stage and one node at a time."""
    n = len(order)
    recompute = np.eye(n, dtype=bool)
    for t in range(n):
        for i in range(n):
            if t + 1 < n and keep[t + 1, i] and not keep[t, i]:
                recompute[t, i] = True
        for v in reversed(range(t + 1)):
            for u in graph.predecessors[order[v]]:
                if recompute[t, v] and not keep[t, order.index(u)]:
                    recompute[t, order.index(u)] = True
    return recompute


@st.composite
def promises(draw: st.DrawFn) -> tuple[ComputationGraph, np.ndarray]:
    """A graph and what is kept along its input order."""
    graph = draw(graphs())
    n = len(graph.nodes)
    return graph, np.tril(draw(arrays(bool, (n, n))), -1)


@pytest.mark.parametrize(
    ("keep", "sequence"),
    [
        (kept("....", "#...", ".#..", "..#."), "abcad"),
        (kept("....", "#...", "##..", "###."), "abcd"),
        (kept("....", "....", "....", "...."), "aababcabcd"),
        (kept("....", "#...", "#...", "#.#."), "abbcd"),  # b is not kept for c
        (kept("....", "#...", ".#..", "#.#."), "abacd"),  # a is kept for stage d, so stage c has to compute it
    ],
)
def test_what_is_missing_is_computed(keep, sequence):
    order = SKIP.input_order()
    assert "".join(SKIP.nodes[v] for v in sequence_of(order, complete(SKIP, order, keep))) == sequence


@given(promises())
def test_completion_is_as_defined_and_valid(promise):
    graph, keep = promise
    order = graph.input_order()
    recompute = complete(graph, order, keep)
    assert (recompute == by_definition(graph, order, keep)).all()
    sequence = sequence_of(order, recompute)
    assert simulate(graph, sequence).feasible
    assert all(type(v) is int for v in sequence)


@given(promises())
def test_each_stage_finds_what_it_reads_and_leaves_what_is_kept(promise):
    graph, keep = promise
    order = graph.input_order()
    for t, row in enumerate(complete(graph, order, keep)):
        there = {order[i] for i in np.flatnonzero(keep[t])}
        for i in np.flatnonzero(row):
            assert there.issuperset(graph.predecessors[order[i]])
            there.add(order[i])
        assert order[t] == order[i]
        assert t + 1 == len(order) or there.issuperset(order[i] for i in np.flatnonzero(keep[t + 1]))


def test_nothing_can_be_kept_before_it_is_computed():
    keep = nothing_kept(4)
    keep[2, 2] = True
    with pytest.raises(InputError, match=r"^keep\[2, 2\]: node c is not computed before stage 2$"):
        complete(SKIP, SKIP.input_order(), keep)
    with pytest.raises(InputError, match=r"^keep has the shape \(3, 3\), expected \(4, 4\)$"):
        complete(SKIP, SKIP.input_order(), nothing_kept(3))


def test_too_many_nodes():
    with pytest.raises(InputError, match=r"^the graph has 10001 nodes, "):
        nothing_kept(MOST_NODES + 1)
