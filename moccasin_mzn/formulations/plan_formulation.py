"""What a model of plans offers: a model file, the data for it, and the plan that a solution stands for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Generic

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.searched import DataT, Searched, Solution
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.solvers.minizinc.run import Value


class PlanFormulation(Searched[PlanProblem, DataT, Plan], Generic[DataT]):
    """A model of plans, over some data of its own besides."""

    @abstractmethod
    def data_items(self, data: DataT, incumbent: Plan | None = None, limit: int | None = None) -> dict[str, Value]:
        """As `items`."""

    @abstractmethod
    def plan(self, data: DataT, values: Solution) -> Plan:
        """As `answer`."""

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

    # What follows has a default.

    def in_any_order(self) -> PlanFormulation | None:
        """The form of this formulation that leaves the order open; None: there is none."""
        return None

    def title(self) -> str:
        """Name and form for people."""
        return f"{self.name}, {'staged' if self.staged else 'general'}"

    def out_of_scope(self, problem: PlanProblem, plan: Plan) -> str | None:
        return problem.out_of_scope(plan)

    def search(  # noqa: B027 (not every formulation has one)
        self, problem: PlanProblem, seed: int, offer: Callable[[Plan], object], stop: Callable[[], bool],
        better: Callable[[], Plan | None],
    ) -> None:  # fmt: skip
        """Look for plans without the model, in a thread beside it, until `stop()`.

        Args:
            offer: takes a plan, which is judged: it must be a solution of this formulation within budgets and limits.
            better: the best plan of all so far, whoever found it.
        """

    def checked(
        self, problem: PlanProblem, plan: Plan, simulation: PlanSimulation, solution: Mapping[str, Value] | None
    ) -> list[str]:
        """Verdicts of the solution checker, in MiniZinc, on a plan and on the model's own solution if there is one.

        Raises:
            CheckError: one of them is rejected, or has other figures than the judge's.
            InputError: MiniZinc is missing or failed.
        """
        return []
