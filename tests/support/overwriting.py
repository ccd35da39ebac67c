"""Execution in place: graphs with inputs that may be overwritten, and memory counted anew, slowly, copy by copy."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from moccasin_mzn.graphs.graph import ComputationGraph


def overwriting(graph: ComputationGraph, seed: int) -> ComputationGraph:
    """The graph run in place; some or all of its outputs may overwrite those of its inputs that are large enough."""
    rng = random.Random(f"in place {seed}")
    share = rng.choice([0.3, 0.7, 1])
    if rng.random() < 0.5:  # many of one size, as of elementwise operators
        graph = replace(graph, sizes=[rng.choice([min(3, size), size]) for size in graph.sizes])
    rows = [
        [u for u in inputs if graph.sizes[u] >= graph.sizes[v] and rng.random() < share]
        for v, inputs in enumerate(graph.predecessors)
    ]
    return replace(graph, in_place=rows, runs_in_place=True)


def memory_in_place(graph: ComputationGraph, sequence: Sequence[int]) -> list[int]:
    """Memory at each position of a schedule: of what is in memory before it, read there or later, and of what is added.

    Copies are pairs of a node and the position that computes it; who reads which one, and when, is looked up anew.
    """
    inputs = [{tail for tail, head in graph.edges if head == v} for v in range(len(graph.nodes))]

    def copy_read(u: int, t: int) -> tuple[int, int]:
        return u, max(s for s in range(t) if sequence[s] == u)

    reads = [{copy_read(u, t) for u in inputs[v]} for t, v in enumerate(sequence)]
    memory = []
    for t, v in enumerate(sequence):
        before = {copy for later in range(t, len(sequence)) for copy in reads[later] if copy[1] < t}
        after = {copy for later in range(t + 1, len(sequence)) for copy in reads[later] if copy[1] <= t}
        freed = {u for u, _ in before - after}
        added = graph.sizes[v]
        if graph.runs_in_place and graph.in_place is not None and freed & set(graph.in_place[v]):
            added = 0
        workspace = 0 if graph.workspaces is None else graph.workspaces[v]
        memory.append(sum(graph.sizes[u] for u, _ in before) + added + workspace)
    return memory
