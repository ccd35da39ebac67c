"""The interface of formulations to searches: a model file, the data for it, and the answer a solution stands for."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self

from typing_extensions import TypeVar

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations.checkers import check_solution
from moccasin_mzn.formulations.models import models_folder
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.features import Features, refuse, refuse_unsolved
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.solvers.minizinc.run import Solution, Value
from moccasin_mzn.solvers.minizinc.solvers import Sum

ProblemT = TypeVar("ProblemT", default=Any)
"""The kind of problem: an `Instance` or a `PlanProblem`."""
DataT = TypeVar("DataT", default=Any)
"""The reduced data of a problem."""
AnswerT = TypeVar("AnswerT", default=Any)
"""A schedule: a sequence of positions in `graph.nodes`, or a `Plan`."""


class Searched(ABC, Generic[ProblemT, DataT, AnswerT]):
    """A model in MiniZinc over the data that `models/lib/instance.mzn` declares; its answers are sequences or plans."""

    name: str
    """The name that people use."""
    staged: bool
    """Do first computations keep to the input order? Then so do its proofs."""
    compiled: ClassVar[tuple[CompiledSearch, ...]] = ()
    """Compiled searches that it needs in addition to those of one memory."""
    handles: ClassVar[Features]
    """The features of problems that the model takes into account."""
    limited: ClassVar[bool] = True
    """Is C, the most computations of a node, part of it?"""

    @property
    def is_open(self) -> bool:
        """Is the order open in it, whatever the problem's is? Then its proofs are of any order."""
        return False

    @property
    @abstractmethod
    def file(self) -> Path:
        """The model file."""

    @property
    def program(self) -> Path | str:
        """Return what MiniZinc compiles: the model file, or a text."""
        return self.file

    def refuse_others(self, problem: Problem) -> None:
        """Refuse a problem with features that the model does not handle.

        Raises:
            InputError: it has one, named in the message.
        """
        refuse(problem.features, [self], f"{self.called} does not handle")

    @property
    @abstractmethod
    def checker(self) -> str:
        """The solution checker, a file of the models' folder."""

    @property
    def two_phase(self) -> bool:
        """Does the model have a phase 1, least peak (paper, 2.4)?"""
        return False

    def elastic(self, data: DataT) -> bool:
        """Does the model, with these data, have both phases in one?"""
        return False

    @abstractmethod
    def data(self, problem: ProblemT) -> DataT:
        """The reduced data of a problem, with whatever `answer` needs to read solutions."""

    @abstractmethod
    def items(
        self, problem: ProblemT, data: DataT, incumbent: AnswerT | None, limit: int | None, objective: str = "duration"
    ) -> dict[str, Value]:
        """The items of the `.dzn` file.

        Args:
            incumbent: the warm start, an answer that is a solution of this formulation; None if absent.
            limit: only answers whose objective is at most this count, in the problem's unit; None: all count.
            objective: "peak" for phase 1, if `two_phase`; "elastic" for both in one, if it is that; otherwise the
                problem's own.
        """

    @abstractmethod
    def answer(self, data: DataT, values: Solution) -> AnswerT:
        """Return the answer that a solution stands for."""

    @abstractmethod
    def objective(self, data: DataT, value: int) -> int:
        """An objective or a bound of the model in the problem's unit."""

    @abstractmethod
    def sums(self, data: DataT) -> tuple[Sum, ...]:
        """The largest sums of the model."""

    @abstractmethod
    def check_start(self, problem: ProblemT, answer: AnswerT) -> AnswerT:
        """An answer to start from, without what nothing needs: in stages there may be no place for it.

        Raises:
            InputError: it is not within budgets and limits, or no solution of the formulation; with the place.
        """

    # What follows has a default.

    def out_of_scope(self, problem: ProblemT, answer: AnswerT) -> str | None:
        """Why a schedule is no solution of this formulation, although the judge accepts it; None: it is one."""
        return None

    def instant_bound(self, problem: ProblemT) -> int:
        """A bound that needs no search: no solution has less of the objective, in the problem's unit."""
        return 0

    @property
    def called(self) -> str:
        """The formulation's name, or that of the model in its place."""
        return self.name

    def solution_items(self, data: DataT, values: Solution) -> dict[str, Value]:
        """A solution's arrays, and its objective, as the checker takes them."""
        return {}

    def parameters(self) -> str:
        """Parameters for CP-SAT, as text protocol buffer; no other solver reads them."""
        return ""

    def search(
        self, problem: ProblemT, seed: int, offer: Callable[[AnswerT], object], stop: Callable[[], bool],
        better: Callable[[], AnswerT | None],
    ) -> None:  # fmt: skip
        """Look for answers without the model, in a thread of its own, until `stop()`; by default there is no search.

        Args:
            offer: takes an answer, which is judged: a solution of this formulation within budgets and limits.
            better: the best answer of all so far, wherever it comes from.
        """


# --- Formulations of plans on several memories ----------------------------------------------------------------


@dataclass(frozen=True)
class PlanFormulation(Searched[PlanProblem, DataT, Plan], Generic[DataT]):
    """A model of plans, with data of its own in addition, in two forms.

    Staged, plans are in stages of the input order, as the file of the model draws them; general, the order is open,
    which is exact but for small graphs alone.
    """

    staged: bool = True

    subject: ClassVar[str]
    """The subject of its formulations, and the verb to go with it."""
    verdict: ClassVar[re.Pattern[str]]
    """The words of the solution checker that accepts a plan."""

    @classmethod
    def of(cls, form: str) -> Self:
        """Return the form of this name, "staged" or "general".

        Raises:
            InputError: there is none.
        """
        if form not in ("staged", "general"):
            raise InputError(f"{cls.subject} formulated as staged or general, not as {form}")
        return cls(form == "staged")

    @property
    def file(self) -> Path:
        return models_folder() / f"{self.name}_{'staged' if self.staged else 'general'}.mzn"

    @property
    def is_open(self) -> bool:
        return not self.staged

    def in_any_order(self) -> Self:
        """Return the form that leaves the order open."""
        return replace(self, staged=False)

    def refuse_others(self, problem: Problem) -> None:
        refuse_unsolved(problem.features, [self])

    @classmethod
    def takes(cls, problem: PlanProblem) -> bool:
        """Return whether it handles the problem's features, and its platform is of the form that it is about."""
        return problem.features <= cls.handles

    @abstractmethod
    def data_items(self, data: DataT, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Value]:
        """Return the items of the `.dzn` file; see `items`."""

    @abstractmethod
    def plan(self, data: DataT, values: Solution) -> Plan:
        """Return the plan that a solution stands for."""

    def answer(self, data: DataT, values: Solution) -> Plan:
        return self.plan(data, values)

    def items(
        self, problem: PlanProblem, data: DataT, incumbent: Plan | None, limit: int | None, objective: str = ""
    ) -> dict[str, Value]:
        return self.data_items(data, incumbent, limit)

    def check_start(self, problem: PlanProblem, plan: Plan) -> Plan:
        flaws = [flaw.message for flaw in problem.judge(plan).violations]
        useful = plan if flaws else problem.pruned(plan)
        if not flaws and (problem.out_of_scope(plan) or self.out_of_scope(problem, useful)):
            flaws = [self.out_of_scope(problem, plan) or "it is no solution of this formulation"]
        if flaws:
            raise InputError(f"warm start: {flaws[0]}")
        return useful

    @abstractmethod
    def first_out_of_stage(self, problem: PlanProblem, plan: Plan) -> int | None:
        """Return the first position, from 1, at which a plan leaves the stages of the input order; None: nowhere."""

    @abstractmethod
    def check_plan(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation) -> str:
        """Have the solution checker judge a plan in any order; the verdict in one line, in the problem's units.

        Raises:
            CheckError: it is rejected, or has other figures than the judge's.
            InputError: MiniZinc is missing or failed.
        """

    def title(self) -> str:
        """Name and form for people."""
        return f"{self.name}, {'staged' if self.staged else 'general'}"

    def out_of_scope(self, problem: PlanProblem, plan: Plan) -> str | None:
        found, at = problem.out_of_scope(plan), None
        if found is None and self.staged:
            at = self.first_out_of_stage(problem, plan)
        if at is None:
            return found
        node = node_text(problem.graph, plan[at - 1].node)
        return f"position {at}: node {node} is out of place in stages of the input order"

    def checked(
        self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation, solution: Mapping[str, Value] | None
    ) -> list[str]:
        """Verdicts of the solution checker, in MiniZinc, on a plan and on the model's own solution if there is one.

        Raises:
            CheckError: one of them is rejected, or has other figures than the judge's.
            InputError: MiniZinc is missing or failed.
        """
        verdicts = [self.in_any_order().check_plan(problem, plan, simulation)]
        return verdicts if solution is None else [*verdicts, check_solution(self.checker, solution, self.verdict)]
