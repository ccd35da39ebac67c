"""Plans for several memories as a variant for the sweep: the budget of the first memory is varied, the others stay.

Less memory there never helps: a plan within a budget is one within any larger one, and a bound holds at all smaller
ones. Durations are swept; limits on energy and traffic stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.errors import InputError, JudgeError
from moccasin_mzn.extensions.frontier.listener import EnoughError, Listener
from moccasin_mzn.extensions.frontier.questions import Answer, Judged, Question
from moccasin_mzn.extensions.solve import solve_on_platform
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.files.plans import goal_document, plan_document, platform_document
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan import Plan, plan_of_sequence
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total
from moccasin_mzn.problem.platform import Platform
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.words import memory_text

SWEPT = 0
"""Position of the memory whose budget is varied."""
_SEEDS = 2**31


@dataclass
class Plans:
    """A problem of plans: the budget of its first memory is what is varied.

    Raises:
        InputError: the objective is not the duration.
    """

    problem: PlanProblem
    formulation: PlanFormulation
    options: SearchOptions
    graph: ComputationGraph = field(init=False)

    def __post_init__(self) -> None:
        if self.problem.goal.objective != "duration":
            raise InputError(f"frontier: durations are swept, not {self.problem.goal.objective}")
        self.graph = self.problem.platform.graph

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        """What it needs of `compiled_searches`."""
        return (*self.formulation.compiled, *compiled_for(self.problem.instance.free_order))

    @property
    def peak(self) -> int:
        """Of the input order, in the graph's size unit."""
        return self.problem.instance.baseline.peak

    @property
    def baseline(self) -> int:
        """Duration of every node once, each where it takes least, in the graph's duration unit."""
        return least_total(self.problem.platform, "duration")

    @property
    def fixed(self) -> int:
        """Fixed memory that budgets as people give them hold as well, in the graph's size unit."""
        return self.problem.instance.fixed

    @property
    def scope(self) -> str:
        """What proofs range over, to be read after "no plan"."""
        form = self.formulation.in_any_order() if self.problem.instance.free_order else None
        return scope(self.problem, form or self.formulation)

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
        least = 0
        others = [place for m, place in enumerate(self.problem.platform.memories) if m != SWEPT]
        for v in range(len(self.graph.nodes)):
            need = self.graph.working_set(v)
            if not any(place.computes(v) and (place.budget is None or place.budget >= need) for place in others):
                least = max(least, need)
        return least

    @property
    def input_increase(self) -> int | None:
        """See `Frontier.input_increase`."""
        durations = self.problem.platform.memories[SWEPT].durations
        return None if durations is None or None in durations else sum(durations) - self.baseline

    def amount(self, budget: Budget | int | float | str) -> int:
        """A budget as people give it, in the graph's size unit, without what fixed memory takes of it."""
        return max(0, Budget.of(budget).resolve(self.peak + self.fixed) - self.fixed)

    def known(self) -> tuple[tuple[Plan, str], ...]:
        """The input order, if it is a plan in the memory that is swept."""
        plan = plan_of_sequence(self.problem.instance.order, SWEPT)
        feasible = self._simulation(plan, self.peak).feasible
        return ((plan, "the input order"),) if feasible else ()

    def judge(self, schedule: Plan, budget: int) -> Judged:
        """See `Variant.judge`."""
        simulation = self._simulation(schedule, budget)
        if not simulation.feasible:
            raise JudgeError(f"the judge rejects a plan of the front: {simulation.violations[0].message}")
        return Judged(simulation.peaks[SWEPT], simulation.duration)

    def show(self, schedule: Plan, budget: int) -> dict[str, Any]:
        """See `Variant.show`: all that a file needs which `validate` judges."""
        platform, simulation = self._platform(budget), self._simulation(schedule, budget)
        names = [place.name for place in platform.memories]
        return {
            "peaks": dict(zip(names, simulation.peaks, strict=True)),
            "energy": simulation.energy,
            "traffic": simulation.traffic,
            "plan": plan_document(platform, schedule),
            "goal": goal_document(self.problem.goal),
            "platform": platform_document(platform),
        }

    def ask(self, question: Question) -> Answer:
        """Solve it with this budget.

        Raises:
            InputError: see `solve_on_platform`.
        """
        listener = Listener(question)
        options = replace(self.options, time_limit=question.seconds)
        if question.attempt:
            options = replace(options, seed=((options.seed or 0) + question.attempt) % _SEEDS)
        problem = replace(self.problem, platform=self._platform(question.budget))
        try:
            result = solve_on_platform(
                problem, self.formulation, options, listener, warm_start=self._start(problem, question)
            )  # fmt: skip
        except EnoughError:
            return listener.answer()
        source = listener.latest.source if listener.latest else "search"
        return Answer(
            ((result.plan, source),) if result.found else (),
            result.bound,
            listener.bound_source if listener.bound == result.bound else "search",
            result.status == "infeasible",
            result.interrupted,
        )

    def _start(self, problem: PlanProblem, question: Question) -> Plan | None:
        """The plan to start from, if the formulation has it as a solution."""
        form = self.formulation
        if problem.instance.free_order:
            form = form.in_any_order() or form
        plan = question.start
        return plan if plan is not None and form.out_of_scope(problem, plan) is None else None

    def _platform(self, budget: int) -> Platform:
        platform = self.problem.platform
        memories = list(platform.memories)
        memories[SWEPT] = replace(memories[SWEPT], budget=budget)
        return replace(platform, memories=tuple(memories))

    def _simulation(self, plan: Plan, budget: int) -> PlanSimulation:
        return judge_plan(self._platform(budget), plan, self.problem.goal)
