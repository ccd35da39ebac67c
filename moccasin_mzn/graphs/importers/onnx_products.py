"""Multiply-adds of operators that onnx-tool does not count: recurrent, quantized and fused ones.

As elsewhere a multiply-add, an addition and a comparison count one each; what is fused with a product counts one for
each element it puts out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
Count = Callable[["onnx.NodeProto", Sequence[Shape], Sequence[Shape]], int]


def product_count(node: onnx.NodeProto) -> Count | None:
    """What counts the multiply-adds of an operator by shapes of inputs and outputs; None: it is none of these."""
    return _COUNTS.get((("" if is_standard(node) else node.domain), node.op_type))


def _told(node: onnx.NodeProto, name: str, default: int) -> int:
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
    """Each element put out is a sum over the last axis of the first input, or the one before."""

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        shape = inputs[0]
        batch = _told(node, "transBatchA", 0) and len(shape) > 2
        if turned and _told(node, turned, 0) and len(shape) > 1:
            return prod(outputs[0]) * (shape[0] if batch else shape[-2])
        return prod(outputs[0]) * shape[-1]

    return count


def _convolution(weights: int) -> Count:
    """Each element put out is a sum over the filter."""

    def count(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
        return prod(outputs[0]) * prod(inputs[weights][1:])

    return count


def _pool(node: onnx.NodeProto, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int:
    kernel = next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")
    return prod(outputs[0]) * prod(kernel)


def _each(operations: int) -> Count:
    """So many for each element put out."""

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
