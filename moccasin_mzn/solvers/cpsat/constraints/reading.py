"""Reads of what is held for a time: of a value that several copies may give, one serves."""

from __future__ import annotations

from moccasin_mzn.solvers.cpsat.builder import FALSE, Builder, as_term
from moccasin_mzn.solvers.cpsat.registry import Bool, Bools, Int, Ints, When, relation


@relation("fzn_served_read")
def served_read(
    builder: Builder, takes_place: Bool, at: Int, serves: Bools, active: Bools, start: Ints, end: Ints, when: When
) -> None:
    """If a read takes place at event `at`, exactly one copy j serves it, active, with start[j] < at <= end[j]; if not,
    none does. The literal that says which copy serves enforces all of that by itself."""
    counted = [takes_place, *(literal for literal in serves if literal != FALSE)]
    builder.linear([-1, *[1] * (len(counted) - 1)], [*map(as_term, counted)], (0, 0), when)
    for literal, is_active, first, last in zip(serves, active, start, end, strict=True):
        if literal != FALSE:
            builder.clause([~literal, is_active], when)
            builder.at_most(first.plus(1), at, [literal, *when])
            builder.at_most(at, last, [literal, *when])
