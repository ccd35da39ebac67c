"""The least peak of tiny graphs of every kind, straight from the definition: several outputs, in place, workspaces.

Of the package only the graph is used. A state is what is in memory and has been computed, and how often; from it one
operation is computed, with those of its further outputs that are listed after it, and anything is dropped.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from itertools import combinations, count

from moccasin_mzn.graphs.graph import ComputationGraph

FREE, FIRST, STAGED = "any order", "first computations in the input order", "stages of the input order"


def subsets(values: frozenset[int]) -> Iterator[frozenset[int]]:
    rows = sorted(values)
    return (frozenset(chosen) for k in range(len(rows) + 1) for chosen in combinations(rows, k))


def least_peak(graph: ComputationGraph, scope: str, most: int) -> int:
    """The least peak of the schedules of a scope that compute each operation at most so often."""
    n, order, tie = len(graph.nodes), graph.input_order(), count()
    of = graph.output_of or (None,) * n
    outputs = {v: [v] + [w for w in order if of[w] == v] for v in range(n) if of[v] is None}
    limit = {v: 1 if v in graph.computed_once else most for v in outputs}
    rows = graph.in_place if graph.in_place is not None and graph.runs_in_place else ((),) * n
    inputs = [frozenset(u for u, head in graph.edges if head == v) for v in range(n)]
    everything = frozenset(range(n))
    start = (frozenset[int](), frozenset[int](), (0,) * n, -1)
    heap, done = [(0, next(tie), start)], set()
    while heap:
        peak, _, state = heapq.heappop(heap)
        if state in done:
            continue
        done.add(state)
        held, computed, counts, latest = state
        if computed == everything:
            return peak
        for v, made in outputs.items():
            if counts[v] == limit[v] or not inputs[v] <= held:
                continue
            first, place = v not in computed, order.index(v)
            if scope != FREE and first and order[len(computed)] != v:
                continue
            if scope == STAGED and not first and place <= latest:
                continue
            own = (0 if graph.workspaces is None else graph.workspaces[v]) + sum(graph.sizes[w] for w in made)
            before = held - frozenset(made)
            memory = sum(graph.sizes[u] for u in before) + own
            again = tuple(times + (w == v) for w, times in enumerate(counts))
            for further in subsets(frozenset(made[1:])):
                listed = further | {v}
                if scope != FREE and ((first and listed != frozenset(made)) or not (first or listed <= computed)):
                    continue
                for kept in subsets(before | listed):
                    spared = graph.sizes[v] if not further and set(rows[v]) & (before - kept) else 0
                    after = (kept, computed | listed, again, -1 if scope != STAGED or first else place)
                    if after not in done:
                        heapq.heappush(heap, (max(peak, memory - spared), next(tie), after))
    raise AssertionError("every graph has a schedule")


def draw_any(seed: int, most: int = 5) -> ComputationGraph:
    """A graph with or without further outputs, inputs that may be overwritten, workspaces, nodes computed once; sizes
    are often equal, or 0."""
    rng = random.Random(f"any {seed}")
    n = rng.randint(2, most)
    order = rng.sample(range(n), n)
    of: list[int | None] = [None] * n
    for j in range(1, n) if rng.random() < 0.6 else ():
        first = order[rng.randrange(j)]
        if rng.random() < 0.4 and of[first] is None:
            of[order[j]] = first
    own = [v for v in range(n) if of[v] is None]
    dense, large = rng.choice([0.2, 0.5]), rng.choice([4, 8])
    edges = [
        (order[i], order[j])
        for j in range(n)
        for i in range(j)
        if of[order[j]] is None and rng.random() < (0.8 if i == j - 1 else dense)
    ]
    sizes = [rng.choice([0, 1, 2, 2, 3, large]) for _ in range(n)]
    sizes = [0 if first is not None and sizes[first] == 0 else size for size, first in zip(sizes, of, strict=True)]
    share = rng.choice([0, 0.6, 1])
    rows = [
        [u for u, head in edges if head == v and sizes[u] >= sizes[v] > 0 and rng.random() < share] for v in range(n)
    ]
    return ComputationGraph(
        nodes=[f"n{v}" for v in range(n)],
        durations=[rng.choice([0, 1, 1, 2, 5]) if v in own else 0 for v in range(n)],
        sizes=sizes,
        edges=edges,
        order=order,
        workspaces=[rng.choice([0, 0, 1, 4]) if v in own else 0 for v in range(n)],
        in_place=rows,
        output_of=of if any(first is not None for first in of) else None,
        computed_once=[v for v in own if rng.random() < 0.1],
        runs_in_place=any(rows),
    )


def draw_schedule(graph: ComputationGraph, rng: random.Random, extra: int = 6) -> tuple[int, ...]:
    """The input order with operations computed again anywhere after, each with some of its further outputs."""
    found, of = list(graph.input_order()), graph.output_of or (None,) * len(graph.nodes)
    for _ in range(rng.randint(0, extra)):
        v = rng.choice([u for u in found if of[u] is None])
        at = rng.randint(found.index(v) + 1, len(found))
        while at < len(found) and of[found[at]] is not None:
            at += 1
        found[at:at] = [v, *(w for w in graph.outputs_of[v] if rng.random() < 0.6)]
    return tuple(found)
