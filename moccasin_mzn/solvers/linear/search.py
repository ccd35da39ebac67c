"""Calls of an engine whose answers are not taken on trust: rounded, checked, and written as solutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from moccasin_mzn.solvers.flatzinc.stream import Output, outputs
from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.engine import Ending, Engine, Listener, Settings
from moccasin_mzn.solvers.linear.objective import DirectObjective
from moccasin_mzn.solvers.linear.program import LARGEST_EXACT, LinearProgram, Number, Translation, UnfitError

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


# --- Solutions of a linear program as text, its objective and the bound on it ---------------------------------


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


# --- Calls of an engine whose answers are not taken on trust --------------------------------------------------


TRIALS = (
    {"tolerance": 1e-7, "presolve": True},
    {"tolerance": 1e-7, "presolve": False},
    {"tolerance": 1e-9, "presolve": False},
)
"""Settings in the order of trial. The usual tolerance, 1e-6, lets more through that rounding breaks."""
LARGE = 1e9
"""From here on neighbouring doubles differ by 1e-7."""


class Search:
    """An engine at work on a program, or on one with more columns and rows; `settings` tells what holds just now."""

    def __init__(
        self,
        engine: Engine,
        checker: Checker,
        direct: DirectObjective,
        settings: Callable[[], Settings],
        doubtful: bool = False,
    ) -> None:
        self._engine = engine
        self._checker = checker
        self._direct = direct
        self._program = direct.program
        self._integral = has_integer_objective(direct.program)
        self._settings = settings
        self._doubtful = doubtful

    def run(self, program: LinearProgram, listener: Listener) -> Ending:
        """Call the engine; again, more carefully, if it fails or what it calls optimal does not stand the check.

        The status is "failed" or "refused" if that does not help. Nothing is infeasible for which the engine had found
        a solution before, even a wrong one; and where numbers are large, the word of a presolve is not enough. Where
        all that the engine says is doubtful, any solution will do: others have to confirm the claim that it is the
        best. The listener is told the last solution and bound as well.
        """
        claimed = False
        for trial in TRIALS:
            ending = self._call(program, listener, trial)
            listener.progress(ending.bound, ending.nodes)
            accepted = ending.values is not None and self._accept(program, ending.values, listener)
            if self._checker.overflown:
                break
            if ending.status == "optimal" and not accepted:
                claimed = True
            elif (
                ending.status == "infeasible" and trial["presolve"] and not self._doubtful and _has_large_sides(program)
            ):
                continue
            elif ending.status != "failed" and not (claimed and ending.status == "infeasible"):
                return ending
        return ending if ending.status == "failed" else replace(ending, status="refused")

    def _call(self, program: LinearProgram, listener: Listener, trial: dict[str, Any]) -> Ending:
        if program.columns:
            return self._engine(program, replace(self._settings(), **trial), listener)
        holds = bool(np.all((program.row_lower <= 0) & (program.row_upper >= 0)))  # solvers do not like such programs
        return Ending("optimal" if holds else "infeasible", np.zeros(0), program.objective_offset)

    def _accept(self, program: LinearProgram, values: np.ndarray, listener: Listener) -> bool:
        """Hand on a solution, if it is one, possibly with other floats; is it one with the objective that it had?"""
        own = values[: self._program.columns]
        checked = self._checker.check(self._direct.restored(own))
        if checked is None:
            checked = self._repaired(own)
        if checked is None:
            return False
        listener.solution(checked)
        if self._doubtful:
            return True
        costs = program.objective[: self._program.columns]
        slack = 0.5 if self._integral else SLACK * max(1.0, abs(float(costs @ own)))
        return abs(float(costs @ (checked - own))) <= slack

    def _repaired(self, values: np.ndarray) -> np.ndarray | None:
        """The rounded integers of a solution with the best floats for them, if there are any."""
        program, rounded = self._program, self._checker.rounded(values)
        if rounded is None or program.is_integer.all():
            return None
        lower = np.where(program.is_integer, rounded, program.lower)
        upper = np.where(program.is_integer, rounded, program.upper)
        ending = self._call(replace(program, lower=lower, upper=upper), Deaf(), TRIALS[-1])
        return None if ending.values is None else self._checker.check(ending.values)


class Deaf:
    """A `Listener` that keeps nothing."""

    def solution(self, values: np.ndarray) -> None:
        """Forget it."""

    def progress(self, bound: float, nodes: int) -> None:
        """Forget it."""


def _has_large_sides(program: LinearProgram) -> bool:
    """Do the doubles around some side of a row differ by as much as the tolerances? HiGHS has called
    x - 100000 y = -4487300000 infeasible."""
    sides = np.concatenate([program.row_lower, program.row_upper])
    return bool((np.abs(sides[np.isfinite(sides)]) >= LARGE).any())
