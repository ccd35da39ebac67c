"""Resources over time: cumulative and reservoir."""

from __future__ import annotations

from ..builder import FALSE, TRUE, Builder, ModelError, Term, constant
from ..intset import HIGHEST, LOWEST
from ..registry import Bools, Int, Ints, Par, Pars, When, relation


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
            positive = builder.boolean()
            builder.linear((1,), (length,), (1, HIGHEST), [positive])
            builder.linear((1,), (length,), (LOWEST, 0), [~positive])
            builder.suggest(positive, lambda value, length=length: _if_known(value(length), lambda size: size > 0))
            presence = builder.conjunction([presence, positive])
        end = builder.sum_of(first, length)
        tasks.append((_interval(builder, first, length, end, builder.conjunction([presence, *when])), amount))
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
            tasks.append((_closed_interval(builder, first, last, both), amount))
    _resource(builder, tasks, capacity, when)


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


def _resource(builder: Builder, tasks: list[tuple[int, Term]], capacity: Term, when: When) -> None:
    """The cumulative constraint itself, over (index of an interval constraint, height)."""
    if any(builder.bounds(height)[0] < 0 for _, height in tasks):
        raise ModelError("cumulative with a height that may be negative")
    if builder.bounds(capacity)[0] < 0:
        builder.linear((1,), (capacity,), (0, HIGHEST), when)
    if not tasks:
        return
    proto = builder.new(when).cumulative
    builder.write(capacity, proto.capacity)
    proto.intervals.extend([interval for interval, _ in tasks])
    builder.write_all([height for _, height in tasks], proto.demands)


def _closed_interval(builder: Builder, first: Term, last: Term, presence: int) -> int:
    """The interval of the times first..last, both included, as long as `presence` is true."""
    enforced = [] if presence == TRUE else [presence]
    (earliest, latest_start), (earliest_end, latest) = builder.bounds(first), builder.bounds(last)
    longest = latest - earliest + 1
    if earliest == latest_start and earliest_end == latest and longest >= 1:
        return _interval(builder, first, constant(longest), last.plus(1), presence)
    # Exactly as wide as the ends allow: a size too small would cut off solutions without a word.
    size = builder.integer(1, max(longest, 1))
    builder.suggest(size.variable, lambda value: _length(value(first), value(last), longest))
    builder.linear((1, 1, -1), (first, size, last.plus(1)), (0, 0), enforced)
    if builder.unique and enforced:
        builder.linear((1,), (size,), (1, 1), [~presence])
    return _interval(builder, first, size, last.plus(1), presence)


def _interval(builder: Builder, start: Term, size: Term, end: Term, presence: int) -> int:
    """The index of an interval constraint; that start + size = end holds is up to the caller."""
    index = builder.constraint_count()
    proto = builder.new([] if presence == TRUE else [presence]).interval
    builder.write(start, proto.start)
    builder.write(size, proto.size)
    builder.write(end, proto.end)
    return index


def _length(first: int | None, last: int | None, longest: int) -> int | None:
    return None if first is None or last is None else max(1, min(last - first + 1, longest))


def _if_known(value, rule):
    return None if value is None else int(rule(value))
