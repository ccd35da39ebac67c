"""All topological orders of tiny graphs, and what each needs by the definition of retention intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator

from moccasin_mzn.graph import ComputationGraph


def random_graph(seed: int, most_nodes: int = 7) -> ComputationGraph:
    """Sparse or dense, with sizes of 0 and equal sizes among others, and a random input order."""
    rng = random.Random(seed)
    nodes, density, largest = rng.randint(1, most_nodes), rng.choice([0.15, 0.3, 0.5]), rng.choice([1, 3, 20])
    order = rng.sample(range(nodes), nodes)
    return ComputationGraph(
        nodes=[f"n{v}" for v in range(nodes)],
        durations=[1] * nodes,
        sizes=[rng.randint(0, largest) for _ in range(nodes)],
        edges=[(order[i], order[j]) for j in range(nodes) for i in range(j) if rng.random() < density],
        order=order,
    )


def all_orders(graph: ComputationGraph, prefix: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """Every topological order that begins with `prefix`."""
    if len(prefix) == len(graph.nodes):
        yield prefix
    for v in range(len(graph.nodes)):
        if v not in prefix and all(u in prefix for u, w in graph.edges if w == v):
            yield from all_orders(graph, (*prefix, v))


def memory_of(graph: ComputationGraph, order: tuple[int, ...]) -> dict[int, int]:
    """Memory while each node is computed: from its computation to its last reader an output is there, both included."""
    place = {v: at for at, v in enumerate(order)}
    last = {v: max([place[v], *(place[w] for u, w in graph.edges if u == v)]) for v in order}
    return {v: sum(graph.sizes[u] for u in order if place[u] <= place[v] <= last[u]) for v in order}
