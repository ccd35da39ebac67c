"""Variants of the problem for the sweep: rematerialization in one memory, plans for several."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, ClassVar

from moccasin_mzn.api.frontier.points import Schedule
from moccasin_mzn.api.frontier.questions import (
    BudgetAnswer,
    BudgetQuestion,
    EnoughError,
    Listener,
    Measured,
    Variant,
)
from moccasin_mzn.api.request import Request, StrategyOptions
from moccasin_mzn.api.solve import answer, solve_instance, solve_problem
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.formulations import Formulation, find_formulation
from moccasin_mzn.formulations.searched import PlanFormulation, Searched
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.allocate import first_fit
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.buffer import TOTAL_LIMIT
from moccasin_mzn.problem.construction import Constructed, judged_within
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Plan, plan_of_sequence
from moccasin_mzn.problem.problem import Account, Problem, answer_document
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import INPUT_ORDER, scope, scope_of_all
from moccasin_mzn.search.options import Options, SearchOptions
from moccasin_mzn.search.result import Progress, Result
from moccasin_mzn.strategies.retention import retained

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound


AT_ONCE, AT_ONCE_SHARE = 1.0, 0.2
"""Seconds, at most, and share of the time in which searches for any schedule are settled where that is easy."""
FITTING = "local search for memory"
FITTING_SHARE = 0.7
"""Share of the time until which such a search looks at memory alone."""


@dataclass
class Rematerialization(Variant[Instance]):
    """A graph with options of `solve`: the budget is what is varied. `of` makes it."""

    options: Options
    input_increase: ClassVar[int] = 0

    @classmethod
    def of(
        cls, graph: ComputationGraph, options: Options, *, order: str | PathLike[str] | Sequence[int] = "input",
        max_computations: int | Sequence[int] | str | None = None, count_fixed: bool = False,
    ) -> Rematerialization:  # fmt: skip
        """Make a variant of the arguments of `solve`.

        Raises:
            InputError: nonsense in any of them.
        """
        most = options.default_computations(max_computations)
        built = Instance.build(graph, "100%", order=order, max_computations=most, count_fixed=count_fixed)
        return cls(built, options)

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        return compiled_for(self.problem.free_order)

    @property
    def form(self) -> Formulation:
        return find_formulation("general") if self.problem.free_order else self.options.form

    @property
    def scope(self) -> str:
        return scope(self.problem, self.options.form, self.options.solver)

    @cached_property
    def least(self) -> int:
        return least_budget_bound(self.graph).memory

    def known(self) -> tuple[tuple[Schedule, str], ...]:
        return ((self.problem.order, INPUT_ORDER),)

    def at(self, budget: int) -> Instance:
        return replace(self.problem, budget=budget)

    def peak_of(self, simulation: Account) -> int:
        assert isinstance(simulation, Simulation)
        return simulation.peak

    def solved(self, problem: Instance, options: SearchOptions, listener: Listener, start: Schedule | None) -> Result:
        assert isinstance(options, Options)
        return solve_instance(problem, options, Call(listener, self.stop), start, self._flow_bounds)

    @cached_property
    def _flow_bounds(self) -> FreeOrderBound | None:
        """Bounds by flows, shared by all budgets: what is proven for one helps with the others."""
        if not self.problem.free_order and self.options.form.staged:
            return None
        from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

        return FreeOrderBound.of(self.graph)

    def ask(self, question: BudgetQuestion) -> BudgetAnswer:
        """Solve it with this budget; where any schedule will do, by looking at memory alone as well.

        Raises:
            InputError: see `solve`.
        """
        instance, deadline = self.at(question.budget), Deadline(question.seconds)
        if not question.any_schedule or instance.free_order or self.options.search == "off" or self.counted:
            return super().ask(question)
        answer = super().ask(replace(question, seconds=min(AT_ONCE, AT_ONCE_SHARE * question.seconds)))
        if answer.schedules or answer.infeasible or answer.interrupted:
            return answer
        seed = self.seed(question) or 0
        found = fitting_schedule(instance, seed, lambda: deadline.over(FITTING_SHARE) or self.stop(), question.near)
        if found is not None and self.start(instance, found) is not None:
            return replace(answer, schedules=((found, FITTING),))
        rest = deadline.remaining()
        return super().ask(replace(question, seconds=rest)) if rest else answer


# --- Plans for several memories as a variant for the sweep ----------------------------------------------------

# Less memory there never helps: a plan within a budget is one within any larger one, and a bound holds at all smaller
# ones. What is least at each budget is the objective of the goal; limits on totals stay as they are.


SWEPT = 0
"""Position of the memory whose budget is varied."""


@dataclass
class Plans(Variant[PlanProblem]):
    """A problem of plans: the budget of its first memory is what is varied."""

    formulation: PlanFormulation = field(kw_only=True)
    keys: ClassVar[tuple[str, ...]] = ("peaks", "duration", "energy", "traffic", "plan", "goal", "platform")

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        return (*self.formulation.compiled, *compiled_for(self.problem.instance.free_order))

    @property
    def form(self) -> PlanFormulation:
        any_order = self.formulation.in_any_order() if self.problem.instance.free_order else None
        return any_order or self.formulation

    @property
    def swept(self) -> str:
        """Text on whose budget is varied, and what the other memories have."""
        memories, unit = self.problem.platform.memories, self.graph.size_unit
        others = [
            f"{place.name} with {'no budget' if place.budget is None else memory_text(place.budget, unit)}"
            for m, place in enumerate(memories)
            if m != SWEPT
        ]
        return f"memory in {memories[SWEPT].name}, alongside {', '.join(others)}"

    @property
    def scope(self) -> str:
        goal, ranges = self.problem.goal, super().scope.rstrip(",")
        limits = [f"{what} {goal.limit(what):,}" for what in OBJECTIVES if goal.limit(what) is not None]
        return f"{ranges}, within {' and '.join(limits)}," if limits else super().scope

    @property
    def least_scope(self) -> str:
        return self.scope

    @property
    def least(self) -> int:
        """No plan fits less: the largest working set of a node that cannot be computed in another memory. Of one device
        what of the largest the other memories do not hold."""
        others = [place for m, place in enumerate(self.problem.platform.memories) if m != SWEPT]

        def fits_elsewhere(v: int, need: int) -> bool:
            return any(place.computes(v) and (place.budget is None or place.budget >= need) for place in others)

        if self.problem.platform.has_accesses:
            elsewhere = [place.budget for place in others if place.budget is not None]
            need = self.graph.largest_working_set().memory
            return max(0, need - sum(elsewhere)) if len(elsewhere) == len(others) else 0
        needs = enumerate(map(self.graph.working_set, range(len(self.graph.nodes))))
        return max((need for v, need in needs if not fits_elsewhere(v, need)), default=0)

    @property
    def input_increase(self) -> int | None:
        place, nodes = self.problem.platform.memories[SWEPT], range(len(self.graph.nodes))
        if not self.problem.platform.has_accesses and not all(map(place.computes, nodes)):
            return None
        plan = plan_of_sequence(self.problem.instance.order, SWEPT)
        return self.problem.value(self.problem.judge(plan)) - self.baseline

    def amount(self, budget: Budget | int | float | str) -> int:
        return max(0, super().amount(budget))

    def known(self) -> tuple[tuple[Plan, str], ...]:
        """The input order, where it is a plan in one memory; in another one than is swept it needs nothing of that."""
        problem = self.at(self.peak)
        return tuple((plan, INPUT_ORDER) for plan in problem.in_one_memory(problem.instance.order))

    def show(self, schedule: Plan, budget: int) -> JsonObject:
        """Return all that a file needs which `validate` judges."""
        return _document(self, schedule, budget, None, self.keys)

    def at(self, budget: int) -> PlanProblem:
        platform = self.problem.platform
        memories = list(platform.memories)
        memories[SWEPT] = replace(memories[SWEPT], budget=budget)
        return replace(self.problem, platform=replace(platform, memories=tuple(memories)))

    def settled_at(self, budget: int) -> PlanProblem:
        return replace(self.at(budget), instance=replace(self.problem.instance, budget=budget))

    def peak_of(self, simulation: Account) -> int:
        assert isinstance(simulation, PlanSimulation)
        return simulation.peaks[SWEPT]

    def solved(self, problem: PlanProblem, options: SearchOptions, listener: Listener, start: Plan | None) -> Result:
        return solve_problem(problem, self.formulation, options, Call(listener, self.stop), start)


# --- Baselines, and arenas ------------------------------------------------------------------------------------


@dataclass
class Baseline(Variant[Instance]):
    """The schedules that a strategy makes, and no others, so that the curve is that of the strategy."""

    options: StrategyOptions
    input_increase: ClassVar[int] = 0
    same_again: ClassVar[bool] = True

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        return () if self.options.strategy is None else self.options.strategy.compiled

    @property
    def form(self) -> Formulation:
        return find_formulation("general")

    @property
    def scope(self) -> str:
        return scope_of_all(self.graph)

    @cached_property
    def least(self) -> int:
        return least_budget_bound(self.graph).memory

    def known(self) -> tuple[tuple[Schedule, str], ...]:
        return ()

    def at(self, budget: int) -> Instance:
        return replace(self.problem, budget=budget)

    def peak_of(self, simulation: Account) -> int:
        assert isinstance(simulation, Simulation)
        return simulation.peak

    def start(self, problem: Instance, answer: Schedule | None) -> Schedule | None:
        return None

    def solved(self, problem: Instance, options: StrategyOptions, listener: Listener, start: object) -> Result:
        assert options.strategy is not None
        limit = None if self.counted else options.time_limit
        found = apply(problem, options.strategy, limit, Call(stop=self.stop), options.iterations)
        if found.sequence is not None:
            self.results[found.sequence] = found
        return found


@dataclass
class Arranged(Variant[Problem]):
    """Schedules or plans with offsets: the budget that is varied is the size of the arena, in the first memory."""

    inner: Variant = field(kw_only=True)
    """The same without offsets: what is proven of peaks holds for arenas too."""
    request: Request = field(kw_only=True)
    """Any question with offsets about the problem."""

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        return (*self.inner.compiled, ADDRESSES)

    @property
    def form(self) -> Searched:
        return self.inner.form

    @property
    def scope(self) -> str:
        return self.inner.scope

    @property
    def least(self) -> int:
        return self.inner.least

    @property
    def least_scope(self) -> str:
        return self.inner.least_scope

    @property
    def input_increase(self) -> int | None:
        return self.inner.input_increase

    @property
    def swept(self) -> str:
        return f"an arena{self.inner.swept.removeprefix('memory')}"

    @cached_property
    def peak(self) -> int:
        """The size of an arena in which the input order has its place, as alignment takes memory too."""
        buffers = placing_of(self.graph, self.problem.instance.baseline).buffers
        arena = first_fit(buffers, self.request.alignment or 1, TOTAL_LIMIT)
        return max(self.inner.peak, 0 if arena is None else arena.size)

    def amount(self, budget: Budget | int | float | str) -> int:
        return self.inner.amount(budget)  # a fraction is of the peak

    def known(self) -> tuple[tuple[Schedule, str], ...]:
        return ()

    def at(self, budget: int) -> Problem:
        return self.inner.at(budget)

    def settled_at(self, budget: int) -> Problem:
        return self.inner.settled_at(budget)

    def peak_of(self, simulation: Account) -> int:
        return self.inner.peak_of(simulation)

    def arena_of(self, result: Result) -> int:
        """The size of the arena whose budget is varied."""
        arena, _, _ = self.problem.arenas_with_limits(result.arenas)[SWEPT]
        return arena.size

    def judge(self, schedule: Schedule, budget: int) -> Measured:
        size = self.arena_of(self.results[schedule])  # if it is over what was asked for, of use at its own size
        measured = super().judge(schedule, max(budget, size))
        return Measured(max(size, measured.peak), measured.duration)

    def show(self, schedule: Schedule, budget: int) -> JsonObject:
        """Return all that a file needs which `validate` judges."""
        arenas = self.results[schedule].arenas
        keys = (*self.inner.keys, "intervals", *self.problem.arenas_document(arenas))
        return _document(self, schedule, budget, arenas, keys)

    def ask(self, question: BudgetQuestion) -> BudgetAnswer:
        listener, stop, problem = Listener(question), threading.Event(), self.at(question.budget)

        def hear(progress: Progress) -> None:
            with suppress(EnoughError):
                return listener(progress)
            stop.set()  # its arena comes with the result

        seconds = None if self.counted else question.seconds
        options = replace(self.options, time_limit=seconds, seed=self.seed(question))
        start = self.start(problem, question.start)
        request = replace(self.request, problem=problem, options=options, start=start, known=None)
        found = answer(request, Call(hear, lambda: stop.is_set() or self.stop()))
        schedules: tuple[tuple[Schedule, str], ...] = ()
        if found.answer is not None and found.arenas is not None and found.simulation.feasible:
            known = self.results.get(found.answer)
            if known is None or self.arena_of(found) < self.arena_of(known):
                self.results[found.answer] = found
            schedules = ((found.answer, found.found_by),)
        infeasible = found.status == "infeasible"
        return BudgetAnswer(schedules, found.bound, found.proved_by or "search", infeasible, found.interrupted)

    def start(self, problem: Problem, answer: Schedule | None) -> Schedule | None:
        return self.inner.start(problem, answer)

    def solved(self, problem: Problem, options: object, listener: Listener, start: object) -> Result:
        raise AssertionError("see `ask`")


def _document(variant: Variant, schedule: Schedule, budget: int, arenas: object, keys: Sequence[str]) -> JsonObject:
    """Some keys of the document of an answer at a budget."""
    problem = variant.at(budget)
    document = answer_document(problem, schedule, problem.judge(schedule), arenas)
    return {name: document[name] for name in keys}


def variant_of(request: Request, options: SearchOptions | StrategyOptions | None = None) -> Variant:
    """Return the variant whose question at one budget a request is.

    Args:
        options: in place of its own.
    """
    how = options or request.options
    variant: Rematerialization | Baseline | Plans
    if isinstance(request.problem, PlanProblem):
        assert request.formulation is not None
        variant = Plans(request.problem, how, formulation=request.formulation)
    elif isinstance(how, StrategyOptions):
        assert isinstance(request.problem, Instance)
        variant = Baseline(request.problem, how)
    else:
        assert isinstance(request.problem, Instance) and isinstance(how, Options)
        variant = Rematerialization(request.problem, how)
    if request.alignment is None:
        return variant
    return Arranged(request.problem, how, inner=variant, request=request)


# --- A schedule within a budget, however long: local search that looks at memory alone ------------------------

# The local search of `heuristics` weighs duration against memory over the budget. Near the least feasible budget,
# duration leads it away from the few schedules that fit. With durations of 0 nothing but memory counts;
# recomputations that turn out needless within the budget are left out afterwards.


def fitting_schedule(
    instance: Instance, seed: int, stop: Callable[[], bool], near: Sequence[int] | None = None
) -> tuple[int, ...] | None:
    """A schedule within the budget, in stages of the input order and within C_v; None: none found until `stop()`.

    Args:
        instance: with an order of its own.
        seed: of the random numbers.
        near: a schedule over the budget to begin near, in stages of the input order as well.
    """
    from moccasin_mzn.heuristics.staged.search import LocalSearch  # here, because compiled code takes a while to load

    weightless = replace(instance.graph, durations=(0,) * len(instance.graph.nodes))
    found: list[Constructed] = []
    drafts = [] if near is None else [tuple(near)]

    def take(sequence: tuple[int, ...]) -> None:
        one = judged_within(instance, sequence, FITTING, staged=True)
        found.extend([] if one is None else [one])

    LocalSearch(replace(instance, graph=weightless), seed).run(
        take, lambda: bool(found) or stop(), draft=lambda: drafts.pop() if drafts else None
    )
    if not found:
        return None
    shorter = retained(instance.graph, found[0].sequence, instance.budget, stop)
    return (judged_within(instance, shorter, FITTING, staged=True) or found[0]).sequence
