"""Global cardinality: how often each value of a cover occurs.

A value that stands in the cover more than once is counted each time. MiniZinc demands that all counts together are at
most the number of terms; this says something only then.
"""

from __future__ import annotations

from collections.abc import Sequence

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, constant
from moccasin_mzn.solvers.cpsat.constraints.conditions import Condition, conjunction, counted, occurrences, occurs
from moccasin_mzn.solvers.cpsat.registry import Ints, Pars
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST, IntSet


def _counts(builder: Builder, terms: Sequence[Term], cover: Sequence[int], counts: Sequence[Term]) -> list[Condition]:
    """Value cover[i] occurs counts[i] times, and the counts are at most as many as the terms together."""
    pairs = zip(cover, counts, strict=True)
    total = Condition([1] * len(counts), counts, IntSet.of_range(LOWEST, len(terms)))
    return [*(counted(count, occurrences(builder, terms, value)) for value, count in pairs), total]


def _bounds(
    builder: Builder, terms: Sequence[Term], cover: Sequence[int], low: Sequence[int], high: Sequence[int]
) -> list[Condition]:
    """Value cover[i] occurs low[i]..high[i] times, where that says anything."""
    conditions = []
    for value, least, most in zip(cover, low, high, strict=True):
        numbers = IntSet.of_range(least if least > 0 else LOWEST, most if most < len(terms) else HIGHEST)
        condition = occurs(builder, terms, value, numbers)
        if least > 0 or most < len(condition.terms):
            conditions.append(condition)
    return conditions


def _covered(terms: Sequence[Term], cover: Sequence[int]) -> list[Condition]:
    """All terms have values of the cover."""
    values = IntSet.of_values(cover)
    return [Condition([1], [term], values) for term in terms]


def _tally(values: list[int], cover: list[int]) -> list[int]:
    return [values.count(value) for value in cover]


def _counted(values: list[int], cover: list[int], counts: list[int]) -> bool:
    return counts == _tally(values, cover) and sum(counts) <= len(values)


def _within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    return all(low[i] <= count <= high[i] for i, count in enumerate(_tally(values, cover)))


@conjunction("fzn_global_cardinality", holds=_counted, value=_tally)
def cardinality(builder: Builder, terms: Ints, cover: Pars, counts: Ints) -> list[Condition]:
    """cover[i] occurs counts[i] times"""
    return _counts(builder, terms, cover, counts)


@conjunction(
    "fzn_global_cardinality_closed",
    holds=lambda values, cover, counts: set(values) <= set(cover) and _counted(values, cover, counts),
    value=_tally,
)
def cardinality_closed(builder: Builder, terms: Ints, cover: Pars, counts: Ints) -> list[Condition]:
    """cover[i] occurs counts[i] times and no other value does"""
    return [*_counts(builder, terms, cover, counts), *_covered(terms, cover)]


@conjunction("fzn_global_cardinality_low_up", holds=_within)
def cardinality_low_up(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars) -> list[Condition]:
    """cover[i] occurs low[i]..high[i] times"""
    return _bounds(builder, terms, cover, low, high)


def _closed_within(values: list[int], cover: list[int], low: list[int], high: list[int]) -> bool:
    fits = sum(low) <= len(values) <= sum(high)
    return fits and set(values) <= set(cover) and _within(values, cover, low, high)


@conjunction("fzn_global_cardinality_low_up_closed", holds=_closed_within)
def cardinality_low_up_closed(builder: Builder, terms: Ints, cover: Pars, low: Pars, high: Pars) -> list[Condition]:
    """cover[i] occurs low[i]..high[i] times and no other value does"""
    total = Condition([1], [constant(len(terms))], IntSet.of_range(sum(low), sum(high)))
    return [*_bounds(builder, terms, cover, low, high), *_covered(terms, cover), total]
