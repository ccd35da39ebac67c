"""Best plans of one device with several memories by brute force, for small graphs, with nothing of the package but the
graph.

A state is where each output lies (or that it does not), how often each node has been computed, and, in stages of an
order, which node of it the stage has come to. From it anything may be dropped, at no cost; or a node that does not lie
anywhere be computed, which reads its inputs where they lie.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from moccasin_mzn.graphs.graph import ComputationGraph

NOWHERE = -1


@dataclass(frozen=True)
class Pools:
    """A device in the oracle's own terms."""

    graph: ComputationGraph
    budgets: Sequence[int]
    access: Sequence[Sequence[int]]
    """By memory and node: what one read or write takes."""
    most: Sequence[int]
    """By node: most computations."""


def best_pools_plan(pools: Pools, order: Sequence[int] | None) -> tuple[int, tuple[tuple[int, int], ...]] | None:
    """The least cost, and a plan of it as (node, memory); None if there is none.

    Args:
        order: plans are in its stages: the k-th ends with the first computation of its k-th node, before which earlier
            ones are computed again, in this order; None: any order.
    """
    n = len(pools.graph.nodes)
    start = (NOWHERE,) * n, (0,) * n, 0
    tie, settled = count(), set()
    heap = [(0, next(tie), start, ())]
    while heap:
        cost, _, state, plan = heapq.heappop(heap)
        if state in settled:
            continue
        settled.add(state)
        if all(state[1]):
            return cost, plan
        for more, action, after in _after(pools, order, state):
            heapq.heappush(heap, (cost + more, next(tie), after, plan if action is None else (*plan, action)))
    return None


State = tuple[tuple[int, ...], tuple[int, ...], int]


def _after(
    pools: Pools, order: Sequence[int] | None, state: State
) -> Iterator[tuple[int, tuple[int, int] | None, State]]:
    places, counts, cursor = state
    graph, n = pools.graph, len(places)
    for v in range(n):
        if places[v] != NOWHERE:
            yield 0, None, (_put(places, v, NOWHERE), counts, cursor)
            continue
        if counts[v] == pools.most[v] or any(places[u] == NOWHERE for u in graph.predecessors[v]):
            continue
        following = _stage_after(order, counts, cursor, v)
        if following is None:
            continue
        reads = sum(pools.access[places[u]][u] for u in graph.predecessors[v])
        for m in range(len(pools.budgets)):
            after = _put(places, v, m)
            used = [sum(graph.sizes[u] for u in range(n) if after[u] == k) for k in range(len(pools.budgets))]
            used[m] += graph.workspace_of[v]
            if all(map(int.__le__, used, pools.budgets)):
                cost = graph.durations[v] + reads + pools.access[m][v]
                yield cost, (v, m), (after, _put(counts, v, counts[v] + 1), following)


def _stage_after(order: Sequence[int] | None, counts: tuple[int, ...], cursor: int, v: int) -> int | None:
    """The place in the order that the stage may go on from after computing v; None: that is out of place."""
    if order is None:
        return 0
    place, begun = order.index(v), sum(map(bool, counts))
    if counts[v]:
        return place + 1 if cursor <= place < begun else None
    return 0 if place == begun else None


def _put(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])
