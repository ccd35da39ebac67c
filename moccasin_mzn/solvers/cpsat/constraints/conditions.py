"""Conjunctions of linear conditions and their negations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, as_term
from moccasin_mzn.solvers.flatzinc.intset import IntSet


class Condition(NamedTuple):
    """The sum of coefficient * term is one of the values."""

    coefficients: Sequence[int]
    terms: Sequence[Term]
    values: IntSet


def require(builder: Builder, conditions: Sequence[Condition], when: Sequence[int]) -> None:
    """All of the conditions hold."""
    for coefficients, terms, values in conditions:
        if values.ranges:
            builder.linear(coefficients, terms, values.flat(), when)
        else:
            builder.false(when)


def refute(builder: Builder, conditions: Sequence[Condition], when: Sequence[int]) -> None:
    """One of the conditions fails."""
    if len(conditions) == 1:
        coefficients, terms, values = conditions[0]
        require(builder, [Condition(coefficients, terms, values.complement())], when)
    else:
        builder.clause([~builder.truth(*condition) for condition in conditions], when)


def occurrences(builder: Builder, terms: Sequence[Term], value: int) -> list[Term]:
    """0-1 operands whose sum is the number of terms with this value."""
    literals = (builder.equals_value(term, value) for term in terms)
    return [term for term in map(as_term, literals) if term.coefficient or term.offset]


def possible_values(builder: Builder, terms: Sequence[Term]) -> list[int]:
    """The values that some of the terms may take, ascending."""
    return sorted({value for term in terms for value in builder.values(term)})
