"""Items into bins, where every bin has a capacity or reports its load, and boxes that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, count

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.constraints.comparison import (
    ZERO,
    Condition,
    conjunction,
    possible_values,
    refute,
    require,
)
from moccasin_mzn.solvers.cpsat.constraints.scheduling import cumulative, interval, positive
from moccasin_mzn.solvers.cpsat.registry import Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import LOWEST, IntSet

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


# --- Boxes in the plane that do not overlap -------------------------------------------------------------------


@relation("fzn_diffn")
def diffn(builder: Builder, x: Ints, y: Ints, dx: Ints, dy: Ints, when: When) -> None:
    """No two boxes overlap; one without width or height may not lie inside of another."""
    _no_overlap(builder, [TRUE] * len(x), (x, y), (dx, dy), when)


@relation("fzn_diffn_nonstrict")
def diffn_nonstrict(builder: Builder, x: Ints, y: Ints, dx: Ints, dy: Ints, when: When) -> None:
    """No two boxes overlap; one without width or height may lie anywhere."""
    sizes = zip(dx, dy, strict=True)
    solid = [builder.conjunction([_nonzero(builder, width), _nonzero(builder, height)]) for width, height in sizes]
    _no_overlap(builder, solid, (x, y), (dx, dy), when)


def _nonzero(builder: Builder, size: Term) -> int:
    if builder.bounds(size)[0] >= 0:
        return positive(builder, size)
    return ~builder.truth((1,), (size,), IntSet.of_range(0, 0))


def _no_overlap(
    builder: Builder, solid: Sequence[int], corners: Sequence[Ints], sizes: Sequence[Ints], when: When
) -> None:
    """The solid boxes do not overlap; `corners` and `sizes` have one row for each axis."""
    presences = [builder.conjunction([literal, *when]) for literal in solid]
    lengths = [builder.bounds(size) for row in sizes for size in row]
    optional = any(presence not in (TRUE, FALSE) for presence in presences)
    if any(low < 0 or (optional and low < high) for low, high in lengths):
        return _pairwise(builder, solid, corners, sizes, when)
    axes: list[list[int]] = [[], []]
    for index, presence in enumerate(presences):
        if presence == FALSE:
            continue
        for axis, corner, size in zip(axes, corners, sizes, strict=True):
            first, length = corner[index], size[index]
            axis.append(interval(builder, first, length, builder.sum_of(first, length), presence))
    if len(axes[0]) > 1:
        proto = builder.new(when).no_overlap_2d
        proto.x_intervals.extend(axes[0])
        proto.y_intervals.extend(axes[1])


def _pairwise(
    builder: Builder, solid: Sequence[int], corners: Sequence[Ints], sizes: Sequence[Ints], when: When
) -> None:
    """The same in clauses: one box ends before the other starts. For sizes that may be negative, which those of
    intervals may not, and for optional boxes of variable size, of which CP-SAT 9.15 loses solutions in presolve."""
    for left, right in combinations(range(len(solid)), 2):
        apart = [~solid[left], ~solid[right]]
        for corner, size in zip(corners, sizes, strict=True):
            for one, other in ((left, right), (right, left)):
                terms = corner[one], size[one], corner[other]
                apart.append(builder.truth((1, 1, -1), terms, IntSet.of_range(LOWEST, 0)))
        builder.clause(apart, when)
