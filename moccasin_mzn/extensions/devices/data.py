"""Presolve, from a problem on several memories to the data of its models: small numbers, without useless intervals.

Nodes are renumbered 1..n along the input order; sizes, durations and energies are each divided by their greatest common
divisor.

Of all best plans take one with the fewest actions. Whatever it brings to a memory is read there, first computations
aside. It brings a node to a memory twice only if the first copy could not stay there until the second one comes; so one
interval is enough where all fits, or for an output without size. With staged events, some stage in between must be
crowded: all outputs that are computed by then and may still be read take more than the budget.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.problem.instance import pruned_plan
from moccasin_mzn.problem.judges.plans import PlacedInterval, judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Plan
from moccasin_mzn.problem.stages import next_crowded, sums_of_ranges

NOT_HERE = -1
"""Duration of what cannot be computed somewhere."""


@dataclass(frozen=True)
class DevicesData:
    """The items that `models/lib/devices_data.mzn` declares. Nodes and stages count from 1, memories from 0."""

    problem: PlanProblem
    staged: bool
    scales: tuple[int, int, int]
    """Durations, energies and sizes times these are in the problem's units."""
    durations: tuple[tuple[int, ...], ...]
    """Durations by node and memory; `NOT_HERE` where it cannot be computed, as in `energies`."""
    energies: tuple[tuple[int, ...], ...]
    copy_durations: tuple[tuple[int, ...], ...]
    """Durations by link and node."""
    copy_energies: tuple[tuple[int, ...], ...]
    sizes: tuple[int, ...]
    budgets: tuple[int, ...]
    """The budget of each memory, at most all sizes together."""
    edges: tuple[tuple[int, int], ...]
    """(tail, head), sorted."""
    most: tuple[tuple[int, ...], ...]
    """Retention intervals, by node and memory."""
    earliest_again: tuple[tuple[int, ...], ...]
    """First stage in which a further interval can be of use, by node and memory."""
    latest: tuple[int, ...]
    """Last stage in which an output can be read."""

    @property
    def order(self) -> tuple[int, ...]:
        """Position in `graph.nodes` of node 1, 2, ..., n."""
        return self.problem.instance.order

    @property
    def intervals(self) -> tuple[tuple[int, int, int], ...]:
        """(node, memory, rank) of each interval in the numbering of the models; node and rank from 1, memory from 0."""
        return tuple(
            (v, m, rank)
            for v, counts in enumerate(self.most, 1)
            for m, count in enumerate(counts)
            for rank in range(1, count + 1)
        )

    @property
    def scale(self) -> int:
        return self.scales[OBJECTIVES.index(self.problem.goal.objective)]

    def earliest(self, v: int, m: int, rank: int) -> int:
        """The first stage in which this interval may begin."""
        return v if rank == 1 else max(v + 1, self.earliest_again[v - 1][m])


def devices_data(problem: PlanProblem, staged: bool) -> DevicesData:
    """Reduce a problem without losing a best plan."""
    platform, order = problem.platform, problem.instance.order
    graph, links = platform.graph, platform.links
    number = {v: k for k, v in enumerate(order, 1)}
    edges = tuple(sorted((number[tail], number[head]) for tail, head in graph.edges))
    sizes = [graph.sizes[v] for v in order]
    of_memories = [
        [[_amount(values, v) for values in (getattr(memory, what) for memory in platform.memories)] for v in order]
        for what in ("durations", "energies")
    ]
    of_links = [[[getattr(link, what)[v] for v in order] for link in links] for what in ("durations", "energies")]
    scales = [
        math.gcd(*(amount for row in (*at, *along) for amount in row if amount != NOT_HERE)) or 1
        for at, along in zip(of_memories, of_links, strict=True)
    ]
    size_scale = math.gcd(*sizes) or 1
    everything = sum(sizes)
    budgets = [everything if m.budget is None else min(m.budget, everything) for m in platform.memories]
    most, again, latest = _Reach(problem, edges, sizes, budgets, staged).found()
    return DevicesData(
        problem=problem,
        staged=staged,
        scales=(scales[0], scales[1], size_scale),
        durations=_divided(of_memories[0], scales[0]),
        energies=_divided(of_memories[1], scales[1]),
        copy_durations=_divided(of_links[0], scales[0]),
        copy_energies=_divided(of_links[1], scales[1]),
        sizes=tuple(size // size_scale for size in sizes),
        budgets=tuple(budget // size_scale for budget in budgets),
        edges=edges,
        most=tuple(map(tuple, most)),
        earliest_again=tuple(map(tuple, again)),
        latest=tuple(latest),
    )


def _amount(values: tuple[int | None, ...] | None, v: int) -> int:
    value = None if values is None else values[v]
    return NOT_HERE if value is None else value


def _divided(rows: list[list[int]], scale: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(amount if amount == NOT_HERE else amount // scale for amount in row) for row in rows)


class _Reach:
    """Which intervals a best plan with the fewest actions may have; nodes, from 0, along the order."""

    def __init__(
        self, problem: PlanProblem, edges: tuple[tuple[int, int], ...], sizes: list[int], budgets: list[int],
        staged: bool,
    ) -> None:  # fmt: skip
        import networkx as nx  # slow to import, and most problems have one memory

        platform, order = problem.platform, problem.instance.order
        self.n, self.memories = len(order), range(len(platform.memories))
        self.sizes, self.budgets, self.staged = sizes, budgets, staged
        self.readers: list[list[int]] = [[] for _ in order]
        for tail, head in edges:
            self.readers[tail - 1].append(head - 1)
        self.computable = [[memory.computes(v) for memory in platform.memories] for v in order]
        links = nx.DiGraph(list(platform.link_between))
        links.add_nodes_from(self.memories)
        self.leading_to = [{m} | nx.ancestors(links, m) for m in self.memories]
        self.most = [
            [self._at_first(k, m, problem.most_intervals(v, m)) for m in self.memories] for k, v in enumerate(order)
        ]

    def _at_first(self, k: int, m: int, most: int) -> int:
        """Intervals without regard to the other nodes."""
        if not self.readers[k]:
            return int(self.computable[k][m])  # a copy of what nothing reads is of no use
        if not any(self.computable[k][p] for p in self.leading_to[m]) or self.sizes[k] > self.budgets[m]:
            return 0
        return most if self.sizes[k] > 0 else min(1, most)

    def found(self) -> tuple[list[list[int]], list[list[int]], list[int]]:
        """Intervals, and first stage of further ones, by node and memory; last stage by node. Stages are from 1."""
        while True:
            latest = self._last_reads()
            again = [[self.n] * len(self.memories) for _ in range(self.n)]
            possible = [list(counts) for counts in self.most]
            for m in self.memories:
                crowded = self._next_crowded(m, latest)
                for k in range(self.n):
                    first = crowded[k + 2] if self.staged else (1 if crowded[1] <= self.n else self.n + 1)
                    last = latest[k] if self.staged else self.n
                    again[k][m] = min(first, self.n)
                    room = max(0, last - first + 1) if self.staged else (self.most[k][m] if first <= last else 0)
                    possible[k][m] = min(self.most[k][m], 1 + room)
            if possible == self.most:
                return self.most, again, latest
            self.most = possible

    def _last_reads(self) -> list[int]:
        """The last stage, from 1, in which each output can be read, computed or copied; with free events all are n."""
        if not self.staged:
            return [self.n] * self.n
        latest = [0] * self.n
        for k in range(self.n - 1, -1, -1):
            reads = [latest[x] if self._again(x) else x + 1 for x in self.readers[k]]
            latest[k] = max(reads, default=k + 1)
        return latest

    def _again(self, k: int) -> bool:
        return sum(count for m, count in enumerate(self.most[k]) if self.computable[k][m]) > 1

    def _next_crowded(self, m: int, latest: list[int]) -> list[int]:
        """Find for stages 1..n + 1 the next one, or itself, in which not all that may be read fits; n + 1: none."""
        sizes = [size if counts[m] else 0 for size, counts in zip(self.sizes, self.most, strict=True)]
        memory = sums_of_ranges(sizes, ((k if self.staged else 0, last - 1) for k, last in enumerate(latest)))
        return [0, *(stage + 1 for stage in next_crowded(memory, self.budgets[m]))]


# --- Retention intervals in several memories as arrays of the models, from and to plans -----------------------


COMPUTED = 0
"""Source of what is computed; memories are numbered from 1 in the models."""


@dataclass(frozen=True)
class PlacedIntervals:
    """Values of the models' arrays, one entry for each of `DevicesData.intervals`; intervals of events are closed."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    source: tuple[int, ...] = ()
    """`COMPUTED`, or the memory, from 1, that it is copied from."""


def decode(data: DevicesData, intervals: PlacedIntervals) -> Plan:
    """The plan a solution stands for: its active intervals by start."""
    rows = zip(intervals.active, intervals.start, data.intervals, intervals.source, strict=True)
    actions = sorted((start, v, m, source) for active, start, (v, m, _), source in rows if active)
    return tuple(
        Action(data.order[v - 1], m, None if source == COMPUTED else source - 1) for _, v, m, source in actions
    )


def encode(data: DevicesData, plan: Plan) -> PlacedIntervals | None:
    """The solution that stands for a plan which the judge accepts; inverse of `decode`. None: there is no such one.

    A plan with actions of no use, which the data has no place for, is encoded without them.
    """
    platform = data.problem.platform
    plan = pruned_plan(platform, plan)
    while True:
        stages = stages_of_plan(data.order, len(platform.memories), plan) if data.staged else [1] * len(plan)
        if len(stages) < len(plan):
            return None
        copies, needless = _copies(data, plan, stages)
        if needless is None:
            return _arrays(data, plan, stages, copies)
        shorter = (*plan[: needless - 1], *plan[needless:])
        if judge_plan(platform, shorter, data.problem.goal).violations:
            return None
        plan = pruned_plan(platform, shorter)


def arrays_of_plan(data: DevicesData, plan: Plan) -> PlacedIntervals:
    """The solution with free events that stands for a plan as it is; the data has room for all of it."""
    stages = [1] * len(plan)
    return _arrays(data, plan, stages, _copies(data, plan, stages)[0])


Copies = dict[tuple[int, int], list[PlacedInterval]]


def _copies(data: DevicesData, plan: Plan, stages: Sequence[int]) -> tuple[Copies, int | None]:
    """Intervals by node, from 1, and memory; and the position of the first one that the data has no place for."""
    number = {v: k for k, v in enumerate(data.order, 1)}
    copies: Copies = defaultdict(list)
    for interval in judge_plan(data.problem.platform, plan).intervals:
        v, m = number[interval.node], interval.memory
        copies[v, m].append(interval)
        rank, stage = len(copies[v, m]), stages[interval.start - 1]
        known = rank <= data.most[v - 1][m]
        if not known or (data.staged and not data.earliest(v, m, rank) <= stage <= data.latest[v - 1]):
            return copies, interval.start
    return copies, None


def _arrays(data: DevicesData, plan: Plan, stages: Sequence[int], copies: Copies) -> PlacedIntervals:
    number = {v: k for k, v in enumerate(data.order, 1)}
    n, memories = len(data.order), len(data.problem.platform.memories)
    events: Sequence[int] = range(1, len(plan) + 1)
    if data.staged:
        events = [
            event(n, memories, stage, number[action.node], action.memory, action.source is not None)
            for stage, action in zip(stages, plan, strict=True)
        ]
    rows = []
    unused = len(plan)  # free events: inactive intervals take the events after the last
    for v, m, rank in data.intervals:
        if rank <= len(copies[v, m]):
            found = copies[v, m][rank - 1]
            source = COMPUTED if found.source is None else found.source + 1
            rows.append((True, events[found.start - 1], events[found.end - 1], source))
            continue
        unused += 1
        place = event(n, memories, data.earliest(v, m, rank), v, m, True) if data.staged else unused
        rows.append((False, place, place, COMPUTED))
    return PlacedIntervals(*zip(*rows, strict=True))


# --- Plans in stages of the input order; see `models/lib/devices_staged.mzn`, which draws them ----------------

# Stage k ends with the first computation of node k, on one device or several, and copies of its output. Before that
# come nodes 1..k-1, in input order; of each first its computations, then its copies, both by memory. After the last
# stage there is nothing.


def stages_of_plan(order: Sequence[int], memories: int, plan: Sequence[Action]) -> list[int]:
    """The stage, from 1, of each action, up to the first action that is out of place: shorter than the plan then.

    Args:
        order: the input order, positions in `graph.nodes`.
        memories: how many the platform has.
        plan: of known nodes and memories.
    """
    number = {v: k for k, v in enumerate(order, 1)}
    stages: list[int] = []
    stage, ended, latest, brought = 1, False, (0, 0), set[tuple[int, int]]()
    for action in plan:
        k, copied = number[action.node], action.source is not None
        key, place = (k, action.memory + memories * copied), (k, action.memory)
        if k > stage or key <= latest or place in brought:
            if not ended or k > stage + 1 or stage == len(order):
                break
            stage, ended, latest, brought = stage + 1, False, (0, 0), set()
        if k == stage and not copied:
            ended = True
        stages.append(stage)
        brought.add(place)
        latest = key
    return stages


def event(nodes: int, memories: int, stage: int, number: int, memory: int, copied: bool) -> int:
    """The event of an action; `stage` and `number` count from 1, `memory` from 0."""
    return 2 * memories * (nodes * (stage - 1) + number - 1) + memory + 1 + memories * copied
