"""Comparison of single integers, with each other and with sets."""

from __future__ import annotations

from operator import eq, le, lt, ne

from moccasin_mzn.solvers.cpsat.builder import Builder, as_term
from moccasin_mzn.solvers.cpsat.registry import Bool, Int, Set, When, function, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST


def int_ne(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left != right"""
    builder.linear((1, -1), (left, right), (LOWEST, -1, 1, HIGHEST), when)


@relation("int_eq", opposite=int_ne, holds=eq)
def int_eq(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left = right"""
    builder.equal(left, right, when)


relation("int_ne", opposite=int_eq, holds=ne)(int_ne)


def int_gt(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left > right"""
    builder.linear((1, -1), (left, right), (1, HIGHEST), when)


def int_ge(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left >= right"""
    builder.at_most(right, left, when)


@relation("int_le", opposite=int_gt, holds=le)
def int_le(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left <= right"""
    builder.at_most(left, right, when)


@relation("int_lt", opposite=int_ge, holds=lt)
def int_lt(builder: Builder, left: Int, right: Int, when: When) -> None:
    """left < right"""
    builder.linear((1, -1), (left, right), (LOWEST, -1), when)


def not_in(builder: Builder, term: Int, values: Set, when: When) -> None:
    """term is none of the values"""
    builder.within(term, values.complement(), when)


@relation("set_in", opposite=not_in, holds=lambda value, values: value in values)
def set_in(builder: Builder, term: Int, values: Set, when: When) -> None:
    """term is one of the values"""
    builder.within(term, values, when)


@function("bool2int", value=int)
def bool2int(builder: Builder, literal: Bool, term: Int) -> None:
    """term is 1 if the literal is true, else 0; met only where the two could not be made one variable before"""
    builder.equal(as_term(literal), term)
