"""Random graphs of many kinds, with sizes and durations of many magnitudes."""

from __future__ import annotations

import random
from dataclasses import replace

from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph

Edges = set[tuple[int, int]]

ODD_NAMES = ("1.0", "-", "node", "a b", "é", "x;y", '"q"', "[0]", "None", "%", "\\n", "-0", "01", "日本", "<b>", "a,b")


def draw_graph(rng: random.Random, nodes: int) -> tuple[str, ComputationGraph]:
    """A kind of edges, and a graph of it. Positions are shuffled, so that they give nothing away about the order."""
    kind = rng.choice(sorted(KINDS))
    edges = KINDS[kind](rng, nodes)
    position = rng.sample(range(nodes), nodes)
    edges = sorted((position[u], position[v]) for u, v in edges)
    rng.shuffle(edges)
    order = _some_order(rng, nodes, edges) if rng.random() < 0.7 else None
    graph = ComputationGraph(
        nodes=_names(rng, nodes),
        durations=_amounts(rng, nodes, 15),
        sizes=_amounts(rng, nodes, 12),
        edges=edges,
        order=order,
        name=rng.choice(["", "g", 'a "graph"']),
        labels=[rng.choice(["conv", "relu", ""]) for _ in range(nodes)] if rng.random() < 0.2 else None,
        fixed_memory={"parameters": rng.randint(0, 9)} if rng.random() < 0.1 else {},
    )
    return kind, _with_workspaces(rng, graph) if rng.random() < 0.2 else graph


def _with_workspaces(rng: random.Random, graph: ComputationGraph) -> ComputationGraph:
    """Some of them as large as outputs of other nodes."""
    largest = TOTAL_LIMIT - graph.total_size
    amounts = [rng.choice([0, 1, rng.choice(graph.sizes)]) for _ in graph.nodes]
    return replace(graph, workspaces=[min(amount, largest // len(amounts)) for amount in amounts])


def _layered(rng: random.Random, n: int) -> Edges:
    width = rng.randint(2, 4)
    layer = sorted(rng.randrange(max(1, n // width)) for _ in range(n))
    chance = rng.uniform(0.3, 0.9)
    return {(u, v) for v in range(n) for u in range(v) if layer[u] + 1 == layer[v] and rng.random() < chance}


def _chain(rng: random.Random, n: int) -> Edges:
    skips = {tuple(sorted(rng.sample(range(n), 2))) for _ in range(rng.randint(0, max(1, n // 3)) if n > 1 else 0)}
    return {(v, v + 1) for v in range(n - 1)} | skips


def _u_shaped(rng: random.Random, n: int) -> Edges:
    chance = rng.uniform(0.5, 1)
    return {(v, v + 1) for v in range(n - 1)} | {(v, n - 1 - v) for v in range(n // 2) if rng.random() < chance}


def _tree(rng: random.Random, n: int) -> Edges:
    if rng.random() < 0.5:
        return {(rng.randrange(v), v) for v in range(1, n)}
    return {(v, rng.randrange(v + 1, n)) for v in range(n - 1)}


def _dense(rng: random.Random, n: int) -> Edges:
    chance = rng.uniform(0.6, 1)
    return {(u, v) for v in range(n) for u in range(v) if rng.random() < chance}


def _sparse(rng: random.Random, n: int) -> Edges:
    near, far = rng.choice([0.2, 1, 1]), rng.choice([0.1, 0.3, 0.45])
    far = far if n < 12 else 2.5 * far / n
    return {(u, v) for v in range(n) for u in range(v) if rng.random() < (near if u + 1 == v else far)}


def _parts(rng: random.Random, n: int) -> Edges:
    part = [rng.randrange(3) for _ in range(n)]
    return {(u, v) for u, v in _sparse(rng, n) if part[u] == part[v]}


def _two_sided(rng: random.Random, n: int) -> Edges:
    sources, chance = rng.randint(1, max(1, n - 1)), rng.uniform(0.3, 0.8)
    return {(u, v) for u in range(sources) for v in range(sources, n) if rng.random() < chance * min(1, 6 / n)}


def _kept_inputs(rng: random.Random, n: int) -> Edges:
    """A chain in which some early outputs are read again at the end: what rematerialization is good for."""
    early = rng.sample(range(max(1, n // 2)), max(1, n // 3)) if n > 2 else []
    return {(v, v + 1) for v in range(n - 1)} | {(u, rng.randrange(max(u + 1, n - 3), n)) for u in early}


KINDS = {
    "layered": _layered, "chain": _chain, "u-shaped": _u_shaped, "tree": _tree, "dense": _dense, "sparse": _sparse,
    "parts": _parts, "two-sided": _two_sided, "kept-inputs": _kept_inputs, "kept-inputs-again": _kept_inputs,
    "no-edges": lambda rng, n: set(),
}  # fmt: skip


def _some_order(rng: random.Random, n: int, edges: list[tuple[int, int]]) -> list[int]:
    """A random topological order."""
    waiting = [0] * n
    for _, head in edges:
        waiting[head] += 1
    ready, order = [v for v in range(n) if not waiting[v]], []
    while ready:
        v = ready.pop(rng.randrange(len(ready)))
        order.append(v)
        for tail, head in edges:
            if tail == v:
                waiting[head] -= 1
                if not waiting[head]:
                    ready.append(head)
    return order


def random_order(rng: random.Random, graph: ComputationGraph) -> tuple[int, ...]:
    """A random topological order of a graph."""
    return tuple(_some_order(rng, len(graph.nodes), list(graph.edges)))


def _names(rng: random.Random, n: int) -> list[int | str]:
    style = rng.randrange(4)
    if style == 0:
        return list(range(n))
    if style == 1:
        return rng.sample(range(-50, 10**6), n)
    if style == 2 and n <= len(ODD_NAMES):
        return rng.sample(ODD_NAMES, n)
    return [f"n{v}" for v in range(n)]


def _amounts(rng: random.Random, n: int, digits: int) -> list[int]:
    """Sizes or durations: small, equal, zero, close but large, or of mixed magnitudes up to 10**digits."""
    style = rng.choice(["small", "small", "small", "equal", "none", "close", "flop", "mixed", "mixed", "wide"])
    large = 10 ** rng.randint(2, digits)
    draw = {
        "small": lambda: rng.randint(0, 9),
        "equal": lambda: 1,
        "none": lambda: 0,
        "close": lambda: large + rng.randint(0, 9),
        "flop": lambda: rng.randint(10**6, 5 * 10**9),
        "mixed": lambda: rng.randint(0, 10 ** rng.randint(0, digits)),
        "wide": lambda: rng.choice([1, 10**digits, rng.randint(1, 10**digits)]),
    }[style]
    amounts = [0 if rng.random() < 0.08 else draw() for _ in range(n)]
    excess = -(-sum(amounts) // TOTAL_LIMIT)
    return [amount // excess for amount in amounts] if excess > 1 else amounts
