"""What all variants of a sweep have in common: a problem with one budget that is varied, and questions about it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

from moccasin_mzn.api.frontier.questions import Answer, Judged, Question
from moccasin_mzn.errors import InputError, JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.progress import Progress
from moccasin_mzn.search.result import Result

_SEEDS = 2**31


@dataclass
class Variant(ABC):
    """A problem, and how to search: its budget is what is varied."""

    problem: Any
    """A `Problem` with any budget."""
    options: Any
    """`SearchOptions`, or those of one memory."""

    @property
    @abstractmethod
    def compiled(self) -> tuple[CompiledSearch, ...]: ...

    @property
    @abstractmethod
    def form(self) -> Any:
        """The formulation that proofs are about, and that an answer to start from is a solution of."""

    @property
    @abstractmethod
    def least(self) -> int:
        """Proven: no answer fits less, in the graph's size unit."""

    @property
    @abstractmethod
    def input_increase(self) -> int | None: ...

    @abstractmethod
    def known(self) -> tuple[tuple[Any, str], ...]:
        """Answers that need no search, each with who made it."""

    @abstractmethod
    def at(self, budget: int) -> Any: ...

    @abstractmethod
    def peak_of(self, simulation: Any) -> int:
        """The most memory that an answer needs where the budget is varied."""

    @abstractmethod
    def solved(self, problem: Any, options: Any, listener: Listener, start: Any) -> Result:
        """One search, from an answer to start from if there is one."""

    @property
    def graph(self) -> ComputationGraph:
        return self.problem.graph

    @property
    def peak(self) -> int:
        """Of the input order, in the graph's size unit: the largest budget of interest."""
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
    def swept(self) -> str:
        return ""

    @property
    def scope(self) -> str:
        """What proofs range over, to be read after "no schedule"."""
        return scope(self.problem, self.form, self.options.solver)

    def amount(self, budget: Budget | int | float | str) -> int:
        """A budget as people give it, in the graph's size unit, without what fixed memory takes of it."""
        return Budget.of(budget).resolve(self.peak + self.fixed) - self.fixed

    def judge(self, schedule: Any, budget: int) -> Judged:
        """Peak and duration of an answer.

        Raises:
            JudgeError: it is none, or is over the budget.
        """
        simulation = self.at(budget).judge(schedule)
        if not simulation.feasible:
            flaw = simulation.violations[0].message
            raise JudgeError(f"the simulator rejects a {self.problem.noun} of the front: {flaw}")
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

    def start(self, problem: Any, answer: Any | None) -> Any | None:
        """An answer to start from, if the formulation has it as a solution."""
        try:
            return None if answer is None else self.form.check_start(problem, answer)
        except InputError:
            return None


class EnoughError(Exception): ...


@dataclass
class Listener:
    """Ends a search as soon as its schedule is as good as the question wants it, and remembers who found what."""

    question: Question
    latest: Progress | None = None
    """The latest improvement with a schedule."""
    bound: int = 0
    bound_source: str = ""

    def __call__(self, progress: Progress) -> None:
        if progress.bound > self.bound:
            self.bound, self.bound_source = progress.bound, progress.source
        if progress.answer is not None:
            self.latest = progress
            enough, value = self.question.enough, progress.value
            if self.question.any_schedule or (enough is not None and value is not None and value <= enough):
                raise EnoughError

    def answer(self) -> Answer:
        schedules = () if self.latest is None else ((self.latest.answer, self.latest.source),)
        return Answer(schedules, self.bound, self.bound_source)
