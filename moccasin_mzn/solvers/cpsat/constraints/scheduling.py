"""Intervals of CP-SAT, resources over time, reads of what is retained, bins, and boxes that do not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, count

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, ModelError, Term, as_term, constant
from moccasin_mzn.solvers.cpsat.constraints.comparison import (
    ZERO,
    Condition,
    conjunction,
    possible_values,
    refute,
    require,
)
from moccasin_mzn.solvers.cpsat.registry import Bool, Bools, Int, Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.syntax import HIGHEST, LOWEST, IntSet


def positive(builder: Builder, length: Term) -> int:
    """The literal `length > 0`."""
    return builder.truth((1,), (length,), IntSet.of_range(1, HIGHEST))


def closed_interval(builder: Builder, first: Term, last: Term, presence: int) -> int:
    """The interval of the times first..last, both included, as long as `presence` is true."""
    enforced = [] if presence == TRUE else [presence]
    (earliest, latest_start), (earliest_end, latest) = builder.bounds(first), builder.bounds(last)
    longest = latest - earliest + 1
    if earliest == latest_start and earliest_end == latest and longest >= 1:
        return interval(builder, first, constant(longest), last.plus(1), presence)
    # Exactly as wide as the ends allow: a size too small would cut off solutions without a word.
    size = builder.integer(1, max(longest, 1))
    builder.suggest(size.variable, (first, last), lambda ends: max(1, min(ends[1] - ends[0] + 1, longest)))
    builder.linear((1, 1, -1), (first, size, last.plus(1)), (0, 0), enforced)
    if builder.unique and enforced:
        builder.linear((1,), (size,), (1, 1), [~presence])
    return interval(builder, first, size, last.plus(1), presence)


def interval(builder: Builder, start: Term, size: Term, end: Term, presence: int) -> int:
    """The index of an interval constraint; that start + size = end holds is up to the caller."""
    index = builder.constraint_count()
    proto = builder.new([] if presence == TRUE else [presence]).interval
    builder.write(start, proto.start)
    builder.write(size, proto.size)
    builder.write(end, proto.end)
    return index


# --- Resources over time: cumulative, disjunctive and reservoir -----------------------------------------------


@relation("fzn_cumulative")
def cumulative(builder: Builder, start: Ints, duration: Ints, height: Ints, capacity: Int, when: When) -> None:
    """At every time the heights of the tasks i with start[i] <= time < start[i] + duration[i] sum to at most capacity.

    Without tasks it is true, as in MiniZinc, even if the capacity is negative.
    """
    cumulative_optional(builder, [TRUE] * len(start), start, duration, height, capacity, when)


@relation("fzn_cumulative_optional")
def cumulative_optional(
    builder: Builder, present: Bools, start: Ints, duration: Ints, height: Ints, capacity: Int, when: When
) -> None:
    """cumulative, counting only the tasks that are present"""
    if not start:
        return
    tasks = []
    for presence, first, length, amount in zip(present, start, duration, height, strict=True):
        shortest, longest = builder.bounds(length)
        if longest <= 0 or presence == FALSE or builder.bounds(amount)[1] == 0:
            continue
        if shortest < 0:  # such a task never runs, but a CP-SAT interval may not have a negative size
            presence = builder.conjunction([presence, positive(builder, length)])
        end = builder.sum_of(first, length)
        tasks.append((interval(builder, first, length, end, builder.conjunction([presence, *when])), amount))
    _resource(builder, tasks, capacity, when)


@relation("fzn_cumulative_intervals")
def cumulative_intervals(
    builder: Builder, active: Bools, start: Ints, end: Ints, height: Ints, capacity: Int, when: When
) -> None:
    """At every time the heights of the active tasks i with start[i] <= time <= end[i], both ends included, sum to at
    most capacity; active tasks have start <= end. The sum of no tasks is 0, hence capacity >= 0."""
    tasks = []
    for presence, first, last, amount in zip(active, start, end, height, strict=True):
        if presence == FALSE:
            continue
        if builder.bounds(amount)[1] == 0:
            builder.at_most(first, last, [presence, *when])
        else:
            both = builder.conjunction([presence, *when])
            tasks.append((closed_interval(builder, first, last, both), amount))
    _resource(builder, tasks, capacity, when)


def add_disjunctive(name: str, shortest: int) -> None:
    """Register that no two tasks of at least the shortest duration overlap, and the same for those that are present; no
    duration is negative, be the task present or not."""

    @relation(f"fzn_{name}_optional")
    def optional(builder: Builder, present: Bools, start: Ints, duration: Ints, when: When) -> None:
        _no_overlap(builder, present, start, duration, shortest, when)

    @relation(f"fzn_{name}")
    def disjunctive(builder: Builder, start: Ints, duration: Ints, when: When) -> None:
        optional(builder, [TRUE] * len(start), start, duration, when)


add_disjunctive("disjunctive", 1)  # a task without duration may run at any time
add_disjunctive("disjunctive_strict", 0)  # and here not inside of another


@relation("fzn_reservoir")
def reservoir(builder: Builder, time: Ints, change: Pars, active: Bools, least: Par, when: When) -> None:
    """At every time t, the sum of change[i] over the active i with time[i] <= t is at least `least`. The level is 0
    before all events, hence least <= 0."""
    if least > 0:
        return builder.false(when)
    events = [event for event in zip(time, change, active, strict=True) if event[1] and event[2] != FALSE]
    if least <= sum(min(amount, 0) for _, amount, _ in events):
        return
    proto = builder.new(when).reservoir
    proto.min_level = least
    proto.max_level = sum(max(amount, 0) for _, amount, _ in events)
    builder.write_all([moment for moment, _, _ in events], proto.time_exprs)
    builder.write_all([constant(amount) for _, amount, _ in events], proto.level_changes)
    proto.active_literals.extend([literal for _, _, literal in events])


def _no_overlap(builder: Builder, present: Bools, start: Ints, duration: Ints, shortest: int, when: When) -> None:
    """The present tasks of at least the shortest duration do not overlap; no duration is negative."""
    intervals = []
    for literal, first, length in zip(present, start, duration, strict=True):
        if builder.bounds(length)[0] < 0:
            builder.linear((1,), (length,), (0, HIGHEST), when)
        counts = builder.truth((1,), (length,), IntSet.of_range(shortest, HIGHEST))
        presence = builder.conjunction([literal, counts, *when])
        if presence != FALSE:
            intervals.append(interval(builder, first, length, builder.sum_of(first, length), presence))
    if len(intervals) > 1:
        builder.new(when).no_overlap.intervals.extend(intervals)


def _resource(builder: Builder, tasks: list[tuple[int, Term]], capacity: Term, when: When) -> None:
    """The cumulative constraint itself, over (index of an interval constraint, height)."""
    if any(builder.bounds(height)[0] < 0 for _, height in tasks):
        raise ModelError("cumulative with a height that may be negative")
    if builder.bounds(capacity)[0] < 0:
        builder.linear((1,), (capacity,), (0, HIGHEST), when)
    if not tasks:
        return
    builder.note_width(builder.bounds(height)[1] for height in (capacity, *(height for _, height in tasks)))
    builder.loses_solutions = True
    proto = builder.new(when).cumulative
    builder.write(capacity, proto.capacity)
    proto.intervals.extend([interval for interval, _ in tasks])
    builder.write_all([height for _, height in tasks], proto.demands)


# --- Reads of what is retained for a time: of a value that several copies may give, one serves --------------------


@relation("fzn_served_read")
def served_read(
    builder: Builder, takes_place: Bool, at: Int, serves: Bools, active: Bools, start: Ints, end: Ints, when: When
) -> None:
    """If a read takes place at event `at`, exactly one copy j serves it, active, with start[j] < at <= end[j]; if not,
    none does. The literal that states which copy serves enforces all of that by itself."""
    counted = [takes_place, *(literal for literal in serves if literal != FALSE)]
    builder.linear([-1, *[1] * (len(counted) - 1)], [*map(as_term, counted)], (0, 0), when)
    for literal, is_active, first, last in zip(serves, active, start, end, strict=True):
        if literal != FALSE:
            builder.clause([~literal, is_active], when)
            builder.at_most(first.plus(1), at, [literal, *when])
            builder.at_most(at, last, [literal, *when])


# --- Items into bins, where every bin has a capacity or reports its load, and boxes that do not overlap -------


MANY_LITERALS = 100_000
"""From this many literals `item in bin` on, bins are the times of a resource."""


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
    _no_overlap_2d(builder, [TRUE] * len(x), (x, y), (dx, dy), when)


@relation("fzn_diffn_nonstrict")
def diffn_nonstrict(builder: Builder, x: Ints, y: Ints, dx: Ints, dy: Ints, when: When) -> None:
    """No two boxes overlap; one without width or height may lie anywhere."""
    sizes = zip(dx, dy, strict=True)
    solid = [builder.conjunction([_nonzero(builder, width), _nonzero(builder, height)]) for width, height in sizes]
    _no_overlap_2d(builder, solid, (x, y), (dx, dy), when)


def _nonzero(builder: Builder, size: Term) -> int:
    if builder.bounds(size)[0] >= 0:
        return positive(builder, size)
    return ~builder.truth((1,), (size,), IntSet.of_range(0, 0))


def _no_overlap_2d(
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
    intervals may not, and for optional boxes of variable size, where CP-SAT 9.15 loses solutions in presolve."""
    for left, right in combinations(range(len(solid)), 2):
        apart = [~solid[left], ~solid[right]]
        for corner, size in zip(corners, sizes, strict=True):
            for one, other in ((left, right), (right, left)):
                terms = corner[one], size[one], corner[other]
                apart.append(builder.truth((1, 1, -1), terms, IntSet.of_range(LOWEST, 0)))
        builder.clause(apart, when)
