"""A mixed integer linear program in numpy arrays, and how FlatZinc becomes one.

First columns (which one a name stands for, and what values it may take), then rows, then the constraints that are rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

import numpy as np

from moccasin_mzn.solvers.flatzinc.syntax import (
    HIGHEST,
    LOWEST,
    Constraint,
    Expression,
    FlatZinc,
    FlatZincError,
    FloatSet,
    UnsupportedError,
    Variable,
    describe,
)

Number = int | float
"""A constant; bools count as 0 and 1."""
LARGEST_EXACT = 2**53
"""Up to here every integer is a double."""


class UnfitError(FlatZincError):
    """A constraint that no row can express; the message has no place yet."""


class Columns:
    """One column for every variable, except that `int2float(x, f)` makes f another name of the column of x.

    Attributes:
        index: column by name.
        names: name by column.
        lower, upper: bounds by column, infinite where there are none; `lower > upper` for an empty domain.
        is_integer: by column.
        aliased: ids of the constraints that aliases make true.
    """

    def __init__(self, file: FlatZinc) -> None:
        self._file = file
        self._constants = {name: value for name, value in file.parameters.items() if isinstance(value, (int, float))}
        self._arrays: dict[str, list[Number]] = {}
        self.index: dict[str, int] = {}
        self.names: list[str] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.is_integer: list[bool] = []
        self.aliased: set[int] = set()
        aliases = self._find_aliases()
        for variable in file.variables.values():
            if variable.name not in aliases:
                self._declare(variable)
        for alias, name in aliases.items():
            column = self.index[alias] = self.index[name]
            low, high = self._bounds(file.variables[alias])
            self.lower[column] = max(self.lower[column], low if math.isinf(low) else math.ceil(low))
            self.upper[column] = min(self.upper[column], high if math.isinf(high) else math.floor(high))

    def _find_aliases(self) -> dict[str, str]:
        aliases: dict[str, str] = {}
        variables = self._file.variables
        for item in self._file.constraints:
            if item.name == "int2float" and len(item.arguments) == 2:
                source, target = (variables.get(name) if type(name) is str else None for name in item.arguments)
                if source and target and target.is_float and not source.is_float and target.name not in aliases:
                    aliases[target.name] = source.name
                    self.aliased.add(id(item))
        return aliases

    def _declare(self, variable: Variable) -> None:
        self.index[variable.name] = len(self.names)
        self.names.append(variable.name)
        low, high = self._bounds(variable)
        self.lower.append(low)
        self.upper.append(high)
        self.is_integer.append(not variable.is_float)

    def _bounds(self, variable: Variable) -> tuple[float, float]:
        """An integer that is no double is rounded outwards, where no solution is accepted anyway (see `check`)."""
        domain = variable.domain
        if variable.is_bool:
            return 0.0, 1.0
        if domain is None:
            return -math.inf, math.inf
        if isinstance(domain, FloatSet):
            return domain.low, domain.high
        if not domain.ranges:
            return math.inf, -math.inf
        if len(domain.ranges) > 1:
            place = self._file.where(self._file.positions[variable.name])
            raise UnsupportedError(f"{place}: {variable.name}: a domain with holes is not supported")
        low, high = domain.ranges[0]
        return -outwards(-low) if low > LOWEST else -math.inf, outwards(high) if high < HIGHEST else math.inf

    def number(self, value: Expression) -> Number:
        """A numeric constant, as a literal or by the name of a parameter; `UnfitError` for all else."""
        content = self._constants.get(value) if type(value) is str else value
        if isinstance(content, (int, float)):
            return content
        raise self._mismatch("a constant", value)

    def numbers(self, value: Expression) -> list[Number]:
        """An array of numeric constants, as a literal or by name."""
        if type(value) is str and value in self._arrays:
            return self._arrays[value]
        content = self._file.parameters.get(value) if type(value) is str else value
        if type(content) is not list:
            raise self._mismatch("an array of constants", value)
        numbers = content if set(map(type, content)) <= {int, float} else [self.number(item) for item in content]
        if type(value) is str:
            self._arrays[value] = numbers
        return numbers

    def operands(self, value: Expression) -> list[Expression]:
        """The elements of an array of variables or constants, as a literal or by name."""
        if type(value) is list:
            return value
        if type(value) is str:
            array = self._file.arrays.get(value)
            content = array.elements if array else self._file.parameters.get(value)
            if type(content) is list:
                return content
        raise self._mismatch("an array", value)

    def column(self, value: Expression) -> int:
        """The column of a variable; -1 for a constant."""
        if type(value) is str and value in self.index:
            return self.index[value]
        self.number(value)
        return -1

    def _mismatch(self, wanted: str, value: Expression) -> UnfitError:
        if type(value) is str and value not in self._file.positions:
            return UnfitError(f"{value} is not declared")
        return UnfitError(f"{wanted} expected, found {describe(value)}")


def outwards(bound: int) -> float:
    """The least double that is not below `bound`."""
    rounded = float(bound)
    return rounded if rounded >= bound else math.nextafter(rounded, math.inf)


# --- Rows of a linear program, collected one by one and turned into arrays at the end -------------------------


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
        """Return the rows as fields of a `LinearProgram`; columns ascend in a row, and no coefficient is 0.

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


# --- The constraints that are one row of a linear program; every other is refused by name ---------------------

# MiniZinc's library `linear` turns bools into integers of 0..1 without a row of how the two hang together, since
# only integers are constrained. A constraint on bool variables, which a few builtins that models call directly still
# are, would be one on variables that have lost their meaning. Hence there is none here.


class Row(NamedTuple):
    """`low <= sum of coefficients times operands <= high`; operands are names of variables or constants."""

    coefficients: Sequence[Number]
    operands: Sequence[Expression]
    low: Number
    high: Number


def _sum(columns: Columns, coefficients: Expression, operands: Expression, constant: Expression) -> Row:
    number = columns.number(constant)
    return Row(columns.numbers(coefficients), columns.operands(operands), number, number)


def _sum_at_most(columns: Columns, *arguments: Expression) -> Row:
    return _sum(columns, *arguments)._replace(low=-inf)


def _difference(low: Number, high: Number) -> Callable[..., Row]:
    """left - right in low..high; strict inequality of floats cannot be expressed."""
    return lambda columns, left, right: Row((1, -1), (left, right), low, high)


def _plus(columns: Columns, left: Expression, right: Expression, total: Expression) -> Row:
    return Row((1, 1, -1), (left, right, total), 0, 0)


def _same_constants(columns: Columns, left: Expression, right: Expression) -> Row:
    """`bool_eq(false,true)` is how MiniZinc writes that nothing is a solution."""
    return Row((1, -1), (columns.number(left), columns.number(right)), 0, 0)


_OF_BOTH_KINDS: dict[str, tuple[int, Callable[..., Row]]] = {
    "lin_le": (3, _sum_at_most),
    "lin_eq": (3, _sum),
    "le": (2, _difference(-inf, 0)),
    "eq": (2, _difference(0, 0)),
    "plus": (3, _plus),
}
ROWS = {
    **{f"{kind}_{name}": form for kind in ("int", "float") for name, form in _OF_BOTH_KINDS.items()},
    "int_lt": (2, _difference(-inf, -1)),
    "int2float": (2, _difference(0, 0)),
    "bool_eq": (2, _same_constants),
}
"""Number of arguments and row by the name of the constraint."""


# --- A mixed integer linear program in numpy arrays, and how FlatZinc becomes one -----------------------------


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise or maximise `objective @ x + objective_offset` subject to `lower <= x <= upper` and to the rows.

    Row i holds the entries `row_start[i]:row_start[i + 1]` of `row_column`, which ascend, and of `row_coefficient`
    (compressed sparse rows), and states `row_lower[i] <= their sum <= row_upper[i]`. Bounds and sides may be infinite.
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
    """A file as a linear program. `row_position` states for every row which offset into the text it comes from."""

    file: FlatZinc
    columns: Columns
    program: LinearProgram
    row_position: np.ndarray


def linear_program(file: FlatZinc) -> LinearProgram:
    """The linear program of a FlatZinc file.

    Raises `UnsupportedError` for a constraint that is no row, and `FlatZincError` for what no linear program in
    floating point can hold, each in one line that starts with the place.
    """
    return translate(file).program


def translate(file: FlatZinc) -> Translation:
    """Make a program, as `linear_program` does, with what is needed to come back from columns and rows to the file."""
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
