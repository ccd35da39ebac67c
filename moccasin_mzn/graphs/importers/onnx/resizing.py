"""What Resize and Upsample of ONNX read, in all their modes. ::

asymmetric, nearest, floor, x 2       0 0 1 1 2 2         Reach(axis, divisor=2)
half_pixel, linear, x 2               0 01 01 12 12 2     Reach(axis, 1, window=2, dilation=2, before=1, divisor=2)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.access_maps import Axes, resized
from moccasin_mzn.graphs.importers.onnx.model import operator_sets
from moccasin_mzn.graphs.operators import Reach, own

if TYPE_CHECKING:
    from numpy import ndarray

    from moccasin_mzn.graphs.importers.onnx.shapes import Call

_FINEST = 1000
"""Largest denominator of a scale by which windows lie; what these cover depends on the scale itself."""


def resized_axes(call: Call, put_out: tuple[int, ...]) -> Axes:
    """The map of the first input.

    Args:
        call: the operator.
        put_out: the shape of its output.

    Raises:
        LookupError: scales, or sizes, are no constants; coordinates of a kind that is not known here.
    """
    shape = call.shape(0)
    scales = _scales(call, shape, put_out)
    reads = _taps(call)
    smooth = bool(call.attribute("antialias", 0))
    mode = (
        call.attribute("coordinate_transformation_mode", b"half_pixel") if _modern(call) else b"asymmetric"
    ).decode()

    def along(axis: int) -> Reach | None:
        extent, count, scale = shape[axis], put_out[axis], scales[axis]
        if scale == 1 and extent == count:
            return own(axis)
        if smooth and scale < 1:
            return None
        at = _COORDINATES[mode](extent, count, scale)
        step = 1 / Fraction(scale).limit_denominator(_FINEST)
        if mode == "align_corners" and extent > 1 < count:
            step = Fraction(extent - 1, count - 1)
        return resized(axis, extent, at, step, reads)

    return tuple(map(along, range(len(shape))))


def whole_scales(call: Call, put_out: tuple[int, ...]) -> list[int | None]:
    """For each axis how many times it is enlarged, where coordinates are the same in any part of it; 1: it stays.

    Raises:
        LookupError: as `resized_axes`.
    """
    mode = call.attribute("coordinate_transformation_mode", b"half_pixel") if _modern(call) else b"asymmetric"
    shifting = mode not in (b"asymmetric", b"half_pixel", b"pytorch_half_pixel") or call.attribute("antialias", 0)
    nearest = call.attribute("mode", b"nearest") == b"nearest"

    def along(extent: int, count: int, scale: float) -> int | None:
        factor = int(scale)
        fits = factor == scale >= 1 and count == extent * factor
        even = nearest or factor & (factor - 1) == 0  # else coordinates are rounded, each its own way
        return factor if fits and (factor == 1 or (even and not shifting)) else None

    shape = call.shape(0)
    return [along(*each) for each in zip(shape, put_out, _scales(call, shape, put_out), strict=True)]


def _modern(call: Call) -> bool:
    """Does the operator have a way to compute coordinates among its attributes?"""
    return call.node.op_type == "Resize" and operator_sets(call.shapes.model).get("", 1) >= 11


def _scales(call: Call, shape: tuple[int, ...], put_out: tuple[int, ...]) -> list[float]:
    """For each axis places of the output over those of the input."""
    at = 2 if _modern(call) else 1
    given = call.attribute("scales")
    if given is None and call.has(at):
        given = call.value(at).tolist()
    axes = [axis % len(shape) for axis in call.attribute("axes") or range(len(shape))]
    if given:
        known = dict(zip(axes, map(float, given), strict=True))
        return [known.get(axis, 1.0) for axis in range(len(shape))]
    if call.attribute("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise LookupError
    call.value(3)  # the sizes, which must be constants: nobody looks at more than the shape otherwise
    return [made / read for read, made in zip(shape, put_out, strict=True)]


def _taps(call: Call) -> Callable[[ndarray], ndarray]:
    """The function from coordinates to the first place that is read, and the last one."""
    import numpy as np

    mode = call.attribute("mode", b"nearest")
    if mode == b"nearest":
        rounding = (call.attribute("nearest_mode", b"round_prefer_floor") if _modern(call) else b"either").decode()
        return _NEAREST[rounding]
    below, above = (0, 1) if mode.endswith(b"linear") else (1, 2)
    return lambda at: np.stack([np.floor(at) - below, np.floor(at) + above])


def _nearest(name: str, shift: float) -> Callable[[ndarray], ndarray]:
    import numpy as np

    return lambda at: np.stack([getattr(np, name)(at + shift)] * 2)


def _either(at: ndarray) -> ndarray:
    """Runtimes differ in old operator sets."""
    import numpy as np

    return np.stack([np.floor(at), np.ceil(at)])


_NEAREST: Mapping[str, Callable[[ndarray], ndarray]] = {
    "round_prefer_floor": _nearest("ceil", -0.5),
    "round_prefer_ceil": _nearest("floor", 0.5),
    "floor": _nearest("floor", 0.0),
    "ceil": _nearest("ceil", 0.0),
    "either": _either,
}


def _places(count: int) -> ndarray:
    import numpy as np

    return np.arange(count, dtype=np.float64)


def _half_pixel(extent: int, count: int, scale: float) -> ndarray:
    return (_places(count) + 0.5) / scale - 0.5


def _symmetric(extent: int, count: int, scale: float) -> ndarray:
    """The middle stays the middle, though the number of places was rounded."""
    centre = extent / 2
    return centre - centre * count / (scale * extent) + _half_pixel(extent, count, scale)


_COORDINATES: Mapping[str, Callable[[int, int, float], ndarray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda extent, count, scale: _half_pixel(extent, count, scale) * (count > 1),
    "align_corners": lambda extent, count, scale: _places(count) * (extent - 1) / max(count - 1, 1),
    "asymmetric": lambda extent, count, scale: _places(count) / scale,
    "tf_half_pixel_for_nn": lambda extent, count, scale: (_places(count) + 0.5) / scale,
}
