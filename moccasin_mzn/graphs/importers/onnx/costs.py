"""Multiply-adds of one ONNX operator, as the library onnx-tool counts them.

It counts one for each multiply-add, addition or comparison, and a fixed number for each exponential, root and the like
(32 for exp, 24 for a square root, 4 for a division); a bias counts one for each element. What moves data counts one
for each byte it outputs. Recurrent, quantized and fused operators are counted by `product_count`.
Three of its counts are wrong for some shapes and are replaced here: ConvTranspose (each input element, not each output
element, meets the kernel), MatMul with a vector on the right, and pooling in three dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx.model import is_standard, packages
from moccasin_mzn.graphs.importers.onnx.shapes import Tensor

if TYPE_CHECKING:
    import onnx
    from onnx_tool.tensor import Tensor as ToolTensor


Shape = tuple[int, ...]
_LEFT_OUT: Shape = (-1,)
"""The shape of an optional input or output with an empty name."""
MOVING = frozenset(
    """
    Cast Compress Concat Constant ConstantOfShape DepthToSpace Dropout Expand Flatten Gather GatherElements GatherND
    Identity NonZero OneHot Pad Range Reshape ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze Tile
    Transpose Trilu Unsqueeze Where
    """.split()  # noqa: SIM905
)
"""Operators that compute nothing; they copy."""
_REORDERING = {("com.microsoft.nchwc", "ReorderInput"), ("com.microsoft.nchwc", "ReorderOutput")}


def multiply_adds(node: onnx.NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int | None:
    """Cost of one operator.

    Args:
        inputs: one for each of `node.input`; of those with an empty name anything.
        outputs: one for each of `node.output`.

    Returns:
        None if onnx-tool has no count for the operator, or fails on it, or if a shape is unknown.
    """
    if is_moving(node):
        sizes = [tensor.size for name, tensor in zip(node.output, outputs, strict=True) if name]
        return None if None in sizes else sum(size for size in sizes if size is not None)
    read = [tensor.shape if name else _LEFT_OUT for name, tensor in zip(node.input, inputs, strict=True)]
    put_out = [tensor.shape if name else _LEFT_OUT for name, tensor in zip(node.output, outputs, strict=True)]
    known_in, known_out = ([shape for shape in shapes if shape is not None] for shapes in (read, put_out))
    if len(known_in) < len(read) or len(known_out) < len(put_out):
        return None
    try:
        count = product_count(node) or _CORRECTED.get(node.op_type)
        if count is None or not (is_standard(node) or product_count(node)):
            return _counted(node, _without_tail(known_in), _without_tail(known_out)) if is_standard(node) else None
        return count(node, _without_tail(known_in), _without_tail(known_out))
    except Exception:  # onnx-tool's own, of every type, for operators and attributes that it does not foresee
        return None


def is_moving(node: onnx.NodeProto) -> bool:
    """Does the operator output what it reads, or parts of it, elsewhere?"""
    return is_standard(node) and node.op_type in MOVING or (node.domain, node.op_type) in _REORDERING


def _counted(node: onnx.NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int | None:
    from onnx_tool.node import FusedBase, Node
    from onnx_tool.utils import NODE_REGISTRY

    kind = NODE_REGISTRY.get(f"{node.op_type}Node")
    if kind is None or kind.profile in (Node.profile, FusedBase.profile):  # the latter two count nothing
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        macs = kind(node).profile(_tensors(inputs), _tensors(outputs))[0]
    return int(macs) if macs >= 0 else None


def _tensors(shapes: list[Shape]) -> list[ToolTensor]:
    from onnx_tool.tensor import Tensor

    tensors = []
    for shape in shapes:
        tensor = Tensor("" if shape == _LEFT_OUT else "value")
        tensor.update_shape([] if shape == _LEFT_OUT else list(shape) or [1])  # for it, [] is no element, not one
        tensors.append(tensor)
    return tensors


def _without_tail(shapes: list[Shape]) -> list[Shape]:
    while shapes and shapes[-1] == _LEFT_OUT:
        shapes = shapes[:-1]
    return shapes


def _conv_transpose(node: onnx.NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    """Each input element meets the kernels of its group's output channels; weights: (C_in, C_out / group, k, ...)."""
    return prod(inputs[0]) * prod(inputs[1][1:]) + (prod(outputs[0]) if len(inputs) > 2 else 0)


def _mat_mul(node: onnx.NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    return prod(outputs[0]) * inputs[0][-1]


def _pool_cost(node: onnx.NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    kernel = next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")
    return prod(outputs[0]) * prod(kernel)


_CORRECTED = {
    "ConvTranspose": _conv_transpose,
    "MatMul": _mat_mul,
    "MaxPool": _pool_cost,
    "AveragePool": _pool_cost,
    "LpPool": _pool_cost,
}


# --- Multiply-adds of operators that onnx-tool does not count: recurrent, quantized and fused ones ------------

# As elsewhere a multiply-add, an addition and a comparison count one each; what is fused with a product counts one
# for each element it puts out.


Count = Callable[["onnx.NodeProto", Sequence[Shape], Sequence[Shape]], int]


def product_count(node: onnx.NodeProto) -> Count | None:
    """What counts the multiply-adds of an operator by shapes of inputs and outputs; None for other operators."""
    return _COUNTS.get((("" if is_standard(node) else node.domain), node.op_type))


def _integer_attribute(node: onnx.NodeProto, name: str, default: int) -> int:
    return next((attribute.i for attribute in node.attribute if attribute.name == name), default)


def _recurrent(gates: int, weights: int = 1, *, turned: bool = False) -> Count:
    """(steps, batch, width) by weights (directions, gates * hidden, width), the other way round if `turned`.

    Each step multiplies what is read, and the state before, by the weights of all gates; each gate is added up and goes
    through a function, and the state is put together of as many parts.
    """

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        first, second, width = inputs[0]
        read = inputs[weights]
        rows = read[2] if turned else read[1]
        hidden = rows // gates
        return read[0] * first * second * (rows * (width + hidden) + 2 * rows)

    return count


def _matrix(second: int = 1, turned: str | None = None) -> Count:
    """Each element of the output is a sum over the last axis of the first input, or the one before."""

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        shape = inputs[0]
        batch = _integer_attribute(node, "transBatchA", 0) and len(shape) > 2
        if turned and _integer_attribute(node, turned, 0) and len(shape) > 1:
            return prod(outputs[0]) * (shape[0] if batch else shape[-2])
        return prod(outputs[0]) * shape[-1]

    return count


def _convolution(weights: int) -> Count:
    """Each element of the output is a sum over the filter."""

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return prod(outputs[0]) * prod(inputs[weights][1:])

    return count


def _pool(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    kernel = next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")
    return prod(outputs[0]) * prod(kernel)


def _each(operations: int) -> Count:
    """A fixed number for each element of the output."""

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return operations * prod(outputs[0])

    return count


def _read(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    return prod(inputs[0])


def _attention(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    """The projection of what is read, and for each query a sum over all keys, of products and of values."""
    batch, length, width = inputs[0]
    columns = inputs[1][-1]
    return batch * length * width * columns + 2 * batch * length * length * outputs[0][-1]


def _many_heads(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    query = inputs[0]
    batch, length, width = query[0], query[1], outputs[0][-1]
    keys = length
    if len(query) == 3 and len(inputs) > 1 and len(inputs[1]) in (3, 4, 5):
        keys = inputs[1][2 if len(inputs[1]) == 4 else 1]
    return 2 * batch * length * keys * width


_MICROSOFT, _BLOCKED = "com.microsoft", "com.microsoft.nchwc"
_COUNTS: dict[tuple[str, str], Count] = {
    **{(_MICROSOFT, kind): _each(40) for kind in ("BiasGelu", "FastGelu", "Gelu", "QuickGelu")},  # an exponential, 32
    (_MICROSOFT, "SkipLayerNormalization"): _each(10),
    (_MICROSOFT, "SkipSimplifiedLayerNormalization"): _each(8),
    ("", "SimplifiedLayerNormalization"): _each(7),
    ("", "LSTM"): _recurrent(4),
    ("", "GRU"): _recurrent(3),
    ("", "RNN"): _recurrent(1),
    (_MICROSOFT, "DynamicQuantizeLSTM"): _recurrent(4, turned=True),
    ("", "ConvInteger"): _convolution(1),
    ("", "QLinearConv"): _convolution(3),
    ("", "MatMulInteger"): _matrix(),
    ("", "QLinearMatMul"): _matrix(),
    (_MICROSOFT, "QLinearConv"): _convolution(3),
    (_MICROSOFT, "FusedConv"): _convolution(1),
    (_MICROSOFT, "NhwcConv"): _convolution(1),
    (_MICROSOFT, "NhwcFusedConv"): _convolution(1),
    (_BLOCKED, "Conv"): _convolution(1),
    (_MICROSOFT, "FusedGemm"): _matrix(turned="transA"),
    (_MICROSOFT, "QGemm"): _matrix(turned="transA"),
    (_MICROSOFT, "FusedMatMul"): _matrix(turned="transA"),
    (_MICROSOFT, "FusedMatMulActivation"): _matrix(turned="transA"),
    (_MICROSOFT, "TransposeMatMul"): _matrix(turned="transA"),
    (_MICROSOFT, "DynamicQuantizeMatMul"): _matrix(),
    (_MICROSOFT, "MatMulIntegerToFloat"): _matrix(),
    (_MICROSOFT, "MatMulInteger16"): _matrix(),
    (_MICROSOFT, "MatMulNBits"): _matrix(),
    (_MICROSOFT, "MatMulBnb4"): _matrix(),
    (_MICROSOFT, "Attention"): _attention,
    (_MICROSOFT, "QAttention"): _attention,
    (_MICROSOFT, "MultiHeadAttention"): _many_heads,
    (_MICROSOFT, "NhwcMaxPool"): _pool,
    (_MICROSOFT, "QLinearAveragePool"): _pool,
    (_MICROSOFT, "QLinearGlobalAveragePool"): _read,
    (_BLOCKED, "MaxPool"): _pool,
    (_BLOCKED, "AveragePool"): _pool,
    (_BLOCKED, "GlobalAveragePool"): _read,
    (_BLOCKED, "GlobalMaxPool"): _read,
}


# --- Memory that ONNX Runtime's operators take on the CPU while they compute, above what they read and put out

# Of convolutions and recurrent layers in single precision, which take most; that of others is taken for nothing.
# MLAS, the library that computes convolutions, spreads out the input by kernel: all of it where there are more
# filters than pixels, else a piece for each thread, of which one is counted. A transposed convolution holds all
# products before it adds those that overlap. LSTM and GRU hold the gates of all steps; those that go backwards what
# they read, and put out, the other way round as well.


_PIECE = 128 * 128 * 4
_FLOAT = 4
"""Bytes."""
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_STATES = {"LSTM": 5, "GRU": 2, "RNN": 0}
"""Buffers of one step."""


def workspace(node: onnx.NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """Bytes that an operator takes so; inputs and outputs are one for each of `node.input` and `node.output`."""
    kinds = ("Conv", "ConvTranspose", *_GATES)
    if not is_standard(node) or node.op_type not in kinds or len(inputs) < 2 or not outputs:
        return 0
    read, weights, put_out = inputs[0].shape, inputs[1].shape, outputs[0].shape
    if inputs[0].dtype != packages().TensorProto.FLOAT or not read or not weights:
        return 0
    if node.op_type in _GATES:
        return _recurrent_workspace(node, read, weights)
    if not put_out:
        return 0
    products = prod(weights[1:])
    if node.op_type == "ConvTranspose":
        return products * prod(read[2:]) * _FLOAT
    attributes = {attribute.name: attribute for attribute in node.attribute}
    strides, pads = (attributes[name].ints if name in attributes else () for name in ("strides", "pads"))
    if prod(weights[2:]) == 1 and all(stride == 1 for stride in strides) and not any(pads):
        return 0
    pixels, filters = prod(put_out[2:]), weights[0] // (attributes["group"].i if "group" in attributes else 1)
    return pixels * products * _FLOAT if filters > pixels else _PIECE


def _recurrent_workspace(node: onnx.NodeProto, read: Sequence[int], weights: Sequence[int]) -> int:
    steps, batch, width = read
    direction = next((attribute.s for attribute in node.attribute if attribute.name == "direction"), b"forward")
    hidden = weights[1] // _GATES[node.op_type]
    kept = batch * hidden * (steps * _GATES[node.op_type] + _STATES[node.op_type])
    if node.op_type == "RNN":  # one direction after the other
        return kept * _FLOAT
    turned = 0 if direction == b"forward" else steps * batch * (width + hidden)
    return (kept * weights[0] + turned) * _FLOAT
