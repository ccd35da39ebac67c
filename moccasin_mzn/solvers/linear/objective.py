"""The objective as costs of columns, where a file has it as one more column that a row defines.

MiniZinc names the objective: `3 x + 5 y - total = 0`, `minimize total`. Where costs are large, a solver then meets them
in a row, whose tolerance is absolute: it may take a solution for none, or none for a solution. As costs they matter to
nothing but the order of solutions::

    row      3 x + 5 y - total = 0         becomes      costs  3 x + 5 y
    column   total in 0..8                              row    0 <= 3 x + 5 y <= 8, unless x and y say so themselves
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from moccasin_mzn.solvers.linear.exact import is_exact
from moccasin_mzn.solvers.linear.program import LinearProgram

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
