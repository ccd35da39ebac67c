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
  the node that is computed in m at t.

Paging of the graph a -> b, b -> c, a -> d, c -> d, with a written to slow memory (out) and read back (in)::

    position          1   2   3   4   5   6
    action            a  out  b   c  in   d
    a, local         [=======]                    read by the copy at 2 and by b at 3: [1, 3]
    a, slow              [===========]            read by the copy at 5
    a, local again                   [===]        read by d at 6

For plans of one memory without copies all of it is what `simulate` finds for the sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    offer; "missing-input" and "missing-copy" for reads of what is not there; "never-computed", without a position;
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
    memory = tuple(
        run.with_workspaces(m, profile(sizes, [of for of in intervals if of.memory == m], len(plan)))
        for m in range(len(platform.memories))
    )
    for m, used in enumerate(memory):
        run.check_budget(m, used)
    run.check_goal(goal or Goal())
    peaks = tuple(max(used, default=0) for used in memory)
    return PlanSimulation(memory, peaks, **run.totals, intervals=intervals, violations=in_order(run.violations))


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
            duration, energy = place.cost(v)
            duration += self._read_inputs(t, v, m) + place.access(v)
        else:
            self._end[self._latest[v, source]] = t
            link = self.platform.link_between[source, m]
            duration, energy = link.durations[v], link.energies[v]
            self.totals["traffic"] += graph.sizes[v]
        self.totals["duration"] += duration
        self.totals["energy"] += energy
        self._latest[v, self.platform.device_of(m)] = self._end[t] = t
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
        if (v, source) not in self._latest:
            return Violation(
                "missing-copy", t, v, f"position {t}: node {node} is copied from {origin}, but is not there"
            )
        return None

    def _read_inputs(self, t: int, v: int, m: int) -> int:
        """What the reads take."""
        graph, memories, device = self.platform.graph, self.platform.memories, self.platform.device_of(m)
        name, taken = "memory" if self.platform.one_device else memories[m].name, 0
        for u in graph.predecessors[v]:
            if (u, device) in self._latest:
                read = self._latest[u, device]
                self._end[read] = t
                taken += memories[self._place[read]].access(u)
            else:
                reading, missing = node_text(graph, v), node_text(graph, u)
                message = f"position {t}: node {reading} reads node {missing}, which is not in {name}"
                self.violations.append(Violation("missing-input", t, v, message))
        return taken

    def intervals(self) -> tuple[PlacedInterval, ...]:
        return tuple(
            PlacedInterval(action.node, action.memory, t, self._end[t], action.source) for t, action in self._opened
        )

    def with_workspaces(self, m: int, retained: Sequence[int]) -> tuple[int, ...]:
        used, workspaces = list(retained), self.platform.graph.workspace_of
        for t, action in self._opened:
            if action.memory == m and action.source is None:
                used[t - 1] += workspaces[action.node]
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
