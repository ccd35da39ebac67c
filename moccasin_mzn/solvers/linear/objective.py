"""What numbers in doubles prove about a program of integers, in exact integer arithmetic.

Weights y of the rows say, of every solution x within its bounds (Neumaier and Shcherbina, Safe bounds in linear and
mixed-integer linear programming, 2004)::

    c x  =  y (A x) + (c - y A) x  >=  sum of y_i times a side of row i  +  sum of least (c - y A)_j x_j

whatever y is: those that a solver finds, with its tolerances, give a bound that is nearly as good as its own, and true.
With c = 0 and a sum above 0 there is no solution (Farkas).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from moccasin_mzn.solvers.linear.program import LinearProgram

_BITS = 40
"""Weights are taken to so many binary places."""


def is_exact(program: LinearProgram) -> bool:
    """Are all columns and numbers integers, so that what a solver says is either true or false?"""
    numbers = (program.objective, program.row_coefficient, program.row_lower, program.row_upper)
    whole = all(np.all(~np.isfinite(some) | (some == np.rint(some))) for some in numbers)
    return whole and bool(program.is_integer.all()) and float(program.objective_offset).is_integer()


def magnitudes(program: LinearProgram, but: int = -1) -> tuple[float, float]:
    """The terms' largest magnitudes, summed over all rows, `but` aside, and over the objective; infinite or NaN where a
    column is not bounded.

    A column that is off by a tolerance moves a row by its coefficient times that, and doubles are exact relative to the
    largest term only. Where one row says what another begins with, as memory does from node to node, what they hide
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
#     column   total in 0..8                              row    0 <= 3 x + 5 y <= 8, unless x and y say so themselves


LOOSENED = 1e-6
"""By this part of the largest magnitudes of its terms, and by 1, a bound of the objective is wider for the solver: no
tolerance cuts off a solution there, and what is outside of the bound is refused when solutions are checked."""


@dataclass(frozen=True, eq=False)
class DirectObjective:
    """A program for a solver, with as many columns and rows as that of the file.

    `column` and `row` are those that the objective has in the file, -1 if that program is unchanged; for the solver the
    column is 0, and the row loose. The value is `offset` and the costs of the other columns, of which alone the solver
    knows: doubles then tell small differences apart.
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
    """The bounds of the objective as sides of a row of costs: infinite where the bounds of the columns say as much."""
    used = np.flatnonzero(costs)
    ends = np.stack([costs[used] * program.lower[used], costs[used] * program.upper[used]])
    least, most = offset + ends.min(axis=0).sum(), offset + ends.max(axis=0).sum()
    slack = np.floor(1.0 + LOOSENED * np.abs(ends).max(axis=0).sum())
    low, high = program.lower[column] - slack, program.upper[column] + slack
    return -np.inf if least >= low else low - offset, np.inf if most <= high else high - offset
