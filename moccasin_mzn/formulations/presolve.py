"""Presolve, from an instance to the data of the models: numbers made small, nodes that never need recomputation found.

Nodes are renumbered 1..n along the input order, sizes and durations are divided by their greatest common divisors.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import StageWindow, highest_maxima, sums_of_ranges, useful_stages, worth_counting

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
    workspace: tuple[int, ...]
    """Empty if no node has one."""
    edges: tuple[tuple[int, int], ...]
    """(tail, head), sorted."""
    in_place: tuple[bool, ...]
    """For each edge, may the head overwrite the output of the tail? Empty if none does."""
    budget: int
    input_order_memory: tuple[int, ...]
    """Memory at each stage if every node is computed once, and none overwrites an input."""
    max_computations: tuple[int, ...]
    earliest_stage: tuple[int, ...]
    """First stage in which a recomputation can be of use."""
    latest_stage: tuple[int, ...]
    """Last stage in which the output can be read."""
    critical_stage: frozenset[int]
    """Stages of the input order over the budget that get redundant constraints of their own."""
    entry: int = 0
    """Nodes 1..entry are computed before the window of stages that the data is about; 0 for a whole instance."""
    absent: frozenset[int] = frozenset()
    """Nodes of them without a copy in memory when the window begins."""
    exit: int = 0
    """1 if the last node stands for the reads after the window, 0 if there is no such node."""
    output_of: tuple[int, ...] = ()
    """For each node the one whose computation makes it too, as a further output, or 0; empty if absent."""
    presolved: bool = True
    """If not, the models derive memory and stages for themselves."""

    @property
    def longest(self) -> int:
        """The duration if every node is computed as often as it may be."""
        return sum(w * most for w, most in zip(self.duration, self.max_computations, strict=True))

    @property
    def computation_nodes(self) -> tuple[int, ...]:
        """The node of each computation, from 1, in the numbering of the models: node by node, first to last."""
        return tuple(v for v, count in enumerate(self.max_computations, 1) for _ in range(count))


@dataclass(frozen=True)
class StageData:
    """Nodes 1..n along an order and how often each may be computed: what is reduced, in any units.

    A window of stages (see `windows`) begins with `entry` nodes computed before it, some of them `absent`, and may end
    with a node, `exit` = 1, that stands for what is read after it.
    """

    order: Sequence[int]
    duration: Sequence[int]
    size: Sequence[int]
    workspace: Sequence[int]
    """The workspace of each node; empty if none has one."""
    readers: Sequence[Sequence[int]]
    """The readers of each node, ascending numbers."""
    budget: int
    most: Sequence[int]
    """C_v; copies from before the window count."""
    overwritable: Sequence[Collection[int]] = ()
    """For each node the numbers of inputs that it may overwrite; empty if none does."""
    entry: int = 0
    absent: frozenset[int] = frozenset()
    exit: int = 0
    output_of: tuple[int, ...] = ()
    """See `ModelData`."""

    @property
    def last(self) -> int:
        """The last stage in which anything may be recomputed."""
        return len(self.size) - self.exit

    def first_uses(self, v: int) -> list[int]:
        """The stages in which first computations read v."""
        return [x for x in self.readers[v - 1] if x > self.entry]

    @property
    def edges(self) -> list[tuple[int, int]]:
        """(tail, head), sorted."""
        return [(k, x) for k, heads in enumerate(self.readers, 1) for x in heads]

    @property
    def in_place(self) -> tuple[bool, ...]:
        """For each of `edges`, may the head overwrite the output of the tail? Empty if none does."""
        return tuple(k in self.overwritable[x - 1] for k, x in self.edges) if self.overwritable else ()


def presolve(instance: Instance, staged: bool) -> ModelData:
    """Reduce an instance without losing an optimal schedule.

    With staged events the input order is kept, which proves more; see `useful_stages`. With free events only outputs
    that nothing reads or that need no memory are known never to be recomputed.
    """
    return reduced(stage_data(instance), staged)


def as_given(instance: Instance) -> ModelData:
    """An instance in its own units, with nothing found beforehand: what the defaults of the models stand for."""
    stages, n = stage_data(instance), len(instance.order)
    memory = tuple(_input_order_memory(stages))
    return ModelData(
        order=instance.order,
        size_scale=1,
        duration_scale=1,
        duration=tuple(stages.duration),
        size=tuple(stages.size),
        workspace=tuple(stages.workspace),
        edges=tuple(stages.edges),
        in_place=stages.in_place,
        budget=instance.budget,
        input_order_memory=memory,
        max_computations=tuple(most if heads else 1 for most, heads in zip(stages.most, stages.readers, strict=True)),
        earliest_stage=tuple(min(v + 1, n) for v in range(1, n + 1)),
        latest_stage=(n,) * n,
        critical_stage=frozenset(),
        output_of=stages.output_of,
        presolved=False,
    )


def stage_data(instance: Instance) -> StageData:
    """All of an instance along its input order, in its own units."""
    graph, order = instance.graph, instance.order
    number = {v: k for k, v in enumerate(order, 1)}
    return StageData(
        order=order,
        duration=[graph.durations[v] for v in order],
        size=[graph.sizes[v] for v in order],
        workspace=[graph.workspace_of[v] for v in order] if graph.has_workspaces else [],
        readers=[sorted(number[x] for x in graph.successors[v]) for v in order],
        budget=instance.budget,
        most=[instance.max_computations[v] for v in order],
        overwritable=[{number[u] for u in rows[v]} for v in order] if (rows := graph.overwritable) else (),
        output_of=tuple(0 if first is None else number[first] for first in map(graph.output_of.__getitem__, order))
        if graph.output_of
        else (),
    )


def reduced(stages: StageData, staged: bool = True) -> ModelData:
    """The data of the models; see `presolve`."""
    n = len(stages.size)
    size_scale = math.gcd(*stages.size, *stages.workspace) or 1
    duration_scale = math.gcd(*stages.duration) or 1
    size = tuple(amount // size_scale for amount in stages.size)
    budget = stages.budget // size_scale
    memory = tuple(amount // size_scale for amount in _input_order_memory(stages))
    least = [m - size[k] if row else m for k, (m, row) in enumerate(zip_longest(memory, stages.overwritable))]
    if staged:
        counts, earliest, latest = _useful_stages(stages)
    else:
        counts = worth_counting(stages.size, stages.readers, stages.most)
        earliest, latest = list(range(1, n + 1)), [n] * n
    return ModelData(
        order=tuple(stages.order),
        size_scale=size_scale,
        duration_scale=duration_scale,
        duration=tuple(amount // duration_scale for amount in stages.duration),
        size=size,
        workspace=tuple(amount // size_scale for amount in stages.workspace),
        edges=tuple(stages.edges),
        in_place=stages.in_place,
        budget=budget,
        input_order_memory=memory,
        max_computations=tuple(counts),
        earliest_stage=tuple(earliest),
        latest_stage=tuple(latest),
        critical_stage=frozenset(k + 1 for k in highest_maxima(least, budget, CRITICAL_STAGES) if staged),
        entry=stages.entry,
        absent=stages.absent,
        exit=stages.exit,
        output_of=stages.output_of,
    )


def _input_order_memory(stages: StageData) -> list[int]:
    """At each stage, if all nodes are computed once, and what is absent is there from its first use on."""
    ranges = []
    for v in range(1, len(stages.size) + 1):
        uses = stages.first_uses(v)
        if v in stages.absent:
            ranges.append((uses[0] - 1, uses[-1] - 1) if uses else (0, -1))
        else:
            ranges.append((v - 1, uses[-1] - 1 if uses else v - 1))
    retained = sums_of_ranges(stages.size, ranges)
    if stages.workspace:  # nodes from before the window are not computed at their places
        for k in range(stages.entry, len(retained)):
            retained[k] += stages.workspace[k]
    return retained


def _useful_stages(stages: StageData) -> tuple[list[int], list[int], list[int]]:
    """C_v, and first and last stage in which a recomputation of each node can be of use; stages count from 1.

    A further output that is absent when a window begins takes a recomputation of the first one, at hand or not.
    """
    firsts = {stages.output_of[v - 1] for v in stages.absent if stages.output_of} - {0}
    counts, earliest, latest = useful_stages(
        stages.size, [[x - 1 for x in heads] for heads in stages.readers], stages.most, stages.budget, once=True,
        window=StageWindow(stages.entry, {v - 1 for v in stages.absent | firsts}, stages.last - 1),
        workspace=stages.workspace,
    )  # fmt: skip
    first = [late if count == 1 else early for count, early, late in zip(counts, earliest, latest, strict=True)]
    return counts, [k + 1 for k in first], [k + 1 for k in latest]
