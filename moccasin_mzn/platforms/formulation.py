"""What a model of plans offers: a model file, the data for it, and the plan that a solution stands for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moccasin_mzn.instance import Instance
from moccasin_mzn.platforms.plan import Plan
from moccasin_mzn.platforms.platform import Goal, Platform


@dataclass(frozen=True)
class PlanProblem:
    """What is to be planned."""

    instance: Instance
    """Graph, input order and C_v: how many retention intervals each node may have in a memory that computes."""
    platform: Platform
    goal: Goal = Goal()


class PlanFormulation(ABC):
    """A model of plans in MiniZinc, over the data that `models/lib/instance.mzn` declares and some of its own."""

    name: str
    """"paging" or "devices", as told to people."""
    staged: bool
    """Do first computations keep to the input order? Then so do its proofs."""
    checker: str
    """The solution checker, a file of the models' folder."""

    @abstractmethod
    def model(self) -> Path:
        """The model file; its objective is the goal's."""

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
