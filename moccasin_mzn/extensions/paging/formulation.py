"""Paging as models in MiniZinc: retention intervals that are computed or read back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from moccasin_mzn.errors import InputError
from moccasin_mzn.extensions.paging import PAGING
from moccasin_mzn.extensions.paging.arrays import PagedIntervals, decode_plan, encode_plan
from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.extensions.paging.data import PagingData, can_page, local_instance, totals_of
from moccasin_mzn.formulations import Intervals, find_formulation, models_folder
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.formulations.presolve import presolve
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.solvers.minizinc.solvers import Sum


@dataclass(frozen=True)
class PagingFormulation(PlanFormulation):
    """Paging beside recomputation.

    The general form has every plan with at most C_v intervals in local memory and one in slow memory as a solution,
    or one that is as good. The staged one has those in stages of the input order, where what is read back takes the
    place of a recomputation.

    Raises:
        InputError: an unknown form.
    """

    form: str = "staged"
    """"staged" or "general"."""

    name: ClassVar[str] = "paging"
    checker: ClassVar[str] = "paging.mzc.mzn"
    compiled: ClassVar[tuple[CompiledSearch, ...]] = (PAGING,)

    def __post_init__(self) -> None:
        if self.form not in ("staged", "general"):
            raise InputError(f"paging is formulated as staged or general, not as {self.form}")

    @property
    def staged(self) -> bool:
        return self.form == "staged"

    def in_any_order(self) -> PagingFormulation:
        return PagingFormulation("general")

    @property
    def file(self) -> Path:
        return models_folder() / f"paging_{self.form}.mzn"

    def data(self, problem: PlanProblem) -> PagingData:
        """Numbers made small, outputs and stages left out in which a second interval can never be of use.

        A second interval pays only if the output was missing in some crowded stage, whether it is computed or read
        back, and all costs are 0 or more: so the presolve of recomputation holds.
        """
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

    def data_items(self, data: PagingData, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Any]:
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
        form = find_formulation(self.form)
        totals = [Sum(total.what, total.most(model), model.order, total.scale) for total in data.totals]
        return (*totals, *(one for one in form.sums(model) if one.what == "size"))

    def plan(self, data: PagingData, values: Any) -> Plan:
        return decode_plan(
            data.model, PagedIntervals(*(tuple(getattr(values, name)) for name in ("active", "start", "end", "paged")))
        )

    def objective(self, data: PagingData, value: int) -> int:
        return value * data.totals[0].scale

    def solution_items(self, data: PagingData, values: Any) -> dict[str, Any]:
        return {name: tuple(getattr(values, name)) for name in ("active", "start", "end", "paged", "total")}

    def out_of_scope(self, problem: PlanProblem, plan: Plan) -> str | None:
        found = problem.out_of_scope(plan)
        if found is None and self.staged:
            local = [t for t, action in enumerate(plan, 1) if action.memory == LOCAL]
            sequence = [plan[t - 1].node for t in local]
            position = first_out_of_stage(problem.instance.order, sequence)
            if position is not None:
                node = node_text(problem.platform.graph, sequence[position - 1])
                where = "is out of place in stages of the input order"
                return f"position {local[position - 1]}: node {node} {where}"
        return found

    def instant_bound(self, problem: PlanProblem) -> int:
        from moccasin_mzn.extensions.paging.bound import instant_bound

        return instant_bound(problem) if self.staged else 0

    def checked(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation, solution: Any) -> list[str]:
        from moccasin_mzn.extensions.paging.checking import VERDICT, check_plan
        from moccasin_mzn.formulations.solution_checkers import check_solution

        verdicts = [check_plan(self.in_any_order(), problem, plan, simulation)]
        return verdicts if solution is None else [*verdicts, check_solution(self.checker, solution, VERDICT)]

    def search(
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], Any], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        from moccasin_mzn.extensions.paging.search import PagingSearch

        PagingSearch(problem, seed).run(offer, stop, better)
