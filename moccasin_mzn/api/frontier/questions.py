"""Questions of a sweep and answers of a variant of the problem: budgets in, schedules and bounds out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic

from typing_extensions import TypeVar

from moccasin_mzn.api.frontier.points import FrontierPoint, PointStatus, Schedule
from moccasin_mzn.base.clock import never
from moccasin_mzn.base.errors import InputError, JudgeError, RefutedError
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS
from moccasin_mzn.problem.problem import Account, Problem
from moccasin_mzn.search.conclusion import scope, scope_of_all
from moccasin_mzn.search.counted import is_counted
from moccasin_mzn.search.result import Progress, Result

WORKING_SETS = "working sets"
"""Name of what proves a least budget without a search: of all schedules, where there is one memory."""


@dataclass(frozen=True)
class BudgetQuestion:
    """A question: how short can a schedule within this budget be?"""

    budget: int
    seconds: float
    """Time for the answer; less is fine."""
    start: Schedule | None = None
    """The best schedule known within the budget."""
    enough: int | None = None
    """A schedule of this duration needs no improvement: the bound from a larger budget."""
    any_schedule: bool = False
    """True: the first schedule is answer enough."""
    near: Schedule | None = None
    """The schedule of least peak known, which is over the budget; only with `any_schedule`."""
    attempt: int = 0
    """Number of earlier questions with this budget: the search should go another way."""


@dataclass(frozen=True)
class BudgetAnswer:
    """The answer: what a search with one budget found and proved."""

    schedules: tuple[tuple[Schedule, str], ...] = ()
    """Each with who found it; each within the budget."""
    bound: int | None = None
    """No schedule within the budget is shorter."""
    bound_source: str = ""
    infeasible: bool = False
    """Proven: there is none at all."""
    interrupted: bool = False
    """The user stopped the search."""


@dataclass(frozen=True)
class Measured:
    """Peak and duration of a schedule, as judged; with another goal the total of that."""

    peak: int
    duration: int


ProgressLine = Callable[[str], None]
"""Function that is called with a line of progress."""
PointListener = Callable[[FrontierPoint, float], None]
"""Function that is called with a point about which more is known, and the seconds since the sweep began."""


# --- What all variants of a sweep have in common --------------------------------------------------------------


_SEEDS = 2**31
Varied = TypeVar("Varied", bound=Problem, default=Any)
"""The kind of problem whose budget is varied."""


@dataclass
class Variant(ABC, Generic[Varied]):
    """A problem, and how to search: its budget is what is varied."""

    problem: Varied
    """A problem with any budget."""
    options: Any
    """Options of each search, an `Effort`; those of one memory are `Options`."""
    stop: Callable[[], bool] = field(default=never, kw_only=True)
    """Function that ends a search by returning true."""
    results: dict[Schedule, Result] = field(default_factory=dict, kw_only=True)
    """Results by their answer, where an answer alone does not have all of it or is not found again."""
    keys: ClassVar[tuple[str, ...]] = ("sequence", "peak")
    """What a file has of an answer, by the names of `solve --json`."""

    @property
    @abstractmethod
    def compiled(self) -> tuple[CompiledSearch, ...]: ...

    @property
    @abstractmethod
    def form(self) -> Searched:
        """The formulation that proofs are about, and that an answer to start from is a solution of."""

    @property
    @abstractmethod
    def least(self) -> int:
        """Proven: no answer fits less, in the graph's size unit."""

    @property
    def limited(self) -> bool:
        """True if "auto" allows more computations of nodes than the problem does."""
        return max(self.problem.instance.max_computations) < AUTO_COMPUTATIONS

    @property
    @abstractmethod
    def input_increase(self) -> int | None: ...

    @abstractmethod
    def known(self) -> tuple[tuple[Schedule, str], ...]:
        """Answers that need no search, each with who made it."""

    @abstractmethod
    def at(self, budget: int) -> Varied:
        """The problem with another budget."""

    def settled_at(self, budget: int) -> Varied:
        """The problem with another budget which is that of its input order too."""
        return self.at(budget)

    @abstractmethod
    def peak_of(self, simulation: Account) -> int:
        """The most memory that an answer needs where the budget is varied."""

    @abstractmethod
    def solved(self, problem: Varied, options: Any, listener: Listener, start: Schedule | None) -> Result:
        """One search, from an answer to start from if there is one."""

    @property
    def graph(self) -> ComputationGraph:
        return self.problem.graph

    @property
    def peak(self) -> int:
        """Peak of the input order, in the graph's size unit: the largest budget of interest."""
        return self.problem.instance.baseline.peak

    @property
    def baseline(self) -> int:
        """Duration of every node once, each where it takes least, in the graph's duration unit."""
        return self.problem.least_value()

    @property
    def fixed(self) -> int:
        """Fixed memory that budgets as given contain as well, in the graph's size unit."""
        return self.problem.instance.fixed

    @property
    def swept(self) -> str:
        return ""

    @property
    def counted(self) -> bool:
        """True if searches count their work, and ask no clock."""
        return is_counted(self.options)

    @property
    def same_again(self) -> bool:
        """True if another search within a budget finds what the first one did."""
        return self.counted

    @property
    def objective(self) -> str:
        """What is least: duration, energy or traffic."""
        return self.problem.objective

    @property
    def scope(self) -> str:
        """Scope of the proofs, to be read after "no schedule"."""
        return scope(self.problem, self.form, getattr(self.options, "solver", ""))

    @property
    def least_scope(self) -> str:
        """Scope of `least`, to be read after "no schedule"."""
        return scope_of_all(self.graph)

    def amount(self, budget: Budget | int | float | str) -> int:
        """Return a budget as given in the graph's size unit, without the fixed memory."""
        return Budget.of(budget).resolve(self.peak + self.fixed) - self.fixed

    def judge(self, schedule: Schedule, budget: int) -> Measured:
        """Peak and duration of an answer.

        Raises:
            JudgeError: it is not one, or is over the budget.
        """
        simulation = self.at(budget).judge(schedule)
        if not simulation.feasible:
            flaw = simulation.violations[0].message
            raise JudgeError(f"the simulator rejects a schedule of the frontier: {flaw}")
        return Measured(self.peak_of(simulation), self.problem.value(simulation))

    def ask(self, question: BudgetQuestion) -> BudgetAnswer:
        """Search once with this budget.

        Raises:
            InputError: see `solve`.
        """
        listener, problem = Listener(question), self.at(question.budget)
        seconds = None if self.counted else question.seconds
        options = replace(self.options, time_limit=seconds, seed=self.seed(question))
        try:
            result = self.solved(problem, options, listener, self.start(problem, question.start))
        except EnoughError:
            return listener.answer()
        return BudgetAnswer(
            ((result.answer, result.found_by),) if result.answer is not None and result.valid else (),
            result.bound,
            listener.bound_source if listener.bound == result.bound else "search",
            result.status == "infeasible",
            result.interrupted,
        )

    def seed(self, question: BudgetQuestion) -> int | None:
        """Return another seed for every attempt."""
        seed = self.options.seed
        return ((seed or 0) + question.attempt) % _SEEDS if question.attempt else seed

    def start(self, problem: Varied, answer: Schedule | None) -> Schedule | None:
        """An answer to start from, if the formulation has it as a solution."""
        try:
            return None if answer is None else self.form.check_start(problem, answer)
        except InputError:
            return None


class EnoughError(Exception): ...


@dataclass
class Listener:
    """Listener that ends a search as soon as its schedule is good enough; it records who found what."""

    question: BudgetQuestion
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

    def answer(self) -> BudgetAnswer:
        latest = self.latest
        schedules = () if latest is None or latest.answer is None else ((latest.answer, latest.source),)
        return BudgetAnswer(schedules, self.bound, self.bound_source)


# --- What all answers together imply for every budget ---------------------------------------------------------

# A schedule serves every budget from its peak on; a bound holds at every budget up to its own::
#
#     duration  |  s1 o------------------->
#               |         s2 o------------>       least duration known at M: the lowest schedule that begins left of M
#               |  <------------- b1
#               |  <------------------- b2        best bound at M: the highest one that ends right of M
#               +-------------M-----------> budget


@dataclass(frozen=True)
class Found:
    """A schedule with the judge's account of it."""

    peak: int
    duration: int
    schedule: Schedule
    source: str
    budget: int
    """Budget of the search that found it."""


@dataclass(frozen=True)
class Proven:
    """A bound on the duration."""

    budget: int
    """The largest one it holds at."""
    bound: int
    source: str


@dataclass
class Knowledge:
    """Schedules and bounds of one variant, without those that add nothing.

    Raises:
        JudgeError: from `learn`, for a schedule that the judge rejects, and for proofs that a schedule contradicts.
    """

    variant: Variant
    found: list[Found] = field(default_factory=list)
    """Schedules by ascending peak; durations descend."""
    proven: list[Proven] = field(default_factory=list)
    """Bounds by ascending budget; they descend."""
    least: int = 0
    """Proven: no schedule fits less."""
    least_source: str = WORKING_SETS

    def __post_init__(self) -> None:
        self.least = self.variant.least
        for schedule, source in self.variant.known():
            self._add(schedule, source, self.variant.peak)

    def learn(self, budget: int, answer: BudgetAnswer) -> None:
        for schedule, source in answer.schedules:
            self._add(schedule, source, budget)
        if answer.infeasible and budget >= self.least:
            self.least, self.least_source = budget + 1, answer.bound_source
        elif answer.bound is not None and not answer.infeasible and answer.bound > self.bound(budget).bound:
            kept = [one for one in self.proven if one.budget > budget or one.bound > answer.bound]
            new = Proven(budget, answer.bound, answer.bound_source)
            self.proven = sorted((*kept, new), key=lambda one: one.budget)
        self._check()

    def best(self, budget: int) -> Found | None:
        return next((found for found in reversed(self.found) if found.peak <= budget), None)

    def bound(self, budget: int) -> Proven:
        floor = Proven(self.variant.peak, self.variant.baseline, "")
        return next((proven for proven in self.proven if proven.budget >= budget), floor)

    @property
    def least_found(self) -> int | None:
        return self.found[0].peak if self.found else None

    def settled(self, budget: int) -> bool:
        best = self.best(budget)
        return budget < self.least or (best is not None and best.duration == self.bound(budget).bound)

    def point(self, budget: int, seconds: float = 0.0) -> FrontierPoint:
        """All that is known at a budget; its schedule judged again, at this budget."""
        best, proven = self.best(budget), self.bound(budget)
        elsewhere = f", at budget {self._amount(proven.budget)}" if proven.source and proven.budget != budget else ""
        bound_source = f"{proven.source}{elsewhere}"
        if best is None:
            status: PointStatus = "infeasible" if budget < self.least else "unknown"
            return FrontierPoint(budget, None, proven.bound, None, None, status, "", bound_source, seconds)
        judged = self.variant.judge(best.schedule, budget)
        source = best.source + (f", at budget {self._amount(best.budget)}" if best.budget != budget else "")
        status = "optimal" if judged.duration == proven.bound else "feasible"
        return FrontierPoint(
            budget, judged.duration, proven.bound, judged.peak, best.schedule, status, source, bound_source, seconds
        )

    def _amount(self, budget: int) -> str:
        return memory_text(budget, self.variant.graph.size_unit)

    def _add(self, schedule: Schedule, source: str, budget: int) -> None:
        judged = self.variant.judge(schedule, budget)
        best = self.best(judged.peak)
        if best is None or judged.duration < best.duration:
            new = Found(judged.peak, judged.duration, schedule, source, budget)
            kept = [one for one in self.found if one.peak < new.peak or one.duration < new.duration]
            self.found = sorted((*kept, new), key=lambda one: one.peak)

    def _check(self) -> None:
        for one in self.found:
            if one.peak < self.least:
                claim = f"{self.least_source} claims that there is no schedule below a budget of {self.least}"
                raise RefutedError(claim, f"a peak of {one.peak} of {one.source}")
            proven = self.bound(one.peak)
            if one.duration < proven.bound:
                claim = f"{proven.source} claims that no schedule within {proven.budget} is shorter than {proven.bound}"
                raise RefutedError(claim, f"{one.duration} of {one.source}")
