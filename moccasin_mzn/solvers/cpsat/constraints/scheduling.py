"""Resources over time: cumulative, disjunctive and reservoir."""

from __future__ import annotations

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, ModelError, Term, constant
from moccasin_mzn.solvers.cpsat.constraints.intervals import closed_interval, interval, positive
from moccasin_mzn.solvers.cpsat.registry import Bools, Int, Ints, Par, Pars, When, relation
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, IntSet


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
    """As `cumulative`, counting only the tasks that are present."""
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
