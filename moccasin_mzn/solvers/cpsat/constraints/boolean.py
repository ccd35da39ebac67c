"""Constraints on literals."""

from __future__ import annotations

from operator import and_, eq, le, lt, ne, or_, xor

from moccasin_mzn.solvers.cpsat.builder import Builder
from moccasin_mzn.solvers.cpsat.constraints.conditions import Clause, conjunction
from moccasin_mzn.solvers.cpsat.registry import Bool, Bools, When, function, relation


def differ(builder: Builder, left: Bool, right: Bool, when: When) -> None:
    """left != right"""
    builder.clause([left, right], when)
    builder.clause([~left, ~right], when)


@relation("bool_eq", opposite=differ, holds=eq)
def bool_eq(builder: Builder, left: Bool, right: Bool, when: When) -> None:
    """left = right"""
    differ(builder, left, ~right, when)


relation("bool_not", "bool_ne", opposite=bool_eq, holds=ne, value=lambda left: not left)(differ)


@conjunction("bool_le", holds=le)
def bool_le(builder: Builder, left: Bool, right: Bool) -> list[Clause]:
    """left implies right"""
    return [[~left, right]]


@conjunction("bool_lt", holds=lt)
def bool_lt(builder: Builder, left: Bool, right: Bool) -> list[Clause]:
    """not left and right"""
    return [[~left], [right]]


@conjunction("bool_clause", holds=lambda positive, negative: any(positive) or not all(negative))
def bool_clause(builder: Builder, positive: Bools, negative: Bools) -> list[Clause]:
    """one of positive is true or one of negative is false"""
    return [[*positive, *(~literal for literal in negative)]]


@function("array_bool_and", value=all)
def array_bool_and(builder: Builder, literals: Bools, result: Bool) -> None:
    """result = all of the literals are true"""
    array_bool_or(builder, [~literal for literal in literals], ~result)


@function("array_bool_or", value=any)
def array_bool_or(builder: Builder, literals: Bools, result: Bool) -> None:
    """result = one of the literals is true"""
    builder.clause([*literals, ~result])
    builder.all_true([~literal for literal in literals], [~result])


@function("bool_and", value=and_)
def bool_and(builder: Builder, left: Bool, right: Bool, result: Bool) -> None:
    """result = left and right"""
    array_bool_and(builder, [left, right], result)


@function("bool_or", value=or_)
def bool_or(builder: Builder, left: Bool, right: Bool, result: Bool) -> None:
    """result = left or right"""
    array_bool_or(builder, [left, right], result)


@function("bool_xor", value=xor)
def bool_xor(builder: Builder, left: Bool, right: Bool, result: Bool) -> None:
    """result = (left != right)"""
    array_bool_xor(builder, [left, right, ~result], when=[])


@function("bool_xor_imp", value=xor)
def bool_xor_imp(builder: Builder, left: Bool, right: Bool, condition: Bool) -> None:
    """condition -> left != right"""
    differ(builder, left, right, when=[condition])


@relation("array_bool_xor")
def array_bool_xor(builder: Builder, literals: Bools, when: When) -> None:
    """an odd number of literals is true"""
    if literals:
        builder.new(when).bool_xor.literals.extend(literals)
    else:
        builder.false(when)
