"""What all variants of a sweep have in common: a problem with one budget that is varied, and questions about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.errors import InputError, JudgeError
from moccasin_mzn.extensions.frontier.listener import EnoughError, Listener
from moccasin_mzn.extensions.frontier.questions import Answer, Judged, Question
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result

_SEEDS = 2**31


@dataclass
class Asking(ABC):
    """A problem, and how to search: its budget is what is varied."""

    problem: Problem
    """With any budget."""
    options: SearchOptions
    graph: ComputationGraph = field(init=False)

    def __post_init__(self) -> None:
        self.graph = self.problem.graph

    @property
    @abstractmethod
    def form(self) -> Formulation | PlanFormulation:
        """What proofs are about, and what an answer to start from is a solution of."""

    @abstractmethod
    def at(self, budget: int) -> Problem:
        """The problem with this budget."""

    @abstractmethod
    def peak_of(self, simulation: Any) -> int:
        """The most memory that an answer needs where the budget is varied."""

    @abstractmethod
    def solved(self, problem: Problem, options: SearchOptions, listener: Listener, start: Any) -> Result:
        """One search, from an answer to start from if there is one."""

    @property
    def peak(self) -> int:
        """Of the input order, in the graph's size unit."""
        return self.problem.instance.baseline.peak

    @property
    def baseline(self) -> int:
        """Duration of every node once, each where it takes least, in the graph's duration unit."""
        return self.problem.least_value()

    @property
    def fixed(self) -> int:
        """Fixed memory that budgets as people give them hold as well, in the graph's size unit."""
        return self.problem.instance.fixed

    @property
    def scope(self) -> str:
        """What proofs range over, to be read after "no schedule"."""
        return scope(self.problem, self.form, self.options.solver)

    def amount(self, budget: Budget | int | float | str) -> int:
        """A budget as people give it, in the graph's size unit, without what fixed memory takes of it."""
        return Budget.of(budget).resolve(self.peak + self.fixed) - self.fixed

    def judge(self, schedule: Any, budget: int) -> Judged:
        """See `Variant.judge`."""
        simulation, noun = self.at(budget).judge(schedule), self.problem.noun
        if not simulation.feasible:
            raise JudgeError(f"the simulator rejects a {noun} of the front: {simulation.violations[0].message}")
        return Judged(self.peak_of(simulation), simulation.duration)

    def ask(self, question: Question) -> Answer:
        """One search with this budget.

        Raises:
            InputError: see `solve`.
        """
        listener, problem = Listener(question), self.at(question.budget)
        options = replace(self.options, time_limit=question.seconds, seed=self.seed(question))
        try:
            result = self.solved(problem, options, listener, self.start(problem, question.start))
        except EnoughError:
            return listener.answer()
        return Answer(
            ((result.answer, result.found_by),) if result.valid else (),
            result.bound,
            listener.bound_source if listener.bound == result.bound else "search",
            result.status == "infeasible",
            result.interrupted,
        )

    def seed(self, question: Question) -> int | None:
        """Another one for every attempt."""
        seed = self.options.seed
        return ((seed or 0) + question.attempt) % _SEEDS if question.attempt else seed

    def start(self, problem: Problem, answer: Any | None) -> Any | None:
        """An answer to start from, if the formulation has it as a solution."""
        try:
            return None if answer is None else self.form.check_start(problem, answer)
        except InputError:
            return None
