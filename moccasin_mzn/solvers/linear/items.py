"""Solutions of a linear program as text, its objective and the bound on it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from moccasin_mzn.solvers.flatzinc.items import Output, outputs
from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.columns import Columns, Number, UnfitError
from moccasin_mzn.solvers.linear.program import LinearProgram, Translation


class LinearItem:
    """An output item; its elements are columns, or constants where `columns` is -1."""

    def __init__(self, output: Output, columns: Sequence[int], constants: Sequence[Number]) -> None:
        self.output = output
        self.columns = columns
        self._constants = constants

    def text(self, values: np.ndarray) -> str:
        """The line for a solution, by column."""
        numbers = [
            constant if column < 0 else values[column]
            for column, constant in zip(self.columns, self._constants, strict=True)
        ]
        if self.output.is_bool:
            return self.output.text("true" if number else "false" for number in numbers)
        if self.output.is_float:
            return self.output.text(repr(float(number) + 0.0) for number in numbers)  # -0.0 becomes 0.0
        return self.output.text(str(int(number)) for number in numbers)


def linear_items(translation: Translation) -> list[LinearItem]:
    """The output items of a file; raises `FlatZincError` for one that names what is not declared."""
    file, columns = translation.file, translation.columns
    items = []
    for output in outputs(file):
        try:
            items.append(_item(output, columns))
        except UnfitError as error:
            raise FlatZincError(f"{file.where(file.positions[output.name])}: {error}") from None
    return items


def _item(output: Output, columns: Columns) -> LinearItem:
    places = [columns.column(element) for element in output.elements]
    constants = [
        columns.number(element) if place < 0 else 0 for place, element in zip(places, output.elements, strict=True)
    ]
    return LinearItem(output, places, constants)


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
