"""A part of the output of an ONNX operator, computed by an operator of the same kind on a part of what it reads. ::

    y = Conv(x), 3 x 3, pads 1, 8 rows       y[0:4] = Conv(x[0:5]), pads 1 above, 0 below
                                             y[4:8] = Conv(x[3:8]), pads 0 above, 1 below

Which places of its inputs an operator reads is known from the import, see `importers.onnx.operators`. What else changes
is here: padding, shapes that are given as numbers, places that are computed and not wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.base.files import Json
from moccasin_mzn.deploy.gathering import Unsplittable, check_own_places, cut_axes, read_box
from moccasin_mzn.graphs.access_maps import Axes
from moccasin_mzn.graphs.importers.onnx.model import is_standard, kind_of
from moccasin_mzn.graphs.importers.onnx.operators import OneOutput, accesses, first_padding, padding_of, window_sides
from moccasin_mzn.graphs.importers.onnx.resizing import whole_scales
from moccasin_mzn.graphs.importers.onnx.shape_rules import POOLS, pool_sides
from moccasin_mzn.graphs.importers.onnx.shapes import Shapes, is_elementwise, may_repeat
from moccasin_mzn.graphs.tiling.cutting import Box

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class OnnxRecipe:
    """The operator that computes a part."""

    boxes: Mapping[int, Box]
    """By input the part of it that is read; an input that is missing here is read whole."""
    kind: str | None = None
    """The step's type, of ONNX itself, if it is another one; empty: the part is what is read."""
    attributes: Mapping[str, Json] = field(default_factory=dict)
    """Attributes that are others; None: it has none of this name."""
    numbers: Mapping[int, Sequence[float]] = field(default_factory=dict)
    """Inputs that are other constants."""
    dropped: Collection[int] = ()
    """Inputs that are left out, given or not."""
    crop: Box | None = None
    """The places of what it outputs that are the part; None: all."""
    made: Box = ()
    """All places of what it outputs, if it is cropped."""


def recipe_of(node: onnx.NodeProto, shapes: Shapes, box: Box) -> OnnxRecipe:
    """How to compute a part of the first output of an operator.

    Args:
        box: for each axis of the output the first place, and the one after the last.

    Raises:
        Unsplittable: it cannot be done.
    """
    call = OneOutput(node, shapes)
    found = accesses(call)
    if not found or not may_repeat(node, shapes):
        raise Unsplittable(kind_of(node))
    rule = _RULES.get(node.op_type)
    if rule is None and is_standard(node) and is_elementwise(node):
        rule = _plain
    if rule is None:
        raise Unsplittable(kind_of(node))
    try:
        return rule(_OnnxPart(call, box, found))
    except (ArithmeticError, LookupError, TypeError, ValueError):  # of shapes or attributes that do not fit
        raise Unsplittable(kind_of(node)) from None


@dataclass(frozen=True)
class _OnnxPart:
    """A part that is to be computed."""

    call: OneOutput
    box: Box
    maps: Mapping[int, Axes]

    @property
    def cut(self) -> set[int]:
        """Axes along which it is not all of the output."""
        return cut_axes(self.box, self.call.put_out)

    @property
    def shape(self) -> list[int]:
        """Places along each axis."""
        return [stop - start for start, stop in self.box]

    def boxes(self) -> dict[int, Box]:
        """What is read of each input, by the maps."""
        return {at: self.read(at) for at in self.maps}

    def read(self, at: int) -> Box:
        """What is read of one input.

        Raises:
            Unsplittable: nothing is.
        """
        return read_box(self.maps[at], self.box, self.call.shape(at))

    def whole(self, *axes: int) -> None:
        """Check that it is not cut along some axes.

        Raises:
            Unsplittable: it is.
        """
        rank = len(self.box)
        if self.cut & {axis % rank for axis in axes}:
            raise Unsplittable

    def given(self, *names: str) -> dict[str, Json]:
        """Drop attributes."""
        return dict.fromkeys(name for name in names if self.call.attribute(name) is not None)


Rule = Callable[[_OnnxPart], OnnxRecipe]


def _volume(box: Box) -> int:
    return prod(stop - start for start, stop in box)


# --- The same operator on less --------------------------------------------------------------------------------


def _plain(part: _OnnxPart) -> OnnxRecipe:
    """Nothing but what is read changes."""
    check_own_places(part.maps.values(), part.cut)
    return OnnxRecipe(part.boxes())


def _whole_along(*axes: int) -> Rule:
    def rule(part: _OnnxPart) -> OnnxRecipe:
        part.whole(*axes)
        return _plain(part)

    return rule


def _scaled(part: _OnnxPart) -> OnnxRecipe:
    """Scales and zero points are one for all, or one for each place along an axis."""
    call = part.call
    if any(prod(call.shape(at)) > 1 for at in range(1, len(call.node.input)) if call.has(at)):
        if call.attribute("block_size", 0):
            raise Unsplittable
        part.whole(call.axis(1))
    return _plain(part)


def _product(*of_columns: int) -> Rule:
    """A product of matrices, of whose further inputs some have a number for each column."""

    def rule(part: _OnnxPart) -> OnnxRecipe:
        call = part.call
        others = [at for at in range(len(call.node.input)) if call.has(at) and at not in part.maps]
        for at in others:
            if prod(call.shape(at)) > 1:
                if at not in of_columns or len(call.shape(at)) > 1:
                    raise Unsplittable
                part.whole(-1)
        return _plain(part)

    return rule


def _blocks(part: _OnnxPart) -> OnnxRecipe:
    """SpaceToDepth: each place has a block of places."""
    part.whole(1)
    return OnnxRecipe(part.boxes())


# --- Windows --------------------------------------------------------------------------------------------------


def _window(part: _OnnxPart, sizes: Sequence[int], channels: tuple[int, int]) -> OnnxRecipe:
    """A window that slides over images: padding is that of the part."""
    call = part.call
    sides = window_sides(call, sizes)
    found, before, after = [], [], []
    pooled = pool_sides(call, call.shape(0)[2:]) if call.kind in POOLS else None
    for at, (side, (first, unsure)) in enumerate(zip(sides, first_padding(call, sizes), strict=True)):
        extent, count, size, stride, dilation = side
        reach = (size - 1) * dilation + 1
        if unsure or (pooled and (count - 1) * stride - first + reach > extent + pooled[at][2]):
            raise Unsplittable
        start, stop = part.box[2 + at]
        span, above, below = _clipped(start * stride - first, (stop - 1) * stride - first + reach, extent)
        found.append(span)
        before.append(above)
        after.append(below)
    attributes = part.given("auto_pad", "ceil_mode") | {"pads": before + after}
    return OnnxRecipe({0: (part.box[0], channels, *found)}, attributes=attributes)


def _clipped(first: int, last: int, extent: int) -> tuple[tuple[int, int], int, int]:
    """What there is of places from `first` up to `last` of an axis, and how much padding is before and after that.

    Raises:
        Unsplittable: there is nothing but padding.
    """
    low, high = max(0, first), min(extent, last)
    if low >= high:
        raise Unsplittable
    return (low, high), low - first, last - high


def _pool(part: _OnnxPart) -> OnnxRecipe:
    same = part.call.attribute("auto_pad", b"NOTSET") in (b"SAME_UPPER", b"SAME_LOWER")
    dilated = max(part.call.attribute("dilations") or (1,)) > 1
    if part.call.attribute("channels_last", 0) or (same and dilated):  # ONNX Runtime pads as if it were not dilated
        raise Unsplittable
    return _window(part, part.call.attribute("kernel_shape"), part.box[1])


def _convolution(weights: int) -> Rule:
    def rule(part: _OnnxPart) -> OnnxRecipe:
        call, filters = part.call, part.call.shape(weights)
        depth, groups = call.shape(0)[1], call.attribute("group", 1)
        channels, attributes = (0, depth), dict[str, Json]()
        boxes: dict[int, Box] = {at: part.read(at) for at in part.maps if at > 0}
        if 1 in part.cut:
            start, stop = part.box[1]
            if groups == depth > 1:
                each = filters[0] // depth
                if start % each or stop % each:
                    raise Unsplittable
                channels = start // each, stop // each
                attributes = {"group": channels[1] - channels[0]}
            elif groups > 1:
                raise Unsplittable
            rest = tuple((0, extent) for extent in filters[1:])
            each_filter = [at for at in range(weights + 1, len(call.node.input))
                           if call.has(at) and call.shape(at) == filters[:1]]  # fmt: skip
            boxes |= {weights: (part.box[1], *rest), **dict.fromkeys(each_filter, (part.box[1],))}
        found = _window(part, filters[2:], channels)
        return replace(found, boxes={**found.boxes, **boxes}, attributes={**found.attributes, **attributes})

    return rule


def _transposed_convolution(part: _OnnxPart) -> OnnxRecipe:
    """All places that what is read takes part in, less padding; what lies behind them is bias alone."""
    call = part.call
    part.whole(1)
    if call.attribute("output_shape") or call.attribute("auto_pad", b"NOTSET") not in (b"NOTSET", b"", b"VALID"):
        raise Unsplittable
    sizes = call.shape(1)[2:]
    sides = window_sides(call, sizes)
    pads = call.attribute("pads") or [0] * 2 * len(sizes)
    if call.attribute("auto_pad") == b"VALID":
        pads = [0] * 2 * len(sizes)
    read, before, after, more = part.read(0), [], [], []
    for at, (_, _, size, stride, dilation) in enumerate(sides):
        low, high = read[2 + at]
        start, stop = part.box[2 + at]
        first = low * stride - pads[at]
        last = first + (high - low - 1) * stride + (size - 1) * dilation + 1
        if start < first or stop - last >= max(stride, dilation):
            raise Unsplittable
        before.append(start - first)
        after.append(max(0, last - stop))
        more.append(max(0, stop - last))
    attributes = part.given("auto_pad", "output_padding") | {"pads": before + after}
    return OnnxRecipe({0: read}, attributes=attributes | ({"output_padding": more} if any(more) else {}))


# --- Places that are moved ------------------------------------------------------------------------------------


def _concatenated(part: _OnnxPart) -> OnnxRecipe:
    """Along the axis that is joined, of some inputs nothing."""
    call, axis = part.call, part.call.attribute("axis", 1) % len(part.box)
    start, stop = part.box[axis]
    boxes, dropped, first = {}, [], 0
    for at in range(len(call.node.input)):
        extent = call.shape(at)[axis]
        low, high = max(start - first, 0), min(stop - first, extent)
        first += extent
        if low < high or (low == high and axis not in part.cut):
            boxes[at] = (*part.box[:axis], (low, high), *part.box[axis + 1 :])
        else:
            dropped.append(at)
    return OnnxRecipe(boxes, kind="" if len(boxes) == 1 else None, dropped=dropped)


def _joined_quantized(part: _OnnxPart) -> OnnxRecipe:
    part.whole(part.call.attribute("axis", 1))
    return OnnxRecipe(part.boxes())


def _padded(part: _OnnxPart) -> OnnxRecipe:
    """Padding with a constant is that of the part; along axes padded otherwise nothing is cut."""
    call, shape = part.call, part.call.shape(0)
    padded = padding_of(call)
    if call.attribute("mode", b"constant") != b"constant":
        part.whole(*(axis for axis, both in padded.items() if any(both)))
        return _plain(part)
    box, before, after = [], [], []
    for axis, ((start, stop), extent) in enumerate(zip(part.box, shape, strict=True)):
        first = start - padded.get(axis, (0, 0))[0]
        span, above, below = _clipped(first, first + stop - start, extent)
        box.append(span)
        before.append(above)
        after.append(below)
    kind = None if any(before + after) else ""
    if call.version < 11:
        return OnnxRecipe({0: tuple(box)}, kind, attributes={"pads": before + after})
    return OnnxRecipe({0: tuple(box)}, kind, numbers={1: before + after}, dropped=[3])


def _sliced(part: _OnnxPart) -> OnnxRecipe:
    """If there are no steps, the part is a part of what is read."""
    read, strides = part.read(0), [0 if reach is None else reach.stride for reach in part.maps[0]]
    if 0 in strides or (max(strides) > 1 and part.call.version < 10):
        raise Unsplittable
    if max(strides) == 1:
        return OnnxRecipe({0: read}, kind="")
    axes = range(len(strides))
    ends = [stop - start for start, stop in read]
    return OnnxRecipe({0: read}, numbers={1: [0] * len(axes), 2: ends, 3: axes, 4: strides})


def _reshaped(part: _OnnxPart) -> OnnxRecipe:
    """Where a part has all places of a part of what is read."""
    read = part.read(0)
    met = {reach.axis for reach in part.maps[0] if reach is not None}
    if not part.cut <= met or _volume(read) != _volume(part.box) or part.call.version < 5:
        raise Unsplittable
    return OnnxRecipe({0: read}, kind="Reshape", numbers={1: part.shape})


def _expanded(part: _OnnxPart) -> OnnxRecipe:
    return OnnxRecipe({0: part.read(0)}, numbers={1: part.shape})


def _from_depth(part: _OnnxPart) -> OnnxRecipe:
    """DepthToSpace: whole blocks."""
    part.whole(1)
    read, block = part.read(0), part.call.attribute("blocksize")
    if any((stop - start) * block != made for (start, stop), made in zip(read[2:], part.shape[2:], strict=True)):
        raise Unsplittable
    return OnnxRecipe({0: read})


def _resized(part: _OnnxPart) -> OnnxRecipe:
    """What is enlarged a whole number of times: what is read is enlarged, and cropped."""
    call, read = part.call, part.read(0)
    factors = whole_scales(call, call.put_out)
    part.whole(*(axis for axis, factor in enumerate(factors) if factor is None))
    if None in factors:  # along that axis other coordinates might be computed from a scale than from two sizes
        raise Unsplittable
    scales = [factor or 1 for factor in factors]
    crop = tuple(
        (start - low * scale, stop - low * scale)
        for (low, _), (start, stop), scale in zip(read, part.box, scales, strict=True)
    )
    made = tuple((0, (stop - start) * scale) for (start, stop), scale in zip(read, scales, strict=True))
    attributes = part.given("axes", "keep_aspect_ratio_policy")
    if call.attribute("scales") is not None:
        return OnnxRecipe({0: read}, attributes=attributes | {"scales": [*map(float, scales)]}, crop=crop, made=made)
    place = 2 if call.node.op_type == "Resize" and call.version >= 11 else 1
    numbers: dict[int, Sequence[float]] = {place: [*map(float, scales)]}
    return OnnxRecipe({0: read}, attributes=attributes, numbers=numbers, dropped=[3], crop=crop, made=made)


_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    """.split()  # noqa: SIM905
_UNCHANGED = """
    ArgMax ArgMin BatchNormalization BiasGelu CastLike CumProd CumSum FastGelu FusedGemm FusedMatMul Gather Gelu Gemm
    GlobalAveragePool GlobalLpPool GlobalMaxPool GroupNormalization Hardmax LRN LayerNormalization LogSoftmax
    LpNormalization MatMul MeanVarianceNormalization QLinearAdd QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul
    QLinearSigmoid QuickGelu RMSNormalization SimplifiedLayerNormalization SkipLayerNormalization
    SkipSimplifiedLayerNormalization Softmax Tile Transpose
    """.split()  # noqa: SIM905
_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_REDUCTIONS, *_UNCHANGED), _plain),
    "InstanceNormalization": _whole_along(1),
    "Trilu": _whole_along(-2, -1),
    **dict.fromkeys(("DequantizeLinear", "QuantizeLinear"), _scaled),
    "MatMulInteger": _product(3),
    "MatMulIntegerToFloat": _product(3, 5, 6),
    "QLinearMatMul": _product(4, 5),
    "QGemm": _product(4, 5, 6),
    **dict.fromkeys(("Conv", "ConvInteger", "FusedConv"), _convolution(1)),
    "QLinearConv": _convolution(3),
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool", "QLinearAveragePool"), _pool),
    "ConvTranspose": _transposed_convolution,
    "Concat": _concatenated,
    "QLinearConcat": _joined_quantized,
    "Pad": _padded,
    "Slice": _sliced,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshaped),
    "Expand": _expanded,
    "SpaceToDepth": _blocks,
    "DepthToSpace": _from_depth,
    **dict.fromkeys(("Resize", "Upsample"), _resized),
}
