"""What a model of plans offers: a model file, the data for it, and the plan that a solution stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moccasin_mzn.errors import InputError
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.solvers.minizinc.integers import Sum


class PlanFormulation(ABC):
    """A model of plans in MiniZinc, over the data that `models/lib/instance.mzn` declares and some of its own."""

    name: str
    """"paging" or "devices", as told to people."""
    staged: bool
    """Do first computations keep to the input order? Then so do its proofs."""
    checker: str
    """The solution checker, a file of the models' folder."""
    compiled: tuple[CompiledSearch, ...] = ()
    """What its search needs of `compiled_searches`, beside what schedules for one memory need."""

    @abstractmethod
    def model(self, objective: str = "") -> Path:
        """The model file; its objective is the goal's, which may be named."""

    @abstractmethod
    def data(self, problem: PlanProblem) -> Any:
        """The reduced data of a problem, with whatever `plan` needs to read solutions."""

    @abstractmethod
    def data_items(self, data: Any, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Any]:
        """The items of the `.dzn` file.

        Args:
            incumbent: the warm start, a plan within the budgets that is a solution of this formulation.
            limit: only plans whose objective is at most this count, in the problem's unit.
        """

    @abstractmethod
    def plan(self, data: Any, values: Any) -> Plan:
        """The plan a solution stands for, from its arrays as attributes."""

    @abstractmethod
    def objective(self, data: Any, value: int) -> int:
        """An objective or a bound of the model in the problem's unit."""

    @abstractmethod
    def sums(self, data: Any) -> tuple[Sum, ...]:
        """The largest sums of the model."""

    # As searches take any formulation, see `Formulation`

    two_phase = False
    limited = True

    def answer(self, data: Any, values: Any) -> Plan:
        """The plan."""
        return self.plan(data, values)

    def items(self, problem: PlanProblem, data: Any, incumbent: Plan | None, limit: int | None) -> dict[str, Any]:
        """The items of the `.dzn` file."""
        return self.data_items(data, incumbent, limit)

    def check_start(self, problem: PlanProblem, plan: Plan) -> Plan:
        """A plan to start from, without actions that nothing needs: in stages there may be no place for them.

        Raises:
            InputError: it is not within budgets and limits, or no solution of the formulation.
        """
        flaws = [flaw.message for flaw in problem.judge(plan).violations]
        useful = plan if flaws else problem.pruned(plan)
        if not flaws and (problem.out_of_scope(plan) or self.out_of_scope(problem, useful)):
            flaws = [self.out_of_scope(problem, plan) or "it is no solution of this formulation"]
        if flaws:
            raise InputError(f"warm start: {flaws[0]}")
        return useful

    # What follows has a default.

    def in_any_order(self) -> PlanFormulation | None:
        """The form of this formulation that leaves the order open; None: there is none."""
        return None

    def title(self) -> str:
        """Name and form, as told to people."""
        return f"{self.name}, {'staged' if self.staged else 'general'}"

    def out_of_scope(self, problem: PlanProblem, plan: Plan) -> str | None:
        """Why a plan is no solution of this formulation, although the judge accepts it; None: it is one."""
        return problem.out_of_scope(plan)

    def instant_bound(self, problem: PlanProblem) -> int:
        """What is known at once: no solution of this formulation has less of the objective, in the problem's unit."""
        return 0

    def search(  # noqa: B027 (not every formulation has one)
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], Any], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        """Look for plans without the model, in a thread beside it, until `stop()`.

        Args:
            offer: takes a plan, which is judged: it must be a solution of this formulation within budgets and limits.
            better: the best plan of all so far, whoever found it.
        """

    def solution_items(self, data: Any, values: Any) -> dict[str, Any]:
        """A solution's arrays, and its objective, as the checker takes them."""
        return {}

    def parameters(self) -> str:
        """Parameters for CP-SAT, as text protocol buffer; they matter to nobody else."""
        return ""

    def checked(self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation, solution: Any) -> list[str]:
        """Verdicts of the solution checker, in MiniZinc, on a plan and on the model's own solution if there is one.

        Raises:
            CheckError: one of them is rejected, or has other figures than the judge's.
            InputError: MiniZinc is missing or failed.
        """
        return []
