"""What of a schedule lies in an arena: buffers for copies of outputs and for workspaces, see `placing_of`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import memory_text
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

    Copies that are read as one have buffers of one block, see `problem.blocks`.
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
    place: int
    """The copy's address relative to the copies that are read as one with it."""
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


def check_places(graph: ComputationGraph, alignment: int) -> None:
    """Check that offsets which are multiples of `alignment` can have outputs side by side that are read as one.

    Raises:
        InputError: they cannot.
    """
    for v, place in enumerate(graph.places if graph.adjacent is not None else ()):
        if place is not None and place[1] % alignment:
            first, distance = node_text(graph, place[0]), memory_text(place[1], graph.size_unit)
            text = f"{node_text(graph, v)} has to lie {distance} behind {first}, which is no multiple of it"
            raise InputError(f"alignment {alignment}: {text}: take concatenations out for this alignment")


def padded(graph: ComputationGraph, alignment: int) -> ComputationGraph:
    """The graph with all sizes rounded up to multiples of `alignment`: what they take in an arena, one on another."""
    if alignment == 1:
        return graph

    def up(amounts: Sequence[int]) -> tuple[int, ...]:
        return tuple(-(-amount // alignment) * alignment for amount in amounts)

    return replace(graph, sizes=up(graph.sizes), workspaces=None if graph.workspaces is None else up(graph.workspaces))


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
    together: list[list[int]] = []  # chains that are read as one
    for at, interval in enumerate(simulation.intervals):
        v, first = interval.node, first_of[interval.node]
        name = names.of_copy(v)
        together += [[copies[latest[u]] for u in group] for group in (graph.adjacent[v] if graph.adjacent else ())]
        if interval.start in over:
            copies.append(copies[latest[over[interval.start]]])
        else:
            copies.append(len(chains))
            start = interval.start if first is None else simulation.intervals[latest[first]].start
            place = graph.places[v] if graph.adjacent else None
            chains.append(_Chain(name, start, graph.sizes[v], 0 if place is None else place[1]))
        chains[copies[-1]].ends.append((interval.end, graph.sizes[v]))
        latest[v] = at
        size = graph.workspaces[v] if graph.workspaces else 0
        taken = names.free(f"{name}, workspace") if size else ""
        workspaces.append(Buffer(taken, interval.start, interval.start + 1, size) if size else None)
    buffers = [chain.buffer for chain in chains]
    for block in _joined(len(chains), together):
        low = min(chains[chain].place for chain in block)
        for chain in block if len(block) > 1 else ():
            buffers[chain] = replace(buffers[chain], block=chains[block[0]].name, place=chains[chain].place - low)
    numbers: list[int | None] = []
    for workspace in workspaces:
        numbers.append(None if workspace is None else len(buffers))
        buffers += [] if workspace is None else [workspace]
    return Placing(tuple(buffers), tuple(copies), tuple(numbers))


def _joined(count: int, groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers 0..count - 1 in the parts that the groups join, each by its first number."""
    parts = {at: [at] for at in range(count)}
    of = dict(enumerate(parts.values()))
    for group in groups:
        joined = sorted({number for at in group for number in of[at]})
        if len(joined) > len(of[group[0]]):
            of |= dict.fromkeys(joined, joined)
    return [part for at in range(count) if (part := of[at])[0] == at]


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
