"""The data of the models of paging: the problem without slow memory, and costs by node along the input order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import itemgetter

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.retention import interval_rows, staged_events, unused_events
from moccasin_mzn.machine.platforms import LOCAL, SLOW
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Action, Plan, Platform


@dataclass(frozen=True)
class Total:
    """One of the totals of a plan that matter, in a unit of its own; costs by node along the input order."""

    what: str
    scale: int
    """Costs times this are in the problem's unit."""
    compute: tuple[int, ...]
    write: tuple[int, ...]
    read: tuple[int, ...]
    limit: int = 0

    def most(self, model: ModelData) -> tuple[int, ...]:
        """Return its largest value by node, with as many intervals as it may have."""
        rows = zip(self.compute, self.write, self.read, model.max_computations, strict=True)
        return tuple(max(compute, read) * most + write for compute, write, read, most in rows)


@dataclass(frozen=True)
class PagingData:
    """The items that `models/lib/instance.mzn` and `models/lib/paging_header.mzn` declare."""

    problem: PlanProblem
    model: ModelData
    totals: tuple[Total, ...]
    """The objective first."""
    slow_capacity: int
    """In units of `model.size_scale`."""
    pageable: bool


def local_instance(problem: PlanProblem) -> Instance:
    """The problem without slow memory.

    Raises:
        InputError: the platform is not one memory that computes all nodes and one that computes none, in this order.
    """
    memories = problem.platform.memories
    if len(memories) != 2 or memories[SLOW].durations is not None:
        names = ", ".join(memory.name for memory in memories)
        raise InputError(f"memories {names}: paging is for one that computes and, second, one that does not")
    graph = problem.platform.graph
    budget, everything = memories[LOCAL].budget, graph.total_size + max(graph.workspace_of)
    return replace(problem.instance, budget=everything if budget is None else min(budget, everything))


def can_page(problem: PlanProblem) -> bool:
    return {(LOCAL, SLOW), (SLOW, LOCAL)} <= set(problem.platform.link_between)


def totals_of(problem: PlanProblem, model: ModelData) -> tuple[Total, ...]:
    """The objective, and what else has a limit."""
    goal = problem.goal
    limited = [what for what in OBJECTIVES if goal.limit(what) is not None and what != goal.objective]
    return tuple(_total(problem, model, what) for what in (goal.objective, *limited))


def costs_of(problem: PlanProblem, what: str) -> tuple[list[int], list[int], list[int]]:
    """One total's costs of computing, writing and reading back each node, by position in `graph.nodes`."""
    platform, n = problem.platform, len(problem.platform.graph.nodes)
    links = [platform.link_between.get(ends) for ends in ((LOCAL, SLOW), (SLOW, LOCAL))]
    if what == "traffic":
        return [0] * n, [*platform.graph.sizes], [*platform.graph.sizes]
    key = "durations" if what == "duration" else "energies"
    compute = getattr(platform.memories[LOCAL], key)
    out, back = ([0] * n if link is None else [*getattr(link, key)] for link in links)
    return [*compute], out, back


def _total(problem: PlanProblem, model: ModelData, what: str) -> Total:
    rows = [[row[v] for v in model.order] for row in costs_of(problem, what)]
    scale = reduce(math.gcd, (cost for row in rows for cost in row), 0) or 1
    compute, out, back = (tuple(cost // scale for cost in row) for row in rows)
    total = Total(what, scale, compute, out, back)
    limit, given = sum(total.most(model)), problem.goal.limit(what)
    return replace(total, limit=limit if given is None else min(limit, given // scale))


# --- Plans of paging as arrays of the models (see `models/lib/paging.mzn`), and back --------------------------


@dataclass(frozen=True)
class PagedIntervals:
    """Values of the models' arrays, one entry per possible interval in local memory; events are closed and from 1."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    paged: tuple[bool, ...] = ()
    """Is it read back, not computed?"""
    overwritten: tuple[bool, ...] = ()
    """Is it written over at `end`? Then it is written to slow memory before that."""


def decode_plan(data: ModelData, intervals: PagedIntervals) -> Plan:
    """The plan a solution stands for."""
    columns = vars(intervals).values()
    rows = zip(*columns, data.computation_nodes, strict=True)
    return plan_with_writes(
        (start, end, data.order[node - 1], back, over) for active, start, end, back, over, node in rows if active
    )


def plan_with_writes(local: Iterable[tuple[int, int, int, bool, bool]]) -> Plan:
    """The plan of intervals in local memory: an output is written right after the one before the first one read back,
    or right before its last event, if that writes over it.

    Args:
        local: start, end, node, whether it is read back, and whether it is written over; those of a node by start.
    """
    steps: list[tuple[int, int, Action]] = []
    latest, written = dict[int, tuple[int, int]](), set[int]()
    for start, end, v, back, over in local:
        if back and v not in written:
            written.add(v)
            steps.append((*latest[v], Action(v, SLOW, LOCAL)))
        steps.append((start, 0, Action(v, LOCAL, SLOW if back else None)))
        latest[v] = end, -1 if over else 1
    return tuple(action for _, _, action in sorted(steps, key=itemgetter(0, 1)))


def encode_plan(platform: Platform, data: ModelData, plan: Plan, staged: bool) -> PagedIntervals:
    """The solution that stands for a plan, with every interval ending at its last read; inverse of `decode_plan`.

    What `data` has no room for is left out: then the result is no solution, and still worth starting from.
    """
    local = [action for action in plan if action.memory == LOCAL]
    count, before = 0, []  # local actions at or before each position of the plan
    for action in plan:
        count += action.memory == LOCAL
        before.append(count)
    events: Sequence[int] = range(1, len(local) + 1)
    if staged:
        events = staged_events(data, [action.node for action in local])
    copies: list[list[tuple[int, int, bool, bool]]] = [[] for _ in platform.graph.nodes]
    judged = judge_plan(platform, plan)
    for of in judged.intervals:
        if of.memory == LOCAL:
            first, last = events[before[of.start - 1] - 1], events[before[of.end - 1] - 1]
            copies[of.node].append((first, last, of.source is not None, (of.end, of.node) in judged.overwrites))
    present = [copies[v][:most] for v, most in zip(data.order, data.max_computations, strict=True)]
    rows = interval_rows(data, present, unused_events(data, len(local), staged), (False, False))
    return PagedIntervals(*map(tuple, zip(*rows, strict=True)))
