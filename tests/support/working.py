"""Workspaces for graphs that have none."""

from __future__ import annotations

import random
from dataclasses import replace

from moccasin_mzn.graphs.graph import ComputationGraph


def working(graph: ComputationGraph, seed: int) -> ComputationGraph:
    """The graph with random workspaces, of some nodes or all, up to twice the largest size; none if all sizes are 0."""
    rng = random.Random(f"workspaces {seed}")
    largest, share = rng.choice([1, 2]) * max(graph.sizes), rng.choice([0.3, 0.6, 1])
    workspaces = [rng.randint(1, largest) if largest and rng.random() < share else 0 for _ in graph.nodes]
    return replace(graph, workspaces=tuple(workspaces))


def as_nodes(graph: ComputationGraph) -> ComputationGraph:
    """Workspaces as nodes: before each node with one, in its input order as well, a node without inputs and of no
    duration, as large as the workspace, which that node alone reads. It has the position n, n + 1, ..."""
    having = [v for v, amount in enumerate(graph.workspace_of) if amount]
    own = {v: len(graph.nodes) + at for at, v in enumerate(having)}
    names = [f"workspace of {graph.nodes[v]}" for v in having]
    return ComputationGraph(
        nodes=(*graph.nodes, *names),
        durations=(*graph.durations, *[0] * len(own)),
        sizes=(*graph.sizes, *(graph.workspace_of[v] for v in own)),
        edges=(*graph.edges, *((workspace, v) for v, workspace in own.items())),
        order=[u for v in graph.input_order() for u in ((own[v], v) if v in own else (v,))],
    )
