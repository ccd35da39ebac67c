"""Plans for several memories as a variant for the sweep: the budget of the first memory is varied, the others stay.

Less memory there never helps: a plan within a budget is one within any larger one, and a bound holds at all smaller
ones. Durations are swept; limits on energy and traffic stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.api.frontier.asking import Listener, Variant
from moccasin_mzn.api.solve import solve_on_platform
from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan, plan_of_sequence
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.trivial import INPUT_ORDER
from moccasin_mzn.words import memory_text

SWEPT = 0
"""Position of the memory whose budget is varied."""


@dataclass
class Plans(Variant):
    """A problem of plans: the budget of its first memory is what is varied.

    Raises:
        InputError: the objective is not the duration.
    """

    problem: PlanProblem
    formulation: PlanFormulation = field(kw_only=True)

    def __post_init__(self) -> None:
        if self.problem.objective != "duration":
            raise InputError(f"frontier: durations are swept, not {self.problem.objective}")

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        return (*self.formulation.compiled, *compiled_for(self.problem.instance.free_order))

    @property
    def form(self) -> PlanFormulation:
        any_order = self.formulation.in_any_order() if self.problem.instance.free_order else None
        return any_order or self.formulation

    @property
    def swept(self) -> str:
        """Whose budget is varied, and what the other memories have."""
        memories, unit = self.problem.platform.memories, self.graph.size_unit
        others = [
            f"{place.name} with {'no budget' if place.budget is None else memory_text(place.budget, unit)}"
            for m, place in enumerate(memories)
            if m != SWEPT
        ]
        return f"memory in {memories[SWEPT].name}, beside {', '.join(others) or 'nothing'}"

    @property
    def least(self) -> int:
        """No plan fits less: the largest working set of a node that cannot be computed in another memory."""
        others = [place for m, place in enumerate(self.problem.platform.memories) if m != SWEPT]

        def fits_elsewhere(v: int, need: int) -> bool:
            return any(place.computes(v) and (place.budget is None or place.budget >= need) for place in others)

        needs = enumerate(map(self.graph.working_set, range(len(self.graph.nodes))))
        return max((need for v, need in needs if not fits_elsewhere(v, need)), default=0)

    @property
    def input_increase(self) -> int | None:
        place, nodes = self.problem.platform.memories[SWEPT], range(len(self.graph.nodes))
        return sum(place.cost(v)[0] for v in nodes) - self.baseline if all(map(place.computes, nodes)) else None

    def amount(self, budget: Budget | int | float | str) -> int:
        return max(0, super().amount(budget))

    def known(self) -> tuple[tuple[Plan, str], ...]:
        """The input order, if it is a plan in the memory that is swept."""
        plan = plan_of_sequence(self.problem.instance.order, SWEPT)
        feasible = self.at(self.peak).judge(plan).feasible
        return ((plan, INPUT_ORDER),) if feasible else ()

    def show(self, schedule: Plan, budget: int) -> dict[str, Any]:
        """All that a file needs which `validate` judges."""
        problem = self.at(budget)
        told = problem.document(schedule, problem.judge(schedule), None)
        return {name: told[name] for name in ("peaks", "energy", "traffic", "plan", "goal", "platform")}

    def at(self, budget: int) -> PlanProblem:
        platform = self.problem.platform
        memories = list(platform.memories)
        memories[SWEPT] = replace(memories[SWEPT], budget=budget)
        return replace(self.problem, platform=replace(platform, memories=tuple(memories)))

    def peak_of(self, simulation: PlanSimulation) -> int:
        return simulation.peaks[SWEPT]

    def solved(self, problem: PlanProblem, options: SearchOptions, listener: Listener, start: Plan | None) -> Result:
        return solve_on_platform(problem, self.formulation, options, listener, warm_start=start)
