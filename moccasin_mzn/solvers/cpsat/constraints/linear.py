"""Linear sums of integers or booleans against a constant."""

from __future__ import annotations

from operator import mul

from moccasin_mzn.solvers.cpsat.builder import Builder, as_term
from moccasin_mzn.solvers.cpsat.registry import Bools, Int, Ints, Par, Pars, When, function, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST


def dot(factors: list[int], values: list[int]) -> int:
    """sum factors * values"""
    return sum(map(mul, factors, values))


def int_lin_gt(builder: Builder, factors: Pars, terms: Ints, limit: Par, when: When) -> None:
    """sum factors * terms > limit"""
    builder.linear(factors, terms, (limit + 1, HIGHEST), when)


def int_lin_ne(builder: Builder, factors: Pars, terms: Ints, value: Par, when: When) -> None:
    """sum factors * terms != value"""
    builder.linear(factors, terms, (LOWEST, value - 1, value + 1, HIGHEST), when)


@relation("int_lin_eq", opposite=int_lin_ne, holds=lambda factors, values, value: dot(factors, values) == value)
def int_lin_eq(builder: Builder, factors: Pars, terms: Ints, value: Par, when: When) -> None:
    """sum factors * terms = value"""
    builder.linear(factors, terms, (value, value), when)


relation("int_lin_ne", opposite=int_lin_eq, holds=lambda factors, values, value: dot(factors, values) != value)(
    int_lin_ne
)


@relation("int_lin_le", opposite=int_lin_gt, holds=lambda factors, values, limit: dot(factors, values) <= limit)
def int_lin_le(builder: Builder, factors: Pars, terms: Ints, limit: Par, when: When) -> None:
    """sum factors * terms <= limit"""
    builder.linear(factors, terms, (LOWEST, limit), when)


@function("bool_lin_eq", value=dot)
def bool_lin_eq(builder: Builder, factors: Pars, literals: Bools, value: Int) -> None:
    """sum factors * literals = value"""
    builder.linear([*factors, -1], [*map(as_term, literals), value], (0, 0))


@function("bool_lin_le")
def bool_lin_le(builder: Builder, factors: Pars, literals: Bools, limit: Int) -> None:
    """sum factors * literals <= limit"""
    builder.linear([*factors, -1], [*map(as_term, literals), limit], (LOWEST, 0))
