"""MOCCASIN (Bartan et al., ICML 2023): retention intervals, of staged or of free events."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations.formulation import Formulation, models_folder
from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.formulations.retention import Intervals, decode
from moccasin_mzn.problem.instance import Instance

MOCCASIN = ("staged", "general")
PRECEDENCES = ("served-by", "reservoir")
INDICES = ("affine", "triangular")


@dataclass(frozen=True)
class Moccasin(Formulation):
    """One of the paper's formulations with one form of its precedence constraint and of its event index.

    `Moccasin("staged", "reservoir", "triangular")` is the published one, without redundant constraints.

    Raises:
        InputError: an unknown name, where the message lists the known ones; or a triangular index of free events.
    """

    name: str = "staged"
    """"staged": stages of the input order (2.3); "general": the order is open (2.1)."""
    precedence: str = "served-by"
    """"served-by": half-reified booleans; "reservoir": as published (2.2)."""
    index: str = "affine"
    """How staged events are numbered. "affine": starts without holes, and redundant constraints; "triangular": as
    published (2.3), neither."""

    two_phase: ClassVar[bool] = True
    limited: ClassVar[bool] = True
    checker: ClassVar[str] = "schedule.mzc.mzn"

    def __post_init__(self) -> None:
        for what, value, known in (
            ("formulation", self.name, MOCCASIN),
            ("precedence", self.precedence, PRECEDENCES),
            ("index", self.index, INDICES),
        ):
            if value not in known:
                raise InputError(f"unknown {what} {shown(value)}, expected one of {', '.join(known)}")
        if self.index == "triangular" and not self.staged:
            raise InputError("the triangular index numbers staged events, the general formulation has free ones")

    @property
    def staged(self) -> bool:
        return self.name == "staged"

    def model(self, objective: str) -> Path:
        suffix = {"affine": "", "triangular": "_triangular"}[self.index]
        suffix += {"served-by": "", "reservoir": "_reservoir"}[self.precedence]
        suffix += {"duration": "", "peak": "_peak"}[objective]
        return models_folder() / f"{self.name}{suffix}.mzn"

    def presolve(self, instance: Instance) -> ModelData:
        return presolve(instance, self.staged)

    def copies_counted(self, data: ModelData) -> tuple[int, ...]:
        """Each interval once; in the cover constraints of staged events each copy as often as it is the latest."""
        return tuple(most * max(1, most - 1) if self.staged else most for most in data.max_computations)

    def sequence(self, data: ModelData, values: Any) -> tuple[int, ...]:
        return decode(data, Intervals(tuple(values.active), tuple(values.start), tuple(values.end)))

    def solution_items(self, data: ModelData, values: Any) -> dict[str, Any]:
        arrays = {name: tuple(getattr(values, name)) for name in ("active", "start", "end")}
        return {**arrays, "total_duration": values.objective, "capacity": data.budget}
