"""The data of the models of one device with several memories, and plans as their arrays.

Costs of a computation are its duration, a read of each input and a write of each output of its operation; the last two
depend on the memories. Nodes are renumbered along the input order, and all numbers divided by their greatest common
divisors.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.formulations.retention import interval_rows, staged_events, unused_events
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Plan, Platform
from moccasin_mzn.problem.stages import next_crowded, sums_of_ranges


@dataclass(frozen=True)
class PoolsData:
    """The items that `models/lib/instance.mzn` and `models/lib/pools_header.mzn` declare."""

    problem: PlanProblem
    model: ModelData
    """The instance; its budget is that of all memories together; its durations are not used."""
    scale: int
    """Costs times this are in the graph's duration unit."""
    budgets: tuple[int, ...]
    """What each memory holds, in units of `model.size_scale`; no more than all outputs and a workspace take."""
    compute: tuple[int, ...]
    """What computing each node takes, without accesses, along the order."""
    access: tuple[tuple[int, ...], ...]
    """What an access to the output of each node takes, by memory."""
    joined: tuple[tuple[int, int], ...] = ()
    """Pairs of edges, by number from 1, over which one node reads what is read as one."""

    def most(self) -> tuple[int, ...]:
        """The most that all computations of each node take with writes of its output, and all reads of that."""
        counts, highest = self.model.max_computations, [max(column) for column in zip(*self.access, strict=True)]
        first = [of or v for v, of in enumerate(self.model.output_of or (0,) * len(counts), 1)]
        rows = zip(counts, first, self.compute, highest, strict=True)
        totals = [max(c, counts[f - 1]) * (w + a) for c, f, w, a in rows]
        for tail, head in self.model.edges:
            totals[tail - 1] += counts[head - 1] * highest[tail - 1]
        return tuple(totals)


def budgets_of(platform: Platform) -> tuple[int, ...]:
    """What each memory holds, in the graph's size unit; no more than all outputs and a workspace take."""
    graph = platform.graph
    everything = graph.total_size + max(graph.workspace_of)
    return tuple(everything if one.budget is None else min(one.budget, everything) for one in platform.memories)


def fastest(platform: Platform) -> int | None:
    """The first memory in which no access takes more than in another one; None if absent."""
    rows = [[memory.access(v) for v in range(len(platform.graph.nodes))] for memory in platform.memories]
    least = [min(column) for column in zip(*rows, strict=True)]
    return next((m for m, row in enumerate(rows) if row == least), None)


def one_memory(problem: PlanProblem) -> Instance:
    """The problem with all memories as one, in which every access takes what it takes where that is least. The schedule
    of a plan takes no longer there: what is proven of this problem is proven."""
    platform, graph = problem.platform, problem.graph
    least = [min(memory.access(v) for memory in platform.memories) for v in range(len(graph.nodes))]
    durations = tuple(
        0 if graph.operation_of[v] != v
        else platform.memories[0].cost(v)[0] + sum(least[u] for u in (v, *graph.outputs_of[v], *graph.predecessors[v]))
        for v in range(len(graph.nodes))
    )  # fmt: skip
    return replace(problem.instance, graph=replace(graph, durations=durations), budget=sum(budgets_of(platform)))


def pools_data(problem: PlanProblem, staged: bool) -> PoolsData:
    """Reduce a problem without losing a best plan.

    A node is computed once if no stage from its computation to its last read is crowded, where all that may be there
    then takes more than the first memory in which accesses take least: its output may lie there all the time. That it
    was in memory all the time between two computations is not enough, as it may have been in a slow one. Of an
    operation that holds for all outputs or for none, and for nothing that is read as one with others: these have to be
    where it is.
    """
    platform, order = problem.platform, problem.instance.order
    model = presolve(replace(problem.instance, budget=0), staged)
    budgets = tuple(budget // model.size_scale for budget in budgets_of(platform))
    compute = [platform.memories[0].cost(v)[0] for v in order]
    access = [[memory.access(v) for v in order] for memory in platform.memories]
    scale = math.gcd(*compute, *(amount for row in access for amount in row)) or 1
    fast = fastest(platform)
    counts = model.max_computations
    if staged and fast is not None:
        workspace = max(model.workspace, default=0)
        memory = sums_of_ranges(model.size, [(k, late - 1) for k, late in enumerate(model.latest_stage)])
        crowded = next_crowded([used + workspace for used in memory], budgets[fast])
        joined = {u for groups in problem.graph.adjacent or () for group in groups for u in group}
        late = zip(order, crowded, model.latest_stage, strict=False)
        again = {problem.graph.operation_of[v] for v, first, last in late if first < last or v in joined}
        rows = zip(order, counts, strict=True)
        counts = tuple(count if problem.graph.operation_of[v] in again else 1 for v, count in rows)
    everything = sum(model.size) + max(model.workspace, default=0)
    together = min(sum(budgets), everything)  # more is of no use, and may be more than a solver's integers
    model = replace(model, budget=together, max_computations=counts, critical_stage=frozenset())
    return PoolsData(
        problem, model, scale, budgets, tuple(amount // scale for amount in compute),
        tuple(tuple(amount // scale for amount in row) for row in access), _joined(problem, model),
    )  # fmt: skip


def _joined(problem: PlanProblem, model: ModelData) -> tuple[tuple[int, int], ...]:
    """See `PoolsData.joined`."""
    number = {v: k for k, v in enumerate(model.order, 1)}
    edge = {ends: at for at, ends in enumerate(model.edges, 1)}
    pairs = (
        ((u, v), (w, v))
        for v, groups in enumerate(problem.graph.adjacent or ())
        for group in groups
        for u, w in pairwise(group)
    )
    return tuple(tuple(edge[number[u], number[v]] for u, v in pair) for pair in pairs)  # type: ignore[misc]


# --- Plans as arrays of the models, and back ------------------------------------------------------------------


@dataclass(frozen=True)
class PooledIntervals:
    """Values of the models' arrays, one entry per possible interval; events are closed and from 1."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    memory: tuple[int, ...] = ()
    """The memory, from 1; 0: the interval is not active."""


def decode(data: ModelData, intervals: PooledIntervals) -> Plan:
    """The plan a solution stands for: its active intervals by start."""
    columns = (intervals.active, intervals.start, intervals.memory, data.computation_nodes)
    steps = sorted((start, node, m) for active, start, m, node in zip(*columns, strict=True) if active)
    return tuple(Action(data.order[node - 1], m - 1) for _, node, m in steps)


def encode(platform: Platform, data: ModelData, plan: Plan, staged: bool) -> PooledIntervals:
    """The solution that stands for a plan, with every interval ending at its last read; inverse of `decode`.

    What `data` has no room for is left out: then the result is no solution, and still worth starting from.
    """
    events = staged_events(data, [of.node for of in plan]) if staged else range(1, len(plan) + 1)
    copies: list[list[tuple[int, int, int]]] = [[] for _ in platform.graph.nodes]
    for of in judge_plan(platform, plan).intervals:
        copies[of.node].append((events[of.start - 1], events[of.end - 1], of.memory + 1))
    present = [copies[v][:most] for v, most in zip(data.order, data.max_computations, strict=True)]
    rows = interval_rows(data, present, unused_events(data, len(plan), staged), (0,))
    return PooledIntervals(*map(tuple, zip(*rows, strict=True)))


def with_room_for(data: PoolsData, plan: Plan) -> PoolsData:
    """Data of free events that has exactly the intervals of a plan."""
    used = Counter(action.node for action in plan)
    counts = tuple(used[v] for v in data.model.order)
    return replace(data, model=replace(data.model, max_computations=counts))
