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


def _sum(columns: Columns, coefficients: Expression, operands: Expression, constant: Expression) -> Row:
    number = columns.number(constant)
    return Row(columns.numbers(coefficients), columns.operands(operands), number, number)


def _sum_at_most(columns: Columns, *arguments: Expression) -> Row:
    return _sum(columns, *arguments)._replace(low=-inf)


def _difference(low: Number, high: Number) -> Callable[..., Row]:
    """left - right in low..high; strict inequality of floats cannot be said."""
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
