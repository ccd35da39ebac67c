"""An instance in small numbers, nodes renumbered 0..n-1 along the input order: what the relaxations are made of.

Stage k (from 0) is all that is done after the first computation of node k-1, up to and with that of node k.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from moccasin_mzn.problem.instance import Instance


@dataclass(frozen=True)
class Stages:
    """Sizes and durations are divided by their greatest common divisors."""

    duration: tuple[int, ...]
    size: tuple[int, ...]
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
        """Of the input order, at the first computation of each node."""
        return _held(self.size, [max(heads, default=v) for v, heads in enumerate(self.readers)])

    @classmethod
    def of(cls, instance: Instance) -> Stages:
        """Renumber, scale, and find the nodes and stages of which recomputations can be of use."""
        graph, order = instance.graph, instance.order
        number = [0] * len(order)
        for k, v in enumerate(order):
            number[v] = k
        size_scale = math.gcd(*graph.sizes) or 1
        duration_scale = math.gcd(*graph.durations) or 1
        size = tuple(graph.sizes[v] // size_scale for v in order)
        readers = tuple(tuple(sorted(number[x] for x in graph.successors[v])) for v in order)
        budget = instance.budget // size_scale
        given = [instance.max_computations[v] for v in order]
        most, earliest, latest = _useful_stages(size, readers, given, budget)
        return cls(
            duration=tuple(graph.durations[v] // duration_scale for v in order),
            size=size,
            inputs=tuple(tuple(sorted(number[u] for u in graph.predecessors[v])) for v in order),
            readers=readers,
            budget=budget,
            most=tuple(most),
            earliest=tuple(earliest),
            latest=tuple(latest),
            duration_scale=duration_scale,
        )


def _useful_stages(
    size: Sequence[int], readers: Sequence[Sequence[int]], given: Sequence[int], budget: int
) -> tuple[list[int], list[int], list[int]]:
    """`most`, `earliest` and `latest` without losing a schedule of least duration.

    An output can be of use in stage k only if it is computed by then and can be read in k or later. A stage where all
    such outputs fit together is never over the budget, so nothing need be dropped in it. A recomputation is of use
    only after its output was dropped, and only before its last possible read. A node that is never recomputed reads
    its inputs once, which may make further stages safe: hence the loop.

    Recomputations between two first computations may come in any order, and be many, so their number in a stage is
    not limited here.
    """
    n = len(size)
    most = [count if size[v] > 0 and readers[v] else 1 for v, count in enumerate(given)]
    while True:
        latest = _last_reads(readers, most)
        next_crowded = [n] * (n + 1)
        for k, memory in reversed(list(enumerate(_held(size, latest)))):
            next_crowded[k] = k if memory > budget else next_crowded[k + 1]
        earliest = [next_crowded[v + 1] if most[v] > 1 else n for v in range(n)]
        again = [most[v] if earliest[v] <= latest[v] else 1 for v in range(n)]
        if again == most:
            return most, earliest, latest
        most = again


def _last_reads(readers: Sequence[Sequence[int]], most: Sequence[int]) -> list[int]:
    """The last stage in which each output can be read: by a reader's first computation, or by its last possible one."""
    latest = list(range(len(readers)))
    for v in reversed(range(len(readers))):
        latest[v] = max((latest[x] if most[x] > 1 else x for x in readers[v]), default=v)
    return latest


def _held(size: Sequence[int], last: Sequence[int]) -> tuple[int, ...]:
    """Memory in each stage k if every output v is held in the stages v..last[v]."""
    change = [0] * (len(size) + 1)
    for v, end in enumerate(last):
        change[v] += size[v]
        change[end + 1] -= size[v]
    return tuple(accumulate(change[:-1]))
