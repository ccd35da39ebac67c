"""Rows of a linear program, collected one by one and turned into arrays at the end."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import Expression, FlatZinc, FlatZincError
from moccasin_mzn.solvers.linear.columns import LARGEST_EXACT, Columns, Number, UnfitError


class Rows:
    """`position` is the offset into the text of the item that rows are added for; `positions` those of all rows."""

    def __init__(self, columns: Columns, file: FlatZinc) -> None:
        self.position = 0
        self.positions: list[int] = []
        self._names = columns
        self._file = file
        self._starts = [0]
        self._columns: list[int] = []
        self._coefficients: list[Number] = []
        self._lower: list[Number] = []
        self._upper: list[Number] = []

    def add(self, coefficients: Sequence[Number], operands: Sequence[Expression], low: Number, high: Number) -> None:
        """`low <= sum of coefficients times operands <= high`; constants among the operands go to the sides.

        Raises `FlatZincError`, with its place, for what is no such row.
        """
        index = self._names.index
        try:
            columns = [index[operand] for operand in operands]
        except (KeyError, TypeError):
            columns, coefficients, constant = self._without_constants(coefficients, operands)
            low, high = low - constant, high - constant
        if len(columns) != len(coefficients):
            raise self._error(f"{len(coefficients)} coefficients, but {len(columns)} variables")
        if low > high:
            columns, coefficients, low, high = [], (), 1, inf
        self._columns += columns
        self._coefficients += coefficients
        self._starts.append(len(self._columns))
        self._lower.append(low)
        self._upper.append(high)
        self.positions.append(self.position)

    def _without_constants(
        self, coefficients: Sequence[Number], operands: Sequence[Expression]
    ) -> tuple[list[int], list[Number], Number]:
        if len(operands) != len(coefficients):
            raise self._error(f"{len(coefficients)} coefficients, but {len(operands)} variables")
        constant: Number = 0
        columns, rest = [], []
        for coefficient, operand in zip(coefficients, operands, strict=True):
            try:
                column = self._names.column(operand)
            except UnfitError as error:
                raise self._error(str(error)) from None
            if column < 0:
                constant += coefficient * self._names.number(operand)
            else:
                columns.append(column)
                rest.append(coefficient)
        return columns, rest, constant

    def arrays(self) -> dict[str, np.ndarray]:
        """As fields of a `LinearProgram`; columns ascend in a row, and no coefficient is 0.

        Raises `FlatZincError`, with its place, for a number that is infinite or no double.
        """
        start = np.array(self._starts, dtype=np.int64)
        column = np.array(self._columns, dtype=np.int32)
        row = np.repeat(np.arange(len(self._lower)), np.diff(start))
        for sides in (self._lower, self._upper):
            self._refuse_inexact(sides, np.arange(len(sides)), "side")
        self._refuse_inexact(self._coefficients, row, "coefficient")
        coefficient = np.array(self._coefficients, dtype=float)
        self._refuse(~np.isfinite(coefficient), row, "a coefficient is infinite")
        row, column, coefficient = _merge(row, column, coefficient, len(self._names.names))
        self._refuse(np.abs(coefficient) > LARGEST_EXACT, row, "the sum of coefficients is no exact double")
        return {
            "row_start": np.searchsorted(row, np.arange(len(self._lower) + 1)),
            "row_column": column,
            "row_coefficient": coefficient,
            "row_lower": np.array(self._lower, dtype=float),
            "row_upper": np.array(self._upper, dtype=float),
        }

    def _refuse_inexact(self, numbers: list[Number], rows: np.ndarray, what: str) -> None:
        for place, number in enumerate(numbers):
            if type(number) is int and not -LARGEST_EXACT <= number <= LARGEST_EXACT and float(number) != number:
                self.position = self.positions[rows[place]]
                raise self._error(f"the {what} {number} is no exact double")

    def _refuse(self, unfit: np.ndarray, row: np.ndarray, message: str) -> None:
        if unfit.any():
            self.position = self.positions[row[np.flatnonzero(unfit)[0]]]
            raise self._error(message)

    def _error(self, message: str) -> FlatZincError:
        return FlatZincError(f"{self._file.where(self.position)}: {message}")


def _merge(
    row: np.ndarray, column: np.ndarray, coefficient: np.ndarray, columns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sort the entries by row and column; add up those of the same column in a row, and drop those that are 0."""
    keys = row * columns + column
    order = np.argsort(keys, kind="stable")
    first = np.flatnonzero(np.diff(keys[order], prepend=-1))
    if len(first):
        coefficient = np.add.reduceat(coefficient[order], first)
    row, column = row[order[first]], column[order[first]]
    kept = coefficient != 0
    return row[kept], column[kept], coefficient[kept]
