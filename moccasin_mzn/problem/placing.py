"""What of a schedule lies in an arena: buffers for copies of outputs and for workspaces, see `placing_of`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.buffer import Buffer, Gap
from moccasin_mzn.problem.judges.schedules import Simulation


@dataclass(frozen=True)
class Placing:
    """The buffers of a schedule, and which of them is for what. ::

    position      1   2   3   4   5
    a            [=====]                  one buffer for a, b and c: 1..5, with a gap in which it takes less
    b, over a        [=====]              one for the workspace of c: 3
    c, over b            [=========]
    """

    buffers: tuple[Buffer, ...]
    copies: tuple[int, ...]
    """For each retention interval, in the order of the simulation, the position of its buffer."""
    workspaces: tuple[int | None, ...]
    """For each interval the position of the buffer of the workspace that its computation takes; None: it takes none."""


@dataclass
class _Chain:
    """Copies that are written over each other."""

    name: str
    start: int
    size: int
    ends: list[tuple[int, int]] = field(default_factory=list)
    """Last position and size of each copy."""

    @property
    def buffer(self) -> Buffer:
        """The closed interval start..end of positions becomes the half-open lifespan start..end + 1: an output that is
        read for the last time while another is computed does not share memory with it."""
        gaps, at = [], self.ends[0][0] + 1
        for end, size in self.ends[1:]:
            if end >= at and size < self.size:
                gaps.append(Gap(at, end + 1, (0, size) if size else None))
            at = max(at, end + 1)
        return Buffer(self.name, self.start, at, self.size, gaps=tuple(gaps))


def placing_of(graph: ComputationGraph, simulation: Simulation) -> Placing:
    """The buffers of a schedule: one for each retention interval, but that copies which are written over each other
    share one; then one for each workspace.

    A further output is in memory from the computation of its first one on. Names are the node's id, with its human name
    if it has one, and, from its second copy on, "#2", "#3" ...; a name that is taken gets "'" behind it.
    """
    over, first_of = dict(simulation.overwrites), graph.output_of or (None,) * len(graph.nodes)
    names = Names(graph)
    chains: list[_Chain] = []
    copies: list[int] = []
    latest: dict[int, int] = {}  # by node: the interval of its latest copy
    workspaces: list[Buffer | None] = []
    for at, interval in enumerate(simulation.intervals):
        v, first = interval.node, first_of[interval.node]
        name = names.of_copy(v)
        if interval.start in over:
            copies.append(copies[latest[over[interval.start]]])
        else:
            copies.append(len(chains))
            start = interval.start if first is None else simulation.intervals[latest[first]].start
            chains.append(_Chain(name, start, graph.sizes[v]))
        chains[copies[-1]].ends.append((interval.end, graph.sizes[v]))
        latest[v] = at
        size = graph.workspaces[v] if graph.workspaces else 0
        taken = names.free(f"{name}, workspace") if size else ""
        workspaces.append(Buffer(taken, interval.start, interval.start + 1, size) if size else None)
    buffers = [chain.buffer for chain in chains]
    numbers: list[int | None] = []
    for workspace in workspaces:
        numbers.append(None if workspace is None else len(buffers))
        buffers += [] if workspace is None else [workspace]
    return Placing(tuple(buffers), tuple(copies), tuple(numbers))


@dataclass
class Names:
    """Names of buffers, no one twice."""

    graph: ComputationGraph
    _counts: Counter[int] = field(default_factory=Counter)
    _taken: set[str] = field(default_factory=set)

    def of_copy(self, v: int) -> str:
        """The name of the next copy of a node's output: the node's, and, from its second copy on, "#2", "#3" ..."""
        self._counts[v] += 1
        return self.free(node_text(self.graph, v) + (f"#{self._counts[v]}" if self._counts[v] > 1 else ""))

    def free(self, name: str) -> str:
        """This name, with "'" behind it if it is taken."""
        while name in self._taken:
            name += "'"
        self._taken.add(name)
        return name
