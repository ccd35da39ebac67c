"""A mixed integer linear program in numpy arrays, and how FlatZinc becomes one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import Constraint, FlatZinc, FlatZincError, UnsupportedError
from moccasin_mzn.solvers.linear.columns import Columns, UnfitError
from moccasin_mzn.solvers.linear.constraints import ROWS, Row
from moccasin_mzn.solvers.linear.rows import Rows


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise or maximise `objective @ x + objective_offset` subject to `lower <= x <= upper` and to the rows.

    Row i holds the entries `row_start[i]:row_start[i + 1]` of `row_column`, which ascend, and of `row_coefficient`
    (compressed sparse rows), and says `row_lower[i] <= their sum <= row_upper[i]`. Bounds and sides may be infinite.
    Integers of the file are exact: one that is no double is refused, or, as a bound of a variable, rounded outwards.

    Raises `ValueError` on creation if the arrays do not fit together or hold what is no number.
    """

    names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    is_integer: np.ndarray
    objective: np.ndarray
    objective_offset: float
    maximize: bool
    row_start: np.ndarray
    row_column: np.ndarray
    row_coefficient: np.ndarray
    row_lower: np.ndarray
    row_upper: np.ndarray

    def __post_init__(self) -> None:
        columns, rows = len(self.names), len(self.row_lower)
        if any(len(array) != columns for array in (self.lower, self.upper, self.is_integer, self.objective)):
            raise ValueError(f"there are {columns} names, but not as many bounds, kinds or costs")
        if len(self.row_upper) != rows or len(self.row_start) != rows + 1 or self.row_start[0] != 0:
            raise ValueError("the sides and starts of rows are not of the same number of rows")
        if np.any(np.diff(self.row_start) < 0) or not self.row_start[-1] == len(self.row_column) == len(
            self.row_coefficient
        ):
            raise ValueError("the starts of rows do not divide the entries")
        if len(self.row_column) and not 0 <= self.row_column.min() <= self.row_column.max() < columns:
            raise ValueError("an entry is in no column")
        if not (np.isfinite(self.row_coefficient).all() and np.isfinite(self.objective).all()):
            raise ValueError("a coefficient is not finite")
        if not (np.all(self.lower <= self.upper) and np.all(self.row_lower <= self.row_upper)):
            raise ValueError("a lower bound is above its upper bound")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.names)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.row_lower)

    @cached_property
    def entry_row(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.row_start))

    def entries(self, row: int) -> slice:
        """Where the entries of a row are."""
        return slice(self.row_start[row], self.row_start[row + 1])


@dataclass(frozen=True, eq=False)
class Translation:
    """A file as a linear program. `row_position` says for every row which offset into the text it comes from."""

    file: FlatZinc
    columns: Columns
    program: LinearProgram
    row_position: np.ndarray


def linear_program(file: FlatZinc) -> LinearProgram:
    """The linear program that a FlatZinc file says.

    Raises `UnsupportedError` for a constraint that is no row, and `FlatZincError` for what no linear program in doubles
    can hold, each in one line that starts with the place.
    """
    return translate(file).program


def translate(file: FlatZinc) -> Translation:
    """As `linear_program`, with what is needed to come back from columns and rows to the file."""
    columns = Columns(file)
    rows = Rows(columns, file)
    for variable in file.variables.values():
        if variable.value is not None:
            rows.position = file.positions[variable.name]
            rows.add((1, -1), (variable.name, variable.value), 0, 0)
    for item in file.constraints:
        if id(item) not in columns.aliased:
            rows.position = item.position
            rows.add(*_row(file, columns, item))
    lower, upper = np.array(columns.lower, dtype=float), np.array(columns.upper, dtype=float)
    for empty in np.flatnonzero(lower > upper):  # of its domain
        rows.position = file.positions[columns.names[empty]]
        rows.add((), (), 1, np.inf)
        lower[empty] = upper[empty] = 0.0
    objective, offset = _objective(file, columns)
    program = LinearProgram(
        names=tuple(columns.names),
        lower=lower,
        upper=upper,
        is_integer=np.array(columns.is_integer, dtype=bool),
        objective=objective,
        objective_offset=offset,
        maximize=file.solve.goal == "maximize",
        **rows.arrays(),
    )
    return Translation(file, columns, program, np.array(rows.positions, dtype=np.int64))


def _row(file: FlatZinc, columns: Columns, item: Constraint) -> Row:
    known = ROWS.get(item.name)
    if known is None:
        raise UnsupportedError(f"{file.where(item.position)}: unsupported constraint {item.name}")
    arity, form = known
    if len(item.arguments) != arity:
        raise FlatZincError(f"{file.where(item.position)}: {item.name} takes {arity} arguments")
    try:
        return form(columns, *item.arguments)
    except UnfitError as error:
        raise FlatZincError(f"{file.where(item.position)}: {item.name}: {error}") from None


def _objective(file: FlatZinc, columns: Columns) -> tuple[np.ndarray, float]:
    """Costs and offset; all 0 if there is nothing to optimise."""
    costs, goal = np.zeros(len(columns.names)), file.solve
    if goal.goal == "satisfy":
        return costs, 0.0
    try:
        column = columns.column(goal.objective)
        if column < 0:
            return costs, float(columns.number(goal.objective))
    except UnfitError as error:
        raise FlatZincError(f"{file.where(goal.position)}: {error}") from None
    costs[column] = 1.0
    return costs, 0.0
