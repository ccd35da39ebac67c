"""The constraints that are one row of a linear program; every other is refused by name.

MiniZinc's library `linear` turns bools into integers of 0..1 and says nothing of how the two hang together, since only
integers are constrained. A constraint on bool variables, which a few builtins that models call directly still are,
would be one on variables that have lost their meaning. Hence there is none here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from moccasin_mzn.solvers.flatzinc.syntax import Expression
from moccasin_mzn.solvers.linear.columns import Columns, Number


class Row(NamedTuple):
    """`low <= sum of coefficients times operands <= high`; operands are names of variables or constants."""

    coefficients: Sequence[Number]
    operands: Sequence[Expression]
    low: Number
    high: Number


def _linear_le(columns: Columns, coefficients: Expression, operands: Expression, constant: Expression) -> Row:
    return Row(columns.numbers(coefficients), columns.operands(operands), -inf, columns.number(constant))


def _linear_eq(columns: Columns, coefficients: Expression, operands: Expression, constant: Expression) -> Row:
    number = columns.number(constant)
    return Row(columns.numbers(coefficients), columns.operands(operands), number, number)


def _le(columns: Columns, left: Expression, right: Expression) -> Row:
    return Row((1, -1), (left, right), -inf, 0)


def _lt(columns: Columns, left: Expression, right: Expression) -> Row:
    """Of integers: strict inequality of floats cannot be said."""
    return Row((1, -1), (left, right), -inf, -1)


def _eq(columns: Columns, left: Expression, right: Expression) -> Row:
    return Row((1, -1), (left, right), 0, 0)


def _plus(columns: Columns, left: Expression, right: Expression, total: Expression) -> Row:
    return Row((1, 1, -1), (left, right, total), 0, 0)


def _same_constants(columns: Columns, left: Expression, right: Expression) -> Row:
    """`bool_eq(false,true)` is how MiniZinc writes that nothing is a solution."""
    return Row((1, -1), (columns.number(left), columns.number(right)), 0, 0)


ROWS: dict[str, tuple[int, Callable[..., Row]]] = {
    **{f"{kind}_lin_le": (3, _linear_le) for kind in ("int", "float")},
    **{f"{kind}_lin_eq": (3, _linear_eq) for kind in ("int", "float")},
    **{f"{kind}_le": (2, _le) for kind in ("int", "float")},
    **{f"{kind}_eq": (2, _eq) for kind in ("int", "float")},
    **{f"{kind}_plus": (3, _plus) for kind in ("int", "float")},
    "int_lt": (2, _lt),
    "int2float": (2, _eq),
    "bool_eq": (2, _same_constants),
}
"""Number of arguments and row by the name of the constraint."""
