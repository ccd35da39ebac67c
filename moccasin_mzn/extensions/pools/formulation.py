"""The models of one device with several memories, as the chain for plans takes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.extensions.pools.data import (
    PooledIntervals,
    PoolsData,
    decode,
    encode,
    one_memory,
    pools_data,
    with_room_for,
)
from moccasin_mzn.formatting import memory_text
from moccasin_mzn.formulations import Intervals, find_formulation, models_folder
from moccasin_mzn.formulations.searched import PlanFormulation, Solution
from moccasin_mzn.formulations.solution_checkers import CheckError, run_checker
from moccasin_mzn.graphs.wording import node_text, total_text
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.stages import Stages, first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum


@dataclass(frozen=True)
class PoolsFormulation(PlanFormulation[PoolsData]):
    """The memories that outputs lie in together with what is recomputed.

    Staged, plans are in stages of the input order; general, the order is open, which is exact but for small graphs
    alone.
    """

    staged: bool = True

    name: ClassVar[str] = "pools"
    checker: ClassVar[str] = "pools.mzc.mzn"

    def in_any_order(self) -> PoolsFormulation:
        return PoolsFormulation(staged=False)

    @property
    def file(self) -> Path:
        return models_folder() / f"pools_{'staged' if self.staged else 'general'}.mzn"

    def data(self, problem: PlanProblem) -> PoolsData:
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

    def out_of_scope(self, problem: PlanProblem, plan: Plan) -> str | None:
        found = problem.out_of_scope(plan)
        if found is None and self.staged:
            position = first_out_of_stage(problem.instance.order, [action.node for action in plan])
            if position is not None:
                node = node_text(problem.graph, plan[position - 1].node)
                return f"position {position}: node {node} is out of place in stages of the input order"
        return found

    def instant_bound(self, problem: PlanProblem) -> int:
        """With all memories as one: what the input order retains too much at a stage must come again."""
        if not self.staged:
            return 0
        stages = Stages.of(one_memory(problem))
        extra = cover_bound(stages)
        return 0 if extra is None else least_total(problem.platform, "duration") + extra * stages.duration_scale

    def checked(
        self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation, solution: Mapping[str, Value] | None
    ) -> list[str]:
        from moccasin_mzn.formulations.solution_checkers import check_solution

        verdicts = [check_plan(self.in_any_order(), problem, plan, simulation)]
        return verdicts if solution is None else [*verdicts, check_solution(self.checker, solution, VERDICT)]

    def search(
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        from moccasin_mzn.extensions.pools.search import PoolsSearch

        PoolsSearch(problem, seed).run(offer, stop, better)


# --- The second judge: the solution checker, run by MiniZinc --------------------------------------------------


VERDICT = re.compile(r"CORRECT: cost (\d+), peaks ([\d ]+)")


def check_plan(form: PoolsFormulation, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
    """Have a plan in any order checked, as retention intervals of free events; the verdict in one line.

    Raises:
        CheckError: it is rejected, or its cost or peaks differ from the judge's.
        InputError: MiniZinc is missing or failed.
    """
    data = with_room_for(form.data(problem), plan)
    intervals = encode(problem.platform, data.model, plan, staged=False)
    items = {name: value for name, value in vars(intervals).items() if name != "memory"}
    lies = [[m == memory for m in intervals.memory] for memory in range(1, len(data.budgets) + 1)]
    total = simulation.duration // data.scale
    verdict = run_checker(form.checker, {**form.data_items(data), **items, "lies": lies, "total_cost": total})
    found = VERDICT.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{form.checker} rejects the plan: {verdict}")
    cost = int(found[1]) * data.scale
    peaks = [int(text) * data.model.size_scale for text in found[2].split()]
    if (cost, peaks) != (simulation.duration, [*simulation.peaks]):
        raise CheckError(f"{form.checker} finds {cost} and peaks {peaks}, the judge {simulation.duration} and "
                         f"{[*simulation.peaks]}")  # fmt: skip
    graph = problem.graph
    places = " and ".join(memory_text(peak, graph.size_unit) for peak in peaks)
    return f"{form.checker}: CORRECT: duration {total_text(graph, 'duration', cost)}, peaks {places}"
