"""Shorter schedules within an arena: memory is reserved only where the packing needs room.

A schedule whose arena fits may come from a memory budget below that of the arena: what is between is reserved at all
stages, for what a packing wastes. Memory is packed easily where it is scarce for a short while only, so the reservation
is given up in one window of stages after the other, wherever the arena of a schedule found then still fits::

    arena   ---------------------------------------------        reserved: R, by two more nodes each time:
              RRRRRRRRRRRRRRRRRR            RRRRRRRRRRRRR          one that takes R from the first stage on,
    budget  ------------------ .            . -----------          and one that reads it after the last stage
              schedule         .............. schedule
              as before        window released
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.instance import Instance

WINDOWS = 25
"""A window has one of so many parts of the stages, at least `FEWEST_STAGES`."""
FEWEST_STAGES = 3

Stages = tuple[int, int]
"""First and last stage, from 0, both inside."""


@dataclass(frozen=True)
class Reserved:
    """An instance with memory reserved in some stages of its order, as an instance of its own."""

    instance: Instance
    """The budget is the whole memory."""
    amount: int
    """Reserved, in the graph's size unit."""
    ranges: tuple[Stages, ...]
    """Where it is, disjoint and ascending."""

    def extended(self) -> Instance:
        """With two nodes for each range, which take no time: one takes the memory, the other one reads it at the end.

        Raises:
            InputError: sizes become too large for a graph.
        """
        graph, ranges, n = self.instance.graph, self.ranges, len(self.instance.order)
        names = _names(graph, 2 * len(ranges))
        more = len(names)
        extended = ComputationGraph(
            nodes=(*graph.nodes, *names),
            durations=(*graph.durations, *[0] * more),
            sizes=(*graph.sizes, *[self.amount, 0] * len(ranges)),
            edges=(*graph.edges, *((n + at, n + at + 1) for at in range(0, more, 2))),
        )
        order = self.inserted(self.instance.order)
        counts = (*self.instance.max_computations, *[1] * more)
        return replace(self.instance, graph=extended, order=order, max_computations=counts)

    def inserted(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """A sequence in stages of the order with the further nodes in their places."""
        stage_of = {v: k for k, v in enumerate(self.instance.order)}
        n, seen, longer = len(stage_of), set(), []
        takes = {first - 1: n + 2 * at for at, (first, _) in enumerate(self.ranges)}
        reads = {last: n + 2 * at + 1 for at, (_, last) in enumerate(self.ranges)}
        if -1 in takes:
            longer.append(takes[-1])
        for v in sequence:
            longer.append(v)
            if v not in seen:
                seen.add(v)
                longer += [row[stage_of[v]] for row in (reads, takes) if stage_of[v] in row]
        return tuple(longer)

    def stripped(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """A sequence without the further nodes."""
        n = len(self.instance.order)
        return tuple(v for v in sequence if v < n)


def _names(graph: ComputationGraph, count: int) -> list[str]:
    taken = {str(node) for node in graph.nodes}
    names = (f"reserved {number}" for number in range(count + len(taken)))
    return [name for name in names if name not in taken][:count]


def windows(instance: Instance) -> Iterator[Stages]:
    """Windows of stages, disjoint: first where the input order takes most memory."""
    memory, n = instance.baseline.memory, len(instance.order)
    width, covered = max(FEWEST_STAGES, n // WINDOWS), set()
    for middle in sorted(range(n), key=lambda k: -memory[k]):
        stages = range(max(0, middle - width // 2), min(n, middle - width // 2 + width))
        if memory[middle] > instance.budget and covered.isdisjoint(stages):
            covered.update(stages)
            yield stages[0], stages[-1]


def half(window: Stages) -> Stages | None:
    """The middle half of a window; None if that would be too few stages."""
    first, last = window
    middle, quarter = (first + last) // 2, (last - first) // 4
    return (middle - quarter, middle + quarter) if last - first >= FEWEST_STAGES else None


def reserved_but(count: int, released: Sequence[Stages]) -> tuple[Stages, ...]:
    """Stages 0..count-1 but for those released, as ranges."""
    ranges, begin = [], 0
    for first, last in sorted(released):
        if begin < first:
            ranges.append((begin, first - 1))
        begin = last + 1
    if begin < count:
        ranges.append((begin, count - 1))
    return tuple(ranges)


def near_by(
    reserved: Reserved, sequence: tuple[int, ...], seconds: float, seed: int, stop: Callable[[], bool]
) -> tuple[int, ...] | None:
    """The shortest schedule that local search finds near a sequence in stages, with memory reserved; None: none."""
    from moccasin_mzn.heuristics.search import LocalSearch

    deadline, drafts, found = time.monotonic() + seconds, [reserved.inserted(sequence)], []
    LocalSearch(reserved.extended(), seed).run(
        found.append,
        lambda: stop() or time.monotonic() >= deadline,
        draft=lambda: drafts.pop() if drafts else None,
    )
    return reserved.stripped(found[-1]) if found else None
