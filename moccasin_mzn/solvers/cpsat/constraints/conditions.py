"""Conjunctions of linear conditions and clauses, and their negations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, as_term
from moccasin_mzn.solvers.cpsat.registry import relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST, IntSet

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


def conjunction(*names: str, **rules) -> Callable:
    """Register a function that gives conditions, as the constraint that all of them hold, in all its forms; `rules` as
    for `relation`."""

    def register(conditions: Callable[..., Sequence[Condition | Clause]]) -> Callable[..., None]:
        @wraps(conditions)
        def post(builder: Builder, *operands, when: Sequence[int]) -> None:
            require(builder, conditions(builder, *operands), when)

        def opposite(builder: Builder, *operands, when: Sequence[int]) -> None:
            refute(builder, conditions(builder, *operands), when)

        return relation(*names, opposite=opposite, **rules)(post)

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
