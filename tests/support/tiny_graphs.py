"""Graphs of a few nodes whose optima are seen by eye."""

from __future__ import annotations

from moccasin_mzn.graphs.graph import ComputationGraph


def graph_of(durations, sizes, edges) -> ComputationGraph:
    return ComputationGraph(nodes=range(len(sizes)), durations=durations, sizes=sizes, edges=edges)


CHAIN = graph_of([3, 2, 4], [5, 1, 2], [(0, 1), (1, 2)])
DIAMOND = graph_of([3, 1, 2, 1], [4, 2, 2, 1], [(0, 1), (0, 2), (1, 3), (2, 3)])
U_SHAPE = graph_of([1] * 6, [1] * 6, [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (4, 5), (0, 5)])
"""A forward chain 0 1 2 and a backward chain 3 4 5 that reads its outputs in reverse."""
STRAY = graph_of([1, 1, 1, 1], [3, 3, 1, 1], [(0, 2), (1, 3)])
"""Two independent pairs, interleaved in the input order."""
SKIP = ComputationGraph(tuple("xabcz"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
"""Within a budget of 8 the shortest schedule takes 14, and computes x twice; the input order fits 10."""
