"""Platforms that graphs run on: memories with their budgets, what computes there and how fast, and copies between them.

Paging and several devices are the same thing here. A device is a memory in which nodes are computed; slow memory is one
in which nothing is::

        gpu   1.5 GiB  computes  <--- link --->  cpu   64 GiB  computes        two devices
      local   1.5 GiB  computes  <--- link --->  slow  no budget               paging
       fast   128 KiB  +--- computes ---+       psram   8 MiB                 memories of one device, which reads and
                                                                              writes in all of them

All costs are integers, one for each node, so that a plan's totals are exact; `scaled` makes them from costs per unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import get_args

from moccasin_mzn.base.arguments import named
from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.formatting import count_text, one_of
from moccasin_mzn.base.vocabulary import Objective
from moccasin_mzn.graphs.checks import TOTAL_LIMIT, as_tuple
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.wording import node_text

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
"""Totals of a plan, in the order of reports."""


@dataclass(frozen=True)
class Memory:
    """A memory, and the device that computes in it if there is one.

    Raises:
        InputError: an empty name; a negative budget, duration or energy, named by place in the list; durations or
            energies that sum to more than 2**53; energies that do not go with durations.
    """

    name: str
    budget: int | None
    """In the graph's size unit; None: as much as there may be."""
    durations: tuple[int | None, ...] | None = field(default=None, repr=False)
    """The duration of computing each node here, in the graph's duration unit; None for a node that cannot be
    computed here, None for all: nothing is."""
    energies: tuple[int | None, ...] | None = field(default=None, repr=False)
    """The energy of computing each node here, in any unit; None: as many as `durations`."""
    accesses: tuple[int, ...] | None = field(default=None, repr=False)
    """What reading or writing the output of each node here once adds to the duration of a computation, in the graph's
    duration unit; None: nothing. For memories of one device, see `Platform.devices`."""

    def __post_init__(self) -> None:
        if type(self.name) is not str or not self.name or not self.name.isprintable():
            raise InputError(f"memory {shown(self.name)}: expected a printable name")
        if self.budget is not None and (type(self.budget) is not int or self.budget < 0):
            raise InputError(f"memory {self.name}: budget {shown(self.budget)} is not an amount of memory")
        for what in ("durations", "energies", "accesses"):
            values = getattr(self, what)
            if values is None:
                continue
            checked = _amounts(f"memory {self.name}: {what}", values, missing=what != "accesses")
            object.__setattr__(self, what, checked)
        if self.energies is None:
            object.__setattr__(self, "energies", self.durations)
        elif self.durations is None or [e is None for e in self.energies] != [d is None for d in self.durations]:
            raise InputError(f"memory {self.name}: energies and durations must be there for the same nodes")

    def cost(self, node: int) -> tuple[int, int]:
        """Duration and energy of the node at this position, which can be computed here."""
        duration, energy = (self.durations or ())[node], (self.energies or ())[node]
        assert duration is not None and energy is not None
        return duration, energy

    def access(self, node: int) -> int:
        """What one read or write of the output of the node at this position takes here."""
        return 0 if self.accesses is None else self.accesses[node]

    def computes(self, node: int) -> bool:
        """Can the node at this position be computed here?"""
        return self.durations is not None and self.durations[node] is not None


@dataclass(frozen=True)
class Link:
    """Copies from one memory to another. A copy's traffic is the size of what is copied.

    Raises:
        InputError: a negative cost, named by place in the list; costs that sum to more than 2**53.
    """

    source: int
    """Position in `Platform.memories`, as is `target`."""
    target: int
    durations: tuple[int, ...] = field(repr=False)
    """The duration of copying the output of each node, in the graph's duration unit."""
    energies: tuple[int, ...] = field(repr=False)
    """In the unit of the memories' energies."""

    def __post_init__(self) -> None:
        for what in ("durations", "energies"):
            object.__setattr__(self, what, _amounts(f"copies {what}", getattr(self, what)))


def checked_devices(devices: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `Platform.devices`; empty: each memory is one of its own.

    Raises:
        InputError: it does not name for each memory the first one of its device.
    """
    given = as_tuple("devices", devices) or tuple(range(count))
    if len(given) != count or not all(type(m) is int and 0 <= m <= at and given[m] == m for at, m in enumerate(given)):
        expected = f"expected for each of {count} memories the first one of its device"
        raise InputError(f"devices {shown(devices)}: {expected}")
    return given


@dataclass(frozen=True)
class Platform:
    """The memories a graph runs on, and the links between them; whatever has no link cannot be copied.

    Raises:
        InputError: no memory, or two of one name; lists that are not as long as the graph has nodes; a link from a
            memory to itself, to an unknown one, or given twice; a node that cannot be computed anywhere, by name;
            memories of one device with links, or that differ in what computing takes; accesses on several devices.
    """

    graph: ComputationGraph
    memories: tuple[Memory, ...]
    links: tuple[Link, ...] = ()
    devices: tuple[int, ...] = ()
    """For each memory the first one of its device; empty: each is one of its own. A computation reads each input in the
    memory of the device where it is, and writes its output to one of them; an output is in one memory of a device at a
    time, and nothing is copied between them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "memories", tuple(self.memories))
        object.__setattr__(self, "links", tuple(self.links))
        names = [memory.name for memory in self.memories]
        if not names or len(set(names)) < len(names):
            raise InputError(f"memories {', '.join(names) or 'none'}: expected at least one, each with its own name")
        n = len(self.graph.nodes)
        for memory in self.memories:
            for what in ("durations", "energies", "accesses"):
                values = getattr(memory, what)
                if values is not None and len(values) != n:
                    raise InputError(f"memory {memory.name}: {len(values)} {what} for {count_text(n, 'node')}")
        for v in range(n):
            if not any(memory.computes(v) for memory in self.memories):
                raise InputError(f"node {node_text(self.graph, v)} cannot be computed in any of {', '.join(names)}")
        self._check_links()
        self._check_devices()

    def _check_devices(self) -> None:
        count, devices = len(self.memories), checked_devices(self.devices, len(self.memories))
        object.__setattr__(self, "devices", devices)
        if any(devices[link.source] == devices[link.target] for link in self.links):
            raise InputError("memories of one device have no links: a computation reads and writes in all of them")
        for memory, device in zip(self.memories, devices, strict=True):
            first = self.memories[device]
            if memory.accesses is not None and 1 == devices.count(device) < count:
                raise InputError(f"memory {memory.name}: accesses are for memories of one device")
            if (memory.durations, memory.energies) != (first.durations, first.energies):
                raise InputError(
                    f"memories {first.name}, {memory.name}: computing takes the same time for all of one device"
                )

    @cached_property
    def has_accesses(self) -> bool:
        """True if a device has several memories, or accesses of its own cost."""
        return len({*self.devices}) < len(self.memories) or any(one.accesses is not None for one in self.memories)

    def _check_links(self) -> None:
        count, n, seen = len(self.memories), len(self.graph.nodes), set()
        for link in self.links:
            ends = link.source, link.target
            if not all(type(end) is int and 0 <= end < count for end in ends) or link.source == link.target:
                raise InputError(f"link {shown(link.source)} -> {shown(link.target)}: expected two of {count} memories")
            if ends in seen:
                raise InputError(f"link {self.memories[link.source].name} -> {self.memories[link.target].name} twice")
            seen.add(ends)
            if len(link.durations) != n or len(link.energies) != n:
                raise InputError(
                    f"link {shown(link.source)} -> {shown(link.target)}: expected {n} durations and energies"
                )

    @cached_property
    def link_between(self) -> dict[tuple[int, int], Link]:
        """The link of each (source, target)."""
        return {(link.source, link.target): link for link in self.links}


@named
@dataclass(frozen=True)
class Goal:
    """The total to minimize, and limits on the others.

    Raises:
        InputError: an unknown objective; a limit that is no integer of 0 or more.
    """

    objective: Objective = "duration"
    max_duration: int | None = None
    """In the graph's duration unit; None: no limit, as for the others."""
    max_energy: int | None = None
    max_traffic: int | None = None
    """In the graph's size unit."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "objective", plain(self.objective))
        if not isinstance(self.objective, str) or self.objective not in OBJECTIVES:
            raise InputError(f"unknown objective {shown(self.objective)}, {one_of(self.objective, OBJECTIVES)}")
        for what in OBJECTIVES:
            limit = plain(self.limit(what))
            object.__setattr__(self, f"max_{what}", limit)
            if limit is not None and (type(limit) is not int or limit < 0):
                raise InputError(f"max {what} {shown(limit)} is not an integer of 0 or more")

    def limit(self, what: str) -> int | None:
        """The most that a total, one of `OBJECTIVES`, may be."""
        return getattr(self, f"max_{what}")


def _amounts(what: str, values: Sequence[int | None], missing: bool = False) -> tuple[int | None, ...]:
    """Integers of 0 or more, in all no more than `TOTAL_LIMIT`; `missing`: some may be None."""
    checked = as_tuple(what, values)
    for at, value in enumerate(checked):
        if not (missing and value is None) and (type(value) is not int or value < 0):
            raise InputError(f"{what}[{at}]: {shown(value)} is not an integer of 0 or more")
    total = sum(value for value in checked if value is not None)
    if total > TOTAL_LIMIT:
        raise InputError(f"{what} sum to {shown(total)}, over the limit 2**53; use a larger unit")
    return checked


def scaled(amounts: Sequence[int], per_unit: Fraction, fixed: int = 0) -> tuple[int, ...]:
    """Costs of amounts at a cost per unit, each rounded up, and a fixed cost on top."""
    return tuple(fixed + math.ceil(amount * per_unit) for amount in amounts)


# --- A plan: what is computed and copied, one after the other -------------------------------------------------


@dataclass(frozen=True)
class Action:
    """One step of a plan: a copy of a node's output comes to be in a memory, computed there or copied there."""

    node: int
    """Position in `ComputationGraph.nodes`."""
    memory: int = 0
    """The memory of the new copy: position in `Platform.memories`."""
    source: int | None = None
    """The memory it is copied from; None: it is computed."""


Plan = tuple[Action, ...]


def plan_of_sequence(sequence: Sequence[int], memory: int = 0) -> Plan:
    """The plan that computes a schedule of one memory there."""
    return tuple(Action(v, memory) for v in sequence)


def plan_together(graph: ComputationGraph, plan: Plan) -> Plan:
    """The same actions with each further output directly after the latest computation of its first one in its memory;
    what comes before that is not moved. See `ComputationGraph.together`."""
    if graph.output_of is None:
        return plan
    runs: list[list[Action]] = []
    latest: dict[tuple[int, int], list[Action]] = {}
    for action in plan:
        first = None if action.source is not None else graph.output_of[action.node]
        run = None if first is None else latest.get((first, action.memory))
        if run is None:
            runs.append([action])
            if action.source is None:
                latest[action.node, action.memory] = runs[-1]
        elif action not in run:
            run.append(action)
    return tuple(action for run in runs for action in run)


def plan_with_all_outputs(graph: ComputationGraph, plan: Plan) -> Plan:
    """The same actions, each computation of a first output with all further ones behind it, retained or not; see
    `ComputationGraph.with_all_outputs`. In memories of one device they are in place of copies in other memories."""
    if graph.output_of is None:
        return plan
    kept = (action for action in plan if action.source is not None or graph.output_of[action.node] is None)
    return tuple(
        replace(action, node=v)
        for action in kept
        for v in (action.node, *(graph.outputs_of[action.node] if action.source is None else ()))
    )


def reads_of_output(graph: ComputationGraph, v: int) -> int:
    """The number of computations that read the output of a node if each node is computed once; a further output of an
    operation reads nothing by itself."""
    return sum(graph.operation_of[x] == x for x in graph.successors[v])


def computed_nodes(graph: ComputationGraph, answer: Sequence[int] | Plan) -> tuple[NodeId, ...]:
    """Return the ids of the nodes that a schedule or a plan computes, in their order."""
    computed = (step.node if isinstance(step, Action) else step for step in answer if _computes(step))
    return tuple(graph.nodes[v] for v in computed)


def _computes(step: int | Action) -> bool:
    return not isinstance(step, Action) or step.source is None
