"""Access maps: which places of an input are read, by shapes and options, for operators of any model format.

A map has for each axis of an input an `operators.Reach`, or None: all of it is read. ::

    transposed((0, 2, 1))           (Reach(0), Reach(2), Reach(1))
    reshaped((1, 8, 8), (1, 64))    (Reach(0), Reach(1, divisor=8), None)        row = place // 8
    reduced(3, (1,), keep=False)    (Reach(0), None, Reach(1))                   a mean over rows

A map may have more than is read, and never less.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import gcd, prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.operators import Reach, Read, aligned, own

if TYPE_CHECKING:
    from numpy import ndarray

Axes = tuple[Reach | None, ...]


@cache
def every(rank: int) -> Axes:
    """The place itself along all axes."""
    return tuple(map(own, range(rank)))


def composed(outer: Axes, inner: Axes) -> Axes:
    """The map of what is read in two steps, as far as one map can express that.

    Args:
        outer: of an input, along axes of what is between.
        inner: of what is between, along axes of the output.
    """

    def along(reach: Reach | None) -> Reach | None:
        between = None if reach is None else inner[reach.axis]
        if reach is None or between is None or reach.is_identity:
            return between
        return replace(reach, axis=between.axis) if between.is_identity else None

    return tuple(map(along, outer))


def read_of(source: int | None, shape: Sequence[int], axes: Axes | None, put_out: Sequence[int]) -> Read:
    """An input of an operator; without axes, or with some that do not fit, all of it."""
    fits = axes is not None and len(axes) == len(shape)
    fits = fits and all(reach is None or reach.axis < len(put_out) for reach in axes or ())
    return Read(source, tuple(shape), axes if axes is not None and fits else (None,) * len(shape))


# --- Windows --------------------------------------------------------------------------------------------------


@cache
def window(
    axis: int, extent: int, count: int, size: int, stride: int = 1, dilation: int = 1, before: int = 0
) -> Reach | None:
    """What convolutions and pooling read along an axis.

    Args:
        axis: of the output.
        extent: places of the input.
        count: places of the output.
        size: places of the window.
        before: places of padding before the first one.

    Returns:
        None if there is one place, which reads all.
    """
    if count == 1 and dilation == 1 and 0 <= before <= size - extent:
        return None
    return Reach(axis, stride, size, dilation, before)


@cache
def transposed_window(axis: int, size: int, stride: int = 1, dilation: int = 1, before: int = 0) -> Reach:
    """What transposed convolutions read: place o reads (o + before - k * dilation) / stride where that is a place."""
    return Reach(axis, 1, size, dilation, (size - 1) * dilation - before, stride, exact=stride > 1)


def total_padding(extent: int, count: int, size: int, stride: int, dilation: int = 1) -> int:
    """Places of padding so that a window has `count` places: TensorFlow's SAME, and 0 for VALID."""
    return max((count - 1) * stride + (size - 1) * dilation + 1 - extent, 0)


# --- Axes that are moved, merged, joined or dropped -----------------------------------------------------------


def transposed(permutation: Sequence[int]) -> Axes:
    """The map of a transposition whose output has as axis k the axis permutation[k] of the input."""
    return tuple(own([*permutation].index(axis)) for axis in range(len(permutation)))


def reduced(rank: int, axes: Collection[int], *, keep: bool) -> Axes:
    """The map of a reduction.

    Args:
        rank: of the input.
        axes: that are reduced.
        keep: the output has them, with one place.
    """
    return tuple(
        None if axis in axes else own(axis if keep else axis - sum(other < axis for other in axes))
        for axis in range(rank)
    )


def reshaped(shape: Sequence[int], put_out: Sequence[int]) -> Axes:
    """The map of the same elements in another shape.

    The axes of both are taken apart into the smallest groups of equal products; of each group of the input the first
    axis is read as far as the first axis of the output's needs it, the others whole.

    Raises:
        ValueError: the numbers of elements differ.
    """
    if prod(shape) != prod(put_out):
        raise ValueError(f"{shape} and {put_out} differ in elements")
    axes: list[Reach | None] = [None] * len(shape)
    i, j = 0, 0
    while prod(shape) and i < len(shape) and j < len(put_out):
        first, other = i, j
        i, j = i + 1, j + 1
        while (read := prod(shape[first:i])) != (made := prod(put_out[other:j])):
            i, j = i + (read < made), j + (made < read)
        lead = next((axis for axis in range(first, i) if shape[axis] > 1), first)
        along = next((axis for axis in range(other, j) if put_out[axis] > 1), other)
        below, stride = prod(shape[lead + 1 : i]), prod(put_out[along + 1 : j])
        common = gcd(below, stride)
        axes[lead] = Reach(along, stride // common, stride // common, divisor=below // common)
    return tuple(axes)


def joined(axis: int, shapes: Sequence[Sequence[int]]) -> list[Axes]:
    """The maps of the inputs of a concatenation."""
    starts = [sum(shape[axis] for shape in shapes[:at]) for at in range(len(shapes))]
    return [shifted(len(shape), {axis: start}) for shape, start in zip(shapes, starts, strict=True)]


def shifted(rank: int, before: dict[int, int], strides: dict[int, int] | None = None) -> Axes:
    """The map of padding and of slices.

    Args:
        rank: of the input.
        before: by axis the places of padding before the first one; below 0: that number is left out.
        strides: by axis the distance of the places that are read; default 1.
    """
    steps = strides or {}
    return tuple(Reach(axis, steps.get(axis, 1), before=before.get(axis, 0)) for axis in range(rank))


def multiplied(
    first: Sequence[int], second: Sequence[int], put_out: Sequence[int], turned: tuple[bool, bool] = (False, False)
) -> tuple[Axes, Axes]:
    """The maps of both factors of a product of matrices, or of stacks of them, which are broadcast.

    Args:
        turned: the last two axes of a factor are the other way round.
    """
    rows, columns = len(first) > 1, len(second) > 1
    stack = put_out[: len(put_out) - rows - columns]
    left = (own(len(stack)), None) if rows else (None,)
    right = (None, own(len(put_out) - 1)) if columns else (None,)
    return (
        (*aligned(first[:-2], stack), *(left[::-1] if turned[0] else left)),
        (*aligned(second[:-2], stack), *(right[::-1] if turned[1] else right)),
    )


# --- Places that computing with rounding finds ----------------------------------------------------------------


def covering(axis: int, low: ndarray, high: ndarray, step: Fraction) -> Reach:
    """The narrowest windows at equal distances that cover what each place reads.

    Args:
        axis: of the output.
        low, high: integer[count], the first and the last place of the input that each place of the output reads.
        step: places of the input from a window to the next.
    """
    import numpy as np

    at = np.arange(len(low)) * step.numerator
    before = int((at - (low + 1) * step.denominator).max()) + 1
    size = int((high - (at - before) // step.denominator).max()) + 1
    return Reach(axis, step.numerator, size, step.denominator if size > 1 else 1, before, step.denominator)


def resized(axis: int, extent: int, at: ndarray, step: Fraction, reads: Callable[[ndarray], ndarray]) -> Reach | None:
    """What is read along an axis of an image that is enlarged or made smaller.

    Args:
        axis: of the output.
        extent: places of the input.
        at: float64[count], where in the input each place of the output lies.
        step: the distance of two of them.
        reads: of coordinates the first and the last place that is read, float64[2, count]; outside of the input the
            nearest place is read instead.
    """
    import numpy as np

    if extent == 1:
        return None
    exact = all(number & (number - 1) == 0 for number in (step.numerator, step.denominator))
    slack = 0 if exact and (np.diff(at) == float(step)).all() else extent * _ROUNDING
    low, high = (each.clip(0, extent - 1).astype(np.int64) for each in (reads(at - slack)[0], reads(at + slack)[1]))
    return covering(axis, low, high, step)


_ROUNDING = 1e-6
"""Relative error of a coordinate: some operations in single precision."""


def mirrored(axis: int, extent: int, before: int, after: int) -> Reach:
    """What is read along an axis that is padded with places near the border, mirrored or repeated."""
    import numpy as np

    at = np.arange(-before, extent + after)
    outside = np.maximum(np.maximum(-at, at - (extent - 1)), 0)
    low, high = at - 2 * outside * (at >= extent), at + 2 * outside * (at < 0)
    return covering(axis, low.clip(0, extent - 1), high.clip(0, extent - 1), Fraction(1))
