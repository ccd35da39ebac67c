"""Brute force on tiny graphs: the best schedule in any order with any number of computations."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import count

import oracle

from moccasin_mzn.graphs.graph import ComputationGraph


def least_duration(graph: ComputationGraph, budget: int, earlier: tuple[tuple[int, int], ...] = ()) -> int | None:
    """By Dijkstra's algorithm over what is resident and what has been computed; None if nothing fits.

    Args:
        earlier: pairs of which the first has to be computed before the second is for the first time.
    """
    rules, tie = oracle._Rules(graph, budget, None), count()
    heap, done, every = [(0, next(tie), rules.start, 0)], set(), (1 << len(graph.nodes)) - 1
    while heap:
        extra, _, state, computed = heappop(heap)
        if computed == every:
            return extra + graph.total_duration
        if (state, computed) in done:
            continue
        done.add((state, computed))
        for v in range(len(graph.nodes)):
            if any(w == v and not computed >> u & 1 for u, w in earlier):
                continue
            cost = graph.durations[v] if computed >> v & 1 else 0
            for after in rules.compute(state, v):
                heappush(heap, (extra + cost, next(tie), after, computed | 1 << v))
    return None
