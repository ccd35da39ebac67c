"""What searches take of any formulation, of schedules and of plans."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeAlias

from typing_extensions import TypeVar

from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.solvers.minizinc.run import Value
from moccasin_mzn.solvers.minizinc.solvers import Sum

Solution: TypeAlias = Any
"""A solution that a solver of MiniZinc returned: its attributes are the arrays of the model's output."""
ProblemT = TypeVar("ProblemT", default=Any)
"""The kind of problem: an `Instance` or a `PlanProblem`."""
DataT = TypeVar("DataT", default=Any)
"""The reduced data of a problem."""
AnswerT = TypeVar("AnswerT", default=Any)
"""A schedule: a sequence of positions in `graph.nodes`, or a `Plan`."""


class Searched(ABC, Generic[ProblemT, DataT, AnswerT]):
    """A model in MiniZinc over the data that `models/lib/instance.mzn` declares; its answers are sequences or plans."""

    name: str
    """As told to people."""
    staged: bool
    """Do first computations keep to the input order? Then so do its proofs."""
    compiled: ClassVar[tuple[CompiledSearch, ...]] = ()
    """Compiled searches that it needs besides those of one memory."""
    limited: ClassVar[bool] = True
    """Is C, the most computations of a node, part of it?"""

    @property
    @abstractmethod
    def file(self) -> Path:
        """The model file."""

    @property
    def program(self) -> Path | str:
        """What MiniZinc compiles: the model file, or a text."""
        return self.file

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
            incumbent: the warm start, an answer that is a solution of this formulation; None: there is none.
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
            InputError: it is not within budgets and limits, or no solution of the formulation; the message says where.
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
        """Its name, or that of the model in its place."""
        return self.name

    def solution_items(self, data: DataT, values: Solution) -> dict[str, Value]:
        """A solution's arrays, and its objective, as the checker takes them."""
        return {}

    def parameters(self) -> str:
        """Parameters for CP-SAT, as text protocol buffer; they matter to nobody else."""
        return ""
