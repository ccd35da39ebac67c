"""Comparisons and linear sums, constraints on literals, and the conditions that other families are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from operator import and_, eq, ge, gt, le, lt, mul, ne, or_, xor
from typing import NamedTuple

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, as_term
from moccasin_mzn.solvers.cpsat.registry import (
    Bool,
    Bools,
    Int,
    Ints,
    Operand,
    Par,
    Pars,
    Set,
    When,
    function,
    relation,
)
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet

ZERO = IntSet.of_range(0, 0)
DIFFERENCES: dict[Callable[..., bool], IntSet] = {
    eq: ZERO,
    ne: ZERO.complement(),
    le: IntSet.of_range(LOWEST, 0),
    lt: IntSet.of_range(LOWEST, -1),
    ge: IntSet.of_range(0, HIGHEST),
    gt: IntSet.of_range(1, HIGHEST),
}
"""The values of left - right for which left compares to right."""


class Condition(NamedTuple):
    """The sum of coefficient * term is one of the values."""

    coefficients: Sequence[int]
    terms: Sequence[Term]
    values: IntSet


Clause = list[int]
"""One of the literals is true."""
Conditions = Callable[..., Sequence[Condition | Clause]]
"""Gives conditions, from a builder and operands."""


def conjunction(
    *names: str, holds: Callable[..., bool], value: Callable[..., Operand] | None = None, target: int = -1
) -> Callable[[Conditions], Callable[..., None]]:
    """Register a function that gives conditions, as the constraint that all of them hold, in all its forms; the
    others as for `relation`."""

    def register(conditions: Conditions) -> Callable[..., None]:
        @wraps(conditions)
        def post(builder: Builder, *operands: Operand, when: Sequence[int]) -> None:
            require(builder, conditions(builder, *operands), when)

        def opposite(builder: Builder, *operands: Operand, when: Sequence[int]) -> None:
            refute(builder, conditions(builder, *operands), when)

        return relation(*names, opposite=opposite, holds=holds, value=value, target=target)(post)

    return register


def require(builder: Builder, conditions: Sequence[Condition | Clause], when: Sequence[int]) -> None:
    """All of the conditions hold."""
    for condition in conditions:
        if not isinstance(condition, Condition):
            builder.clause(condition, when)
        elif condition.values.ranges:
            builder.linear(condition.coefficients, condition.terms, condition.values.flat(), when)
        else:
            builder.false(when)


def refute(builder: Builder, conditions: Sequence[Condition | Clause], when: Sequence[int]) -> None:
    """One of the conditions fails."""
    if len(conditions) == 1:
        (only,) = conditions
        if isinstance(only, Condition):
            require(builder, [only._replace(values=only.values.complement())], when)
        else:
            builder.all_true([~literal for literal in only], when)
    else:
        builder.clause([_failure(builder, condition) for condition in conditions], when)


def _failure(builder: Builder, condition: Condition | Clause) -> int:
    """A literal that is true exactly if the condition fails."""
    if isinstance(condition, Condition):
        return ~builder.truth(*condition)
    return builder.conjunction([~literal for literal in condition])


def counted(number: Term, ones: Sequence[Term], difference: IntSet = ZERO) -> Condition:
    """The number less the sum of 0-1 operands is one of the values."""
    return Condition([1] + [-1] * len(ones), [number, *ones], difference)


def occurrences(builder: Builder, terms: Sequence[Term], value: int) -> list[Term]:
    """0-1 operands whose sum is the number of terms with this value."""
    literals = (builder.equals_value(term, value) for term in terms)
    return [term for term in map(as_term, literals) if term.coefficient or term.offset]


def occurs(builder: Builder, terms: Sequence[Term], value: int, numbers: IntSet) -> Condition:
    """The number of terms with this value is one of the numbers."""
    equal = occurrences(builder, terms, value)
    return Condition([1] * len(equal), equal, numbers)


def possible_values(builder: Builder, terms: Sequence[Term]) -> list[int]:
    """The values that some of the terms may take, ascending."""
    return sorted({value for term in terms for value in builder.values(term)})


# --- Integers compared with each other and with sets, and linear sums of integers or booleans with a constant


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


# --- Constraints on literals ----------------------------------------------------------------------------------


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
