"""Types and shapes of what ONNX Runtime's own operators output, and some of ONNX for which `onnx` has no rule.

ONNX Runtime's fused and quantized operators (com.microsoft, and com.microsoft.nchwc, whose channels come in blocks) are
what its optimized models consist of. An operator without a rule here, or whose rule does not fit, stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx.model import is_standard, operator_sets, packages
from moccasin_mzn.graphs.importers.onnx.shapes import Call, Shapes, Tensor

if TYPE_CHECKING:
    import onnx


Shape = tuple[int, ...]
Delegate = Callable[["onnx.NodeProto"], dict[str, "onnx.TypeProto"]]
MICROSOFT, BLOCKED = "com.microsoft", "com.microsoft.nchwc"
POOLS = frozenset({"AveragePool", "LpPool", "MaxPool"})
CORRECTED = POOLS | {"ConvTranspose", "PRelu", "STFT"}
"""Operators for which `onnx` infers another shape than ONNX Runtime, and the standard, have."""


def ruled(node: onnx.NodeProto, shapes: Shapes, delegate: Delegate) -> dict[str, onnx.TypeProto]:
    """Types by output, of those outputs for which there is a rule.

    Args:
        delegate: infers the types of an operator of ONNX.
    """
    rule = _RULES.get((("" if is_standard(node) else node.domain), node.op_type))
    if rule is None:
        return {}
    try:
        found = rule(_Operator(node, shapes, delegate))
    except Exception:  # of every type: shapes that are unknown, too few, or do not fit
        return {}
    return {
        name: Shapes.type_of(tensor)
        for name, tensor in zip(node.output, found, strict=False)
        if name and tensor.shape is not None and min(tensor.shape, default=0) >= 0
    }


@dataclass(frozen=True)
class _Operator(Call):
    """The input of a rule."""

    delegate: Delegate

    def as_standard(self, kind: str, reads: Sequence[Tensor], dropped: Sequence[str] = ()) -> Tensor:
        """What an operator of ONNX with the same attributes, but those dropped, outputs first for such inputs."""
        names = [f"{self.node.output[0]}/read{at}" for at in range(len(reads))]
        for name, tensor in zip(names, reads, strict=True):
            self.shapes.types[name] = Shapes.type_of(_float(tensor.shape or ()))  # ONNX's own takes no others
        kept = [attribute for attribute in self.node.attribute if attribute.name not in dropped]
        node = packages().helper.make_node(kind, names, [self.node.output[0]])
        node.attribute.extend(kept)
        try:
            made = self.shapes.tensor_of(self.delegate(node)[self.node.output[0]])
            return Tensor(reads[0].dtype, made.shape)
        finally:
            for name in names:
                del self.shapes.types[name]


def _like(at: int = 0) -> Callable[[_Operator], list[Tensor]]:
    return lambda op: [op.read(at)]


def _float(shape: Sequence[int]) -> Tensor:
    return Tensor(packages().TensorProto.FLOAT, tuple(shape))


def _broadcast(*shapes: Shape) -> Shape:
    import numpy

    return numpy.broadcast_shapes(*shapes)


def _dropped(op: _Operator) -> list[Tensor]:
    """What passes through, and a mask; of the type of what passes through in old operator sets."""
    read = op.read(0)
    boolean = operator_sets(op.shapes.model).get("", 1) >= 10
    return [read, Tensor(packages().TensorProto.BOOL if boolean else read.dtype, read.shape)]


def _compared(op: _Operator) -> list[Tensor]:
    return [Tensor(packages().TensorProto.BOOL, _broadcast(op.shape(0), op.shape(1)))]


def _spectrum(op: _Operator) -> list[Tensor]:
    """STFT: (batch, frames, bins, 2); the frame is as long as the window, if no number is given."""
    signal, step = op.read(0), int(op.value(1))
    assert signal.shape is not None
    length = int(op.value(3)) if op.has(3) else op.shape(2)[0]
    bins = length // 2 + 1 if op.attribute("onesided", 1) else length
    return [Tensor(signal.dtype, (signal.shape[0], 1 + (signal.shape[1] - length) // step, bins, 2))]


def _normalized(sums: int) -> Callable[[_Operator], list[Tensor]]:
    """Normalization over the last axis: the output, means, deviations, and, at `sums`, what was normalized."""

    def rule(op: _Operator) -> list[Tensor]:
        read = op.read(0)
        assert read.shape is not None
        axis = op.attribute("axis", -1) % len(read.shape)
        outputs = [read] + [_float((*read.shape[:axis], *[1] * (len(read.shape) - axis)))] * (len(op.node.output) - 1)
        if sums < len(outputs):
            outputs[sums] = read
        return outputs

    return rule


def _product(a: Shape, b: Shape) -> Shape:
    """Return the shape of the product of matrices, or stacks of them; a vector's own axis is left out again."""
    left, right = ((1, *a) if len(a) == 1 else a), ((*b, 1) if len(b) == 1 else b)
    rows = () if len(a) == 1 else (left[-2],)
    columns = () if len(b) == 1 else (right[-1],)
    if left[-1] != right[-2]:
        raise ValueError
    return (*_broadcast(left[:-2], right[:-2]), *rows, *columns)


def _matrix_product(second: int = 1, result: str | None = None) -> Callable[[_Operator], list[Tensor]]:
    def rule(op: _Operator) -> list[Tensor]:
        dtype = op.read(0).dtype if result is None else packages().TensorProto.DataType.Value(result)
        return [Tensor(dtype, _product(op.shape(0), op.shape(second)))]

    return rule


def _fused_product(op: _Operator) -> list[Tensor]:
    sides = []
    for at, name in ((0, "A"), (1, "B")):
        shape = op.shape(at)
        if op.attribute(f"transBatch{name}", 0) and len(shape) > 1:
            shape = (*shape[1:-1], shape[0], shape[-1])
        if op.attribute(f"trans{name}", 0) and len(shape) > 1:
            shape = (*shape[:-2], shape[-1], shape[-2])
        sides.append(shape)
    return [Tensor(op.read(0).dtype, _product(*sides))]


def _quantized_gemm(op: _Operator) -> list[Tensor]:
    a, b = op.shape(0), op.shape(3)
    shape = (a[::-1] if op.attribute("transA", 0) else a)[0], (b[::-1] if op.attribute("transB", 0) else b)[1]
    return [Tensor(op.read(0).dtype, shape) if op.has(7) else _float(shape)]


def _packed_product(op: _Operator) -> list[Tensor]:
    return [Tensor(op.read(0).dtype, (*op.shape(0)[:-1], op.attribute("N")))]


def _as(kind: str, *reads: int, dropped: Sequence[str] = ()) -> Callable[[_Operator], list[Tensor]]:
    """As an operator of ONNX is, of those inputs; channels last, if an attribute is set."""

    def rule(op: _Operator) -> list[Tensor]:
        tensors = [op.read(at) for at in reads]
        last = bool(op.attribute("channels_last", 0))
        made = op.as_standard(kind, [_first(tensors[0]) if last else tensors[0], *tensors[1:]], [*_FUSED, *dropped])
        return [_last(made) if last else made]

    return rule


_FUSED = ("activation", "activation_params", "channels_last", "activation_alpha", "activation_beta", "activation_gamma",
          "activation_axis", "alpha")  # fmt: skip
"""Attributes of fused operators that ONNX's own have not."""


def _first(tensor: Tensor) -> Tensor:
    """Channels first, of a tensor with channels last."""
    shape = tensor.shape or ()
    return Tensor(tensor.dtype, (shape[0], shape[-1], *shape[1:-1]))


def _last(tensor: Tensor) -> Tensor:
    shape = tensor.shape or ()
    return Tensor(tensor.dtype, (shape[0], *shape[2:], shape[1]))


def _channels_last(kind: str, *reads: int) -> Callable[[_Operator], list[Tensor]]:
    def rule(op: _Operator) -> list[Tensor]:
        tensors = [op.read(at) for at in reads]
        return [_last(op.as_standard(kind, [_first(tensors[0]), *tensors[1:]], _FUSED))]

    return rule


def _pooled(op: _Operator) -> list[Tensor]:
    """A pool, and the places of its maxima, as ONNX Runtime computes them in each operator set. ::

    ceil_mode     before operator set 22 `onnx` has a last window that begins behind the image, which is left out
    SAME          windows are padded as if they were not dilated: of dilated ones there are fewer than `onnx` infers
    """
    read, last = op.read(0), op.node.op_type == "NhwcMaxPool" or bool(op.attribute("channels_last", 0))
    batch, depth, *extents = (_first(read) if last else read).shape or ()
    made = Tensor(read.dtype, (batch, depth, *(places for places, _, _ in pool_sides(op, extents))))
    places = Tensor(packages().TensorProto.INT64, made.shape)
    return [_last(each) if last else each for each in (made, places)]


def pool_sides(call: Call, extents: Sequence[int]) -> list[tuple[int, int, int]]:
    """For each axis of an image that a pool reads the windows that ONNX Runtime has, and the padding before and after.

    A window may go beyond that: with ceil_mode, or as the only one of an image that is smaller.

    Raises:
        TypeError, ValueError: attributes are missing or do not fit.
    """
    sizes, mode, ceil = call.attribute("kernel_shape"), call.attribute("auto_pad", b""), call.attribute("ceil_mode", 0)
    ones, zeros = [1] * len(sizes), [0] * 2 * len(sizes)
    strides, dilations = call.attribute("strides") or ones, call.attribute("dilations") or ones
    pads = (call.attribute("pads") if mode in (b"", b"NOTSET") else None) or zeros
    found = []
    for at, (extent, size, stride, dilation) in enumerate(zip(extents, sizes, strides, dilations, strict=True)):
        first, padding = pads[at], pads[at] + pads[len(sizes) + at]
        if mode in (b"SAME_UPPER", b"SAME_LOWER"):
            padding = (-(-extent // stride) - 1) * stride + size - extent
            first = int((padding + (mode == b"SAME_LOWER")) / 2)  # towards 0, as in C
        rest = extent + padding - dilation * (size - 1) - 1
        places = (-(-rest // stride) if ceil else int(rest / stride)) + 1
        found.append((places - bool(ceil and (places - 1) * stride >= extent + first), first, padding - first))
    return found


def _transposed_convolution(op: _Operator) -> list[Tensor]:
    """A transposed convolution: with SAME, padding for the output has no places of its own in ONNX Runtime, and an
    `output_shape` holds, though `onnx` infers no axis behind one that is shorter than that of the input."""
    (batch, _, *extents), (_, filters, *sizes) = op.shape(0), op.shape(1)
    ones, zeros, mode = [1] * len(sizes), [0] * 2 * len(sizes), op.attribute("auto_pad", b"")
    strides, dilations = op.attribute("strides") or ones, op.attribute("dilations") or ones
    more, pads = op.attribute("output_padding") or zeros[: len(sizes)], op.attribute("pads") or zeros
    made = list(op.attribute("output_shape") or ())
    sides = zip(extents, sizes, strides, dilations, more, strict=True)
    for at, (extent, size, stride, dilation, behind) in enumerate(sides if not made else ()):
        places = (extent - 1) * stride + behind + (size - 1) * dilation + 1
        if mode in (b"SAME_UPPER", b"SAME_LOWER"):
            places = min(places, extent * stride)
        made.append(places - (0 if mode not in (b"", b"NOTSET") else pads[at] + pads[len(sizes) + at]))
    if len(made) != len(sizes):
        raise ValueError
    return [Tensor(op.read(0).dtype, (batch, op.attribute("group", 1) * filters, *made))]


def _pooled_whole(op: _Operator) -> list[Tensor]:
    shape, last = op.shape(0), op.attribute("channels_last", 0)
    ones = [1] * (len(shape) - 2)
    return [Tensor(op.read(0).dtype, (shape[0], *ones, shape[-1]) if last else (*shape[:2], *ones))]


def _elementwise(*reads: int) -> Callable[[_Operator], list[Tensor]]:
    return lambda op: [Tensor(op.read(reads[0]).dtype, _broadcast(*map(op.shape, reads)))]


def _quantized_concat(op: _Operator) -> list[Tensor]:
    shapes = [list(op.shape(at)) for at in range(2, len(op.node.input), 3)]
    axis = op.attribute("axis")
    shapes[0][axis] = sum(shape[axis] for shape in shapes)
    return [Tensor(op.read(2).dtype, tuple(shapes[0]))]


def _recurrent(op: _Operator) -> list[Tensor]:
    """DynamicQuantizeLSTM: (steps, directions, batch, hidden), then the last states."""
    steps, batch, _ = op.shape(0)
    directions, hidden = op.shape(1)[0], op.attribute("hidden_size")
    state = _float((directions, batch, hidden))
    return [_float((steps, directions, batch, hidden)), state, state]


def _attention(op: _Operator) -> list[Tensor]:
    batch, length, _ = op.shape(0)
    sizes = op.attribute("qkv_hidden_sizes")
    width = sizes[2] if sizes else op.shape(1)[-1] // 3
    heads, dtype = op.attribute("num_heads"), op.read(0).dtype
    quantized = op.node.op_type == "QAttention"
    result = [_float((batch, length, width)) if quantized else Tensor(dtype, (batch, length, width))]
    past = op.has(8 if quantized else 4)
    before = op.shape(8 if quantized else 4)[3] if past else 0
    return [*result, Tensor(result[0].dtype, (2, batch, heads, before + length, width // heads))]


def _many_heads(op: _Operator) -> list[Tensor]:
    query, heads = op.read(0), op.attribute("num_heads")
    shape = query.shape or ()
    if len(shape) == 5:  # (batch, length, heads, 3, width): keys and values with the queries
        return [Tensor(query.dtype, (*shape[:2], shape[2] * shape[4]))]
    if len(op.shape(1)) == 5:  # (batch, length, heads, 2, width)
        return [query]
    value = op.shape(2)
    width = value[2] if len(value) == 3 else value[1] * value[3]
    outputs = [Tensor(query.dtype, (*shape[:2], width))]
    length = value[1] if len(value) == 3 else value[2]
    before = op.shape(6)[2] if op.has(6) else 0
    if len(op.node.output) > 1:
        key = Tensor(query.dtype, (shape[0], heads, before + length, shape[2] // heads))
        outputs += [key, Tensor(query.dtype, (shape[0], heads, before + length, width // heads))]
    return outputs


def _embedded(op: _Operator) -> list[Tensor]:
    batch, length = op.shape(0)
    table = op.read(2)
    assert table.shape is not None
    whole = Tensor(table.dtype, (batch, length, table.shape[1]))
    return [whole, Tensor(packages().TensorProto.INT32, (batch,)), whole]


def _dequantized(op: _Operator) -> list[Tensor]:
    return [Tensor(op.read(1).dtype, op.shape(0))]


def _quantized(op: _Operator) -> list[Tensor]:
    return [Tensor(op.read(2).dtype if op.has(2) else packages().TensorProto.UINT8, op.shape(0))]


def _into_blocks(op: _Operator) -> list[Tensor]:
    read = _first(op.read(0)) if op.attribute("channels_last", 0) else op.read(0)
    shape = read.shape or ()
    block = _block() if shape[1] % 16 else 16  # there are none larger
    return [Tensor(read.dtype, (shape[0], -(-shape[1] // block) * block, *shape[2:]))]


@cache
def _block() -> int:
    """How many channels are in a block on this processor: ONNX Runtime puts four into one."""
    import numpy

    from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, runtime

    helper, kind = packages().helper, packages().TensorProto.FLOAT
    node = helper.make_node("ReorderInput", ["x"], ["y"], domain=BLOCKED)
    values = [helper.make_tensor_value_info(name, kind, [1, None, 1, 1]) for name in "xy"]
    graph = helper.make_graph([node], "block", values[:1], values[1:])
    sets = [helper.make_opsetid("", 13), helper.make_opsetid(BLOCKED, 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    session = runtime().InferenceSession(model.SerializeToString(), plain_options(1))
    return session.run(None, {"x": numpy.zeros((1, 4, 1, 1), numpy.float32)})[0].shape[1]


def _out_of_blocks(op: _Operator) -> list[Tensor]:
    read = op.read(0)
    shape = read.shape or ()
    made = Tensor(read.dtype, (shape[0], op.attribute("channels"), *shape[2:]))
    return [_last(made) if op.attribute("channels_last", 0) else made]


def _larger(op: _Operator) -> list[Tensor]:
    shape = op.shape(0)
    return [Tensor(op.read(0).dtype, tuple(side * by for side, by in zip(shape, op.attribute("scales"), strict=True)))]


def _transformed(op: _Operator) -> list[Tensor]:
    """Rfft, whose output has real and imaginary parts, of one axis; Irfft, which undoes it."""
    shape = op.shape(0)
    if op.node.op_type == "Rfft":
        return [Tensor(op.read(0).dtype, (*shape[:-1], shape[-1] // 2 + 1, 2))]
    return [Tensor(op.read(0).dtype, (*shape[:-2], (shape[-2] - 1) * 2))]


def _distances(op: _Operator) -> list[Tensor]:
    return [Tensor(op.read(0).dtype, (op.shape(0)[0], op.shape(1)[0]))]


_UNARY = ("BiasAdd", "BiasGelu", "BiasSoftmax", "FastGelu", "Gelu", "GemmaRotaryEmbedding", "GroupNorm", "Inverse",
          "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QuickGelu", "RotaryEmbedding", "ScaledSiLU",
          "Trilu")  # fmt: skip
_RULES: dict[tuple[str, str], Callable[[_Operator], list[Tensor]]] = {
    ("", "Dropout"): _dropped,
    ("", "GreaterOrEqual"): _compared,
    ("", "LessOrEqual"): _compared,
    ("", "GroupNormalization"): _like(),
    ("", "MeanVarianceNormalization"): _like(),
    ("", "LayerNormalization"): _normalized(sums=9),  # of ONNX Runtime, before operator set 17
    ("", "SimplifiedLayerNormalization"): _normalized(sums=9),
    ("", "PRelu"): _elementwise(0, 1),
    ("", "STFT"): _spectrum,
    ("", "ConvTranspose"): _transposed_convolution,
    **{("", kind): _pooled for kind in POOLS},
    **{(MICROSOFT, kind): _like() for kind in _UNARY},
    (MICROSOFT, "SkipLayerNormalization"): _normalized(sums=3),
    (MICROSOFT, "SkipSimplifiedLayerNormalization"): _normalized(sums=3),
    (MICROSOFT, "FusedConv"): _as("Conv", 0, 1),
    (MICROSOFT, "QLinearConv"): _as("Conv", 0, 3),
    (MICROSOFT, "NhwcFusedConv"): _channels_last("Conv", 0, 1),
    (MICROSOFT, "NhwcConv"): _channels_last("Conv", 0, 1),
    (MICROSOFT, "NhwcMaxPool"): _pooled,
    (MICROSOFT, "QLinearAveragePool"): _pooled,
    (MICROSOFT, "QLinearGlobalAveragePool"): _pooled_whole,
    (MICROSOFT, "FusedGemm"): _as("Gemm", 0, 1),
    (MICROSOFT, "FusedMatMul"): _fused_product,
    (MICROSOFT, "FusedMatMulActivation"): _fused_product,
    (MICROSOFT, "TransposeMatMul"): _fused_product,
    (MICROSOFT, "DynamicQuantizeMatMul"): _matrix_product(result="FLOAT"),
    (MICROSOFT, "MatMulIntegerToFloat"): _matrix_product(result="FLOAT"),
    (MICROSOFT, "MatMulInteger16"): _matrix_product(result="INT32"),
    (MICROSOFT, "QGemm"): _quantized_gemm,
    (MICROSOFT, "MatMulNBits"): _packed_product,
    (MICROSOFT, "MatMulBnb4"): _packed_product,
    (MICROSOFT, "QLinearAdd"): _elementwise(0, 3),
    (MICROSOFT, "QLinearMul"): _elementwise(0, 3),
    (MICROSOFT, "QLinearConcat"): _quantized_concat,
    (MICROSOFT, "DynamicQuantizeLSTM"): _recurrent,
    (MICROSOFT, "Attention"): _attention,
    (MICROSOFT, "QAttention"): _attention,
    (MICROSOFT, "MultiHeadAttention"): _many_heads,
    (MICROSOFT, "EmbedLayerNormalization"): _embedded,
    (MICROSOFT, "DequantizeLinear"): _dequantized,
    (MICROSOFT, "QuantizeLinear"): _quantized,
    (MICROSOFT, "Rfft"): _transformed,
    (MICROSOFT, "Irfft"): _transformed,
    (MICROSOFT, "CDist"): _distances,
    **{(BLOCKED, kind): _pooled for kind in POOLS},
    (BLOCKED, "Conv"): _as("Conv", 0, 1),
    (BLOCKED, "GlobalAveragePool"): _pooled_whole,
    (BLOCKED, "GlobalMaxPool"): _pooled_whole,
    (BLOCKED, "ReorderInput"): _into_blocks,
    (BLOCKED, "ReorderOutput"): _out_of_blocks,
    (BLOCKED, "Upsample"): _larger,
}
