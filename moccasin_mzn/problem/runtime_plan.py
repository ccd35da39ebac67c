"""Plans for runtimes: the steps of a schedule or a plan, and the memory that each one writes, without the graph.

Step t computes a node, or copies what is in another memory, and writes one copy, which nothing moves and which is
retained until the last step that reads it::

    step   writes   reads         kept until   size   offset      offset  8   [b ......][d]
       1   a                               3      8        0              0   [a ......]
       2   b        a (of 1)               3      4        8
       3   d        a (of 1), b (of 2)     3      1       12      arena 13
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from moccasin_mzn.base.errors import InputError, located, shown
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.problem.judges.arenas import apart, flaws
from moccasin_mzn.problem.judges.certificates import graph_digest
from moccasin_mzn.problem.platform import Action, checked_devices

ONE_MEMORY = ("memory",)
"""Names of the memories of a schedule."""


@dataclass(frozen=True)
class Step:
    """One step, and the copy of a node's output that it writes. Steps are numbered from 0 here, in files from 1."""

    node: NodeId
    reads: tuple[int, ...]
    """The steps whose copies are read, in the order of the node's inputs; of a copy the one that wrote what is copied.
    """
    end: int
    """The last step that reads the copy; the step itself if none does."""
    size: int
    """The size of the copy, in the plan's size unit."""
    memory: int = 0
    """The memory of the copy: position in `RuntimePlan.memories`."""
    source: int | None = None
    """The memory it is copied from; None: it is computed."""
    offset: int | None = None
    """The offset in the arena of its memory; None: it is not given."""
    begin: int | None = None
    """The step from which on it is in memory, as a further output of what that computes; None: the step itself."""
    workspace: int = 0
    """What the computation takes besides, in the plan's size unit."""
    workspace_offset: int | None = None
    """Where, in the same arena; None: it is not given, or there is no workspace."""
    adjacent: tuple[tuple[int, ...], ...] = ()
    """Steps of `reads` whose copies are read as one: each lies directly after the one before."""


@dataclass(frozen=True)
class RuntimePlan:
    """Steps that read nothing but what earlier ones wrote and is still retained; judged at birth, with its offsets.

    Raises:
        InputError: a malformed number; a further output that is not made in its memory; a step that reads what is
            not retained, or an older copy of a node than there is; an end that is not the last read; a node with two
            sizes or with other inputs than before; a copy of another node; offsets for some steps only, that overlap,
            or are negative or misaligned; what is read as one and does not lie side by side.
    """

    steps: tuple[Step, ...]
    graph_digest: str
    """The digest of the graph, see `judges.certificates.graph_digest`."""
    memories: tuple[str, ...] = ONE_MEMORY
    alignment: int = 1
    """All offsets are multiples of it."""
    name: str = ""
    """The name of the graph."""
    size_unit: str = "unit"
    devices: tuple[int, ...] = ()
    """See `Platform.devices`: a step reads copies in any memory of its device."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", tuple(self.steps))
        object.__setattr__(self, "memories", tuple(self.memories))
        object.__setattr__(self, "devices", checked_devices(self.devices, len(self.memories)))
        digits = type(self.graph_digest) is str and len(self.graph_digest) == 64
        if not digits or not set(self.graph_digest) <= set("0123456789abcdef"):
            raise InputError(f"graph_digest {shown(self.graph_digest)}: expected 64 hexadecimal digits")
        if type(self.alignment) is not int or self.alignment < 1:
            raise InputError(f"alignment {shown(self.alignment)} is not a positive integer")
        if not self.steps:
            raise InputError("there is no step")
        for at, step in enumerate(self.steps):
            with located(step_text(at, step)):
                _check_numbers(step, at, len(self.steps), len(self.memories))
                _check_places(self.steps, step)
        _check_reads(self.steps, self.devices)
        self._check_offsets()

    def _check_offsets(self) -> None:
        without = [at for at, step in enumerate(self.steps) if step.offset is None]
        if without and len(without) < len(self.steps):
            raise InputError(f"{step_text(without[0], self.steps[without[0]])}: offset is missing, others have one")
        for m in range(len(self.memories)) if not without else ():
            there = [at for at, step in enumerate(self.steps) if step.memory == m]
            boxes = [self._box(at) for at in there]
            offsets = [self.steps[at].offset or 0 for at in there]
            working = [at for at in there if self.steps[at].workspace]
            boxes += [(at, at + 1, self.steps[at].workspace, self.alignment) for at in working]
            offsets += [self.steps[at].workspace_offset or 0 for at in working]
            flaw = next(flaws(boxes, offsets), None)
            if flaw is not None:
                of = [*there, *working]
                at = of[flaw.buffer]
                other = "" if flaw.other is None else f" and step {of[flaw.other] + 1} overlap at addresses"
                raise InputError(f"{step_text(at, self.steps[at])}{other}: {flaw.detail}")
        if not without:
            self._check_adjacent()

    def _check_adjacent(self) -> None:
        sizes, offsets = [step.size for step in self.steps], [step.offset or 0 for step in self.steps]
        for at, step in enumerate(self.steps):
            flaw = next(apart(step.adjacent, sizes, offsets), None)
            if flaw is not None:
                other = self.steps[flaw.buffer]
                text = f"reads {step_text(flaw.buffer, other)} as one with step {(flaw.other or 0) + 1}"
                raise InputError(f"{step_text(at, step)} {text}, which does not lie behind it: {flaw.detail}")

    def _box(self, at: int) -> tuple[int, int, int, int]:
        """When a copy takes memory of its own, half-open, how much, and its alignment."""
        step = self.steps[at]
        begin = at if step.begin is None else step.begin
        if self.overwritten(at) is not None:
            begin = at + 1
        return (
            (begin, step.end + 1, step.size, self.alignment) if begin <= step.end else (at, at + 1, 0, self.alignment)
        )

    def overwritten(self, at: int) -> int | None:
        """The step whose copy a step writes over: one that it reads last, at the same offset; None: none."""
        step = self.steps[at]
        if step.offset is None or not step.size or step.begin is not None:
            return None
        for r in step.reads:
            of = self.steps[r]
            if of.end == at and of.offset == step.offset and of.memory == step.memory and of.size >= step.size:
                return r
        return None

    @property
    def placed(self) -> bool:
        """Does it have offsets?"""
        return self.steps[0].offset is not None

    @cached_property
    def arenas(self) -> tuple[int, ...]:
        """Return how much each memory takes with these offsets, in the size unit."""
        tops = [0] * len(self.memories)
        for step in self.steps:
            if step.size:
                tops[step.memory] = max(tops[step.memory], (step.offset or 0) + step.size)
            if step.workspace:
                tops[step.memory] = max(tops[step.memory], (step.workspace_offset or 0) + step.workspace)
        return tuple(tops)

    def with_offsets(
        self, offsets: Iterable[int], alignment: int, workspaces: Iterable[int | None] | None = None
    ) -> RuntimePlan:
        """The same steps at other offsets, one for each, and their workspaces; None: where they are."""
        places = [step.workspace_offset for step in self.steps] if workspaces is None else workspaces
        rows = zip(self.steps, offsets, places, strict=True)
        steps = tuple(replace(step, offset=at, workspace_offset=place) for step, at, place in rows)
        return replace(self, steps=steps, alignment=alignment)

    def actions(self, graph: ComputationGraph) -> tuple[Action, ...]:
        """Return the actions, as the judges take them.

        Raises:
            InputError: a node is not in the graph.
        """
        return tuple(Action(graph.position_of(step.node), step.memory, step.source) for step in self.steps)

    @staticmethod
    def of(
        graph: ComputationGraph, actions: Sequence[Action], memories: Sequence[str] = ONE_MEMORY,
        offsets: Sequence[int] | None = None, alignment: int = 1, workspaces: Sequence[int | None] | None = None,
        devices: Sequence[int] = (),
    ) -> RuntimePlan:  # fmt: skip
        """Return the plan for actions that a judge accepts.

        Args:
            offsets: of the copy that each action makes, in the arena of its memory; None: there are none.
            workspaces: where what each computation takes besides lies in that arena; None: it is not given.
            devices: see the class.

        Raises:
            InputError: see the class; an action reads what is not there.
        """
        devices = devices or range(len(memories))
        reads, ends = reads_of(graph, actions, devices)
        begins = _begins_of(graph, actions)
        steps = (
            Step(
                graph.nodes[action.node], reads[t], ends[t], graph.sizes[action.node], action.memory, action.source,
                None if offsets is None else offsets[t], begins[t],
                graph.workspaces[action.node] if graph.workspaces and action.source is None else 0,
                None if workspaces is None else workspaces[t],
                () if action.source is not None else _as_one(graph, action.node, reads[t]),
            )
            for t, action in enumerate(actions)
        )  # fmt: skip
        return RuntimePlan(
            tuple(steps), graph_digest(graph), tuple(memories), alignment, graph.name, graph.size_unit, tuple(devices)
        )  # fmt: skip


def reads_of(
    graph: ComputationGraph, actions: Sequence[Action], devices: Sequence[int] = (0,)
) -> tuple[list[tuple[int, ...]], list[int]]:
    """Which actions made what each one reads, in the order of its inputs, and the last that reads what it makes.

    Args:
        devices: see `Platform.devices`.

    Raises:
        InputError: what is read is not there.
    """
    latest: dict[tuple[int, int], int] = {}
    reads, ends = [], list(range(len(actions)))
    for t, action in enumerate(actions):
        inputs: Iterator[tuple[int, int]] = (
            ((u, devices[action.memory]) for u in graph.predecessors[action.node])
            if action.source is None
            else iter([(action.node, devices[action.source])])
        )
        try:
            reads.append(tuple(latest[of] for of in inputs))
        except KeyError:
            raise InputError(f"step {t + 1}: node {shown(graph.nodes[action.node])} reads what is not there") from None
        for r in reads[-1]:
            ends[r] = t
        latest[action.node, devices[action.memory]] = t
    return reads, ends


def _as_one(graph: ComputationGraph, node: int, reads: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The steps whose copies a node reads as one, of those that it reads in the order of its inputs."""
    step_of = dict(zip(graph.predecessors[node], reads, strict=True))
    return tuple(tuple(step_of[u] for u in group) for group in (graph.adjacent[node] if graph.adjacent else ()))


def _begins_of(graph: ComputationGraph, actions: Sequence[Action]) -> list[int | None]:
    """For each action that makes a further output when its first one was computed there; None for others."""
    latest: dict[tuple[int, int], int] = {}
    begins: list[int | None] = []
    for t, action in enumerate(actions):
        first = graph.output_of[action.node] if graph.output_of is not None and action.source is None else None
        begins.append(None if first is None else latest.get((first, action.memory)))
        latest[action.node, action.memory] = t
    return begins


def step_text(at: int, step: Step) -> str:
    """A step as messages name it."""
    return f"step {at + 1} (node {step.node})"


def _check_numbers(step: Step, at: int, steps: int, memories: int) -> None:
    for what, value, least, most in (
        ("end", step.end, at, steps - 1), ("size", step.size, 0, 2**53), ("memory", step.memory, 0, memories - 1),
        ("source", 0 if step.source is None else step.source, 0, memories - 1),
        ("offset", 0 if step.offset is None else step.offset, 0, 2**53),
        ("begin", at if step.begin is None else step.begin, 0, at), ("workspace", step.workspace, 0, 2**53),
        ("workspace_offset", 0 if step.workspace_offset is None else step.workspace_offset, 0, 2**53),
    ):  # fmt: skip
        if type(value) is not int or not least <= value <= most:
            first = 1 if what in ("begin", "end") else 0  # counted from 1 in files
            number = value + first if type(value) is int else value
            raise InputError(f"{what} {shown(number)} is not an integer from {least + first} to {most + first}")
    for r in step.reads:
        if type(r) is not int or not 0 <= r < at:
            raise InputError(f"reads step {shown(r + 1 if type(r) is int else r)}, expected an earlier one")
    for group in step.adjacent:
        if len({*group}) < max(2, len(group)) or not {*group} <= {*step.reads}:
            names = [r + 1 if type(r) is int else r for r in group]
            raise InputError(f"adjacent {shown(names)}: expected two or more of the steps that it reads")
    if step.source == step.memory:
        raise InputError("a copy from a memory to itself")


def _check_places(steps: Sequence[Step], step: Step) -> None:
    """Check that a further output is made by what computes in its memory, and that what is read as one is in one."""
    made = step if step.begin is None else steps[step.begin]
    if step.begin is not None and (made.memory != step.memory or step.source is not None or made.source is not None):
        raise InputError(f"begins at step {step.begin + 1}, which computes nothing in its memory")
    for group in step.adjacent:
        if len({steps[r].memory for r in group}) > 1:
            raise InputError(f"reads steps {shown([r + 1 for r in group])} as one, which are in two memories")


def _check_reads(steps: Sequence[Step], devices: Sequence[int]) -> None:
    latest: dict[tuple[NodeId, int], int] = {}
    first: dict[NodeId, Step] = {}
    inputs: dict[NodeId, list[NodeId]] = {}
    ends = list(range(len(steps)))
    for at, step in enumerate(steps):
        with located(step_text(at, step)):
            read = [steps[r].node for r in step.reads]
            if step.source is not None and read != [step.node]:
                raise InputError(f"copies {shown(read)}, expected the node itself")
            if step.source is None and inputs.setdefault(step.node, read) != read:
                raise InputError(f"reads {shown(read)}, before that {shown(inputs[step.node])}")
            if first.setdefault(step.node, step).size != step.size:
                raise InputError(f"size {step.size}, before that {first[step.node].size}")
            for r in step.reads:
                _check_read(steps, r, step, latest, devices)
                ends[r] = at
            latest[step.node, devices[step.memory]] = at
    for at, (step, end) in enumerate(zip(steps, ends, strict=True)):
        if step.end != end:
            last = "nothing reads it" if end == at else f"it is last read at step {end + 1}"
            raise InputError(f"{step_text(at, step)}: retained until step {step.end + 1}, but {last}")


def _check_read(
    steps: Sequence[Step], r: int, by: Step, latest: dict[tuple[NodeId, int], int], devices: Sequence[int]
) -> None:
    of, device = steps[r], devices[by.memory if by.source is None else by.source]
    if devices[of.memory] != device or by.source not in (None, of.memory):
        raise InputError(f"reads step {r + 1} (node {of.node}), which is in another memory")
    if latest[of.node, device] != r:
        again = latest[of.node, device] + 1
        raise InputError(f"reads step {r + 1} (node {of.node}), but step {again} wrote it again since")
