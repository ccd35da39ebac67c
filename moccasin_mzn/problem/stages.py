"""An instance in small numbers, nodes renumbered 0..n-1 along the input order: what the relaxations are made of.

Stage k (from 0) is all that is done after the first computation of node k-1, up to and with that of node k.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import add

from moccasin_mzn.problem.instance import Instance


@dataclass(frozen=True)
class Stages:
    """Sizes and durations are divided by their greatest common divisors."""

    duration: tuple[int, ...]
    size: tuple[int, ...]
    workspace: tuple[int, ...]
    """Memory that a computation of each node takes in addition to its inputs and its output."""
    inputs: tuple[tuple[int, ...], ...]
    """Ascending."""
    readers: tuple[tuple[int, ...], ...]
    """Ascending."""
    budget: int
    most: tuple[int, ...]
    """Most computations of each node; 1 also where a recomputation can be of no use."""
    earliest: tuple[int, ...]
    """First stage in which a recomputation can be of use; n if there is none."""
    latest: tuple[int, ...]
    """Last stage in which the output can be read; the node itself if nothing reads it."""
    duration_scale: int
    """Durations times this are in the graph's duration unit."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.size)

    @property
    def baseline(self) -> int:
        """Duration of computing every node once."""
        return sum(self.duration)

    @cached_property
    def memory(self) -> tuple[int, ...]:
        """The memory of the input order, at the first computation of each node."""
        ranges = ((v, max(heads, default=v)) for v, heads in enumerate(self.readers))
        return tuple(map(add, sums_of_ranges(self.size, ranges), self.workspace))

    @classmethod
    def of(cls, instance: Instance) -> Stages:
        """Renumber, scale, and find the nodes and stages whose recomputations can be of use."""
        from moccasin_mzn.graphs.arrays import graph_arrays

        graph, order = instance.graph, instance.order
        arrays = graph_arrays(graph, order)
        size_scale = math.gcd(*graph.sizes, *graph.workspace_of) or 1
        duration_scale = math.gcd(*graph.durations) or 1
        size, workspace = (tuple(of[v] // size_scale for v in order) for of in (graph.sizes, graph.workspace_of))
        readers = _rows(arrays.succ_ptr.tolist(), arrays.succ.tolist())
        budget = instance.budget // size_scale
        given = [instance.max_computations[v] for v in order]
        most, earliest, latest = useful_stages(size, readers, given, budget, workspace=workspace)
        return cls(
            duration=tuple(graph.durations[v] // duration_scale for v in order),
            size=size,
            workspace=workspace,
            inputs=_rows(arrays.pred_ptr.tolist(), arrays.pred.tolist()),
            readers=readers,
            budget=budget,
            most=tuple(most),
            earliest=tuple(k if most[v] > 1 else len(size) for v, k in enumerate(earliest)),
            latest=tuple(latest),
            duration_scale=duration_scale,
        )


def _rows(pointers: Sequence[int], contents: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The contents between one pointer and the next; one object for each number, however many rows it is in."""
    numbers = list(range(len(pointers)))
    whole = tuple(map(numbers.__getitem__, contents))
    return tuple(whole[begin:end] for begin, end in pairwise(pointers))


@dataclass(frozen=True)
class StageWindow:
    """A window of stages, which count from 0."""

    entry: int = 0
    """The number of nodes that are computed before it."""
    absent: Collection[int] = ()
    """Nodes computed before without a copy in memory when it begins."""
    last: int | None = None
    """The last stage in which anything may be recomputed; None: the last of all."""


def useful_stages(
    size: Sequence[int], readers: Sequence[Sequence[int]], most: Sequence[int], budget: int, *, once: bool = False,
    window: StageWindow = StageWindow(), workspace: Sequence[int] = (),  # noqa: B008 (frozen)
) -> tuple[list[int], list[int], list[int]]:  # fmt: skip
    """C_v, and first and last stage in which a recomputation of each node can be of use, without losing a schedule of
    least duration. Nodes and stages count from 0.

    An output can be in memory in stage k only if it is computed by then and can be read in k or later. A stage where
    all such outputs fit together, with the largest workspace of what may be computed there, is never over the budget,
    whatever else is done. A recomputation pays only if its
    output was missing in some other stage: if not, keeping the earlier copy costs nothing and drops the recomputation.
    An output that is absent when a window begins was missing before.

    A node that cannot be recomputed reads its inputs only once, which may make further stages safe: hence the loop.

    Args:
        readers: of each node, ascending.
        most: C_v, copies from before the window included.
        once: a node is computed once in a stage at most; else in any order, and so any number of times.
        window: the stages that this is about.
        workspace: of each node; none are given: 0 of all.
    """
    n, entry = len(size), window.entry
    last = n - 1 if window.last is None else window.last
    counts = worth_counting(size, readers, most)
    while True:
        latest = _last_reads(readers, counts, entry, last)
        crowded = next_crowded(_most_memory(size, latest, workspace, counts), budget)
        earliest = [entry if v in window.absent else crowded[max(v + 1, entry)] for v in range(n)]
        stages = [max(0, min(latest[v], last) - earliest[v] + 1) for v in range(n)]
        possible = [min(counts[v], 1 + (stages[v] if once else stages[v] and counts[v])) for v in range(n)]
        if possible == counts:
            return counts, earliest, latest
        counts = possible


def _most_memory(
    size: Sequence[int], latest: Sequence[int], workspace: Sequence[int], most: Sequence[int]
) -> list[int]:
    """Return the memory in each stage of all outputs that can be read then or later, and of one computation there."""
    retained = sums_of_ranges(size, enumerate(latest))
    if not any(workspace):
        return retained
    again = accumulate((w if count > 1 else 0 for w, count in zip(workspace, most, strict=True)), max)
    return [sum(row) for row in zip(retained, map(max, workspace, again), strict=True)]


def worth_counting(size: Sequence[int], readers: Sequence[Sequence[int]], most: Sequence[int]) -> list[int]:
    """C_v, but 1 for outputs that nothing reads or that need no memory."""
    return [most[v] if size[v] > 0 and readers[v] else 1 for v in range(len(size))]


def _last_reads(readers: Sequence[Sequence[int]], most: Sequence[int], entry: int, last: int) -> list[int]:
    """The last stage in which each output can be read: by a reader's first computation, or by its last possible one."""
    latest = list(range(len(readers)))
    read = list(latest)  # the last stage in which each node may read its inputs
    for v in reversed(range(len(readers))):
        last_read = max(map(read.__getitem__, readers[v]), default=v)
        if last_read >= entry:
            latest[v] = last_read
        if most[v] > 1:
            read[v] = min(latest[v], last)
    return latest


def next_crowded(memory: Sequence[int], budget: int) -> list[int]:
    """Find for each stage, and one more, the next one over the budget, itself included; the number of stages: none."""
    following = [len(memory)] * (len(memory) + 1)
    for k in reversed(range(len(memory))):
        following[k] = k if memory[k] > budget else following[k + 1]
    return following


def sums_of_ranges(amounts: Sequence[int], ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Sum at each stage the amounts whose range, both ends included, contains it; (0, -1) is an empty range."""
    change = [0] * (len(amounts) + 1)
    for amount, (first, last) in zip(amounts, ranges, strict=True):
        change[first] += amount
        change[last + 1] -= amount
    return list(accumulate(change[:-1]))


def highest_maxima(memory: Sequence[int], budget: int, count: int) -> list[int]:
    """The local maxima of memory over the budget, as stages, highest first."""
    padded = [-1, *memory, -1]
    maxima = [k for k, m in enumerate(memory) if m > budget and padded[k] <= m > padded[k + 2]]
    return sorted(maxima, key=lambda k: -memory[k])[:count]


# --- Stages of an order, and where a sequence leaves them -----------------------------------------------------


def first_out_of_stage(order: Sequence[int], sequence: Sequence[int]) -> int | None:
    """The first position, from 1, at which a sequence leaves the stages of an order (paper, 2.3); None: it never does.

    A stage is any of the nodes before, each once and in the order, and then its own node for the first time. After the
    last stage there is nothing.
    """
    number = {v: k for k, v in enumerate(order)}
    stage, latest = 0, -1
    for position, v in enumerate(sequence, start=1):
        if stage == len(order) or not latest < number[v] <= stage:
            return position
        latest = number[v]
        if number[v] == stage:
            stage, latest = stage + 1, -1
    return None
