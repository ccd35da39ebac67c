"""Intervals of CP-SAT, the parts of scheduling and packing constraints."""

from __future__ import annotations

from moccasin_mzn.solvers.cpsat.builder import TRUE, Builder, Term, constant
from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, IntSet


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
