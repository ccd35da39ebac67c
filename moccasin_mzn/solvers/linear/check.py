"""Solutions in doubles, rounded and checked: only what passes is printed."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.solvers.linear.columns import LARGEST_EXACT
from moccasin_mzn.solvers.linear.program import LinearProgram, Translation

SLACK = 1e-6
ROUNDING = 1e-9
"""A row with floats may be violated by the one, plus the other times its largest term."""
_SAFE = 2**62
"""Sums of magnitudes below this do not overflow 64 bits."""


class Checker:
    """Rounds integer columns, and checks every bound and row: rows of integers in exact integer arithmetic.

    `complaint` says what was wrong with the last solution that was refused. `overflown` becomes true if a solution had
    an integer too large for a double: what the solver says of such a program is worth nothing.
    """

    def __init__(self, translation: Translation) -> None:
        self.complaint: str | None = None
        self.overflown = False
        self._translation = translation
        program = self._program = translation.program
        self._row = program.entry_row
        self._exact = _rows_of_integers(program)
        self._floats = not (program.is_integer.all() and self._exact.all())
        integral = self._exact[self._row]
        self._coefficient = np.where(integral, program.row_coefficient, 0.0).astype(np.int64)
        self._low = _as_integers(np.where(self._exact, program.row_lower, -np.inf))
        self._high = _as_integers(np.where(self._exact, program.row_upper, np.inf))

    def check(self, values: np.ndarray) -> np.ndarray | None:
        """The solution with its integers rounded and its floats inside their bounds; None if that is none."""
        rounded = self.rounded(values)
        if rounded is None or (self._floats and self._unfit_floats(rounded)):
            return None
        return rounded

    def rounded(self, values: np.ndarray) -> np.ndarray | None:
        """As `check`, but rows with floats need not hold: there may be other floats with which they do."""
        program = self._program
        rounded = np.where(program.is_integer, np.rint(values), np.clip(values, program.lower, program.upper))
        return None if self._unfit_integers(rounded) else rounded

    def _unfit_integers(self, values: np.ndarray) -> bool:
        """Does an integer column leave its bounds or 2^53, or a row of integers its sides?"""
        program = self._program
        inexact = program.is_integer & ~(np.abs(values) <= LARGEST_EXACT)
        outside = inexact | (program.is_integer & ((values < program.lower) | (values > program.upper)))
        if outside.any():
            column = int(np.flatnonzero(outside)[0])
            self.overflown |= bool(inexact.any())
            why = "is no exact double" if inexact[column] else "is outside its domain"
            self.complaint = f"{program.names[column]} = {values[column]:.17g} {why}"
            return True
        integers = np.where(program.is_integer, values, 0.0).astype(np.int64)[program.row_column]
        magnitude = np.bincount(self._row, np.abs(self._coefficient.astype(float) * integers), program.rows)
        sums = np.concatenate([[0], np.cumsum(self._coefficient * integers)])  # may wrap around; differences do not
        activity = sums[program.row_start[1:]] - sums[program.row_start[:-1]]
        broken = (activity < self._low) | (activity > self._high)
        for row in np.flatnonzero(magnitude >= _SAFE).tolist():
            entries = program.entries(row)
            terms = zip(self._coefficient[entries].tolist(), integers[entries].tolist(), strict=True)
            total = sum(coefficient * value for coefficient, value in terms)
            broken[row] = not program.row_lower[row] <= total <= program.row_upper[row] if self._exact[row] else False
        return self._complain_of(broken)

    def _unfit_floats(self, values: np.ndarray) -> bool:
        """Is a float not finite, or a row with floats violated by more than the slack?"""
        program = self._program
        if not np.isfinite(values).all():
            self.complaint = f"{program.names[int(np.flatnonzero(~np.isfinite(values))[0])]} is not finite"
            return True
        terms = program.row_coefficient * values[program.row_column]
        largest = np.zeros(program.rows)
        np.maximum.at(largest, self._row, np.abs(terms))
        activity, slack = np.bincount(self._row, terms, program.rows), SLACK + ROUNDING * largest
        broken = (activity < program.row_lower - slack) | (activity > program.row_upper + slack)
        return self._complain_of(broken & ~self._exact)

    def _complain_of(self, broken: np.ndarray) -> bool:
        if not broken.any():
            return False
        position = self._translation.row_position[np.flatnonzero(broken)[0]]
        self.complaint = f"{self._translation.file.where(int(position))}: this constraint does not hold"
        return True


def _rows_of_integers(program: LinearProgram) -> np.ndarray:
    """Which rows have integer columns and integer numbers only?"""
    fractional = ~program.is_integer[program.row_column] | (program.row_coefficient != np.rint(program.row_coefficient))
    whole = np.bincount(program.entry_row, fractional, program.rows) == 0
    for side in (program.row_lower, program.row_upper):
        whole &= ~np.isfinite(side) | (side == np.rint(side))
    return whole


def _as_integers(sides: np.ndarray) -> np.ndarray:
    """Sides as 64-bit integers; beyond `_SAFE`, which no sum reaches that is compared with them, they are infinite."""
    return np.clip(sides, -_SAFE, _SAFE).astype(np.int64)
