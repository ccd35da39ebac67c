"""Paging as models in MiniZinc: retention intervals that are computed or read back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import ClassVar

from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.formulations import Intervals, find_formulation
from moccasin_mzn.formulations.checkers import CheckError, run_checker
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.formulations.searched import PlanFormulation, Solution
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.machine.paging import PAGING
from moccasin_mzn.machine.paging.data import (
    PagedIntervals,
    PagingData,
    can_page,
    costs_of,
    decode_plan,
    encode_plan,
    local_instance,
    totals_of,
)
from moccasin_mzn.machine.platforms import LOCAL, SLOW
from moccasin_mzn.problem.features import OF_PLANS, Feature, Features
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.stages import Stages, first_out_of_stage
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum

ARRAYS = tuple(part.name for part in fields(PagedIntervals))
"""Names of a solution's arrays."""


@dataclass(frozen=True)
class PagingFormulation(PlanFormulation[PagingData]):
    """Paging together with recomputation: `MachineFormulation` where one memory computes and another one only stores.

    A declared special case, as its models are smaller, and sooner at a proof (docs/architecture.md has the figures):
    writes to slow memory take no events, and what is read back is a boolean of a second interval.

    The general form has every plan with at most C_v intervals in local memory and one in slow memory as a solution,
    or one that is as good. The staged one has those in stages of the input order, where what is read back takes the
    place of a recomputation.
    """

    name: ClassVar[str] = "paging"
    subject: ClassVar[str] = "paging is"
    handles: ClassVar[Features] = OF_PLANS - {Feature.DEVICES, Feature.POOLS, Feature.OUTPUTS}
    verdict: ClassVar[re.Pattern[str]] = re.compile(r"CORRECT: cost (\d+), peak (\d+), slow (\d+)")
    checker: ClassVar[str] = "paging.mzc.mzn"
    compiled: ClassVar[tuple[CompiledSearch, ...]] = (PAGING,)

    @classmethod
    def takes(cls, problem: PlanProblem) -> bool:
        memories = problem.platform.memories
        return super().takes(problem) and len(memories) == 2 and memories[SLOW].durations is None

    def data(self, problem: PlanProblem) -> PagingData:
        """Numbers made small, outputs and stages left out in which a second interval can never be of use.

        A second interval pays only if the output was missing in some crowded stage, whether it is computed or read
        back, and all costs are 0 or more: so the presolve of recomputation is valid.
        """
        self.refuse_others(problem)
        platform = problem.platform
        everything = platform.graph.total_size
        model = presolve(local_instance(problem), self.staged)
        capacity = platform.memories[SLOW].budget
        return PagingData(
            problem,
            model,
            totals_of(problem, model),
            (everything if capacity is None else min(capacity, everything)) // model.size_scale,
            can_page(problem),
        )

    def data_items(self, data: PagingData, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Value]:
        model, platform = data.model, data.problem.platform
        start = PagedIntervals()
        if incumbent is not None:
            start = encode_plan(platform, model, incumbent, self.staged)
        local = Intervals(start.active, start.start, start.end) if start.active else None
        items = find_formulation("general").data_items(platform.graph, model, local)
        limits = [total.limit for total in data.totals]
        if limit is not None:
            limits[0] = min(limits[0], limit // data.totals[0].scale)
        return {
            **items,
            "incumbent_paged": start.paged,
            "slow_capacity": data.slow_capacity,
            "totals": len(data.totals),
            "compute_cost": [total.compute for total in data.totals],
            "write_cost": [total.write for total in data.totals],
            "read_cost": [total.read for total in data.totals],
            "cost_limit": limits,
            "pageable": [data.pageable] * len(model.size),
        }

    def sums(self, data: PagingData) -> tuple[Sum, ...]:
        model = data.model
        form = find_formulation("staged" if self.staged else "general")
        totals = [Sum(total.what, total.most(model), model.order, total.scale) for total in data.totals]
        return (*totals, *(one for one in form.sums(model) if one.what == "size"))

    def plan(self, data: PagingData, values: Solution) -> Plan:
        return decode_plan(data.model, PagedIntervals(*(tuple(getattr(values, name)) for name in ARRAYS)))

    def objective(self, data: PagingData, value: int) -> int:
        return value * data.totals[0].scale

    def solution_items(self, data: PagingData, values: Solution) -> dict[str, Value]:
        return {name: tuple(getattr(values, name)) for name in (*ARRAYS, "total")}

    def first_out_of_stage(self, problem: PlanProblem, plan: Plan) -> int | None:
        local = [t for t, action in enumerate(plan, 1) if action.memory == LOCAL]
        at = first_out_of_stage(problem.instance.order, [plan[t - 1].node for t in local])
        return None if at is None else local[at - 1]

    def instant_bound(self, problem: PlanProblem) -> int:

        return instant_bound(problem) if self.staged else 0

    def check_plan(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
        """Have a plan in any order checked, as retention intervals of free events, by the general form of paging.

        The intervals do not show writes that nothing reads back, nor when the others take place: peaks are compared
        with those of the plan that has each write as late as can be.

        Returns:
            The verdict in one line, in the units of the problem.

        Raises:
            CheckError: it is rejected, or its cost or peaks differ from the judge's.
            InputError: MiniZinc is missing or failed.
        """
        data = self.data(problem)
        used = Counter(action.node for action in plan if action.memory == LOCAL)
        model = replace(data.model, max_computations=tuple(used[v] for v in data.model.order))
        data = replace(data, model=model, totals=totals_of(problem, model))
        intervals = encode_plan(problem.platform, model, plan, staged=False)
        latest = decode_plan(model, intervals)
        with_late_writes = judge_plan(problem.platform, latest, problem.goal)
        if len(latest) < len(plan):
            simulation = with_late_writes
        solution = vars(intervals)
        total = [simulation.total(total.what) // total.scale for total in data.totals]
        verdict = run_checker(self.checker, {**self.data_items(data), **solution, "total": total})
        found = self.verdict.fullmatch(verdict)
        if found is None:
            raise CheckError(f"{self.checker} rejects the plan: {verdict}")
        cost = int(found[1]) * data.totals[0].scale
        peaks = tuple(int(text) * data.model.size_scale for text in found.groups()[1:])
        judged = problem.value(simulation), *with_late_writes.peaks
        if (cost, *peaks) != judged:
            raise CheckError(f"{self.checker} finds cost and peaks {(cost, *peaks)}, the simulator {judged}")
        graph, what = problem.platform.graph, problem.goal.objective
        local, slow = (memory_text(peaks[m], graph.size_unit) for m in (LOCAL, SLOW))
        return f"{self.checker}: CORRECT: {what} {total_text(graph, what, cost)}, peaks {local} and {slow}"

    def search(
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        from moccasin_mzn.machine.paging.search import PagingSearch

        PagingSearch(problem, seed).run(offer, stop, better)


# --- The instant bound of recomputation (see `bounds.instant`), for plans that may read back instead ------------

# What the input order retains too much at a stage must be dropped there and come again, whatever brings it: an output
# that comes again is computed at least once more, or written and read back at least once. So the cheaper of the two
# takes the place of its duration. That a computation reads its inputs, which recomputation's other bounds build on,
# plays no part.


def instant_bound(problem: PlanProblem) -> int:
    """No plan in stages of the input order has less of the objective, in the problem's unit; 0 if there is no plan."""
    instance = local_instance(problem)
    compute, write, read = costs_of(problem, problem.goal.objective)
    again = compute
    if can_page(problem):
        again = [min(c, w + r) for c, w, r in zip(compute, write, read, strict=True)]
    stages = replace(Stages.of(instance.relaxed), duration=tuple(again[v] for v in instance.order), duration_scale=1)
    extra = cover_bound(stages)
    return 0 if extra is None else sum(compute) + extra
