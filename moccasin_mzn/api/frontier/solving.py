"""Rematerialization in one memory as a variant for the sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

from moccasin_mzn.api.frontier.asking import Listener, Variant
from moccasin_mzn.api.frontier.fitting import fitting_schedule
from moccasin_mzn.api.frontier.questions import Answer, Question
from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.clock import Deadline
from moccasin_mzn.formulations import Formulation, find_formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, compiled_for
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.trivial import INPUT_ORDER

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

AT_ONCE, AT_ONCE_SHARE = 1.0, 0.2
"""Seconds, at most, and part of the time in which searches for any schedule are settled where that is easy."""
FITTING_SHARE = 0.7
"""Of the time: until then such a search looks at memory alone."""


@dataclass
class Rematerialization(Variant):
    """A graph with options of `solve`: the budget is what is varied. `of` makes it."""

    problem: Instance
    options: Options
    input_increase: ClassVar[int] = 0

    @classmethod
    def of(
        cls, graph: ComputationGraph, options: Options, *, order: str | PathLike[str] | Sequence[int] = "input",
        max_computations: Any = None, count_fixed: bool = False,
    ) -> Rematerialization:  # fmt: skip
        """The arguments are those of `solve`.

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

    def known(self) -> tuple[tuple[Any, str], ...]:
        return ((self.problem.order, INPUT_ORDER),)

    def at(self, budget: int) -> Instance:
        return replace(self.problem, budget=budget)

    def peak_of(self, simulation: Simulation) -> int:
        return simulation.peak

    def solved(self, problem: Instance, options: Options, listener: Listener, start: Sequence[int] | None) -> Result:
        return solve_instance(problem, options, listener, warm_start=start, flow_bounds=self._flow_bounds)

    @cached_property
    def _flow_bounds(self) -> FreeOrderBound | None:
        """What flows prove for one budget helps with the others."""
        if not self.problem.free_order and self.options.form.staged:
            return None
        from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

        return FreeOrderBound.of(self.graph)

    def ask(self, question: Question) -> Answer:
        """Solve it with this budget; where any schedule will do, by looking at memory alone as well.

        Raises:
            InputError: see `solve`.
        """
        instance, deadline = self.at(question.budget), Deadline(question.seconds)
        if not question.any_schedule or instance.free_order or self.options.search == "off":
            return super().ask(question)
        answer = super().ask(replace(question, seconds=min(AT_ONCE, AT_ONCE_SHARE * question.seconds)))
        if answer.schedules or answer.infeasible or answer.interrupted:
            return answer
        seed = self.seed(question) or 0
        found = fitting_schedule(instance, seed, lambda: deadline.over(FITTING_SHARE), question.near)
        if found is not None and self.start(instance, found) is not None:
            return replace(answer, schedules=((found, "local search for memory"),))
        rest = deadline.remaining()
        return super().ask(replace(question, seconds=rest)) if rest else answer
