"""Multiply-adds of one ONNX operator, as the library onnx-tool counts them.

It counts one for each multiply-add, addition or comparison, and a fixed number for each exponential, root and the like
(32 for exp, 24 for a square root, 4 for a division); a bias counts one for each element. What moves data counts one
for each byte it puts out. Recurrent, quantized and fused operators are counted by `onnx_products`.
Three of its counts are wrong for some shapes and are replaced here: ConvTranspose (each input element, not each output
element, meets the kernel), MatMul with a vector on the right, and pooling in three dimensions.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard
from moccasin_mzn.graphs.importers.onnx_products import product_count
from moccasin_mzn.graphs.importers.onnx_shapes import Tensor

if TYPE_CHECKING:
    import onnx

Shape = tuple[int, ...]
_LEFT_OUT: Shape = (-1,)
"""Of an optional input or output with an empty name."""
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
    """Does it put out what it reads, or parts of it, elsewhere?"""
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


def _tensors(shapes: list[Shape]) -> list:
    from onnx_tool.tensor import Tensor as ToolTensor

    tensors = []
    for shape in shapes:
        tensor = ToolTensor("" if shape == _LEFT_OUT else "value")
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


def _pool(node: onnx.NodeProto, inputs: list[Shape], outputs: list[Shape]) -> int:
    kernel = next(attribute.ints for attribute in node.attribute if attribute.name == "kernel_shape")
    return prod(outputs[0]) * prod(kernel)


_CORRECTED = {
    "ConvTranspose": _conv_transpose,
    "MatMul": _mat_mul,
    "MaxPool": _pool,
    "AveragePool": _pool,
    "LpPool": _pool,
}
