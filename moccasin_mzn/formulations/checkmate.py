"""Checkmate (Jain et al., MLSys 2020): what each stage of the input order computes, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from moccasin_mzn.formulations.formulation import Formulation
from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.formulations.searched import Solution
from moccasin_mzn.graphs.memory_model import refuse_in_place
from moccasin_mzn.problem.instance import MOST_COMPUTATIONS, Instance
from moccasin_mzn.solvers.minizinc.run import Member, Value


@dataclass(frozen=True, kw_only=True)
class Checkmate(Formulation):
    """The rival's mixed-integer program: a node is computed at most once per stage, and that is all that limits it.

    Its schedules are those of the staged formulation with C = n.
    """

    strengthened: bool = False
    """With memory by outputs that are alive until their last use in a stage, without a large constant, and without
    recomputations that presolve finds useless; otherwise as published."""

    limited: ClassVar[bool] = False

    @property
    def main(self) -> str:
        return "checkmate.mzn"

    @property
    def checker(self) -> str:
        return "checkmate.mzc.mzn"

    def choices(self, objective: str) -> dict[str, Value]:
        return {"memory": Member("ALIVE")} if self.strengthened else {}

    def data(self, problem: Instance) -> ModelData:
        """Every node may be computed in every stage from its own on; the strengthened form looks at the useful ones."""
        refuse_in_place(problem.graph, "Checkmate's models")
        n = len(problem.order)
        unlimited = replace(problem, max_computations=(min(n, MOST_COMPUTATIONS),) * n)
        data = presolve(unlimited, staged=True)
        stages = range(1, n + 1)
        data = replace(data, max_computations=tuple(n - v + 1 for v in stages), critical_stage=frozenset())
        if self.strengthened:
            return data
        return replace(data, earliest_stage=tuple(min(v + 1, n) for v in stages), latest_stage=(n,) * n)

    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """What a stage keeps and what it computes."""
        return (2,) * len(data.size)

    def sequence(self, data: ModelData, values: Solution) -> tuple[int, ...]:
        """Stage by stage, and within a stage in the input order."""
        return tuple(v for row in values.R for v, computed in zip(data.order, row, strict=True) if computed)

    def solution_items(self, data: ModelData, values: Solution) -> dict[str, Value]:
        return {"R": values.R, "S": values.S, "total_duration": values.objective}

    def parameters(self) -> str:
        """Without its whole linear relaxation CP-SAT finds no bound here."""
        return "linearization_level:2"
