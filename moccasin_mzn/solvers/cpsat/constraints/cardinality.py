"""Global cardinality: how often each value of a cover occurs.

A value that stands in the cover more than once is counted each time. MiniZinc demands that all counts together are at
most the number of terms; this says something only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, constant
from moccasin_mzn.solvers.cpsat.constraints.conditions import Condition, occurrences, refute, require
from moccasin_mzn.solvers.cpsat.registry import Ints, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST, IntSet


def _counts(builder: Builder, terms: Sequence[Term], cover: Sequence[int], counts: Sequence[Term]) -> list[Condition]:
    """Value cover[i] occurs counts[i] times, and the counts are at most as many as the terms together."""
    conditions = []
    for value, count in zip(cover, counts, strict=True):
        equal = occurrences(builder, terms, value)
        conditions.append(Condition([1] + [-1] * len(equal), [count, *equal], IntSet.of_range(0, 0)))
    conditions.append(Condition([1] * len(counts), counts, IntSet.of_range(LOWEST, len(terms))))
    return conditions


def _bounds(
    builder: Builder, terms: Sequence[Term], cover: Sequence[int], low: Sequence[int], high: Sequence[int]
) -> list[Condition]:
    """Value cover[i] occurs low[i]..high[i] times."""
    conditions = []
    for value, least, most in zip(cover, low, high, strict=True):
        equal = occurrences(builder, terms, value)
        if least > 0 or most < len(equal):
            number = IntSet.of_range(least if least > 0 else LOWEST, most if most < len(equal) else HIGHEST)
            conditions.append(Condition([1] * len(equal), equal, number))
    return conditions


def _covered(terms: Sequence[Term], cover: Sequence[int]) -> list[Condition]:
    """All terms have values of the cover."""
    values = IntSet.of_values(cover)
    return [Condition([1], [term], values) for term in terms]


def _closed_bounds(
    builder: Builder, terms: Sequence[Term], cover: Sequence[int], low: Sequence[int], high: Sequence[int]
) -> list[Condition]:
    total = Condition([1], [constant(len(terms))], IntSet.of_range(sum(low), sum(high)))
    return [*_bounds(builder, terms, cover, low, high), *_covered(terms, cover), total]


def _tally(values: list[int], cover: list[int]) -> list[int]:
    return [values.count(value) for value in cover]


def _counted(values: list[int], cover: list[int], counts: list[int]) -> bool:
    return counts == _tally(values, cover) and sum(counts) <= len(values)


def _within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    return all(low[i] <= count <= high[i] for i, count in enumerate(_tally(values, cover)))


def not_cardinality(builder: Builder, terms: Ints, cover: Pars, counts: Ints, when: When) -> None:
    """the negation of `cardinality`"""
    refute(builder, _counts(builder, terms, cover, counts), when)


@relation("fzn_global_cardinality", opposite=not_cardinality, holds=_counted, value=_tally)
def cardinality(builder: Builder, terms: Ints, cover: Pars, counts: Ints, when: When) -> None:
    """cover[i] occurs counts[i] times"""
    require(builder, _counts(builder, terms, cover, counts), when)


def not_cardinality_closed(builder: Builder, terms: Ints, cover: Pars, counts: Ints, when: When) -> None:
    """the negation of `cardinality_closed`"""
    refute(builder, [*_counts(builder, terms, cover, counts), *_covered(terms, cover)], when)


@relation(
    "fzn_global_cardinality_closed",
    opposite=not_cardinality_closed,
    holds=lambda values, cover, counts: set(values) <= set(cover) and _counted(values, cover, counts),
    value=_tally,
)
def cardinality_closed(builder: Builder, terms: Ints, cover: Pars, counts: Ints, when: When) -> None:
    """cover[i] occurs counts[i] times and no other value does"""
    require(builder, [*_counts(builder, terms, cover, counts), *_covered(terms, cover)], when)


def not_cardinality_low_up(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars, when: When) -> None:
    """the negation of `cardinality_low_up`"""
    refute(builder, _bounds(builder, terms, cover, low, high), when)


@relation("fzn_global_cardinality_low_up", opposite=not_cardinality_low_up, holds=_within)
def cardinality_low_up(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars, when: When) -> None:
    """cover[i] occurs low[i]..high[i] times"""
    require(builder, _bounds(builder, terms, cover, low, high), when)


def not_cardinality_low_up_closed(
    builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars, when: When
) -> None:
    """the negation of `cardinality_low_up_closed`"""
    refute(builder, _closed_bounds(builder, terms, cover, low, high), when)


def _closed_within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    fits = sum(low) <= len(values) <= sum(high)
    return fits and set(values) <= set(cover) and _within(values, cover, low, high)


@relation("fzn_global_cardinality_low_up_closed", opposite=not_cardinality_low_up_closed, holds=_closed_within)
def cardinality_low_up_closed(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars, when: When) -> None:
    """cover[i] occurs low[i]..high[i] times and no other value does"""
    require(builder, _closed_bounds(builder, terms, cover, low, high), when)
