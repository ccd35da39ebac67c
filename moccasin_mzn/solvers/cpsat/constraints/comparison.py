"""Integers compared with each other and with sets, and linear sums of integers or booleans with a constant."""

from __future__ import annotations

from collections.abc import Callable
from operator import eq, le, lt, mul, ne

from moccasin_mzn.solvers.cpsat.builder import Builder, as_term
from moccasin_mzn.solvers.cpsat.constraints.conditions import DIFFERENCES, Condition, conjunction
from moccasin_mzn.solvers.cpsat.registry import Bool, Bools, Int, Ints, Par, Pars, Set, function
from moccasin_mzn.solvers.flatzinc.intset import LOWEST


def dot(factors: list[int], values: list[int]) -> int:
    """sum factors * values"""
    return sum(map(mul, factors, values))


def add_comparison(name: str, compare: Callable[[int, int], bool]) -> None:
    """Register the comparison of two integers."""

    @conjunction(f"int_{name}", holds=compare)
    def comparison(builder: Builder, left: Int, right: Int) -> list[Condition]:
        return [Condition((1, -1), (left, right), DIFFERENCES[compare])]


def add_sum(name: str, compare: Callable[[int, int], bool]) -> None:
    """Register the comparison of a linear sum with a constant."""

    @conjunction(f"int_lin_{name}", holds=lambda factors, values, constant: compare(dot(factors, values), constant))
    def comparison(builder: Builder, factors: Pars, terms: Ints, constant: Par) -> list[Condition]:
        return [Condition(factors, terms, DIFFERENCES[compare].plus(constant))]


for _name, _compare in {"eq": eq, "ne": ne, "le": le}.items():
    add_comparison(_name, _compare)
    add_sum(_name, _compare)
add_comparison("lt", lt)


@conjunction("set_in", holds=lambda value, values: value in values)
def set_in(builder: Builder, term: Int, values: Set) -> list[Condition]:
    """term is one of the values"""
    return [Condition((1,), (term,), values)]


@function("bool2int", value=int)
def bool2int(builder: Builder, literal: Bool, term: Int) -> None:
    """term is 1 if the literal is true, else 0; met only where the two could not be made one variable before"""
    builder.equal(as_term(literal), term)


@function("bool_lin_eq", value=dot)
def bool_lin_eq(builder: Builder, factors: Pars, literals: Bools, value: Int) -> None:
    """sum factors * literals = value"""
    builder.linear([*factors, -1], [*map(as_term, literals), value], (0, 0))


@function("bool_lin_le")
def bool_lin_le(builder: Builder, factors: Pars, literals: Bools, limit: Int) -> None:
    """sum factors * literals <= limit"""
    builder.linear([*factors, -1], [*map(as_term, literals), limit], (LOWEST, 0))
