"""All topological orders of tiny graphs, and what each needs by the definition of retention intervals."""

from __future__ import annotations

import random
from collections.abc import Iterator

from working import working

from moccasin_mzn.graphs.graph import ComputationGraph


def random_graph(seed: int, most_nodes: int = 7) -> ComputationGraph:
    """Sparse or dense, with sizes of 0 and equal sizes among others, a random input order, and mostly workspaces."""
    rng = random.Random(seed)
    nodes, density, largest = rng.randint(1, most_nodes), rng.choice([0.15, 0.3, 0.5]), rng.choice([1, 3, 20])
    order = rng.sample(range(nodes), nodes)
    graph = ComputationGraph(
        nodes=[f"n{v}" for v in range(nodes)],
        durations=[1] * nodes,
        sizes=[rng.randint(0, largest) for _ in range(nodes)],
        edges=[(order[i], order[j]) for j in range(nodes) for i in range(j) if rng.random() < density],
        order=order,
    )
    return working(graph, seed) if seed % 3 else graph


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
    return {
        v: graph.workspace_of[v] + sum(graph.sizes[u] for u in order if place[u] <= place[v] <= last[u]) for v in order
    }


def least_over_sets(graph: ComputationGraph) -> tuple[int, list[int]]:
    """The least peak of all orders, and for each node the least memory while it is computed, over all orders.

    By dynamic programming over all sets of computed nodes that are closed under inputs, as sets of bits: for up to some
    13 nodes, of which there are too many orders.
    """
    nodes = range(len(graph.nodes))
    inputs = [sum(1 << u for u, w in graph.edges if w == v) for v in nodes]
    readers = [sum(1 << w for u, w in graph.edges if u == v) for v in nodes]
    most = graph.total_size + max(graph.workspace_of)
    least, level = [most] * len(nodes), {0: 0}
    for _ in nodes:
        following: dict[int, int] = {}
        for computed, peak in level.items():
            held = sum(graph.sizes[u] for u in nodes if computed >> u & 1 and readers[u] & ~computed)
            for v in nodes:
                if not computed >> v & 1 and not inputs[v] & ~computed:
                    memory, after = held + graph.sizes[v] + graph.workspace_of[v], computed | 1 << v
                    least[v] = min(least[v], memory)
                    following[after] = min(max(peak, memory), following.get(after, most))
        level = following
    return level[(1 << len(nodes)) - 1], least


SHAPES = ("wide", "chains", "apart", "layers", "sinks", "tree", "hub", "no edges")
SIZES = ("zero", "equal", "mixed", "powers", "huge")


def graph_of_kind(shape: str, size: str, seed: int, most_nodes: int = 11) -> ComputationGraph:
    """A random graph of a shape, with sizes of a kind, in a random input order."""
    rng = random.Random(f"{shape} {size} {seed}")
    n = rng.randint(1, most_nodes)
    pairs = [(i, j) for j in range(n) for i in range(j)]
    width = rng.randint(1, 4)
    edges = {
        "wide": [(i, j) for i, j in pairs if i < n // 3 <= j and rng.random() < 0.5],
        "chains": [(i, j) for i, j in pairs if j - i == width or rng.random() < 0.04],
        "apart": [(i, j) for i, j in pairs if i % 2 == j % 2 and rng.random() < 0.4],
        "layers": [(i, j) for i, j in pairs if j // width - i // width == 1 and rng.random() < 0.6],
        "sinks": [(i, j) for i, j in pairs if i < n // 2 and rng.random() < 0.3],
        "tree": [(i, rng.randint(i + 1, n - 1)) for i in range(n - 1)],
        "hub": [(i, j) for i, j in pairs if i == 0 or (j == n - 1 and rng.random() < 0.5)],
        "no edges": [],
    }[shape]
    sizes = {
        "zero": lambda: 0,
        "equal": lambda: 3,
        "mixed": lambda: rng.choice([0, 0, 1, 2, 7]),
        "powers": lambda: 2 ** rng.randint(0, 20),
        "huge": lambda: rng.randint(2**48, 2**49),
    }[size]
    order = rng.sample(range(n), n)
    return ComputationGraph(
        nodes=range(n), durations=[1] * n, sizes=[sizes() for _ in range(n)],
        edges=[(order[i], order[j]) for i, j in edges], order=order,
    )  # fmt: skip
