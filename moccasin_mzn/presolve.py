"""From an instance to the data of the models: numbers made small, nodes that never need recomputation found.

Nodes are renumbered 1..n along the input order, sizes and durations are divided by their greatest common divisors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from moccasin_mzn.instance import Instance

CRITICAL_STAGES = 3
"""Redundant constraints are spent on this many stages: one already speeds up proofs several times, but each costs
variables and constraints in proportion to nodes and edges, and more than a few slow the search down again."""


@dataclass(frozen=True)
class ModelData:
    """What `models/lib/instance.mzn` declares. Nodes, stages and edges are numbered from 1, along the input order."""

    order: tuple[int, ...]
    """Position in `graph.nodes` of node 1, 2, ..., n."""
    size_scale: int
    """Sizes times this are in the graph's size unit."""
    duration_scale: int
    """Durations times this are in the graph's duration unit."""
    duration: tuple[int, ...]
    size: tuple[int, ...]
    edges: tuple[tuple[int, int], ...]
    """(tail, head), sorted."""
    budget: int
    input_order_memory: tuple[int, ...]
    """Memory at each stage if every node is computed once."""
    max_computations: tuple[int, ...]
    earliest_stage: tuple[int, ...]
    """First stage in which a recomputation can be of use."""
    latest_stage: tuple[int, ...]
    """Last stage in which the output can be read."""
    critical_stage: tuple[int, ...]
    """Stages of the input order over the budget that get redundant constraints of their own."""

    @property
    def computation_nodes(self) -> tuple[int, ...]:
        """The node of each computation, from 1, in the numbering of the models: node by node, first to last."""
        return tuple(v for v, count in enumerate(self.max_computations, 1) for _ in range(count))


def presolve(instance: Instance, staged: bool) -> ModelData:
    """Reduce an instance without losing an optimal schedule.

    With staged events the input order is kept, which tells more; see `_useful_stages`. With free events only outputs
    that nothing reads or that need no memory are known never to be recomputed.
    """
    graph, order = instance.graph, instance.order
    number = {v: k for k, v in enumerate(order, 1)}
    size_scale = math.gcd(*graph.sizes) or 1
    duration_scale = math.gcd(*graph.durations) or 1
    size = tuple(graph.sizes[v] // size_scale for v in order)
    budget = instance.budget // size_scale
    memory = tuple(amount // size_scale for amount in instance.baseline.memory)
    readers = [sorted(number[x] for x in graph.successors[v]) for v in order]
    counts = [instance.max_computations[v] if size[k] > 0 and readers[k] else 1 for k, v in enumerate(order)]
    if staged:
        counts, earliest, latest = _useful_stages(size, readers, counts, budget)
    else:
        earliest, latest = list(range(1, len(order) + 1)), [len(order)] * len(order)
    return ModelData(
        order=order,
        size_scale=size_scale,
        duration_scale=duration_scale,
        duration=tuple(graph.durations[v] // duration_scale for v in order),
        size=size,
        edges=tuple((k, x) for k, heads in enumerate(readers, 1) for x in heads),
        budget=budget,
        input_order_memory=memory,
        max_computations=tuple(counts),
        earliest_stage=tuple(earliest),
        latest_stage=tuple(latest),
        critical_stage=_critical_stages(memory, budget) if staged else (),
    )


def _useful_stages(
    size: Sequence[int], readers: Sequence[Sequence[int]], counts: Sequence[int], budget: int
) -> tuple[list[int], list[int], list[int]]:
    """C_v, and first and last stage in which a recomputation of each node can be of use; stages count from 1.

    An output can be in memory in stage k only if it is computed by then and can be read in k or later. A stage where
    all such outputs fit together is never over the budget, whatever else is done. A recomputation pays only if its
    output was missing in some other stage: if not, keeping the earlier copy costs nothing and drops the recomputation.

    A node that cannot be recomputed reads its inputs only once, which may make further stages safe: hence the loop.
    """
    n, counts = len(size), list(counts)
    while True:
        latest = _last_reads(readers, counts)
        crowded = _crowded_stages(size, latest, budget)
        next_crowded = [n + 1] * (n + 2)  # by stage; n + 1: none
        for k in range(n, 0, -1):
            next_crowded[k] = k if crowded[k - 1] else next_crowded[k + 1]
        earliest = [next_crowded[v + 1] for v in range(1, n + 1)]
        possible = [max(1, min(counts[v], latest[v] - earliest[v] + 2)) for v in range(n)]
        if possible == counts:
            once = [count == 1 for count in counts]
            return counts, [latest[v] if once[v] else earliest[v] for v in range(n)], latest
        counts = possible


def _last_reads(readers: Sequence[Sequence[int]], counts: Sequence[int]) -> list[int]:
    """The last stage in which each output can be read: by a reader's first computation, or by its last possible one."""
    latest = [0] * len(readers)
    for v in range(len(readers), 0, -1):
        reads = [latest[x - 1] if counts[x - 1] > 1 else x for x in readers[v - 1]]
        latest[v - 1] = max(reads, default=v)
    return latest


def _crowded_stages(size: Sequence[int], latest: Sequence[int], budget: int) -> list[bool]:
    """For each stage: do all outputs that can be in memory in it exceed the budget together?"""
    change = [0] * (len(size) + 1)
    for v, last in enumerate(latest):
        change[v] += size[v]
        change[last] -= size[v]
    return [memory > budget for memory in accumulate(change[:-1])]


def _critical_stages(memory: Sequence[int], budget: int) -> tuple[int, ...]:
    """The highest local maxima of the input order's memory over the budget, as stages in ascending order.

    Args:
        memory: at each stage.
        budget: in the same unit.
    """
    padded = [0, *memory, 0]
    hills = [k for k in range(1, len(memory) + 1) if padded[k] > budget and padded[k - 1] <= padded[k] > padded[k + 1]]
    return tuple(sorted(sorted(hills, key=lambda k: -padded[k])[:CRITICAL_STAGES]))
