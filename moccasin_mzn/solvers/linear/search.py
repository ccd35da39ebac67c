"""Calls of an engine whose answers are not taken on trust: rounded, checked, and written as solutions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from moccasin_mzn.solvers.flatzinc.stream import Output, outputs
from moccasin_mzn.solvers.flatzinc.syntax import FlatZincError
from moccasin_mzn.solvers.linear.engine import Ending, Engine, Settings, SolutionListener
from moccasin_mzn.solvers.linear.program import LARGEST_EXACT, LinearProgram, Number, Translation, UnfitError

# --- What floating point proves about a program of integers, in exact integer arithmetic ----------------------

# Weights y of the rows imply, for every solution x within its bounds (Neumaier and Shcherbina, Safe bounds in linear
# and mixed-integer linear programming, 2004)::
#
#     c x  =  y (A x) + (c - y A) x  >=  sum of y_i times a side of row i  +  sum of least (c - y A)_j x_j
#
# whatever y is: those that a solver finds, with its tolerances, give a bound that is nearly as good as its own, and
# true. With c = 0 and a sum above 0 there is no solution (Farkas).


_BITS = 40
"""Weights are taken to this many binary places."""


def is_exact(program: LinearProgram) -> bool:
    """Are all columns and numbers integers, so that a solver's claim is either true or false?"""
    numbers = (program.objective, program.row_coefficient, program.row_lower, program.row_upper)
    whole = all(np.all(~np.isfinite(some) | (some == np.rint(some))) for some in numbers)
    return whole and bool(program.is_integer.all()) and float(program.objective_offset).is_integer()


def magnitudes(program: LinearProgram, but: int = -1) -> tuple[float, float]:
    """The terms' largest magnitudes, summed over all rows, `but` aside, and over the objective; infinite or NaN where a
    column is not bounded.

    A column that is off by a tolerance moves a row by its coefficient times that, and floats are exact relative to the
    largest term only. Where one row defines what another begins with, as memory does from node to node, what they hide
    adds up: at most the tolerance of a solver times this.
    """
    largest = np.maximum(np.abs(program.lower), np.abs(program.upper))
    largest = np.where(program.lower == program.upper, np.minimum(largest, 1.0), np.maximum(largest, 1.0))
    rows = np.bincount(program.entry_row, np.abs(program.row_coefficient) * largest[program.row_column], program.rows)
    if but >= 0:
        rows[but] = 0.0
    costs = program.objective != 0
    return float(rows.sum()), float(np.abs(program.objective[costs]) @ largest[costs])


def contradicts_itself(program: LinearProgram) -> bool:
    """Is there an equation whose coefficients have a common divisor that its side has not?"""
    for row in np.flatnonzero(program.row_lower == program.row_upper).tolist():
        divisor = math.gcd(*map(int, program.row_coefficient[program.entries(row)]))
        if divisor and int(program.row_lower[row]) % divisor:
            return True
    return False


def weights(duals: np.ndarray) -> list[int]:
    """Row weights as integers, in units of 2^-40."""
    scaled = np.where(np.isfinite(duals), duals, 0.0)
    return [int(np.ldexp(weight, _BITS)) if abs(weight) < 2.0**80 else 0 for weight in scaled]


def dual_bound(program: LinearProgram, duals: np.ndarray) -> int | None:
    """The bound on the objective of integer solutions that weights of the rows prove; None if they prove none.

    Below the objective of all solutions if it is minimised, above if it is maximised. `program` must satisfy
    `is_exact`. The weights are those of the minimisation of the objective, or of its negative.
    """
    sign = -1 if program.maximize else 1
    least = _least(program, [sign * int(cost) << _BITS for cost in program.objective.tolist()], weights(duals))
    if least is None:
        return None
    bound = -(-least >> _BITS)  # rounded up: the objective is an integer
    return sign * bound + int(program.objective_offset)


def proves_infeasible(program: LinearProgram, ray: np.ndarray) -> bool:
    """Do weights of the rows show that there is no solution? `program` must satisfy `is_exact`."""
    largest = float(np.abs(ray[np.isfinite(ray)]).max(initial=0.0))
    if largest == 0.0:
        return False
    for sign in (1.0, -1.0):
        least = _least(program, [0] * program.columns, weights(sign * ray / largest))
        if least is not None and least > 0:
            return True
    return False


def _least(program: LinearProgram, costs: list[int], weight: list[int]) -> int | None:
    """What no solution can be below: see above; costs and weights in one unit. None if it is minus infinity."""
    total, reduced = 0, costs
    start, column, coefficient = (
        array.tolist() for array in (program.row_start, program.row_column, program.row_coefficient)
    )
    lower, upper = program.row_lower.tolist(), program.row_upper.tolist()
    for row, factor in enumerate(weight):
        side = lower[row] if factor > 0 else upper[row]
        if not factor or abs(side) == float("inf"):
            continue  # a weight for a side that is not there counts for nothing
        total += factor * int(side)
        for entry in range(start[row], start[row + 1]):
            reduced[column[entry]] -= factor * int(coefficient[entry])
    for cost, low, high in zip(reduced, program.lower.tolist(), program.upper.tolist(), strict=True):
        bound = low if cost > 0 else high
        if cost:
            if abs(bound) == float("inf"):
                return None
            total += cost * int(bound)
    return total


# --- The objective as costs of columns, where a file has it as one more column that a row defines -------------

# MiniZinc names the objective: `3 x + 5 y - total = 0`, `minimize total`. Where costs are large, a solver then meets
# them in a row, whose tolerance is absolute: it may take a solution for none, or none for a solution. As costs they
# matter to nothing but the order of solutions::
#
#     row      3 x + 5 y - total = 0         becomes      costs  3 x + 5 y
#     column   total in 0..8                              row    0 <= 3 x + 5 y <= 8, unless bounds imply it


LOOSENED = 1e-6
"""By this part of the largest magnitudes of its terms, and by 1, a bound of the objective is wider for the solver: no
tolerance cuts off a solution there, and what is outside of the bound is refused when solutions are checked."""


@dataclass(frozen=True, eq=False)
class DirectObjective:
    """A program for a solver, with as many columns and rows as that of the file.

    `column` and `row` are those that the objective has in the file, -1 if that program is unchanged; for the solver the
    column is 0, and the row loose. The value is `offset` and the costs of the other columns, which the solver alone
    knows: floating point then distinguishes small differences.
    """

    program: LinearProgram
    column: int = -1
    row: int = -1
    offset: int = 0

    def restored(self, values: np.ndarray) -> np.ndarray:
        """A solution as the file has it: the objective with its value, for integers rounded as they will be."""
        if self.column < 0 or not np.isfinite(values).all():
            return values
        program = self.program
        costs = program.objective
        exact = sum(int(costs[i]) * int(np.rint(values[i])) for i in np.flatnonzero(costs))
        restored = values.copy()
        restored[self.column] = float(exact + self.offset)
        return restored


def direct(program: LinearProgram) -> DirectObjective:
    """A program of integers with its objective as costs, where a single row defines it; any other as it is."""
    costly = np.flatnonzero(program.objective)
    if not is_exact(program) or len(costly) != 1 or program.objective[costly[0]] != 1 or program.objective_offset:
        return DirectObjective(program)
    column = int(costly[0])
    entries = np.flatnonzero(program.row_column == column)
    if len(entries) != 1:
        return DirectObjective(program)
    row = int(program.entry_row[entries[0]])
    inside = program.entries(row)
    columns, coefficients = program.row_column[inside], program.row_coefficient[inside]
    own, side = float(program.row_coefficient[entries[0]]), float(program.row_lower[row])
    if abs(own) != 1 or side != program.row_upper[row]:
        return DirectObjective(program)
    # own * z + sum of the others = side, so z = offset + costs of the others
    costs = np.zeros(program.columns)
    costs[columns] = -own * coefficients
    costs[column] = 0.0
    lower, upper = program.lower.copy(), program.upper.copy()
    lower[column] = upper[column] = 0.0
    coefficient = program.row_coefficient.copy()
    coefficient[inside] = costs[columns]
    offset = own * side
    low, high = _needed_sides(program, column, costs, offset)
    row_lower, row_upper = program.row_lower.copy(), program.row_upper.copy()
    row_lower[row], row_upper[row] = low, high
    solved = replace(
        program,
        lower=lower,
        upper=upper,
        objective=costs,
        row_coefficient=coefficient,
        row_lower=row_lower,
        row_upper=row_upper,
    )
    return DirectObjective(solved, column, row, int(offset))


def _needed_sides(program: LinearProgram, column: int, costs: np.ndarray, offset: float) -> tuple[float, float]:
    """The bounds of the objective as sides of a row of costs: infinite where the bounds of the columns imply as
    much."""
    used = np.flatnonzero(costs)
    ends = np.stack([costs[used] * program.lower[used], costs[used] * program.upper[used]])
    least, most = offset + ends.min(axis=0).sum(), offset + ends.max(axis=0).sum()
    slack = np.floor(1.0 + LOOSENED * np.abs(ends).max(axis=0).sum())
    low, high = program.lower[column] - slack, program.upper[column] + slack
    return -np.inf if least >= low else low - offset, np.inf if most <= high else high - offset


# --- Rounding and checking ------------------------------------------------------------------------------------


SLACK = 1e-6
ROUNDING = 1e-9
"""A row with floats may be violated by the one, plus the other times its largest term."""
_SAFE = 2**62
"""Sums of magnitudes below this do not overflow 64 bits."""


class Checker:
    """Rounds integer columns, and checks every bound and row: rows of integers in exact integer arithmetic.

    `complaint` states what was wrong with the last solution that was refused. `overflown` becomes true if a solution
    had an integer too large for a double: the solver's answer for such a program is worth nothing.
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
        """The solution with its integers rounded and its floats inside their bounds; None if that is no solution."""
        rounded = self.rounded(values)
        if rounded is None or (self._floats and self._unfit_floats(rounded)):
            return None
        return rounded

    def rounded(self, values: np.ndarray) -> np.ndarray | None:
        """Check, but rows with floats need not hold: there may be other floats with which they do."""
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
    """A bound as a solver reports it, rounded to the next integer if the objective is one; None if there is no bound.

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


class Trial(NamedTuple):
    """What of `Settings` changes from trial to trial."""

    tolerance: float
    presolve: bool


TRIALS = (Trial(1e-7, True), Trial(1e-7, False), Trial(1e-9, False))
"""Settings in the order of trial. The usual tolerance, 1e-6, lets more through that rounding breaks."""
LARGE = 1e9
"""From here on neighbouring floats differ by 1e-7."""


class Search:
    """An engine at work on a program, or on one with more columns and rows; `settings` gives what holds just now."""

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

    def run(self, program: LinearProgram, listener: SolutionListener) -> Ending:
        """Call the engine; again, more carefully, if it fails or what it calls optimal does not stand the check.

        The status is "failed" or "refused" if that does not help. Nothing is infeasible for which the engine had found
        a solution before, even a wrong one; and where numbers are large, the word of a presolve is not enough. Where
        all that the engine claims is doubtful, any solution will do: others have to confirm the claim that it is the
        best. The listener gets the last solution and bound as well.
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
            elif ending.status == "infeasible" and trial.presolve and not self._doubtful and _has_large_sides(program):
                continue
            elif ending.status != "failed" and not (claimed and ending.status == "infeasible"):
                return ending
        return ending if ending.status == "failed" else replace(ending, status="refused")

    def _call(self, program: LinearProgram, listener: SolutionListener, trial: Trial) -> Ending:
        if program.columns:
            return self._engine(program, replace(self._settings(), **trial._asdict()), listener)
        holds = bool(np.all((program.row_lower <= 0) & (program.row_upper >= 0)))  # solvers do not like such programs
        return Ending("optimal" if holds else "infeasible", np.zeros(0), program.objective_offset)

    def _accept(self, program: LinearProgram, values: np.ndarray, listener: SolutionListener) -> bool:
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
    """A `SolutionListener` that keeps nothing."""

    def solution(self, values: np.ndarray) -> None:
        """Forget it."""

    def progress(self, bound: float, nodes: int) -> None:
        """Forget it."""


def _has_large_sides(program: LinearProgram) -> bool:
    """Do the floats around some side of a row differ by as much as the tolerances? HiGHS has called
    x - 100000 y = -4487300000 infeasible."""
    sides = np.concatenate([program.row_lower, program.row_upper])
    return bool((np.abs(sides[np.isfinite(sides)]) >= LARGE).any())
