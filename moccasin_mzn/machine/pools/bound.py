"""What is known at once of one device with several memories: as one memory, and which of them is the fastest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cmp_to_key

from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total
from moccasin_mzn.problem.platform import Platform
from moccasin_mzn.problem.stages import Stages


def budgets_of(platform: Platform) -> tuple[int, ...]:
    """What each memory holds, in the graph's size unit; no more than all outputs and a workspace take."""
    graph = platform.graph
    everything = graph.total_size + max(graph.workspace_of)
    return tuple(everything if one.budget is None else min(one.budget, everything) for one in platform.memories)


def fastest(platform: Platform, device: int = 0) -> int | None:
    """The first memory of a device in which no access takes more than in another one there; None if absent.

    Args:
        device: its first memory.
    """
    nodes = range(len(platform.graph.nodes))
    rows = {m: [platform.memories[m].access(v) for v in nodes] for m, of in enumerate(platform.devices) if of == device}
    least = [min(column) for column in zip(*rows.values(), strict=True)]
    return next((m for m, row in rows.items() if row == least), None)


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


# What is too much at a stage of the input order for all memories together must come again, as in one memory. What is
# too much for the fastest one must come again or lie in another one, where it is written and read at least once:
#
#     stage           1 ....... k ....... n
#     in fast         [=======================]      room for so much of what is read at k or later
#     in slow               [=============]          two accesses there at least, one for the output of k itself
#     dropped         [===]         [=======]        one more computation at least
#
# So the cheaper of both for each output, those first that cost least for their size, is what that takes at least.


def instant_bound(problem: PlanProblem) -> int:
    """No plan in stages of the input order has less of the objective; 0 if there is no plan."""
    together = one_memory(problem)
    stages = Stages.of(together.relaxed)
    extra = cover_bound(stages)
    if extra is None:
        return 0
    extra = max(extra * stages.duration_scale, _outside_of_the_fastest(problem, together.graph.durations))
    return least_total(problem.platform, "duration") + extra


def _outside_of_the_fastest(problem: PlanProblem, again: Sequence[int]) -> int:
    """The least cost that follows because not all of a stage fits the fastest memory, where there is one for all nodes.

    Args:
        again: what another computation of each node takes at least, by position in `graph.nodes`.
    """
    platform, order, graph = problem.platform, problem.instance.order, problem.graph
    nodes, fast = range(len(order)), fastest(platform)
    others = [memory for m, memory in enumerate(platform.memories) if m != fast]
    if fast is None:
        return 0
    room, most = budgets_of(platform)[fast], problem.instance.max_computations
    slower = [
        min((one.access(v) for one in others), default=again[v]) - platform.memories[fast].access(v) for v in nodes
    ]
    number = {v: k for k, v in enumerate(order)}
    last = [max((number[x] for x in graph.successors[v]), default=number[v]) for v in nodes]
    is_read = [all(graph.operation_of[x] == x for x in readers) for readers in graph.successors]  # not for nothing
    best, alive = 0, list[int]()
    for k, v in enumerate(order):
        alive = [u for u in alive if last[u] >= k]
        own = graph.sizes[v] - graph.spared[v]
        needed, excess = {*graph.predecessors[v]}, sum(graph.sizes[u] for u in alive) + own - room
        if excess > 0:
            costs = [(slower[v], own)] if others else []
            for u in alive:
                ways = [(1 + is_read[u]) * slower[u]] if others else []
                ways += [again[u]] if u not in needed and most[u] > 1 else []
                costs += [(min(ways), graph.sizes[u])] if ways else []
            best = max(best, _least_cost(costs, excess))
        alive.append(v)
    return best


def _least_cost(items: Iterable[tuple[int, int]], excess: int) -> int:
    """The least cost of items that have together at least this size, of the last one a part, rounded up."""
    cost = 0
    for each, size in sorted((item for item in items if item[1]), key=cmp_to_key(_by_cost_for_size)):
        if size >= excess:
            return cost - (-each * excess // size)
        cost, excess = cost + each, excess - size
    return cost


def _by_cost_for_size(one: tuple[int, int], other: tuple[int, int]) -> int:
    """Compare two ratios exactly: as floating-point numbers, those of large costs may be in the wrong order."""
    return one[0] * other[1] - other[0] * one[1]
