"""What operators of ONNX, and of ONNX Runtime, read of their inputs, see `access_maps`; images are (batch, channels,
height, width).

What is not listed here, or does not fit, reads all of its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.access_maps import (
    Axes,
    every,
    joined,
    mirrored,
    multiplied,
    read_of,
    reduced,
    reshaped,
    shifted,
    total_padding,
    transposed,
    transposed_window,
    window,
)
from moccasin_mzn.graphs.importers.onnx.model import is_standard, kind_of, operator_sets, packages, reads
from moccasin_mzn.graphs.importers.onnx.resizing import resized_axes
from moccasin_mzn.graphs.importers.onnx.shape_rules import POOLS, pool_sides
from moccasin_mzn.graphs.importers.onnx.shapes import Call, Shapes, is_elementwise
from moccasin_mzn.graphs.operators import Operator, Reach, aligned, own

if TYPE_CHECKING:
    import onnx


Accesses = dict[int, Axes]
"""By input what is read of it; what is not there is read whole."""


def operator_of(node: onnx.NodeProto, shapes: Shapes, sources: Mapping[str, int | None]) -> Operator | None:
    """What an operator computes, as the first of its outputs.

    Args:
        sources: by value where it comes from, see `Read`; constants have none.

    Returns:
        None if a shape is unknown.
    """
    given = [name for name in node.input if name in sources]
    around = [name for name in reads(node) if name in sources and name not in given]
    made = shapes.of(node.output[0]).shape
    if made is None or any(shapes.of(name).shape is None for name in (*given, *around)):
        return None
    call = OneOutput(node, shapes)
    found = accesses(call)
    read = [
        read_of(sources[name], call.shape(at), found.get(at), made)
        for at, name in enumerate(node.input)
        if name in sources
    ]
    read += [read_of(sources[name], shapes.of(name).shape or (), None, made) for name in around]
    accumulator = _accumulator(call) if found and len(read) == 1 else 0
    return Operator(kind_of(node), made, tuple(read), accumulator, is_standard(node) and node.op_type == "Concat")


@dataclass(frozen=True)
class OneOutput(Call):
    """An operator with one output that is read, the first."""

    @property
    def put_out(self) -> tuple[int, ...]:
        """Shape of the output."""
        return self.shapes.of(self.node.output[0]).shape or ()

    @property
    def kind(self) -> str:
        """The operator without prefix or suffix for quantized numbers, and without a domain."""
        return self.node.op_type.removeprefix("QLinear").removesuffix("Integer")

    @property
    def version(self) -> int:
        """Version of ONNX's own operator set."""
        return operator_sets(self.shapes.model).get("", 1)

    def axis(self, default: int) -> int:
        """The attribute of this name, from 0."""
        return self.attribute("axis", default) % len(self.shape(0))

    def numbers(self, name: str, at: int) -> list[int]:
        """An attribute, in newer operator sets an input that is a constant.

        Raises:
            KeyError: it is not one.
        """
        given = self.attribute(name)
        if given is None and self.has(at):
            given = self.value(at).reshape(-1).tolist()
        return [*(given or ())]


Rule = Callable[[OneOutput], Accesses]


def accesses(call: OneOutput) -> Accesses:
    """What an operator reads of its inputs, constants too; nothing, if that is not known."""
    node = call.node
    rule = _RULES.get(("" if is_standard(node) else node.domain, node.op_type))
    if rule is None and is_elementwise(node):
        rule = _elementwise
    try:
        return {} if rule is None else rule(call)
    except (ArithmeticError, LookupError, TypeError, ValueError):  # of shapes or attributes that do not fit
        return {}


def _accumulator(call: OneOutput) -> int:
    """Bytes of an element of a partial result, see `Operator`; of floats only maxima are the same in any order."""
    tensor, kinds = call.shapes.of(call.node.output[0]), packages().TensorProto.DataType
    integer = kinds.Name(tensor.dtype).startswith(("INT", "UINT")) if tensor.dtype in kinds.values() else False
    element = (tensor.size or 0) // max(prod(call.put_out), 1)
    pools, products = prod(call.put_out[2:]) == 1, prod(call.put_out[:-1]) == 1
    if call.kind in ("ReduceMax", "ReduceMin") or (pools and call.kind in ("MaxPool", "GlobalMaxPool")):
        return element
    sums = call.kind in ("ReduceSum", "ReduceMean") or (pools and call.kind in ("AveragePool", "GlobalAveragePool"))
    return max(4, element) if integer and (sums or (products and call.kind in ("MatMul", "Gemm", "QGemm"))) else 0


# --- Windows --------------------------------------------------------------------------------------------------


def window_sides(call: OneOutput, sizes: Sequence[int]) -> list[tuple[int, int, int, int, int]]:
    """For each axis of an image places of the input and the output, window, stride and dilation."""
    ones = [1] * len(sizes)
    strides, dilations = call.attribute("strides") or ones, call.attribute("dilations") or ones
    return [*zip(call.shape(0)[2:], call.put_out[2:], sizes, strides, dilations, strict=True)]


def first_padding(call: OneOutput, sizes: Sequence[int]) -> list[tuple[int, int]]:
    """For each axis of an image the places of padding before the first one, and by how many this may be wrong.

    With SAME, where fewer places are read than there are, runtimes differ in which are left out; for pools they are
    those of ONNX Runtime.
    """
    if call.kind in POOLS:
        return [(first, 0) for _, first, _ in pool_sides(call, call.shape(0)[2:])]
    mode, pads = call.attribute("auto_pad", b"NOTSET"), call.attribute("pads")
    found = []
    for at, (extent, count, size, stride, dilation) in enumerate(window_sides(call, sizes)):
        before, spare = pads[at] if pads and mode in (b"NOTSET", b"") else 0, 0
        if mode in (b"SAME_UPPER", b"SAME_LOWER"):
            before = (total_padding(extent, count, size, stride, dilation) + (mode == b"SAME_LOWER")) // 2
            spare = max(extent - (count - 1) * stride - (size - 1) * dilation - 1, 0) // 2
        found.append((before, spare))
    return found


def _image(call: OneOutput, sizes: Sequence[int], channels: Reach | None) -> Axes:
    reaches: list[Reach | None] = []
    sides = zip(window_sides(call, sizes), first_padding(call, sizes), strict=True)
    for at, ((extent, count, size, stride, dilation), (before, spare)) in enumerate(sides):
        reach = window(2 + at, extent, count, size + spare, stride, dilation, before)
        reaches.append(None if spare and dilation > 1 else reach)
    return own(0), channels, *reaches


def _convolution(weights: int) -> Rule:
    def rule(call: OneOutput) -> Accesses:
        filters, depth = call.shape(weights), call.shape(0)[1]
        by_channel = call.attribute("group", 1) == depth > 1
        channels = Reach(1, divisor=filters[0] // depth) if by_channel else None
        sum_of = {3: every(len(call.put_out))} if call.kind == "FusedConv" and call.has(3) else {}
        return {0: _image(call, filters[2:], channels), **sum_of}

    return rule


def _pool(call: OneOutput) -> Accesses:
    if call.attribute("channels_last", 0):
        return {}
    return {0: _image(call, call.attribute("kernel_shape"), own(1))}


def _transposed_convolution(call: OneOutput) -> Accesses:
    """Where the padding follows from the shape of the output and is no even number, both ways to halve it count."""
    filters, depth = call.shape(1), call.shape(0)[1]
    sides, pads = window_sides(call, filters[2:]), call.attribute("pads")
    mode = call.attribute("auto_pad", b"NOTSET")
    reaches: list[Reach | None] = []
    for at, (extent, count, size, stride, dilation) in enumerate(sides):
        total = total_padding(count, extent, size, stride, dilation)
        followed = call.attribute("output_shape") or mode not in (b"NOTSET", b"", b"VALID")
        before, odd = total // 2, total % 2
        if followed and call.attribute("output_padding"):
            return {}
        if not followed:
            before, odd = pads[at] if pads and mode != b"VALID" else 0, 0
        reach = transposed_window(2 + at, size, stride, dilation, before) if not odd else None
        if odd and dilation == 1:
            reach = transposed_window(2 + at, size + 1, stride, 1, before + 1)
        reaches.append(reach)
    by_channel = call.attribute("group", 1) == depth > 1
    return {0: (own(0), Reach(1, divisor=filters[1]) if by_channel else None, *reaches)}


def _response(call: OneOutput) -> Accesses:
    """Local response normalization: a window of channels."""
    size = call.attribute("size")
    first, channels, *others = every(len(call.put_out))
    return {0: (first, Reach(1, window=size, before=(size - 1) // 2), *others)}


# --- Products of matrices -------------------------------------------------------------------------------------


def _product(second: int) -> Rule:
    def rule(call: OneOutput) -> Accesses:
        if call.attribute("transBatchA", 0) or call.attribute("transBatchB", 0):
            return {}
        turned = bool(call.attribute("transA", 0)), bool(call.attribute("transB", 0))
        pair = multiplied(call.shape(0), call.shape(second), call.put_out, turned)
        return dict(zip((0, second), pair, strict=True))

    return rule


def _gemm(call: OneOutput) -> Accesses:
    added = {2: aligned(call.shape(2), call.put_out)} if call.has(2) else {}
    return {**_product(1)(call), **added}


# --- Each place by itself, or along some axes -----------------------------------------------------------------


def _elementwise(call: OneOutput) -> Accesses:
    """In old operator sets, not the last axes but others may be aligned."""
    named = [at for at in range(len(call.node.input)) if call.has(at)]
    if call.version < 7:
        named = [at for at in named if call.shape(at) == call.put_out]
    return {at: aligned(call.shape(at), call.put_out) for at in named}


def _of(*inputs: int) -> Rule:
    """Elementwise in some inputs."""
    return lambda call: {at: aligned(call.shape(at), call.put_out) for at in inputs if call.has(at)}


def _batch_normalization(call: OneOutput) -> Accesses:
    if call.attribute("training_mode", 0):
        return {}
    return {0: every(len(call.put_out)), **dict.fromkeys(range(1, len(call.node.input)), (own(1),))}


def _whole_but(*kept: int) -> Rule:
    """All along all axes but some."""

    def rule(call: OneOutput) -> Accesses:
        return {0: tuple(own(axis) if axis in kept else None for axis in range(len(call.put_out)))}

    return rule


def _pooled_whole(call: OneOutput) -> Accesses:
    if call.attribute("channels_last", 0):
        return {}
    return _whole_but(0, 1)(call)


def _softmax(call: OneOutput) -> Accesses:
    """Before operator set 13, over all axes from one on."""
    axis, rank = call.axis(-1 if call.version >= 13 else 1), len(call.put_out)
    over = [axis] if call.version >= 13 else range(axis, rank)
    return {0: reduced(rank, over, keep=True)}


def _normalized(*inputs: int, axis: int = -1) -> Rule:
    """Over all axes from one on."""

    def rule(call: OneOutput) -> Accesses:
        rank = len(call.put_out)
        over = range(call.axis(axis), rank)
        return {at: reduced(rank, over, keep=True) for at in inputs if call.shape(at) == call.put_out}

    return rule


def _over(axes: Callable[[OneOutput], Sequence[int]]) -> Rule:
    """Over some axes, which the output has as the input has them."""

    def rule(call: OneOutput) -> Accesses:
        rank = len(call.put_out)
        return {0: reduced(rank, {axis % rank for axis in axes(call)}, keep=True)}

    return rule


def _reduced(call: OneOutput) -> Accesses:
    rank, axes = len(call.shape(0)), call.numbers("axes", 1)
    if not axes and call.attribute("noop_with_empty_axes", 0):
        return {0: every(rank)}
    over: Collection[int] = {axis % rank for axis in axes} or range(rank)
    return {0: reduced(rank, over, keep=bool(call.attribute("keepdims", 1)))}


def _best(call: OneOutput) -> Accesses:
    """ArgMax and ArgMin."""
    return {0: reduced(len(call.shape(0)), {call.axis(0)}, keep=bool(call.attribute("keepdims", 1)))}


# --- Places that are moved ------------------------------------------------------------------------------------


def _concatenated(first: int = 0, every_other: int = 1) -> Rule:
    def rule(call: OneOutput) -> Accesses:
        inputs = range(first, len(call.node.input), every_other)
        axis = call.attribute("axis", 1) % len(call.put_out)
        return dict(zip(inputs, joined(axis, [call.shape(at) for at in inputs]), strict=True))

    return rule


def padding_of(call: OneOutput) -> dict[int, tuple[int, int]]:
    """By axis the places that Pad adds before the first one, and after the last."""
    pads, rank = call.numbers("pads", 1), len(call.shape(0))
    axes = [axis % rank for axis in call.value(3).tolist()] if call.has(3) else range(rank)
    half = len(pads) // 2
    return {axis: (pads[at], pads[half + at]) for at, axis in enumerate(axes)}


def _padded(call: OneOutput) -> Accesses:
    shape, both = call.shape(0), padding_of(call)
    mode = call.attribute("mode", b"constant")
    if mode == b"constant":
        return {0: shifted(len(shape), {axis: before for axis, (before, _) in both.items()})}
    if mode == b"wrap" or min(map(min, both.values()), default=0) < 0:
        return {0: tuple(None if any(both.get(axis, ())) else own(axis) for axis in range(len(shape)))}
    return {0: tuple(mirrored(axis, side, *both.get(axis, (0, 0))) for axis, side in enumerate(shape))}


def _sliced(call: OneOutput) -> Accesses:
    """Axes that are read backwards are read whole."""
    shape, starts = call.shape(0), call.numbers("starts", 1)
    axes = call.numbers("axes", 3) or range(len(starts))
    steps = call.numbers("steps", 4) or [1] * len(starts)
    found = list(every(len(shape)))
    for each, start, step in zip(axes, starts, steps, strict=True):
        axis = each % len(shape)
        first = min(max(start + shape[axis] * (start < 0), 0), shape[axis])
        found[axis] = Reach(axis, step, before=-first) if step > 0 else None
    return {0: tuple(found)}


def _transposed(call: OneOutput) -> Accesses:
    return {0: transposed(call.attribute("perm", range(len(call.put_out))[::-1]))}


def _reshaped(call: OneOutput) -> Accesses:
    return {0: reshaped(call.shape(0), call.put_out)}


def _resized(call: OneOutput) -> Accesses:
    return {0: resized_axes(call, call.put_out)}


def _to_depth(call: OneOutput) -> Accesses:
    block = call.attribute("blocksize")
    return {0: (own(0), None, *(Reach(axis, block, block) for axis in (2, 3)))}


def _from_depth(call: OneOutput) -> Accesses:
    """A place of the output has its channel of each place of a block; these lie apart, or next to each other."""
    block, depth = call.attribute("blocksize"), call.put_out[1]
    adjacent = call.attribute("mode", b"DCR") == b"CRD"
    channels = Reach(1, block**2, block**2) if adjacent else Reach(1, 1, block**2, depth)
    return {0: (own(0), channels, *(Reach(axis, divisor=block) for axis in (2, 3)))}


def _tiled(call: OneOutput) -> Accesses:
    """Axes that are repeated are read whole."""
    sides = zip(call.shape(0), call.put_out, strict=True)
    return {0: tuple(own(axis) if read == made else None for axis, (read, made) in enumerate(sides))}


def _gathered(call: OneOutput) -> Accesses:
    """Rows of the first input, by numbers in the second, whose axes stand in place of the axis of rows."""
    axis, indices = call.axis(0), len(call.shape(1))
    after = range(axis + indices, len(call.put_out))
    return {0: (*every(axis), None, *map(own, after)), 1: tuple(map(own, range(axis, axis + indices)))}


_MICROSOFT = "com.microsoft"
_REDUCTIONS = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
    """.split()  # noqa: SIM905
_STANDARD: dict[str, Rule] = {
    **dict.fromkeys(("Conv", "ConvInteger"), _convolution(1)),
    "QLinearConv": _convolution(3),
    "ConvTranspose": _transposed_convolution,
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), _pooled_whole),
    "LRN": _response,
    "Gemm": _gemm,
    **dict.fromkeys(("MatMul", "MatMulInteger"), _product(1)),
    "QLinearMatMul": _product(3),
    **dict.fromkeys(("CastLike", "DequantizeLinear", "Expand", "QuantizeLinear", "Trilu"), _of(0)),
    "BatchNormalization": _batch_normalization,
    "InstanceNormalization": _whole_but(0, 1),
    "GroupNormalization": _whole_but(0),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"), _normalized(0)),
    "MeanVarianceNormalization": _over(lambda call: call.attribute("axes", (0, 2, 3))),
    "LpNormalization": _over(lambda call: [call.attribute("axis", -1)]),
    **dict.fromkeys(("CumProd", "CumSum"), _over(lambda call: call.value(1).reshape(-1).tolist())),
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(("ArgMax", "ArgMin"), _best),
    "Concat": _concatenated(),
    "Pad": _padded,
    "Slice": _sliced,
    "Transpose": _transposed,
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshaped),
    **dict.fromkeys(("Resize", "Upsample"), _resized),
    "SpaceToDepth": _to_depth,
    "DepthToSpace": _from_depth,
    "Tile": _tiled,
    "Gather": _gathered,
}
_RULES: Mapping[tuple[str, str], Rule] = {
    **{("", name): rule for name, rule in _STANDARD.items()},
    (_MICROSOFT, "FusedConv"): _convolution(1),
    (_MICROSOFT, "QLinearAveragePool"): _pool,
    (_MICROSOFT, "QLinearGlobalAveragePool"): _pooled_whole,
    **{(_MICROSOFT, name): _product(1) for name in ("FusedMatMul", "MatMulIntegerToFloat")},
    (_MICROSOFT, "FusedGemm"): _gemm,
    (_MICROSOFT, "QGemm"): _product(3),
    **{(_MICROSOFT, name): _of(0, 1) for name in ("BiasGelu", "FastGelu")},
    **{(_MICROSOFT, name): _of(0) for name in ("Gelu", "QuickGelu", "QLinearLeakyRelu", "QLinearSigmoid")},
    **{(_MICROSOFT, name): _of(0) for name in ("DequantizeLinear", "QuantizeLinear")},
    **{(_MICROSOFT, name): _of(0, 3) for name in ("QLinearAdd", "QLinearMul")},
    (_MICROSOFT, "QLinearConcat"): _concatenated(2, 3),
    **{
        (_MICROSOFT, name): _normalized(0, 1) for name in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
    },
}
