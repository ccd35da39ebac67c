"""The models of all platforms of several memories, as the chain for plans takes them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import add
from typing import ClassVar

from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.formulations.checkers import CheckError, run_checker
from moccasin_mzn.formulations.formulation import header
from moccasin_mzn.formulations.searched import PlanFormulation, Solution
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.machine.data import (
    COMPUTED,
    MachineData,
    PlacedIntervals,
    StageSlots,
    arrays_of_plan,
    decode,
    encode,
    machine_data,
    stages_of_plan,
)
from moccasin_mzn.machine.pools.bound import instant_bound
from moccasin_mzn.problem.features import OF_PLANS, Features
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Plan
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum

NO_INCUMBENT = PlacedIntervals()


@dataclass(frozen=True)
class MachineFormulation(PlanFormulation[MachineData]):
    """Where each node is computed and its output lies, what is copied where, and what is recomputed, decided together.

    What the staged form leaves out stands in `lib/machine_staged.mzn`.
    """

    name: ClassVar[str] = "machine"
    subject: ClassVar[str] = "several memories are"
    handles: ClassVar[Features] = OF_PLANS
    verdict: ClassVar[re.Pattern[str]] = re.compile(
        r"CORRECT: duration (\d+), energy (\d+), traffic (\d+), peaks ([\d ]+)"
    )
    checker: ClassVar[str] = "machine.mzc.mzn"

    def data(self, problem: PlanProblem) -> MachineData:
        self.refuse_others(problem)
        return machine_data(problem, self.staged)

    def data_items(
        self, data: MachineData, incumbent: Plan | None = None, limit: int | None = None
    ) -> dict[str, Value]:
        """Return the items of the `.dzn` file. An incumbent without a place in them is left out, not its limit."""
        start = (encode(data, incumbent) if incumbent else None) or NO_INCUMBENT
        links = data.problem.platform.links
        return {
            **_header(data),
            "incumbent_active": start.active,
            "incumbent_start": start.start,
            "incumbent_end": start.end,
            "memories": len(data.budgets),
            "memory_budget": data.budgets,
            "devices": max(data.slots.devices) + 1,
            "device": [d + 1 for d in data.slots.devices],
            "access_cost": data.accesses,
            "joined": [one for one, _ in data.joined],
            "joined_to": [other for _, other in data.joined],
            "compute_duration": data.durations,
            "compute_energy": data.energies,
            "links": len(links),
            "source": [link.source + 1 for link in links],
            "target": [link.target + 1 for link in links],
            "copy_duration": data.copy_durations,
            "copy_energy": data.copy_energies,
            "most_copies": data.most,
            "computed_once": {k for k, v in enumerate(data.order, 1) if v in data.problem.graph.computed_once},
            "earliest_again": data.earliest_again,
            "goal": 1 + OBJECTIVES.index(data.problem.goal.objective),
            "limit": _limits(data, limit),
            "incumbent_source": start.source,
            "incumbent_memory": start.memory,
        }

    def sums(self, data: MachineData) -> tuple[Sum, ...]:
        amounts = map(add, data.sizes, data.workspaces) if data.workspaces else data.sizes
        sizes = tuple(amount * sum(most) for amount, most in zip(amounts, data.most, strict=True))
        totals = [
            Sum(what, _most(data, what), data.order, scale) for what, scale in zip(OBJECTIVES, data.scales, strict=True)
        ]
        return (*totals, Sum("size", sizes, data.order, data.scales[-1]))

    def plan(self, data: MachineData, values: Solution) -> Plan:
        sources = [link.source + 1 for link in data.problem.platform.links]
        rows = values.copied if sources else [()] * len(values.active)
        source = tuple(next((s for s, copied in zip(sources, row, strict=True) if copied), COMPUTED) for row in rows)
        memory = tuple(next((m for m, lies in enumerate(row, 1) if lies), 0) for row in values.lies)
        intervals = (tuple(column) for column in (values.active, values.start, values.end))
        return decode(data, PlacedIntervals(*intervals, source=source, memory=memory))

    def objective(self, data: MachineData, value: int) -> int:
        return value * data.scale

    def first_out_of_stage(self, problem: PlanProblem, plan: Plan) -> int | None:
        in_stages = len(stages_of_plan(StageSlots.of(problem), plan))
        return None if in_stages == len(plan) else in_stages + 1

    def search(
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        if is_one_device(problem):
            from moccasin_mzn.machine.pools.search import PoolsSearch

            return PoolsSearch(problem, seed).run(offer, stop, better)
        from moccasin_mzn.machine.devices.search import search_plans

        search_plans(problem, seed, offer, stop, better)

    def instant_bound(self, problem: PlanProblem) -> int:
        return instant_bound(problem) if self.staged and is_one_device(problem) else 0

    def solution_items(self, data: MachineData, values: Solution) -> dict[str, Value]:
        arrays = {name: tuple(getattr(values, name)) for name in ("active", "start", "end", "computed")}
        totals = {f"total_{what}": getattr(values, f"total_{what}") for what in OBJECTIVES}
        return {
            **arrays,
            **{name: [tuple(row) for row in getattr(values, name)] for name in ("copied", "lies")},
            **totals,
        }

    def check_plan(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
        data = with_room_for(self.data(problem), plan)
        solution = plan_solution(data, arrays_of_plan(data, plan), simulation)
        return check_plan(self, data, {**self.data_items(data), **solution}, simulation)


def is_one_device(problem: PlanProblem) -> bool:
    """True if one device reads and writes in all memories."""
    return problem.platform.has_accesses and not any(problem.platform.devices)


def _header(data: MachineData) -> dict[str, Value]:
    """Return the items that `models/lib/instance.mzn` declares; these models use the graph, and the last stages."""
    durations = [min(cost for cost in costs if cost >= 0) for costs in data.durations]
    graph = data.problem.platform.graph
    items = header(graph, data.order, durations, data.sizes, data.edges, data.budget)
    items |= {"workspace": data.workspaces} if data.workspaces else {}
    items |= {"in_place": data.in_place} if data.in_place else {}
    items |= {"output_of": data.output_of} if data.output_of else {}
    return {**items, "latest_stage": data.latest, "input_order_memory": data.input_order_memory}


def _limits(data: MachineData, objective_limit: int | None) -> list[int]:
    """Return each total's limit, in the data's unit: the goal's, the incumbent's value, or what no plan is over."""
    goal, limits = data.problem.goal, []
    for what, scale in zip(OBJECTIVES, data.scales, strict=True):
        known = [goal.limit(what), objective_limit if what == goal.objective else None]
        limits.append(min(sum(_most(data, what)), *(limit // scale for limit in known if limit is not None), 2**60))
    return limits


def _most(data: MachineData, what: str) -> list[int]:
    """Return what all intervals of each node together take at most, with all reads of its output."""
    links, of = data.problem.platform.links, data.slots.devices
    totals = [0] * len(data.order)
    for v, d, _ in data.intervals:
        ways = [data.durations[v - 1][d] if what == "duration" else data.energies[v - 1][d], 0]
        if what == "traffic":
            ways = [data.sizes[v - 1] if any(of[link.target] == d for link in links) else 0]
        else:
            costs = data.copy_durations if what == "duration" else data.copy_energies
            ways += [costs[at][v - 1] for at, link in enumerate(links) if of[link.target] == d]
        totals[v - 1] += max(ways)
    if what == "duration":
        highest = [max(column) for column in zip(*data.accesses, strict=True)]
        first = [of or v for v, of in enumerate(data.output_of or (0,) * len(totals), 1)]
        for v, access in enumerate(highest, 1):
            totals[v - 1] += access * sum(data.most[first[v - 1] - 1])
        for tail, head in data.edges:
            totals[tail - 1] += highest[tail - 1] * sum(data.most[head - 1])
    return totals


# --- The second judge of plans on several devices: the solution checker, run by MiniZinc ----------------------


def with_room_for(data: MachineData, plan: Plan) -> MachineData:
    """Data of free events that has exactly the intervals of a plan."""
    of = data.slots.devices
    opened = Counter((action.node, of[action.memory]) for action in plan)
    return replace(data, staged=False, most=tuple(tuple(opened[v, d] for d in range(max(of) + 1)) for v in data.order))


def plan_solution(data: MachineData, intervals: PlacedIntervals, simulation: PlanSimulation) -> dict[str, Value]:
    """The arrays of a solution, as the checker takes them, of a plan's intervals and its account."""
    links, memories = data.problem.platform.links, range(1, len(data.budgets) + 1)
    rows = zip(intervals.active, intervals.source, intervals.memory, strict=True)
    return {
        "active": intervals.active,
        "start": intervals.start,
        "end": intervals.end,
        "computed": [a and s == COMPUTED for a, s in zip(intervals.active, intervals.source, strict=True)],
        "copied": [
            [active and (source, m) == (link.source + 1, link.target + 1) for link in links]
            for active, source, m in rows
        ],
        "lies": [[m == memory for memory in memories] for m in intervals.memory],
        **{f"total_{what}": simulation.total(what) // s for what, s in zip(OBJECTIVES, data.scales, strict=True)},
    }


def check_plan(form: MachineFormulation, data: MachineData, items: dict[str, Value], simulation: PlanSimulation) -> str:
    """Have the checker judge a plan; the verdict in one line, in the problem's units.

    Args:
        items: data and arrays.

    Raises:
        CheckError: it is rejected, or has other figures than the judge's.
        InputError: MiniZinc is missing or failed.
    """
    verdict = run_checker(form.checker, items)
    found = form.verdict.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{form.checker} rejects the plan: {verdict}")
    totals = [int(amount) * scale for amount, scale in zip(found.groups()[:3], data.scales, strict=True)]
    peaks = [int(peak) * data.scales[2] for peak in found[4].split()]
    judged = [simulation.total(what) for what in OBJECTIVES]
    if totals != judged or peaks != list(simulation.peaks):
        raise CheckError(
            f"{form.checker} finds totals {totals} and peaks {peaks}, the judge {judged} and {simulation.peaks}"
        )
    graph = data.problem.platform.graph
    figures = [f"{what} {total_text(graph, what, total)}" for what, total in zip(OBJECTIVES, totals, strict=True)]
    figures.append("peaks " + " and ".join(memory_text(peak, graph.size_unit) for peak in peaks))
    return f"{form.checker}: CORRECT: {', '.join(figures)}"
