"""The greatest and least of several integers."""

from __future__ import annotations

from ..builder import Builder, Term
from ..registry import Int, Ints, When, relation


def negative(term: Term) -> Term:
    """The operand `-term`."""
    return Term(term.variable, -term.coefficient, -term.offset)


def maximum_of(builder: Builder, greatest: Term, terms: list[Term], when: When) -> None:
    """max(terms) = greatest; false without terms"""
    if not terms:
        return builder.false(when)
    proto = builder.new(when).lin_max
    builder.write(greatest, proto.target)
    builder.write_all(terms, proto.exprs)


@relation("int_max", value=max)
def int_max(builder: Builder, left: Int, right: Int, greatest: Int, when: When) -> None:
    """max(left, right) = greatest"""
    maximum_of(builder, greatest, [left, right], when)


@relation("int_min", value=min)
def int_min(builder: Builder, left: Int, right: Int, least: Int, when: When) -> None:
    """min(left, right) = least"""
    maximum_of(builder, negative(least), [negative(left), negative(right)], when)


@relation("array_int_maximum", value=max, target=0)
def array_intmaximum_of(builder: Builder, greatest: Int, terms: Ints, when: When) -> None:
    """max(terms) = greatest; false without terms"""
    maximum_of(builder, greatest, terms, when)


@relation("array_int_minimum", value=min, target=0)
def array_int_minimum(builder: Builder, least: Int, terms: Ints, when: When) -> None:
    """min(terms) = least; false without terms"""
    maximum_of(builder, negative(least), [negative(term) for term in terms], when)
