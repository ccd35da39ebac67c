"""Items into bins: every bin has a capacity, or tells its load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

from moccasin_mzn.solvers.cpsat.builder import Builder, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.constraints.conditions import (
    ZERO,
    Condition,
    conjunction,
    possible_values,
    refute,
    require,
)
from moccasin_mzn.solvers.cpsat.constraints.scheduling import cumulative
from moccasin_mzn.solvers.cpsat.registry import Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.intset import LOWEST, IntSet

MANY_LITERALS = 100_000
"""From so many literals `item in bin` on, bins are the times of a resource."""


def _contents(
    builder: Builder, bins: Sequence[Term], weights: Sequence[int], number: int
) -> tuple[list[int], list[Term]]:
    """Coefficients and 0-1 operands whose weighted sum is the weight of the items in a bin."""
    items = [(weight, item) for weight, item in zip(weights, bins, strict=True) if weight]
    return [weight for weight, _ in items], [as_term(builder.equals_value(item, number)) for _, item in items]


def _limits(
    builder: Builder, bins: Sequence[Term], weights: Sequence[int], capacities: Sequence[tuple[int, int]]
) -> list[Condition]:
    """Every bin (number, capacity) holds at most its capacity."""
    conditions = []
    for number, capacity in capacities:
        if sum(weights) > capacity:
            factors, inside = _contents(builder, bins, weights, number)
            conditions.append(Condition(factors, inside, IntSet.of_range(LOWEST, capacity)))
    return conditions


def _among_bins(bins: Sequence[Term], first: int, number: int) -> list[Condition]:
    """Every item is in one of the bins first, first + 1, ..."""
    return [Condition([1], [item], IntSet.of_range(first, first + number - 1)) for item in bins]


def _load(bins: list[int], weights: list[int], number: int) -> int:
    return sum(weight for item, weight in zip(bins, weights, strict=True) if item == number)


def overloaded(builder: Builder, capacity: Par, bins: Ints, weights: Pars, when: When) -> None:
    """the weights in one bin sum to more than capacity"""
    refute(builder, _uniform_limits(builder, capacity, bins, weights), when)


def _uniform_limits(builder: Builder, capacity: int, bins: Sequence[Term], weights: Sequence[int]) -> list[Condition]:
    return _limits(builder, bins, weights, [(number, capacity) for number in possible_values(builder, bins)])


@relation(
    "fzn_bin_packing",
    opposite=overloaded,
    holds=lambda capacity, bins, weights: all(_load(bins, weights, number) <= capacity for number in set(bins)),
)
def bin_packing(builder: Builder, capacity: Par, bins: Ints, weights: Pars, when: When) -> None:
    """the weights in each bin sum to at most capacity"""
    if sum(map(builder.size, bins)) <= MANY_LITERALS:
        return require(builder, _uniform_limits(builder, capacity, bins, weights), when)
    heights = [constant(weight) for weight in weights]
    cumulative(builder, bins, [constant(1)] * len(bins), heights, constant(capacity), when)


def _fits(capacities: list[int], first: int, bins: list[int], weights: list[int]) -> bool:
    inside = all(first <= item < first + len(capacities) for item in bins)
    return inside and all(_load(bins, weights, number) <= most for number, most in enumerate(capacities, first))


@conjunction("fzn_bin_packing_capa_offset", holds=_fits)
def bin_packing_capa(builder: Builder, capacities: Pars, first: Par, bins: Ints, weights: Pars) -> list[Condition]:
    """every item is in one of the bins first, first + 1, ..., whose weights sum to at most their capacities"""
    limits = _limits(builder, bins, weights, list(enumerate(capacities, first)))
    return [*_among_bins(bins, first, len(capacities)), *limits]


def _are_loads(loads: list[int], first: int, bins: list[int], weights: list[int]) -> bool:
    inside = all(first <= item < first + len(loads) for item in bins)
    return inside and all(_load(bins, weights, number) == load for number, load in enumerate(loads, first))


def _loads(first: int, bins: list[int], weights: list[int]) -> Iterator[int]:
    """The loads of the bins first, first + 1, ... without end."""
    return (_load(bins, weights, number) for number in count(first))


@conjunction("fzn_bin_packing_load_offset", holds=_are_loads, value=_loads, target=0)
def bin_packing_load(builder: Builder, loads: Ints, first: Par, bins: Ints, weights: Pars) -> list[Condition]:
    """every item is in one of the bins first, first + 1, ..., whose weights sum to the loads"""
    conditions = _among_bins(bins, first, len(loads))
    for number, load in enumerate(loads, first):
        factors, inside = _contents(builder, bins, weights, number)
        conditions.append(Condition([-1, *factors], [load, *inside], ZERO))
    total = IntSet.of_range(sum(weights), sum(weights))  # which follows, and helps
    return [*conditions, Condition([1] * len(loads), loads, total)]
