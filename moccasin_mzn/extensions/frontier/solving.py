"""Rematerialization as a variant for the sweep: every question is one call of `solve_instance`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any, ClassVar

from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.errors import InputError, JudgeError
from moccasin_mzn.extensions.frontier.fitting import fitting_schedule
from moccasin_mzn.extensions.frontier.listener import EnoughError, Listener
from moccasin_mzn.extensions.frontier.questions import Answer, Judged, Question
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.solve import solve_instance

_SEEDS = 2**31
AT_ONCE, AT_ONCE_SHARE = 1.0, 0.2
"""Seconds, at most, and part of the time in which searches for any schedule are settled where that is easy."""
FITTING_SHARE = 0.7
"""Of the time: until then such a search looks at memory alone."""


@dataclass
class Rematerialization:
    """A graph with options of `solve`: the budget is what is varied.

    `instance` is one with any budget: `of` makes it.
    """

    instance: Instance
    options: Options
    graph: ComputationGraph = field(init=False)
    swept: ClassVar[str] = ""
    input_increase: ClassVar[int] = 0

    def __post_init__(self) -> None:
        self.graph = self.instance.graph

    @classmethod
    def of(
        cls,
        graph: ComputationGraph,
        options: Options,
        *,
        order: str | PathLike[str] | Sequence[int] = "input",
        max_computations: Any = None,
        count_fixed: bool = False,
    ) -> Rematerialization:
        """The arguments are those of `solve`.

        Raises:
            InputError: nonsense in any of them.
        """
        most = options.default_computations(max_computations)
        whole = Budget.of("100%")
        built = Instance.build(graph, whole, order=order, max_computations=most, count_fixed=count_fixed)
        return cls(built, options)

    @property
    def compiled(self) -> tuple[CompiledSearch, ...]:
        """What it needs of `compiled_searches`."""
        return compiled_for(self.instance.free_order)

    @property
    def peak(self) -> int:
        """Of the input order, in the graph's size unit."""
        return self.instance.baseline.peak

    @property
    def baseline(self) -> int:
        """Duration of every node once, in the graph's duration unit."""
        return self.instance.baseline.duration

    @property
    def fixed(self) -> int:
        """Fixed memory that budgets as people give them hold as well, in the graph's size unit."""
        return self.instance.fixed

    @property
    def scope(self) -> str:
        """What proofs range over, to be read after "no schedule"."""
        return scope(self.instance, self.options.form, self.options.solver)

    @cached_property
    def least(self) -> int:
        """No schedule in any order fits less; in the graph's size unit."""
        return least_budget_bound(self.graph).memory

    def amount(self, budget: Budget | int | float | str) -> int:
        """A budget as people give it, in the graph's size unit, without what fixed memory takes of it."""
        return Budget.of(budget).resolve(self.peak + self.fixed) - self.fixed

    def known(self) -> tuple[tuple[Any, str], ...]:
        """The input order."""
        return ((self.instance.order, "the input order"),)

    def judge(self, schedule: Sequence[int], budget: int) -> Judged:
        """See `Variant.judge`."""
        simulation = judge(self.graph, schedule, budget)
        if not simulation.feasible:
            raise JudgeError(f"the simulator rejects a schedule of the front: {simulation.violations[0].message}")
        return Judged(simulation.peak, simulation.duration)

    def ask(self, question: Question) -> Answer:
        """Solve it with this budget.

        Raises:
            InputError: see `solve`.
        """
        instance, begin = replace(self.instance, budget=question.budget), time.monotonic()
        if not question.any_schedule or instance.free_order or self.options.search == "off":
            return self._solve(instance, question)
        answer = self._solve(instance, replace(question, seconds=min(AT_ONCE, AT_ONCE_SHARE * question.seconds)))
        if answer.schedules or answer.infeasible or answer.interrupted:
            return answer
        until = begin + FITTING_SHARE * question.seconds
        found = fitting_schedule(instance, self._seed(question) or 0, lambda: time.monotonic() >= until, question.near)
        if found is not None and self._start(instance, found) is not None:
            return replace(answer, schedules=((found, "local search for memory"),))
        rest = max(0.0, begin + question.seconds - time.monotonic())
        return self._solve(instance, replace(question, seconds=rest)) if rest > 0 else answer

    def _solve(self, instance: Instance, question: Question) -> Answer:
        """One call of `solve_instance`."""
        listener = Listener(question)
        options = replace(self.options, time_limit=question.seconds, seed=self._seed(question))
        try:
            result = solve_instance(instance, options, listener, warm_start=self._start(instance, question.start))
        except EnoughError:
            return listener.answer()
        source = listener.latest.source if listener.latest else "the input order"
        return Answer(
            ((result.sequence, source),) if result.valid else (),
            result.bound,
            listener.bound_source if listener.bound == result.bound else "search",
            result.status == "infeasible",
            result.interrupted,
        )

    def _seed(self, question: Question) -> int | None:
        """Another one for every attempt."""
        seed = self.options.seed
        return ((seed or 0) + question.attempt) % _SEEDS if question.attempt else seed

    def _start(self, instance: Instance, schedule: Sequence[int] | None) -> Sequence[int] | None:
        """The schedule to start from, if the formulation has it as a solution."""
        if schedule is None:
            return None
        form = find_formulation("general") if instance.free_order else self.options.form
        try:
            form.check_start(instance, schedule)
        except InputError:
            return None
        return schedule
