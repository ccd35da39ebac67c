"""Graphs with concatenations, what they cost if these copy nothing, and whether offsets let them.

Of the package only the graph and its operators are used. A concatenation is a view here, of the graph as it was: when
it is computed nothing is written, and the memory of all its inputs is retained as long as it is.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import count

from moccasin_mzn.graphs.access_maps import joined
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Read


def concatenation(
    sources: Sequence[int | None], shapes: Sequence[Sequence[int]], axis: int = 1, name: str = "Concat",
    unchanged: bool = True,
) -> Operator:  # fmt: skip
    """The operator of a concatenation."""
    shape = [*shapes[0]]
    shape[axis] = sum(each[axis] for each in shapes)
    rows = zip(sources, shapes, joined(axis, shapes), strict=True)
    return Operator(name, tuple(shape), tuple(Read(u, tuple(each), axes) for u, each, axes in rows), 0, unchanged)


def joining_graph(seed: int, nodes: int = 7, grain: int = 1, odd: bool = False) -> ComputationGraph:
    """A random graph, some of whose nodes are concatenations along the second axis of outputs of one row.

    Args:
        grain: sizes are multiples of it, or with `odd` most are.
    """
    draw = random.Random(seed)
    sizes, durations, operators, edges = [], [], [], []
    for v in range(nodes):
        reads = draw.sample(range(v), min(v, draw.choice((1, 1, 2, 3))))
        if len(reads) > 1 and draw.random() < 0.6 and v < nodes - 1:
            shapes = [(1, sizes[u]) for u in reads]
            operators.append(concatenation(reads, shapes))
            sizes.append(sum(sizes[u] for u in reads))
        else:
            operators.append(None)
            sizes.append(grain * draw.randint(1, 4) - (odd and draw.random() < 0.3))
        durations.append(draw.randint(1, 3))
        edges += [(u, v) for u in reads]
    return ComputationGraph(range(nodes), durations, sizes, edges, range(nodes), operators=operators)


# --- What schedules cost --------------------------------------------------------------------------------------


def least_duration(graph: ComputationGraph, views: Iterable[int], budget: int, most: int) -> int | None:
    """The least duration of a schedule in any order, by Dijkstra's algorithm over what is there; None: none fits.

    Args:
        views: the concatenations that copy nothing, and take no time.
        most: how often each other node may be computed.
    """
    n, views = len(graph.nodes), {*views}
    inputs = [frozenset(u for u, x in graph.edges if x == v) for v in range(n)]

    def memory(there: frozenset[int]) -> int:
        held, waiting = set[int](), [*there]
        while waiting:
            v = waiting.pop()
            waiting += inputs[v] if v in views else ()
            held |= {v} - views
        return sum(graph.sizes[v] for v in held)

    tie = count()
    heap = [(0, next(tie), frozenset[int](), (0,) * n)]
    done = set()
    while heap:
        duration, _, there, counts = heapq.heappop(heap)
        if all(counts):
            return duration
        if (there, counts) in done:
            continue
        done.add((there, counts))
        for v in range(n):
            if v in there or not inputs[v] <= there or (v not in views and counts[v] == most):
                continue
            more = counts if v in views and counts[v] else (*counts[:v], counts[v] + 1, *counts[v + 1 :])
            cost = 0 if v in views else graph.durations[v]
            for spared in _subsets(there - inputs[v]):
                kept = there - spared | {v}
                if memory(kept) <= budget:
                    heapq.heappush(heap, (duration + cost, next(tie), kept, more))
    return None


def _subsets(values: frozenset[int]) -> Iterable[frozenset[int]]:
    ordered = [*values]
    for bits in range(1 << len(ordered)):
        yield frozenset(v for at, v in enumerate(ordered) if bits >> at & 1)


# --- Whether offsets let them -----------------------------------------------------------------------------------


def misread(
    graph: ComputationGraph, taken_out: Mapping[int, Sequence[int]], sequence: Sequence[int], offsets: Sequence[int]
) -> str:
    """What goes wrong if a schedule without concatenations is executed in one flat memory; empty if nothing does.

    Each computation writes numbers of its own over its place, and whoever reads the output of a concatenation reads as
    many numbers as that has, from where the first of its inputs is.

    Args:
        graph: with all concatenations.
        taken_out: what they join, by concatenation.
        sequence: positions in `graph`, of what is computed.
        offsets: where each computation writes.
    """
    memory: dict[int, tuple[int, int, int]] = {}
    latest: dict[int, tuple[int, int]] = {}  # by node: its computation, and where

    def content(v: int) -> list[tuple[int, int, int]]:
        at, _ = latest[v]
        return [(v, at, place) for place in range(graph.sizes[v])]

    for at, v in enumerate(sequence):
        for u in (u for u, x in graph.edges if x == v):
            leaves = taken_out.get(u, (u,))
            begin = latest[leaves[0]][1]
            found = [memory.get(begin + place) for place in range(graph.sizes[u])]
            if found != [number for leaf in leaves for number in content(leaf)]:
                return f"computation {at} of {v} does not read {u} in one piece at {begin}"
        latest[v] = at, offsets[at]
        memory |= {offsets[at] + place: number for place, number in enumerate(content(v))}
    return ""
