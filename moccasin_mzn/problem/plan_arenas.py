"""Arenas of schedules and plans: their retention intervals as buffers, and, of a plan, an arena in each memory.

The copies in a memory are the buffers of its arena, those of other memories are none of its business::

    plan      1 a   2 a -> slow   3 b   4 slow -> a   ...
    local     [ a ..............]       [ a .........      buffers a, a#2
    slow            [ a ................]                  buffer a
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import refuse_workspaces
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.judges.plans import PlacedInterval, PlanSimulation
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.problem.platform import Platform


@dataclass(frozen=True)
class PlanArenas:
    """An arena for each memory of a platform, of the copies that a plan has there."""

    arenas: tuple[Arena, ...]
    """By position in `Platform.memories`; the buffers are the memory's intervals in order of their start."""

    @property
    def alignment(self) -> int:
        """Every offset is a multiple of it."""
        return self.arenas[0].alignment

    def over(self, platform: Platform) -> tuple[int, ...]:
        """By how much each arena exceeds the budget of its memory; 0 where it does not."""
        pairs = zip(self.arenas, platform.memories, strict=True)
        return tuple(0 if place.budget is None else max(0, arena.size - place.budget) for arena, place in pairs)

    def fit(self, platform: Platform) -> bool:
        """Is every arena within the budget of its memory?"""
        return not any(self.over(platform))

    def offsets(self, intervals: Sequence[PlacedInterval]) -> tuple[int, ...]:
        """The offset of each interval of the plan, in the order of `PlanSimulation.intervals`."""
        following = [iter(arena.offsets) for arena in self.arenas]
        return tuple(next(following[interval.memory]) for interval in intervals)

    def as_dict(self, platform: Platform) -> dict[str, Any]:
        """What a plan's JSON object says of its arenas, by memory; the offsets are in its intervals.

        Interval t of "intervals" belongs to action t of "plan", which writes there; it reads each input, or the copy's
        source, at the offset of the latest interval of that node in the memory read from. Nothing is moved or freed.
        """
        told = {}
        for place, arena in zip(platform.memories, self.arenas, strict=True):
            told[place.name] = arena.as_dict()
            del told[place.name]["alignment"]
        return {"alignment": self.alignment, "arenas": told}


def buffers_of(
    graph: ComputationGraph, simulation: Simulation | PlanSimulation, memory: int | None = None
) -> tuple[Buffer, ...]:
    """One buffer for each retention interval, in the same order; of a plan for those in one memory.

    The closed interval [start, end] of positions becomes the half-open lifespan start..end + 1: an output that is read
    for the last time while another is computed does not share memory with it. Names are the node's id, with its human
    name if it has one, and, from its second copy there on, "#2", "#3" ...; a name that is taken gets "'" behind it.

    Raises:
        InputError: a graph with workspaces.
    """
    refuse_workspaces(graph, "arenas")
    counts: Counter[int] = Counter()
    names: set[str] = set()
    buffers = []
    for interval in simulation.intervals:
        if memory is not None and getattr(interval, "memory", memory) != memory:
            continue
        v = interval.node
        counts[v] += 1
        name = node_text(graph, v) + (f"#{counts[v]}" if counts[v] > 1 else "")
        while name in names:
            name += "'"
        names.add(name)
        buffers.append(Buffer(name, interval.start, interval.end + 1, graph.sizes[v]))
    return tuple(buffers)


def shared_buffers(graph: ComputationGraph, simulation: Simulation) -> tuple[Buffer, ...]:
    """One buffer for each copy that overwrites none, with all that are written over it, one after the other: they share
    its address. In order of start, with the names of `buffers_of`. ::

        position      1   2   3   4   5
        a            [=====]
        b, over a        [=====]                 one buffer, a, from 1 to 4; b and c are as large as a, or smaller
        c, over b            [=====]

    Raises:
        InputError: a graph with workspaces.
    """
    over = dict(simulation.overwrites)
    holding: dict[int, int] = {}  # of each node: the buffer that its latest copy is in
    ends: list[int] = []
    first: list[Buffer] = []
    for interval, buffer in zip(simulation.intervals, buffers_of(graph, simulation), strict=True):
        if interval.start in over:
            holding[interval.node] = holding[over[interval.start]]
            ends[holding[interval.node]] = buffer.end
        else:
            holding[interval.node] = len(first)
            first.append(buffer)
            ends.append(buffer.end)
    return tuple(replace(buffer, end=end) for buffer, end in zip(first, ends, strict=True))
