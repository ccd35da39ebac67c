"""From an instance to the data of the models: numbers made small, nodes that never need recomputation found.

Nodes are renumbered 1..n along the input order, sizes and durations are divided by their greatest common divisors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from moccasin_mzn.problem.instance import Instance

CRITICAL_STAGES = 3
"""Redundant constraints are spent on this many stages: one already speeds up proofs several times, but each costs
variables and constraints in proportion to nodes and edges, and more than a few slow the search down again."""


@dataclass(frozen=True)
class ModelData:
    """What `models/lib/instance.mzn` declares. Nodes, stages and edges are numbered from 1, along the input order."""

    order: tuple[int, ...]
    """Position in `graph.nodes` of node 1, 2, ..., n; -1 for the exit of a window."""
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
    entry: int = 0
    """Nodes 1..entry are computed before the window of stages that the data is about; 0 for a whole instance."""
    absent: tuple[int, ...] = ()
    """Those of them of which no copy is in memory when the window begins."""
    exit: int = 0
    """1 if the last node stands for the reads after the window, 0 if there is no such node."""

    @property
    def computation_nodes(self) -> tuple[int, ...]:
        """The node of each computation, from 1, in the numbering of the models: node by node, first to last."""
        return tuple(v for v, count in enumerate(self.max_computations, 1) for _ in range(count))


@dataclass(frozen=True)
class Stages:
    """Nodes 1..n along an order and how often each may be computed: what is reduced, in any units.

    A window of stages (see `windows`) begins with `entry` nodes computed before it, some of them `absent`, and may end
    with a node, `exit` = 1, that stands for what is read after it.
    """

    order: Sequence[int]
    duration: Sequence[int]
    size: Sequence[int]
    readers: Sequence[Sequence[int]]
    """Of each node, ascending numbers."""
    budget: int
    most: Sequence[int]
    """C_v; copies from before the window count."""
    entry: int = 0
    absent: frozenset[int] = frozenset()
    exit: int = 0

    @property
    def last(self) -> int:
        """The last stage in which anything may be recomputed."""
        return len(self.size) - self.exit

    def first_uses(self, v: int) -> list[int]:
        """The stages in which first computations read v."""
        return [x for x in self.readers[v - 1] if x > self.entry]


def presolve(instance: Instance, staged: bool) -> ModelData:
    """Reduce an instance without losing an optimal schedule.

    With staged events the input order is kept, which tells more; see `_useful_stages`. With free events only outputs
    that nothing reads or that need no memory are known never to be recomputed.
    """
    graph, order = instance.graph, instance.order
    number = {v: k for k, v in enumerate(order, 1)}
    stages = Stages(
        order=order,
        duration=[graph.durations[v] for v in order],
        size=[graph.sizes[v] for v in order],
        readers=[sorted(number[x] for x in graph.successors[v]) for v in order],
        budget=instance.budget,
        most=[instance.max_computations[v] for v in order],
    )
    return reduced(stages, staged)


def reduced(stages: Stages, staged: bool = True) -> ModelData:
    """The data of the models; see `presolve`."""
    n = len(stages.size)
    size_scale = math.gcd(*stages.size) or 1
    duration_scale = math.gcd(*stages.duration) or 1
    size = tuple(amount // size_scale for amount in stages.size)
    budget = stages.budget // size_scale
    memory = tuple(amount // size_scale for amount in _input_order_memory(stages))
    if staged:
        counts, earliest, latest = _useful_stages(stages)
    else:
        counts, earliest, latest = _worth_counting(stages), list(range(1, n + 1)), [n] * n
    return ModelData(
        order=tuple(stages.order),
        size_scale=size_scale,
        duration_scale=duration_scale,
        duration=tuple(amount // duration_scale for amount in stages.duration),
        size=size,
        edges=tuple((k, x) for k, heads in enumerate(stages.readers, 1) for x in heads),
        budget=budget,
        input_order_memory=memory,
        max_computations=tuple(counts),
        earliest_stage=tuple(earliest),
        latest_stage=tuple(latest),
        critical_stage=_critical_stages(memory, budget) if staged else (),
        entry=stages.entry,
        absent=tuple(sorted(stages.absent)),
        exit=stages.exit,
    )


def _worth_counting(stages: Stages) -> list[int]:
    """C_v, but 1 for outputs that nothing reads or that need no memory."""
    rows = zip(stages.most, stages.size, stages.readers, strict=True)
    return [most if size > 0 and readers else 1 for most, size, readers in rows]


def _input_order_memory(stages: Stages) -> list[int]:
    """At each stage, if all nodes are computed once, and what is absent is there from its first use on."""
    held = []
    for v in range(1, len(stages.size) + 1):
        uses = stages.first_uses(v)
        if v in stages.absent:
            held.append((uses[0], uses[-1]) if uses else (1, 0))
        else:
            held.append((v, uses[-1] if uses else v))
    return _sums(stages.size, held)


def _useful_stages(stages: Stages) -> tuple[list[int], list[int], list[int]]:
    """C_v, and first and last stage in which a recomputation of each node can be of use; stages count from 1.

    An output can be in memory in stage k only if it is computed by then and can be read in k or later. A stage where
    all such outputs fit together is never over the budget, whatever else is done. A recomputation pays only if its
    output was missing in some other stage: if not, keeping the earlier copy costs nothing and drops the recomputation.
    An output that is absent when a window begins was missing before.

    A node that cannot be recomputed reads its inputs only once, which may make further stages safe: hence the loop.
    """
    n, entry, counts = len(stages.size), stages.entry, _worth_counting(stages)
    while True:
        latest = _last_reads(stages, counts)
        memory = _sums(stages.size, list(enumerate(latest, 1)))
        next_crowded = [n + 1] * (n + 2)  # by stage; n + 1: none
        for k in range(n, entry, -1):
            next_crowded[k] = k if memory[k - 1] > stages.budget else next_crowded[k + 1]
        earliest = [entry + 1 if v in stages.absent else next_crowded[max(v, entry) + 1] for v in range(1, n + 1)]
        again = [min(latest[v], stages.last) - earliest[v] + 1 for v in range(n)]
        possible = [max(1, min(counts[v], 1 + again[v])) for v in range(n)]
        if possible == counts:
            once = [count == 1 for count in counts]
            return counts, [latest[v] if once[v] else earliest[v] for v in range(n)], latest
        counts = possible


def _last_reads(stages: Stages, counts: Sequence[int]) -> list[int]:
    """The last stage in which each output can be read: by a reader's first computation, or by its last possible one."""
    latest = [0] * len(counts)
    for v in range(len(counts), 0, -1):
        reads = [min(latest[x - 1], stages.last) if counts[x - 1] > 1 else x for x in stages.readers[v - 1]]
        latest[v - 1] = max((k for k in reads if k > stages.entry), default=v)
    return latest


def _sums(amounts: Sequence[int], ranges: Sequence[tuple[int, int]]) -> list[int]:
    """For each stage the sum of the amounts whose range, both ends included, contains it; (1, 0) is an empty range."""
    change = [0] * (len(amounts) + 1)
    for amount, (first, last) in zip(amounts, ranges, strict=True):
        change[first - 1] += amount
        change[last] -= amount
    return list(accumulate(change[:-1]))


def _critical_stages(memory: Sequence[int], budget: int) -> tuple[int, ...]:
    """The highest local maxima of the input order's memory over the budget, as stages in ascending order.

    Args:
        memory: at each stage.
        budget: in the same unit.
    """
    padded = [0, *memory, 0]
    hills = [k for k in range(1, len(memory) + 1) if padded[k] > budget and padded[k - 1] <= padded[k] > padded[k + 1]]
    return tuple(sorted(sorted(hills, key=lambda k: -padded[k])[:CRITICAL_STAGES]))
