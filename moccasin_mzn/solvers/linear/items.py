"""Solutions of a linear program as text, its objective and the bound on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.solvers.flatzinc.items import Output, outputs
from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.columns import Number, UnfitError
from moccasin_mzn.solvers.linear.program import LinearProgram, Translation


@dataclass(frozen=True, slots=True)
class LinearItem:
    """An output item; its elements are columns, or constants where `columns` is -1."""

    output: Output
    columns: Sequence[int]
    constants: Sequence[Number]

    def text(self, values: np.ndarray) -> str:
        """The line for a solution, by column."""
        pairs = zip(self.columns, self.constants, strict=True)
        return self.output.text(constant if column < 0 else values[column] for column, constant in pairs)


def linear_items(translation: Translation) -> list[LinearItem]:
    """The output items of a file; raises `FlatZincError` for one that names what is not declared."""
    file, columns = translation.file, translation.columns
    items = []
    for output in outputs(file):
        try:
            places = [columns.column(element) for element in output.elements]
            pairs = zip(places, output.elements, strict=True)
            constants = [columns.number(element) if place < 0 else 0 for place, element in pairs]
        except UnfitError as error:
            raise FlatZincError(f"{file.where(file.positions[output.name])}: {error}") from None
        items.append(LinearItem(output, places, constants))
    return items


def has_integer_objective(program: LinearProgram) -> bool:
    """Is the objective of every solution an integer?"""
    costs = program.objective[program.objective != 0]
    integers = program.is_integer[program.objective != 0].all() and (costs == np.rint(costs)).all()
    return bool(integers) and float(program.objective_offset).is_integer()


def safe_bound(program: LinearProgram, bound: float, precision: float, hidden: float = 0.0) -> Number | None:
    """A bound as told by a solver, rounded to the next integer if the objective is one; None if there is no bound.

    A solver takes numbers for equal that differ by 1e-6, or relatively by `precision`: so may the bound be off, and by
    what its tolerance may hide besides.
    """
    if not math.isfinite(bound) or abs(bound) >= 1e15:
        return None
    if not has_integer_objective(program):
        return float(bound)
    slack = max(1e-6, precision * abs(bound), hidden)
    return math.floor(bound + slack) if program.maximize else math.ceil(bound - slack)
