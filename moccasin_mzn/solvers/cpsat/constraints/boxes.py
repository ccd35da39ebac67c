"""Boxes in the plane that do not overlap."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from moccasin_mzn.solvers.cpsat.builder import FALSE, TRUE, Builder, Term
from moccasin_mzn.solvers.cpsat.constraints.intervals import interval, positive
from moccasin_mzn.solvers.cpsat.registry import Ints, When, relation
from moccasin_mzn.solvers.flatzinc.intset import LOWEST, IntSet


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
