"""What operators of TFLite read of their inputs, see `access_maps`; images are (batch, height, width, channels).

Padding is that of TensorFlow Lite's kernels, which compute it from the shapes of input and output. What is not listed
here, or does not fit, reads all of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from moccasin_mzn.graphs.access_maps import (
    Axes,
    composed,
    every,
    joined,
    mirrored,
    multiplied,
    reduced,
    reshaped,
    resized,
    shifted,
    total_padding,
    transposed,
    transposed_window,
    window,
)
from moccasin_mzn.graphs.operators import Reach, aligned, own

if TYPE_CHECKING:
    from numpy import ndarray


@dataclass(frozen=True)
class Value:
    """A tensor that an operator reads or outputs."""

    shape: tuple[int, ...]
    kind: str
    """The tensor's type, such as "INT8"."""
    numbers: tuple[int, ...] | None = None
    """The values of a constant of integers; None: it is no such constant, or a large one."""


@dataclass(frozen=True)
class Case:
    """One operator."""

    name: str
    options: Any
    """As the schema has them."""
    read: tuple[Value, ...]
    put_out: Value

    def numbers(self, at: int) -> tuple[int, ...]:
        """The values of an input that is a constant.

        Raises:
            ValueError: it is not one.
        """
        if self.read[at].numbers is None:
            raise ValueError(f"input {at} is no constant")
        return self.read[at].numbers or ()


def accesses(case: Case) -> dict[int, Axes]:
    """By input what is read of it; what is not there is read whole."""
    rule = _RULES.get(case.name)
    try:
        return {} if rule is None else rule(case)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # of what does not fit
        return {}


def accumulator(case: Case) -> int:
    """Bytes of an element of a partial result, see `Operator`."""
    bits = next((int(end) for end in ("64", "32", "16", "8") if case.put_out.kind.endswith(end)), 0)
    integer = case.put_out.kind.startswith(("INT", "UINT"))
    pooled = case.name in ("AVERAGE_POOL_2D", "MAX_POOL_2D") and prod(case.put_out.shape[1:3]) == 1
    one_row = case.name == "FULLY_CONNECTED" and prod(case.put_out.shape[:-1]) == 1
    if case.name in ("REDUCE_MAX", "REDUCE_MIN") or (pooled and case.name == "MAX_POOL_2D"):
        return bits // 8
    return max(4, bits // 8) if integer and (case.name in ("MEAN", "SUM") or pooled or one_row) else 0


def _convolution(case: Case) -> dict[int, Axes]:
    filters, depth = case.read[1].shape, case.read[0].shape[3]
    by_channel = depth > 1 and (case.name == "DEPTHWISE_CONV_2D" or filters[3] == 1)
    channels = Reach(3, divisor=case.put_out.shape[3] // depth) if by_channel else None
    return {0: _image(case, filters[1:3], channels, (case.options.dilationHFactor, case.options.dilationWFactor))}


def _pool(case: Case) -> dict[int, Axes]:
    return {0: _image(case, (case.options.filterHeight, case.options.filterWidth), own(3))}


def _image(case: Case, sizes: Sequence[int], channels: Reach | None, dilations: Sequence[int] = (1, 1)) -> Axes:
    sides = []
    for axis, size, dilation, stride in zip(
        (1, 2), sizes, dilations, (case.options.strideH, case.options.strideW), strict=True
    ):
        extent, count = case.read[0].shape[axis], case.put_out.shape[axis]
        before = total_padding(extent, count, size, stride, dilation) // 2
        sides.append(window(axis, extent, count, size, stride, dilation, before))
    return (own(0), *sides, channels)


def _transposed_convolution(case: Case) -> dict[int, Axes]:
    sides = []
    for axis, size, stride in zip(
        (1, 2), case.read[1].shape[1:3], (case.options.strideH, case.options.strideW), strict=True
    ):
        extent, count = case.read[2].shape[axis], case.put_out.shape[axis]
        sides.append(transposed_window(axis, size, stride, before=total_padding(count, extent, size, stride) // 2))
    return {2: (own(0), *sides, None)}


def _dense(case: Case) -> dict[int, Axes]:
    """The input is taken for rows as long as those of the weights, (units, length)."""
    shape = case.put_out.shape
    rows = (*every(len(shape) - 1), None)
    read = reshaped(case.read[0].shape, (*shape[:-1], case.read[1].shape[1]))
    return {0: composed(read, rows), 1: (own(len(shape) - 1), None)}


def _product(case: Case) -> dict[int, Axes]:
    turned = bool(case.options.adjX), bool(case.options.adjY)
    return dict(enumerate(multiplied(case.read[0].shape, case.read[1].shape, case.put_out.shape, turned)))


def _elementwise(case: Case) -> dict[int, Axes]:
    return {at: aligned(each.shape, case.put_out.shape) for at, each in enumerate(case.read)}


def _unary(case: Case) -> dict[int, Axes]:
    return {0: aligned(case.read[0].shape, case.put_out.shape)}


def _selected(case: Case) -> dict[int, Axes]:
    """SELECT has rows chosen by a vector as well."""
    return {at: every(len(each.shape)) for at, each in enumerate(case.read) if each.shape == case.put_out.shape}


def _concatenated(case: Case) -> dict[int, Axes]:
    axis = case.options.axis % len(case.put_out.shape)
    return dict(enumerate(joined(axis, [each.shape for each in case.read])))


def _stacked(case: Case) -> dict[int, Axes]:
    rank = len(case.put_out.shape)
    axis = case.options.axis % rank
    return {at: tuple(own(other) for other in range(rank) if other != axis) for at in range(len(case.read))}


def _padded(case: Case) -> dict[int, Axes]:
    pads, shape = case.numbers(1), case.read[0].shape
    if case.name == "MIRROR_PAD":
        return {0: tuple(mirrored(axis, side, *pads[2 * axis : 2 * axis + 2]) for axis, side in enumerate(shape))}
    return {0: shifted(len(shape), dict(enumerate(pads[::2])))}


def _sliced(case: Case) -> dict[int, Axes]:
    return {0: shifted(len(case.put_out.shape), {axis: -start for axis, start in enumerate(case.numbers(1))})}


def _strided(case: Case) -> dict[int, Axes]:
    """Axes that are dropped or backwards are read whole."""
    options, shape = case.options, case.read[0].shape
    if options.ellipsisMask or options.newAxisMask:
        return {}
    dropped = [axis for axis in range(len(shape)) if options.shrinkAxisMask >> axis & 1]
    axes = list(reduced(len(shape), dropped, keep=False))
    for axis, (start, step) in enumerate(zip(case.numbers(1), case.numbers(3), strict=True)):
        reach, extent = axes[axis], shape[axis]
        first = 0 if options.beginMask >> axis & 1 else min(max(start + extent * (start < 0), 0), extent)
        axes[axis] = Reach(reach.axis, step, before=-first) if reach is not None and step > 0 else None
    return {0: tuple(axes)}


def _reshaped(case: Case) -> dict[int, Axes]:
    return {0: reshaped(case.read[0].shape, case.put_out.shape)}


def _transposed(case: Case) -> dict[int, Axes]:
    return {0: transposed(case.numbers(1))}


def _resized(case: Case) -> dict[int, Axes]:
    """As the reference kernels have it: the scale is that of the corners' centres, or of the sides."""
    import numpy as np

    linear, corners = case.name == "RESIZE_BILINEAR", case.options.alignCorners
    half = 0.5 if case.options.halfPixelCenters else 0.0

    def reads(at: ndarray) -> ndarray:
        first = np.floor(at + 0.5 * (corners and not linear))
        return np.stack([first, first + linear])

    sides = []
    for axis in (1, 2):
        extent, count = case.read[0].shape[axis], case.put_out.shape[axis]
        step = Fraction(extent - 1, count - 1) if corners and count > 1 < extent else Fraction(extent, count)
        at = (np.arange(count) + half) * float(step) - half * linear
        sides.append(resized(axis, extent, at, step, reads))
    return {0: (own(0), *sides, own(3))}


def _to_depth(case: Case) -> dict[int, Axes]:
    block = case.options.blockSize
    return {0: (own(0), *(Reach(axis, block, block) for axis in (1, 2)), None)}


def _from_depth(case: Case) -> dict[int, Axes]:
    block, depth = case.options.blockSize, case.put_out.shape[3]
    return {0: (own(0), *(Reach(axis, divisor=block) for axis in (1, 2)), Reach(3, 1, block**2, depth))}


def _to_batch(case: Case) -> dict[int, Axes]:
    """Each image of the output has every `block`-th place."""
    blocks, pads = case.numbers(1), case.numbers(2)
    sides = (Reach(1 + at, block, block, before=pads[2 * at]) for at, block in enumerate(blocks))
    return {0: (None, *sides, *map(own, range(1 + len(blocks), len(case.put_out.shape))))}


def _from_batch(case: Case) -> dict[int, Axes]:
    blocks, crops = case.numbers(1), case.numbers(2)
    sides = (Reach(1 + at, before=-crops[2 * at], divisor=block) for at, block in enumerate(blocks))
    return {0: (None, *sides, *map(own, range(1 + len(blocks), len(case.put_out.shape))))}


def _reduced(case: Case) -> dict[int, Axes]:
    rank, name = len(case.read[0].shape), case.name
    axes = {axis % rank for axis in case.numbers(1)}
    keep = name not in ("ARG_MAX", "ARG_MIN") and bool(case.options.keepDims)
    return {0: reduced(rank, axes, keep=keep)}


def _along_the_last(case: Case) -> dict[int, Axes]:
    return {0: (*every(len(case.put_out.shape) - 1), None)}


def _gathered(case: Case) -> dict[int, Axes]:
    """Rows of the first input, by numbers in the second, whose axes stand in place of the axis of rows."""
    if case.options.batchDims:
        return {}
    rank, indices = len(case.read[0].shape), len(case.read[1].shape)
    axis = case.options.axis % rank
    after = range(axis + indices, len(case.put_out.shape))
    return {0: (*every(axis), None, *map(own, after)), 1: tuple(map(own, range(axis, axis + indices)))}


_BINARY = """
    ADD ADD_N ATAN2 BITWISE_XOR DIV EQUAL FLOOR_DIV FLOOR_MOD GREATER GREATER_EQUAL LESS LESS_EQUAL LOGICAL_AND
    LOGICAL_OR MAXIMUM MINIMUM MUL NOT_EQUAL POW PRELU RIGHT_SHIFT SELECT_V2 SQUARED_DIFFERENCE SUB
    """.split()  # noqa: SIM905
_UNARY = """
    ABS BROADCAST_TO CAST CEIL COS DEQUANTIZE ELU EXP FAKE_QUANT FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGICAL_NOT
    LOGISTIC NEG QUANTIZE RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 ROUND RSQRT SIGN SIN SQRT SQUARE TANH ZEROS_LIKE
    """.split()  # noqa: SIM905
_REDUCTIONS = """
    ARG_MAX ARG_MIN MEAN REDUCE_ALL REDUCE_ANY REDUCE_MAX REDUCE_MIN REDUCE_PROD SUM
    """.split()  # noqa: SIM905
_RULES: Mapping[str, Callable[[Case], dict[int, Axes]]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    **dict.fromkeys(("AVERAGE_POOL_2D", "L2_POOL_2D", "MAX_POOL_2D"), _pool),
    "TRANSPOSE_CONV": _transposed_convolution,
    "FULLY_CONNECTED": _dense,
    "BATCH_MATMUL": _product,
    **dict.fromkeys(_BINARY, _elementwise),
    **dict.fromkeys(_UNARY, _unary),
    "SELECT": _selected,
    "CONCATENATION": _concatenated,
    "PACK": _stacked,
    **dict.fromkeys(("MIRROR_PAD", "PAD", "PADV2"), _padded),
    "SLICE": _sliced,
    "STRIDED_SLICE": _strided,
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), _reshaped),
    "TRANSPOSE": _transposed,
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resized),
    "SPACE_TO_DEPTH": _to_depth,
    "DEPTH_TO_SPACE": _from_depth,
    "SPACE_TO_BATCH_ND": _to_batch,
    "BATCH_TO_SPACE_ND": _from_batch,
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(("L2_NORMALIZATION", "LOCAL_RESPONSE_NORMALIZATION", "LOG_SOFTMAX", "SOFTMAX"), _along_the_last),
    "GATHER": _gathered,
}
