"""The judge of plans: what actions in several memories cost, straight from the definition.

It shares no code with anything that makes plans. Positions t = 1..L are those of the plan; actions follow each other,
nothing goes on at the same time.

- Computing v in memory m at t reads the copies of all its inputs in m, and takes the duration and energy of v there.
- Copying v from memory a to memory b at t reads the copy in a, needs no inputs, and takes the duration and energy of
  the link; its traffic is the size of v.
- Both open a retention interval [t, e] of v in the target, in place of an earlier copy there; e is the last position
  that reads this copy, e = t if nothing does. So a copy is in both memories while it is copied.
- Memories of one device are different: computing v reads each input in the memory where its latest copy is, and takes,
  in addition, what these reads and the write to m take there; the copy that it writes is in place of an earlier one in
  any of them.
- Memory in m at t is the sum of sizes over the intervals in m that contain t, both ends included, and the workspace of
  the node that is computed in m at t; less the size of that node if it overwrites an input, as in `schedules`: a copy
  in m whose interval ends at t. Copies over links overwrite nothing.
- Computing the first output of an operation writes all of them to m, the further ones as a workspace. Those that are
  retained there come directly after it, at positions of their own in m, where they take no time.
- What is read as one lies side by side: with memories of one device, all of a group is in one of them.

Paging of the graph a -> b, b -> c, a -> d, c -> d, with a written to slow memory (out) and read back (in)::

    position          1   2   3   4   5   6
    action            a  out  b   c  in   d
    a, local         [=======]                    read by the copy at 2 and by b at 3: [1, 3]
    a, slow              [===========]            read by the copy at 5
    a, local again                   [===]        read by d at 6

For plans of one memory without copies all of it is what `simulate` finds for the sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moccasin_mzn.base.errors import shown
from moccasin_mzn.base.formatting import memory_text, over_text
from moccasin_mzn.graphs.wording import node_text, total_text
from moccasin_mzn.problem.judges.schedules import Violation, in_order, profile
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Goal, Platform


@dataclass(frozen=True)
class PlacedInterval:
    """A copy of a node's output in a memory, at all positions start..end of the plan (from 1, both inside)."""

    node: int
    """Position in `ComputationGraph.nodes`."""
    memory: int
    """Position in `Platform.memories`."""
    start: int
    end: int
    """Last position that reads the copy; `start` if nothing does."""
    source: int | None = None
    """The memory it was copied from; None: it was computed."""


@dataclass(frozen=True)
class PlanSimulation:
    """The account of a plan. With violations, the figures are those of the actions that are possible to count."""

    memory: tuple[tuple[int, ...], ...]
    """Memory in use, in the graph's size unit: `memory[m][t - 1]` is that of memory m at position t."""
    peaks: tuple[int, ...]
    """Largest of each memory."""
    duration: int
    """The duration of all actions, in the graph's duration unit."""
    energy: int
    """The energy of all actions, in the platform's unit."""
    traffic: int
    """Sum of the sizes of all copies, in the graph's size unit."""
    intervals: tuple[PlacedInterval, ...]
    """In order of their start."""
    violations: tuple[Violation, ...]
    """In order of position, those without a position last."""
    overwrites: tuple[tuple[int, int], ...] = ()
    """(position, node) where a computation overwrites the output of another node, in order of position."""

    @property
    def feasible(self) -> bool:
        """True if there is no violation."""
        return not self.violations

    def total(self, objective: str) -> int:
        """One of `OBJECTIVES`."""
        return getattr(self, objective)


def judge_plan(platform: Platform, plan: Sequence[Action], goal: Goal | None = None) -> PlanSimulation:
    """Run a plan, and report what is wrong with it.

    Violations are "unknown-node" and "unknown-memory"; "cannot-compute" and "no-link" for what the platform does not
    offer; "missing-input" and "missing-copy" for reads of what is not there; "apart" for a further output that does not
    come directly after its first one, and for what is read as one and lies in two memories; "never-computed", without a
    position;
    "over-budget" of a memory; and "over-duration", "over-energy" and "over-traffic", without a position, for a limit of
    the goal. What is not possible is reported and occupies nothing.
    """
    run = _Run(platform)
    for t, action in enumerate(plan, start=1):
        run.take(t, action)
    for v in range(len(platform.graph.nodes)):
        if v not in run.computed:
            message = f"node {node_text(platform.graph, v)} is never computed"
            run.violations.append(Violation("never-computed", None, v, message))
    intervals, sizes = run.intervals(), platform.graph.sizes
    overwrites = _overwrites(platform, intervals)
    memory = tuple(
        run.with_workspaces(m, profile(sizes, [of for of in intervals if of.memory == m], len(plan)), dict(overwrites))
        for m in range(len(platform.memories))
    )
    for m, used in enumerate(memory):
        run.check_budget(m, used)
    run.check_goal(goal or Goal())
    peaks = tuple(max(used, default=0) for used in memory)
    return PlanSimulation(
        memory, peaks, **run.totals, intervals=intervals, violations=in_order(run.violations), overwrites=overwrites
    )


def _overwrites(platform: Platform, intervals: Sequence[PlacedInterval]) -> tuple[tuple[int, int], ...]:
    """(position, node overwritten) of each computation that overwrites an input: the largest that may be, of equals the
    first in `ComputationGraph.nodes`."""
    graph = platform.graph
    if graph.overwritable is None:
        return ()
    dying = {(of.node, of.memory, of.end) for of in intervals if of.end > of.start}
    found = []
    for of in intervals:
        may_be = graph.overwritable[of.node] if of.source is None else ()
        inputs = [u for u in may_be if (u, of.memory, of.start) in dying]
        if inputs:
            found.append((of.start, max(inputs, key=lambda u: (graph.sizes[u], -u))))
    return tuple(found)


class _Run:
    def __init__(self, platform: Platform) -> None:
        self.platform = platform
        self.computed: set[int] = set()
        self.totals = dict.fromkeys(OBJECTIVES, 0)
        self.violations: list[Violation] = []
        self._opened: list[tuple[int, Action]] = []
        self._latest: dict[tuple[int, int], int] = {}  # (node, memory, or device): position of its latest copy there
        self._place: dict[int, int] = {}  # position of a copy: its memory
        self._end: dict[int, int] = {}  # position of a copy: its last read

    def take(self, t: int, action: Action) -> None:
        problem = self._problem(t, action)
        if problem is not None:
            self.violations.append(problem)
            return
        v, m, source = action.node, action.memory, action.source
        graph, place = self.platform.graph, self.platform.memories[m]
        if source is None:
            self.computed.add(v)
            self._check_further(t, action)
            duration, energy = place.cost(v)
            duration += self._read_inputs(t, v, m) + self._written(v, m)
        else:
            self._end[self._latest[v, self.platform.devices[source]]] = t
            link = self.platform.link_between[source, m]
            duration, energy = link.durations[v], link.energies[v]
            self.totals["traffic"] += graph.sizes[v]
        self.totals["duration"] += duration
        self.totals["energy"] += energy
        self._latest[v, self.platform.devices[m]] = self._end[t] = t
        self._place[t] = m
        self._opened.append((t, action))

    def _problem(self, t: int, action: Action) -> Violation | None:
        """Why an action is impossible; a missing input is noted later, as it does not keep the node from counting."""
        graph, memories = self.platform.graph, self.platform.memories
        v, m, source = action.node, action.memory, action.source
        if not _is_position(v, len(graph.nodes)):
            return Violation("unknown-node", t, None, f"position {t}: {shown(v)} is not a node")
        for place in (m,) if source is None else (m, source):
            if not _is_position(place, len(memories)):
                return Violation("unknown-memory", t, v, f"position {t}: {shown(place)} is not a memory")
        node, name = node_text(graph, v), memories[m].name
        if source is None:
            if memories[m].computes(v):
                return None
            return Violation("cannot-compute", t, v, f"position {t}: node {node} cannot be computed in {name}")
        origin = memories[source].name
        if (source, m) not in self.platform.link_between:
            return Violation("no-link", t, v, f"position {t}: nothing can be copied from {origin} to {name}")
        latest = self._latest.get((v, self.platform.devices[source]))
        if latest is None or self._place[latest] != source:
            return Violation(
                "missing-copy", t, v, f"position {t}: node {node} is copied from {origin}, but is not there"
            )
        return None

    def _check_further(self, t: int, action: Action) -> None:
        """Note a further output that does not come directly after another output of its operation, there."""
        graph, v = self.platform.graph, action.node
        if graph.output_of is None or graph.output_of[v] is None:
            return
        before, of = self._opened[-1] if self._opened else (0, Action(v))
        same_operation = graph.operation_of[of.node] == graph.operation_of[v]
        if before == t - 1 > 0 and same_operation and (of.memory, of.source) == (action.memory, None):
            return
        node = node_text(graph, v)
        message = f"position {t}: node {node} does not come directly after its first output"
        self.violations.append(Violation("apart", t, v, message))

    def _written(self, v: int, m: int) -> int:
        """What the writes of all outputs of an operation take, at its first one."""
        graph, place = self.platform.graph, self.platform.memories[m]
        if graph.operation_of[v] != v:
            return 0
        return place.access(v) + sum(map(place.access, graph.outputs_of[v]))

    def _read_inputs(self, t: int, v: int, m: int) -> int:
        """What the reads take."""
        graph, memories, device = self.platform.graph, self.platform.memories, self.platform.devices[m]
        name, taken = "memory" if self.platform.has_accesses else memories[m].name, 0
        if graph.adjacent is not None:
            self._check_groups(t, v, device)
        for u in graph.predecessors[v]:
            if (u, device) in self._latest:
                read = self._latest[u, device]
                self._end[read] = t
                taken += memories[self._place[read]].access(u) if graph.operation_of[v] == v else 0
            else:
                reading, missing = node_text(graph, v), node_text(graph, u)
                message = f"position {t}: node {reading} reads node {missing}, which is not in {name}"
                self.violations.append(Violation("missing-input", t, v, message))
        return taken

    def _check_groups(self, t: int, v: int, device: int) -> None:
        """Note what a node reads as one and what lies in several memories of its device."""
        graph = self.platform.graph
        for group in (graph.adjacent or ())[v]:
            places = {self._place[self._latest[u, device]] for u in group if (u, device) in self._latest}
            if len(places) > 1:
                names = ", ".join(node_text(graph, u) for u in group)
                message = f"position {t}: node {node_text(graph, v)} reads {names} as one, which are in two memories"
                self.violations.append(Violation("apart", t, v, message))

    def intervals(self) -> tuple[PlacedInterval, ...]:
        return tuple(
            PlacedInterval(action.node, action.memory, t, self._end[t], action.source) for t, action in self._opened
        )

    def with_workspaces(self, m: int, retained: Sequence[int], overwritten: Mapping[int, int]) -> tuple[int, ...]:
        """Memory of what is retained in m with the workspaces there, less what overwrites an input."""
        used, graph = list(retained), self.platform.graph
        for t, action in self._opened:
            if action.memory == m and action.source is None:
                used[t - 1] += graph.workspace_of[action.node] - (graph.sizes[action.node] if t in overwritten else 0)
        return tuple(used)

    def check_budget(self, m: int, used: Sequence[int]) -> None:
        memory, unit = self.platform.memories[m], self.platform.graph.size_unit
        for t, amount in enumerate(used, start=1):
            if memory.budget is not None and amount > memory.budget:
                over = f"{memory_text(amount, unit)} is {over_text(amount, memory.budget, unit)}"
                self.violations.append(
                    Violation("over-budget", t, None, f"position {t}: memory in {memory.name} {over}")
                )

    def check_goal(self, goal: Goal) -> None:
        for what in OBJECTIVES:
            limit = goal.limit(what)
            if limit is not None and self.totals[what] > limit:
                total = self.totals[what]
                amounts = (total_text(self.platform.graph, what, amount) for amount in (total, total - limit, limit))
                message = "{} {} is {} over the limit {}".format(what, *amounts)
                self.violations.append(Violation(f"over-{what}", None, None, message))


def _is_position(value: object, n: int) -> bool:
    """True for an integer in 0..n-1."""
    return type(value) is int and 0 <= value < n
