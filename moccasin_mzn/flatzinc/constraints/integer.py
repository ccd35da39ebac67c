"""Comparison and arithmetic of single integers, and what is built from pairwise comparison."""

from __future__ import annotations

from operator import eq, le, lt, ne

from ..builder import Builder, Term, as_term
from ..intset import HIGHEST, LOWEST
from ..registry import Bool, Int, Ints, Set, When, function, relation


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


@relation("int_plus", value=lambda left, right: left + right)
def int_plus(builder: Builder, left: Int, right: Int, total: Int, when: When) -> None:
    """left + right = total"""
    builder.linear((1, 1, -1), (left, right, total), (0, 0), when)


@relation("int_times", value=lambda left, right: left * right)
def int_times(builder: Builder, left: Int, right: Int, product: Int, when: When) -> None:
    """left * right = product"""
    proto = builder.new(when).int_prod
    builder.write(product, proto.target)
    builder.write_all((left, right), proto.exprs)


@relation("int_abs", value=abs)
def int_abs(builder: Builder, term: Int, size: Int, when: When) -> None:
    """|term| = size"""
    _maximum(builder, size, [term, _negative(term)], when)


@relation("int_max", value=max)
def int_max(builder: Builder, left: Int, right: Int, greatest: Int, when: When) -> None:
    """max(left, right) = greatest"""
    _maximum(builder, greatest, [left, right], when)


@relation("int_min", value=min)
def int_min(builder: Builder, left: Int, right: Int, least: Int, when: When) -> None:
    """min(left, right) = least"""
    _maximum(builder, _negative(least), [_negative(left), _negative(right)], when)


@relation("array_int_maximum", value=max, target=0)
def array_int_maximum(builder: Builder, greatest: Int, terms: Ints, when: When) -> None:
    """max(terms) = greatest; false without terms"""
    _maximum(builder, greatest, terms, when)


@relation("array_int_minimum", value=min, target=0)
def array_int_minimum(builder: Builder, least: Int, terms: Ints, when: When) -> None:
    """min(terms) = least; false without terms"""
    _maximum(builder, _negative(least), [_negative(term) for term in terms], when)


@relation("fzn_all_different_int", holds=lambda values: len(set(values)) == len(values))
def all_different(builder: Builder, terms: Ints, when: When) -> None:
    """no two terms are equal"""
    builder.write_all(terms, builder.new(when).all_diff.exprs)


def _negative(term: Term) -> Term:
    return Term(term.variable, -term.coefficient, -term.offset)


def _maximum(builder: Builder, greatest: Term, terms: list[Term], when: When) -> None:
    if not terms:
        return builder.false(when)
    proto = builder.new(when).lin_max
    builder.write(greatest, proto.target)
    builder.write_all(terms, proto.exprs)
