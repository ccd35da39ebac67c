"""The models of one device with several memories, as the chain for plans takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import ClassVar

from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.formulations import Intervals, find_formulation
from moccasin_mzn.formulations.checkers import CheckError, run_checker
from moccasin_mzn.formulations.searched import PlanFormulation, Solution
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.machine.pools.data import (
    PooledIntervals,
    PoolsData,
    budgets_of,
    decode,
    encode,
    fastest,
    one_memory,
    pools_data,
    with_room_for,
)
from moccasin_mzn.problem.features import OF_PLANS, Feature, Features
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.stages import Stages, first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum


@dataclass(frozen=True)
class PoolsFormulation(PlanFormulation[PoolsData]):
    """The memories that outputs lie in together with what is recomputed."""

    name: ClassVar[str] = "pools"
    subject: ClassVar[str] = "memories of one device are"
    handles: ClassVar[Features] = OF_PLANS - {Feature.PAGING, Feature.DEVICES, Feature.GOALS}
    verdict: ClassVar[re.Pattern[str]] = re.compile(r"CORRECT: cost (\d+), peaks ([\d ]+)")
    checker: ClassVar[str] = "pools.mzc.mzn"

    def data(self, problem: PlanProblem) -> PoolsData:
        self.refuse_others(problem)
        return pools_data(problem, self.staged)

    def data_items(self, data: PoolsData, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Value]:
        start = PooledIntervals()
        if incumbent is not None:
            start = encode(data.problem.platform, data.model, incumbent, self.staged)
        known = Intervals(start.active, start.start, start.end) if start.active else None
        most, limits = sum(data.most()), [data.problem.goal.max_duration, limit]
        return {
            **find_formulation("general").data_items(data.problem.graph, data.model, known),
            "memories": len(data.budgets),
            "memory_budget": data.budgets,
            "compute_cost": data.compute,
            "access_cost": data.access,
            "joined": [one for one, _ in data.joined],
            "joined_to": [other for _, other in data.joined],
            "cost_limit": min(most, *(amount // data.scale for amount in limits if amount is not None), most),
            "incumbent_memory": start.memory,
        }

    def sums(self, data: PoolsData) -> tuple[Sum, ...]:
        form = find_formulation("staged" if self.staged else "general")
        sizes = (one for one in form.sums(data.model) if one.what == "size")
        return (Sum("duration", data.most(), data.model.order, data.scale), *sizes)

    def plan(self, data: PoolsData, values: Solution) -> Plan:
        memory = tuple(sum(m for m, lies in enumerate(column, 1) if lies) for column in zip(*values.lies, strict=True))
        return decode(data.model, PooledIntervals(tuple(values.active), tuple(values.start), tuple(values.end), memory))

    def objective(self, data: PoolsData, value: int) -> int:
        return value * data.scale

    def solution_items(self, data: PoolsData, values: Solution) -> dict[str, Value]:
        arrays = {name: tuple(getattr(values, name)) for name in ("active", "start", "end")}
        return {**arrays, "lies": [tuple(row) for row in values.lies], "total_cost": values.total_cost}

    def first_out_of_stage(self, problem: PlanProblem, plan: Plan) -> int | None:
        return first_out_of_stage(problem.instance.order, [action.node for action in plan])

    def instant_bound(self, problem: PlanProblem) -> int:
        return instant_bound(problem) if self.staged else 0

    def check_plan(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
        """Have a plan in any order checked, as retention intervals of free events; the verdict in one line.

        Raises:
            CheckError: it is rejected, or its cost or peaks differ from the judge's.
            InputError: MiniZinc is missing or failed.
        """
        data = with_room_for(self.data(problem), plan)
        intervals = encode(problem.platform, data.model, plan, staged=False)
        items = {name: value for name, value in vars(intervals).items() if name != "memory"}
        lies = [[m == memory for m in intervals.memory] for memory in range(1, len(data.budgets) + 1)]
        total = simulation.duration // data.scale
        verdict = run_checker(self.checker, {**self.data_items(data), **items, "lies": lies, "total_cost": total})
        found = self.verdict.fullmatch(verdict)
        if found is None:
            raise CheckError(f"{self.checker} rejects the plan: {verdict}")
        cost = int(found[1]) * data.scale
        peaks = [int(text) * data.model.size_scale for text in found[2].split()]
        if (cost, peaks) != (simulation.duration, [*simulation.peaks]):
            raise CheckError(f"{self.checker} finds {cost} and peaks {peaks}, the judge {simulation.duration} and "
                             f"{[*simulation.peaks]}")  # fmt: skip
        graph = problem.graph
        places = " and ".join(memory_text(peak, graph.size_unit) for peak in peaks)
        return f"{self.checker}: CORRECT: duration {total_text(graph, 'duration', cost)}, peaks {places}"

    def search(
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        from moccasin_mzn.machine.pools.search import PoolsSearch

        PoolsSearch(problem, seed).run(offer, stop, better)


# --- The instant bound ----------------------------------------------------------------------------------------

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
