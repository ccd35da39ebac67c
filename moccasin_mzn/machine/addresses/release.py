"""Shorter schedules within an arena: memory is reserved only where the packing needs room.

A schedule whose arena fits may come from a memory budget below that of the arena: what is between is reserved at all
stages, for what a packing wastes. Memory is packed easily where it is scarce for a short while only, so the reservation
is given up in one window of stages after the other, wherever the arena of a schedule found then still fits::

    arena   ---------------------------------------------        reserved: R, by two more nodes each time:
              RRRRRRRRRRRRRRRRRR            RRRRRRRRRRRRR          one that takes R from the first stage on,
    budget  ------------------ .            . -----------          and one that reads it after the last stage
              schedule         .............. schedule
              as before        window released

Where an arena does not fit then, a part of the reservation is kept in the window.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

PARTS = 25
"""The first windows have one of that many parts of the stages, at least `FEWEST_STAGES`; the next are twice as wide,
and so on, up to all stages."""
FEWEST_STAGES = 3
LEAST_RELEASED = 0.1
"""A window that gives up less than this share of what is reserved is made smaller instead."""


@dataclass(frozen=True)
class Window:
    """Stages of an order, and what is reserved in them."""

    first: int
    """The first stage, from 0."""
    last: int
    """The last one, inside."""
    reserved: int = 0
    """In the graph's size unit."""

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def tighter(self, over: int, amount: int) -> Window | None:
        """Return what to try after an arena was too large by `over`: more reserved, or the middle half; None: no more.

        Args:
            amount: what is reserved in other stages.
        """
        reserved = self.reserved + over
        if reserved <= (1 - LEAST_RELEASED) * amount:
            return replace(self, reserved=reserved)
        middle, quarter = (self.first + self.last) // 2, (self.last - self.first) // 4
        return Window(middle - quarter, middle + quarter) if self.last - self.first >= FEWEST_STAGES else None

    def looser(self, amount: int) -> Window | None:
        """Return what to try after it fitted: half as much reserved; None: that would be no more to speak of."""
        return replace(self, reserved=self.reserved // 2) if self.reserved > LEAST_RELEASED * amount else None


@dataclass(frozen=True)
class Reserved:
    """An instance with memory reserved in some stages of its order, as an instance of its own."""

    instance: Instance
    """The budget is the whole memory."""
    windows: tuple[Window, ...]
    """The stages in which memory is reserved, disjoint and ascending."""

    def extended(self) -> Instance:
        """Return the instance with two nodes for each window, which take no time.

        One takes the memory, the other one reads it at the end.

        Raises:
            InputError: sizes become too large for a graph.
        """
        graph, n = self.instance.graph, len(self.instance.order)
        names = _names(graph, 2 * len(self.windows))
        more = len(names)
        extended = ComputationGraph(
            nodes=(*graph.nodes, *names),
            durations=(*graph.durations, *[0] * more),
            sizes=(*graph.sizes, *(size for window in self.windows for size in (window.reserved, 0))),
            edges=(*graph.edges, *((n + at, n + at + 1) for at in range(0, more, 2))),
        )
        order = self.inserted(self.instance.order)
        counts = (*self.instance.max_computations, *[1] * more)
        return replace(self.instance, graph=extended, order=order, max_computations=counts)

    def stages_of(self, window: Window) -> tuple[int, int]:
        """First and last stage of a window of the instance in the order of the extended one."""
        stage_of = {v: k for k, v in enumerate(self.inserted(self.instance.order))}
        return stage_of[self.instance.order[window.first]], stage_of[self.instance.order[window.last]]

    def inserted(self, sequence: Sequence[int]) -> tuple[int, ...]:
        """A sequence in stages of the order with the further nodes in their places."""
        stage_of = {v: k for k, v in enumerate(self.instance.order)}
        n, seen, longer = len(stage_of), set(), []
        takes = {window.first - 1: n + 2 * at for at, window in enumerate(self.windows)}
        reads = {window.last: n + 2 * at + 1 for at, window in enumerate(self.windows)}
        if -1 in takes:
            longer.append(takes[-1])
        for v in sequence:
            longer.append(v)
            if v not in seen:
                seen.add(v)
                longer += [row[stage_of[v]] for row in (reads, takes) if stage_of[v] in row]
        return tuple(longer)

    def stripped(self, sequence: Sequence[int]) -> tuple[int, ...]:
        n = len(self.instance.order)
        return tuple(v for v in sequence if v < n)


def _names(graph: ComputationGraph, count: int) -> list[str]:
    taken = {str(node) for node in graph.nodes}
    names = (f"reserved {number}" for number in range(count + len(taken)))
    return [name for name in names if name not in taken][:count]


def windows(instance: Instance) -> Iterator[Window]:
    """Windows of stages, narrow ones first; those of a width are disjoint, first where the input order takes most."""
    memory, n, width = instance.baseline.memory, len(instance.order), 0
    while width < n:
        width = min(n, 2 * width or max(FEWEST_STAGES, n // PARTS))
        covered = set[int]()
        for middle in sorted(range(n), key=lambda k: -memory[k]):
            first = min(max(0, middle - width // 2), n - width)
            stages = range(first, first + width)
            if memory[middle] > instance.budget and covered.isdisjoint(stages):
                covered.update(stages)
                yield Window(stages[0], stages[-1])


def released(reserved: Sequence[int], window: Window) -> list[int]:
    """Return what is reserved in each stage, with no more than the window's amount inside the window."""
    inside = range(window.first, window.last + 1)
    return [min(amount, window.reserved) if k in inside else amount for k, amount in enumerate(reserved)]


def runs(reserved: Sequence[int]) -> tuple[Window, ...]:
    """Stages of the same amount as one window each, but for those without."""
    found, first = [], 0
    for amount, group in itertools.groupby(reserved):
        count = len(list(group))
        if amount:
            found.append(Window(first, first + count - 1, amount))
        first += count
    return tuple(found)


def near_by(
    reserved: Reserved, sequence: tuple[int, ...], seconds: float, seed: int, stop: Callable[[], bool],
    within: Window | None = None,
) -> tuple[int, ...] | None:  # fmt: skip
    """The shortest schedule that local search finds near a sequence in stages, with memory reserved; None: none.

    Args:
        within: recomputations in other stages stay as they are, and the schedule is shorter than the sequence, which
            must do with what is not reserved.
    """
    from moccasin_mzn.heuristics.staged.search import LocalSearch

    deadline, starts = Deadline(seconds), [reserved.inserted(sequence)]
    found: list[tuple[int, ...]] = []
    search = LocalSearch(reserved.extended(), seed, None if within is None else reserved.stages_of(within))

    def over() -> bool:
        return stop() or deadline.over()

    def first(*_: object) -> tuple[int, ...] | None:
        return starts.pop() if starts else None

    if within is None:
        search.run(found.append, over, draft=first)
    else:
        search.run(found.append, over, better=first)
    return reserved.stripped(found[-1]) if found else None
