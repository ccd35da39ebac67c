"""Presolve, from a problem on several memories to the data of its models: small numbers, without useless intervals.

Nodes are renumbered 1..n along the input order, and so are operations, whose outputs are neighbors; sizes with
workspaces, durations and energies are each divided by their greatest common divisor.

Of all best plans take one with the fewest actions. Whatever it brings to a device is read there, first computations
aside. It brings a node to a device twice only if the first copy could not stay there until the second one comes; so one
interval is enough where all fits, or for an output without size. With staged events, some stage in between must be
crowded: all outputs that are computed by then and may still be read, with the largest workspace of what may be computed
there, take more than the budget. Outputs in place only take less.

The first output of an operation may also come a second time because further ones are computed, to where it was copied
before.

Where a device has several memories, the first copy may have been in a slow one. So there it is the fastest memory that
must be crowded, and one interval is enough only for all outputs of an operation together, with none of which others are
read as one, as these have to be where it is. Without a fastest memory, or with links, nothing is left out.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from operator import add

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.pools.bound import fastest
from moccasin_mzn.problem.instance import pruned_plan
from moccasin_mzn.problem.judges.plans import PlacedInterval, judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Plan
from moccasin_mzn.problem.stages import next_crowded, sums_of_ranges

NOT_HERE = -1
"""Duration of what cannot be computed somewhere."""
ALWAYS_CROWDED = -1
"""A budget that every stage exceeds."""


@dataclass(frozen=True)
class MachineData:
    """The items that `models/lib/machine_data.mzn` declares. Nodes and stages count from 1, memories and devices from
    0."""

    problem: PlanProblem
    staged: bool
    scales: tuple[int, int, int]
    """Durations, energies and sizes times these are in the problem's units."""
    durations: tuple[tuple[int, ...], ...]
    """Durations by node and device, accesses not counted; `NOT_HERE` where it cannot be computed, as in `energies`."""
    energies: tuple[tuple[int, ...], ...]
    accesses: tuple[tuple[int, ...], ...]
    """The duration of an access to the output of each node, by memory and node."""
    copy_durations: tuple[tuple[int, ...], ...]
    """Durations by link and node."""
    copy_energies: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    workspaces: tuple[int, ...]
    """By node, further outputs included; empty if no node has one."""
    budgets: tuple[int, ...]
    """The budget of each memory, at most all sizes and the largest workspace together."""
    edges: tuple[tuple[int, int], ...]
    """(tail, head), sorted."""
    in_place: tuple[bool, ...]
    """For each edge, may the head overwrite the output of the tail? Empty if none does."""
    input_order_memory: tuple[int, ...]
    """Memory at the first computation of each node, if every node is computed once, all in one memory."""
    joined: tuple[tuple[int, int], ...]
    """Pairs of edges, by number from 1, over which one node reads what is read as one."""
    most: tuple[tuple[int, ...], ...]
    """Retention intervals, by node and device."""
    earliest_again: tuple[tuple[int, ...], ...]
    """First stage in which a further interval can be of use, by node and device. A stage is one of an operation."""
    latest: tuple[int, ...]
    """Last stage in which an output can be read."""

    @property
    def order(self) -> tuple[int, ...]:
        """Position in `graph.nodes` of node 1, 2, ..., n."""
        return self.problem.instance.order

    @property
    def output_of(self) -> tuple[int, ...]:
        """For each node the one whose computation makes it too, as a further output, or 0; empty if there is none."""
        first_of = self.problem.graph.output_of
        if first_of is None:
            return ()
        number = {v: k for k, v in enumerate(self.order, 1)}
        return tuple(0 if (first := first_of[v]) is None else number[first] for v in self.order)

    @property
    def budget(self) -> int:
        """All memories of the device that computes hold this together; if several do, it is all that there is."""
        of, platform = self.slots.devices, self.problem.platform
        computing = {d for d, memory in zip(of, platform.memories, strict=True) if memory.durations is not None}
        everything = sum(self.sizes) + max(self.workspaces, default=0)
        together = sum(budget for d, budget in zip(of, self.budgets, strict=True) if d in computing)
        return min(everything, together) if len(computing) == 1 else everything

    @cached_property
    def slots(self) -> StageSlots:
        """The stages of the input order."""
        return StageSlots.of(self.problem)

    @property
    def intervals(self) -> tuple[tuple[int, int, int], ...]:
        """(node, device, rank) of each interval in the numbering of the models; node and rank from 1, device from 0."""
        return tuple(
            (v, d, rank)
            for v, counts in enumerate(self.most, 1)
            for d, count in enumerate(counts)
            for rank in range(1, count + 1)
        )

    @property
    def scale(self) -> int:
        return self.scales[OBJECTIVES.index(self.problem.goal.objective)]

    def earliest(self, v: int, d: int, rank: int) -> int:
        """The first stage in which this interval may begin."""
        operation = self.slots.operation[self.order[v - 1]]
        return operation if rank == 1 else max(operation + 1, self.earliest_again[v - 1][d])

    def is_linked(self, v: int, d: int) -> bool:
        """True if a node may be copied to a device."""
        of = self.slots.devices
        links = self.problem.platform.links
        return any(of[link.target] == d and self.most[v - 1][of[link.source]] > 0 for link in links)


def machine_data(problem: PlanProblem, staged: bool) -> MachineData:
    """Reduce a problem without losing a best plan."""
    platform, order = problem.platform, problem.instance.order
    graph, links = platform.graph, platform.links
    number = {v: k for k, v in enumerate(order, 1)}
    edges = tuple(sorted((number[tail], number[head]) for tail, head in graph.edges))
    sizes, workspaces = ([of[v] for v in order] for of in (graph.sizes, graph.workspace_of))
    firsts = [platform.memories[m] for m in dict.fromkeys(platform.devices)]
    of_devices = [
        [[_amount(values, v) for values in (getattr(memory, what) for memory in firsts)] for v in order]
        for what in ("durations", "energies")
    ]
    of_links = [[[getattr(link, what)[v] for v in order] for link in links] for what in ("durations", "energies")]
    accesses = [[memory.access(v) for v in order] for memory in platform.memories]
    scales = [
        math.gcd(*(amount for row in rows for amount in row if amount != NOT_HERE)) or 1
        for rows in ((*of_devices[0], *of_links[0], *accesses), (*of_devices[1], *of_links[1]))
    ]
    size_scale = math.gcd(*sizes, *workspaces) or 1
    last = dict(edges)  # the last reader of each tail
    reads = [(k, last.get(k + 1, k + 1) - 1) for k in range(len(order))]
    everything = sum(sizes) + max(workspaces, default=0)
    budgets = [everything if m.budget is None else min(m.budget, everything) for m in platform.memories]
    most, again, latest = _Reach(problem, edges, sizes, workspaces, budgets, staged).found()
    return MachineData(
        problem=problem,
        staged=staged,
        scales=(scales[0], scales[1], size_scale),
        durations=_divided(of_devices[0], scales[0]),
        energies=_divided(of_devices[1], scales[1]),
        accesses=_divided(accesses, scales[0]),
        copy_durations=_divided(of_links[0], scales[0]),
        copy_energies=_divided(of_links[1], scales[1]),
        sizes=tuple(size // size_scale for size in sizes),
        workspaces=tuple(amount // size_scale for amount in workspaces) if any(workspaces) else (),
        budgets=tuple(budget // size_scale for budget in budgets),
        edges=edges,
        in_place=tuple(order[u - 1] in rows[order[v - 1]] for u, v in edges) if (rows := graph.overwritable) else (),
        input_order_memory=tuple(amount // size_scale for amount in map(add, sums_of_ranges(sizes, reads), workspaces)),
        joined=_joined(graph, number, edges),
        most=tuple(map(tuple, most)),
        earliest_again=tuple(map(tuple, again)),
        latest=tuple(latest),
    )


def _amount(values: tuple[int | None, ...] | None, v: int) -> int:
    value = None if values is None else values[v]
    return NOT_HERE if value is None else value


def _divided(rows: list[list[int]], scale: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(amount if amount == NOT_HERE else amount // scale for amount in row) for row in rows)


def _joined(
    graph: ComputationGraph, number: dict[int, int], edges: Sequence[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:  # fmt: skip
    """See `MachineData.joined`."""
    edge = {ends: at for at, ends in enumerate(edges, 1)}
    return tuple(
        (edge[number[u], number[v]], edge[number[w], number[v]])
        for v, groups in enumerate(graph.adjacent or ())
        for group in groups
        for u, w in pairwise(group)
    )


class _Reach:
    """Which intervals a best plan with the fewest actions may have; nodes, from 0, along the order."""

    def __init__(
        self, problem: PlanProblem, edges: tuple[tuple[int, int], ...], sizes: list[int], workspaces: list[int],
        budgets: list[int], staged: bool,
    ) -> None:  # fmt: skip
        order, slots = problem.instance.order, StageSlots.of(problem)
        self.stages, self.devices = slots.operations, range(max(slots.devices) + 1)
        self.stage = [slots.operation[v] for v in order]
        self.has_further = [bool(problem.graph.outputs_of[v]) for v in order]
        self.sizes, self.workspaces, self.staged = sizes, workspaces, staged
        self.readers: list[list[int]] = [[] for _ in order]
        for tail, head in edges:
            self.readers[tail - 1].append(head - 1)
        operations: dict[int, list[int]] = defaultdict(list)
        for k in range(len(order)):
            operations[self.stage[k]].append(k)
        self.with_it = [operations[stage] for stage in self.stage]
        joined = {u for groups in problem.graph.adjacent or () for group in groups for u in group}
        self.is_joined = [v in joined for v in order]
        self._note_devices(problem, slots, budgets)
        self.most = [
            [self._at_first(k, d, problem.most_intervals(v, m)) for d, m in enumerate(dict.fromkeys(slots.first))]
            for k, v in enumerate(order)
        ]

    def _note_devices(self, problem: PlanProblem, slots: StageSlots, budgets: list[int]) -> None:
        """What devices compute and how they are linked; of each the budget that makes stages crowded."""
        import networkx as nx  # slow to import, and most problems have one memory

        platform, order, first = problem.platform, problem.instance.order, [*dict.fromkeys(slots.first)]
        self.computable = [[platform.memories[m].computes(v) for m in first] for v in order]
        links = nx.DiGraph([(slots.devices[a], slots.devices[b]) for a, b in platform.link_between])
        links.add_nodes_from(self.devices)
        self.leading_to = [{d} | nx.ancestors(links, d) for d in self.devices]
        self.linked_to = [list(links.predecessors(d)) for d in self.devices]
        memories = [[m for m, of in enumerate(slots.devices) if of == d] for d in self.devices]
        self.several = [len(some) > 1 for some in memories]
        self.largest = [max(budgets[m] for m in some) for some in memories]
        self.budgets = [budgets[m] for m in first]
        self.costs_differ = [[False] * len(memories) for _ in order]
        """By node and device: may it matter where an output without size lies?"""
        for d in (d for d in self.devices if self.several[d]):
            fast = None if links.degree(d) else fastest(platform, first[d])
            self.budgets[d] = ALWAYS_CROWDED if fast is None else budgets[fast]
            for k, v in enumerate(order):
                accesses = {platform.memories[m].access(v) for m in memories[d]}
                together = self.is_joined[k] or len(self.with_it[k]) > 1
                self.costs_differ[k][d] = links.degree(d) > 0 or together or len(accesses) > 1

    def _at_first(self, k: int, d: int, most: int) -> int:
        """Intervals without regard to the other nodes."""
        if not self.readers[k]:
            return int(self.computable[k][d])  # a copy of what nothing reads is of no use
        if not any(self.computable[k][p] for p in self.leading_to[d]) or self.sizes[k] > self.largest[d]:
            return 0
        return most if self.sizes[k] > 0 or self.costs_differ[k][d] else min(1, most)

    def found(self) -> tuple[list[list[int]], list[list[int]], list[int]]:
        """Intervals, and first stage of further ones, by node and device; last stage by node. Stages are from 1."""
        while True:
            latest = self._last_reads()
            again = [[self.stages] * len(self.devices) for _ in self.stage]
            possible = [list(counts) for counts in self.most]
            for d in self.devices:
                crowded = self._next_crowded(d, latest)
                for k in range(len(latest)):
                    first, room = self._room(k, d, crowded, latest)
                    again[k][d] = min(first, self.stages)
                    possible[k][d] = min(self.most[k][d], 1 + room)
            if possible == self.most:
                return self.most, again, latest
            self.most = possible

    def _room(self, k: int, d: int, crowded: list[int], latest: list[int]) -> tuple[int, int]:
        """First stage in which a further interval can be of use, and the number of further ones at most."""
        most, last = self.most[k][d], latest[k]
        copied_first = self.has_further[k] and self.computable[k][d] and self._is_copied(k, d)
        if self.several[d]:
            if not self.staged:
                return 1, most
            is_of_use = any(crowded[self.stage[w]] <= latest[w] or self.is_joined[w] for w in self.with_it[k])
            return self.stage[k] + 1, max(0, last - self.stage[k]) * is_of_use
        if not self.staged:
            is_of_use = crowded[1] <= self.stages
            return (1 if is_of_use or copied_first else self.stages + 1), most * is_of_use + copied_first
        first = crowded[self.stage[k] + 1]
        room = max(0, last - first + 1) + copied_first
        if copied_first:
            first = self.stage[k] + 1
        return first, min(room, max(0, last - first + 1))

    def _is_copied(self, k: int, d: int) -> bool:
        return any(self.most[k][source] for source in self.linked_to[d])

    def _last_reads(self) -> list[int]:
        """The last stage, from 1, in which each output can be read, computed or copied; the last with free events."""
        if not self.staged:
            return [self.stages] * len(self.stage)
        latest = list(self.stage)
        for k in range(len(latest) - 1, -1, -1):
            reads = [latest[x] if self._again(x) else self.stage[x] for x in self.readers[k]]
            latest[k] = max(reads, default=self.stage[k])
        return latest

    def _again(self, k: int) -> bool:
        return sum(count for d, count in enumerate(self.most[k]) if self.computable[k][d]) > 1

    def _next_crowded(self, d: int, latest: list[int]) -> list[int]:
        """Find for stages 1..n + 1 the next one, or itself, in which not all that may be read fits with the largest
        workspace; n + 1: none."""
        sizes = [size if counts[d] else 0 for size, counts in zip(self.sizes, self.most, strict=True)]
        ranges = ((k - 1 if self.staged else 0, last - 1) for k, last in zip(self.stage, latest, strict=True))
        memory = map(add, sums_of_ranges(sizes, ranges), self._working(d))
        return [0, *(stage + 1 for stage in next_crowded(list(memory), self.budgets[d]))]

    def _working(self, d: int) -> list[int]:
        """The largest workspace on d in each stage, from 0."""
        once, again = [0] * len(self.stage), [0] * len(self.stage)
        for k, taken in enumerate(self.workspaces):
            if taken and self.computable[k][d] and self.most[k][d]:
                at = self.stage[k] - 1 if self.staged else 0
                once[at] = max(once[at], taken)
                if not self.staged or self._again(k):
                    again[at] = max(again[at], taken)
        return list(map(max, once, accumulate(again, max)))


# --- Retention intervals on several devices as arrays of the models, from and to plans -----------------------


COMPUTED = 0
"""Source of what is computed; memories are numbered from 1 in the models."""


@dataclass(frozen=True)
class PlacedIntervals:
    """Values of the models' arrays, one entry for each of `MachineData.intervals`; intervals of events are closed."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    source: tuple[int, ...] = ()
    """`COMPUTED`, or the memory, from 1, that it is copied from."""
    memory: tuple[int, ...] = ()
    """The memory, from 1; 0: the interval is not active."""


def decode(data: MachineData, intervals: PlacedIntervals) -> Plan:
    """The plan a solution stands for: its active intervals by start."""
    rows = zip(intervals.active, intervals.start, data.intervals, intervals.memory, intervals.source, strict=True)
    actions = sorted((start, v, m, source) for active, start, (v, *_), m, source in rows if active)
    return tuple(
        Action(data.order[v - 1], m - 1, None if source == COMPUTED else source - 1) for _, v, m, source in actions
    )


def encode(data: MachineData, plan: Plan) -> PlacedIntervals | None:
    """The solution that stands for a plan which the judge accepts; inverse of `decode`. None: there is no such one.

    A plan with actions of no use, which the data has no place for, is encoded without them.
    """
    platform = data.problem.platform
    plan = pruned_plan(platform, plan)
    while True:
        stages = stages_of_plan(data.slots, plan) if data.staged else [1] * len(plan)
        if len(stages) < len(plan):
            return None
        copies, needless = _copies(data, plan, stages)
        if needless is None:
            return _arrays(data, plan, stages, copies)
        shorter = (*plan[: needless - 1], *plan[needless:])
        if judge_plan(platform, shorter, data.problem.goal).violations:
            return None
        plan = pruned_plan(platform, shorter)


def arrays_of_plan(data: MachineData, plan: Plan) -> PlacedIntervals:
    """The solution with free events that stands for a plan as it is; the data has room for all of it."""
    stages = [1] * len(plan)
    return _arrays(data, plan, stages, _copies(data, plan, stages)[0])


Copies = dict[tuple[int, int], list[PlacedInterval]]


def _copies(data: MachineData, plan: Plan, stages: Sequence[int]) -> tuple[Copies, int | None]:
    """Intervals by node, from 1, and device; and the position of the first one that the data has no place for."""
    number = {v: k for k, v in enumerate(data.order, 1)}
    copies: Copies = defaultdict(list)
    for interval in judge_plan(data.problem.platform, plan).intervals:
        v, d = number[interval.node], data.slots.devices[interval.memory]
        copies[v, d].append(interval)
        rank, stage = len(copies[v, d]), stages[interval.start - 1]
        known = rank <= data.most[v - 1][d]
        if not known or (data.staged and not data.earliest(v, d, rank) <= stage <= data.latest[v - 1]):
            return copies, interval.start
    return copies, None


def _arrays(data: MachineData, plan: Plan, stages: Sequence[int], copies: Copies) -> PlacedIntervals:
    slots, events = data.slots, list(range(1, len(plan) + 1))
    if data.staged:
        events = [slots.event(stage, action) for stage, action in zip(stages, plan, strict=True)]
    rows = []
    unused = len(plan)  # free events: inactive intervals take the events after the last
    for v, d, rank in data.intervals:
        if rank <= len(copies[v, d]):
            found = copies[v, d][rank - 1]
            source = COMPUTED if found.source is None else found.source + 1
            rows.append((True, events[found.start - 1], events[found.end - 1], source, found.memory + 1))
            continue
        unused += 1
        place = unused
        if data.staged:
            m = slots.devices.index(d)
            place = slots.event(
                data.earliest(v, d, rank), Action(data.order[v - 1], m, m if data.is_linked(v, d) else None)
            )
        rows.append((False, place, place, COMPUTED, 0))
    return PlacedIntervals(*zip(*rows, strict=True))


# --- Plans in stages of the input order; see `models/lib/machine_staged.mzn`, which draws them ----------------

# Stage k ends with the first computation of operation k, of all its outputs, on one device or several, and copies of
# its outputs. Before that come operations 1..k-1, in input order; of each first its computations, by device and output,
# then its copies, by output and device. After the last stage there is nothing.


@dataclass(frozen=True)
class StageSlots:
    """The numbers of operations along the input order, and the slots that their actions have in a stage, from 1."""

    order: tuple[int, ...]
    """The input order: positions in `graph.nodes`."""
    operation: tuple[int, ...]
    """The operation of each node, by position in `graph.nodes`."""
    output: tuple[int, ...]
    """The place of each node among the outputs of its operation, from 0."""
    first: tuple[int, ...]
    """The first memory of each memory's device."""
    are_linked: bool = True
    """Is there a link? Without one there are no slots of copies."""

    @classmethod
    def of(cls, problem: PlanProblem) -> StageSlots:
        """Number the operations of a problem."""
        numbers: dict[int, int] = {}
        made: Counter[int] = Counter()
        order, output = problem.instance.order, [0] * len(problem.graph.nodes)
        for v in order:
            first = problem.graph.operation_of[v]
            numbers.setdefault(first, len(numbers) + 1)
            output[v] = made[first]
            made[first] += 1
        operation = tuple(map(numbers.__getitem__, problem.graph.operation_of))
        return cls(order, operation, tuple(output), problem.platform.devices, bool(problem.platform.links))

    @cached_property
    def devices(self) -> tuple[int, ...]:
        """The number of each memory's device, from 0."""
        number = {m: d for d, m in enumerate(dict.fromkeys(self.first))}
        return tuple(number[m] for m in self.first)

    @cached_property
    def operations(self) -> int:
        """The number of operations, and of stages."""
        return max(self.operation, default=0)

    @cached_property
    def most_outputs(self) -> int:
        """The number of outputs of the operation that has most."""
        return 1 + max(self.output, default=0)

    def slot(self, action: Action) -> int:
        """The slot of an action among those of its operation in a stage."""
        output, d = self.output[action.node], self.devices[action.memory]
        if action.source is None:
            return self.most_outputs * d + output + 1
        return (max(self.devices) + 1) * (self.most_outputs + output) + d + 1

    def event(self, stage: int, action: Action) -> int:
        """The event of an action in a stage."""
        slots = (1 + self.are_linked) * (max(self.devices) + 1) * self.most_outputs
        return slots * (self.operations * (stage - 1) + self.operation[action.node] - 1) + self.slot(action)


def stages_of_plan(slots: StageSlots, plan: Sequence[Action]) -> list[int]:
    """The stage, from 1, of each action, up to the first action that is out of place: shorter than the plan then.

    Args:
        plan: of known nodes and memories.
    """
    stages: list[int] = []
    stage, ended, latest, brought, computed = 1, False, (0, 0), set[tuple[int, int]](), set[int]()
    for action in plan:
        k, place = slots.operation[action.node], (action.node, slots.devices[action.memory])
        key = (k, slots.slot(action))
        if k > stage or key <= latest or place in brought:
            if not ended or k > stage + 1 or stage == slots.operations:
                break
            stage, ended, latest, brought = stage + 1, False, (0, 0), set()
        if action.source is None:
            if k < stage and action.node not in computed:
                break
            ended |= k == stage
            computed.add(action.node)
        stages.append(stage)
        brought.add(place)
        latest = key
    return stages
