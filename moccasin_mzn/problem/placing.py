"""What of a schedule or a plan lies in an arena: buffers for copies of outputs and for workspaces, by memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.buffer import Buffer, Gap
from moccasin_mzn.problem.judges.plans import PlacedInterval, PlanSimulation
from moccasin_mzn.problem.judges.schedules import Retained, Simulation
from moccasin_mzn.problem.platform import Platform


@dataclass(frozen=True)
class Placing:
    """The buffers of a schedule, or of a plan in one memory, and which of them is for what. ::

    position      1   2   3   4   5
    a            [=====]                  one buffer for a, b and c: 1..5, with a gap in which it takes less
    b, over a        [=====]              one for the workspace of c: 3
    c, over b            [=========]

    Copies that are read as one have buffers of one block, see `problem.blocks`.
    """

    buffers: tuple[Buffer, ...]
    copies: tuple[int, ...]
    """For each retention interval in this memory, in the order of the simulation, the position of its buffer."""
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
    """The buffers of a schedule, see `placings_of`: those of a plan with one memory."""
    copies = (PlacedInterval(of.node, 0, of.start, of.end) for of in simulation.intervals)
    return _placed(graph, tuple(copies), simulation.overwrites, (0,))[0]


def placings_of(platform: Platform, simulation: PlanSimulation) -> tuple[Placing, ...]:
    """The buffers of a plan in each memory: one for each retention interval there, but that copies which are written
    over each other share one; then one for each workspace.

    A further output is in memory from the computation of its first one there on; a copy of it from elsewhere is not.
    Names are the node's id, with its human name if it has one, and, from its second copy there on, "#2", "#3" ...; a
    name that is taken gets "'" behind it.
    """
    return _placed(platform.graph, simulation.intervals, simulation.overwrites, platform.devices)


def _placed(
    graph: ComputationGraph, intervals: Sequence[PlacedInterval], overwrites: Sequence[tuple[int, int]],
    devices: Sequence[int],
) -> tuple[Placing, ...]:  # fmt: skip
    rooms, over = [_Room(graph) for _ in devices], dict(overwrites)
    latest: dict[tuple[int, int], int] = {}  # node and memory, or device: the memory of its latest copy there
    for interval in intervals:
        v, m, device = interval.node, interval.memory, devices[interval.memory]
        for group in graph.adjacent[v] if graph.adjacent and interval.source is None else ():
            rooms[latest[group[0], device]].join(group)
        rooms[m].take(interval, over.get(interval.start))
        latest[v, device] = m
    return tuple(room.placing() for room in rooms)


@dataclass
class _Room:
    """What lies in one memory."""

    graph: ComputationGraph
    names: Names = field(init=False)
    chains: list[_Chain] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    latest: dict[int, int] = field(default_factory=dict)
    """By node: the number of its latest copy here."""
    starts: list[int] = field(default_factory=list)
    """The start of each copy."""
    workspaces: list[Buffer | None] = field(default_factory=list)
    together: list[list[int]] = field(default_factory=list)
    """Chains that are read as one."""

    def __post_init__(self) -> None:
        self.names = Names(self.graph)

    def join(self, group: Sequence[int]) -> None:
        """Note that the latest copies of these nodes are read as one, as far as they are here: else they are apart."""
        self.together.append([self.copies[self.latest[u]] for u in group if u in self.latest])

    def take(self, interval: PlacedInterval, overwritten: int | None) -> None:
        """Note the next copy here, and the node whose copy it overwrites, if it does."""
        v, start, computed = interval.node, interval.start, interval.source is None
        name, graph = self.names.of_copy(v), self.graph
        if overwritten is not None:
            self.copies.append(self.copies[self.latest[overwritten]])
        else:
            first = graph.output_of[v] if graph.output_of and computed else None
            place = graph.places[v] if graph.adjacent else None
            begin = start if first is None else self.starts[self.latest[first]]
            self.copies.append(len(self.chains))
            self.chains.append(_Chain(name, begin, graph.sizes[v], 0 if place is None else place[1]))
        self.chains[self.copies[-1]].ends.append((interval.end, graph.sizes[v]))
        self.latest[v] = len(self.starts)
        self.starts.append(start)
        size = graph.workspaces[v] if graph.workspaces and computed else 0
        taken = self.names.free(f"{name}, workspace") if size else ""
        self.workspaces.append(Buffer(taken, start, start + 1, size) if size else None)

    def placing(self) -> Placing:
        """The buffers of all that was noted."""
        buffers = [chain.buffer for chain in self.chains]
        for block in joined(len(self.chains), self.together):
            low = min(self.chains[chain].place for chain in block)
            name = self.chains[block[0]].name
            for chain in block if len(block) > 1 else ():
                buffers[chain] = replace(buffers[chain], block=name, place=self.chains[chain].place - low)
        numbers: list[int | None] = []
        for workspace in self.workspaces:
            numbers.append(None if workspace is None else len(buffers))
            buffers += [] if workspace is None else [workspace]
        return Placing(tuple(buffers), tuple(self.copies), tuple(numbers))


def places_in(
    placings: Sequence[Placing], offsets: Sequence[Sequence[int]], intervals: Sequence[Retained]
) -> list[JsonObject]:
    """For each retention interval "offset", where its copy lies, and "workspace_offset", where the workspace of its
    computation does, if it takes one.

    Args:
        placings: the buffers in each memory.
        offsets: of the buffers in each memory.
    """
    rows = [zip(placing.copies, placing.workspaces, strict=True) for placing in placings]
    found = []
    for interval in intervals:
        m = getattr(interval, "memory", 0)
        copy, workspace = next(rows[m])
        more = {} if workspace is None else {"workspace_offset": offsets[m][workspace]}
        found.append({"offset": offsets[m][copy], **more})
    return found


def joined(count: int, groups: Iterable[Sequence[int]]) -> list[list[int]]:
    """The numbers 0..count - 1 in the parts that the groups join, each by its first number."""
    of = list(range(count))

    def root(at: int) -> int:
        while of[at] != at:
            of[at] = at = of[of[at]]
        return at

    for group in groups:
        for at in group:
            of[root(at)] = root(group[0])
    parts: dict[int, list[int]] = {}
    for at in range(count):
        parts.setdefault(root(at), []).append(at)
    return list(parts.values())


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
