"""MOCCASIN (Bartan et al., ICML 2023): retention intervals, of staged or of free events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.formulations.formulation import Formulation, models_folder
from moccasin_mzn.formulations.presolve import ModelData, presolve
from moccasin_mzn.formulations.retention import Intervals, decode
from moccasin_mzn.option import Option
from moccasin_mzn.problem.instance import Instance

PRECEDENCE = Option("served-by|reservoir", "Form of the precedence constraints.", choices=("served-by", "reservoir"))
INDEX = Option(
    "affine|triangular", "Numbering of staged events: without holes, or as published.", choices=("affine", "triangular")
)


@dataclass(frozen=True, kw_only=True)
class IntervalFormulation(Formulation):
    """A model whose solutions are retention intervals, in the arrays `active`, `start` and `end` of its output."""

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


@dataclass(frozen=True, kw_only=True)
class Moccasin(IntervalFormulation):
    """One of the paper's formulations with one form of its precedence constraint and of its event index.

    Staged, with reservoir and triangular, it is the published one, without redundant constraints.

    Raises:
        InputError: an unknown precedence or index; or a triangular index of free events.
    """

    precedence: str = "served-by"
    """"served-by": half-reified booleans; "reservoir": as published (2.2)."""
    index: str = "affine"
    """How staged events are numbered. "affine": starts without holes, and redundant constraints; "triangular": as
    published (2.3), neither."""

    two_phase: ClassVar[bool] = True
    own_options: ClassVar[Mapping[str, Option]] = {"precedence": PRECEDENCE, "index": INDEX}

    def __post_init__(self) -> None:
        for what, option in self.own_options.items():
            value = getattr(self, what)
            if value not in option.choices:
                raise InputError(f"unknown {what} {shown(value)}, expected one of {', '.join(option.choices)}")
        if self.index == "triangular" and not self.staged:
            raise InputError(f"the triangular index numbers staged events, the {self.name} formulation has free ones")
        if self.precedence == "reservoir":  # it needs no boolean for every pair of copies, as served-by does
            object.__setattr__(self, "growth", replace(self.growth, booleans="C n", constraints="C (n + m)"))

    def forms(self) -> Iterator[tuple[str, Formulation]]:
        reservoir = replace(self, precedence="reservoir")
        if self.staged:
            yield f"{self.name}, as published", replace(reservoir, index="triangular")
        yield f"{self.name} reservoir", reservoir
        yield self.name, self

    def model(self, objective: str) -> Path:
        suffix = {"affine": "", "triangular": "_triangular"}[self.index]
        suffix += {"served-by": "", "reservoir": "_reservoir"}[self.precedence]
        suffix += {"duration": "", "peak": "_peak"}[objective]
        return models_folder() / f"{self.name}{suffix}.mzn"
