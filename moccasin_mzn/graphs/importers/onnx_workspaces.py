"""Memory that ONNX Runtime's operators take on the CPU while they compute, above what they read and put out.

Of convolutions in single precision, which take most; that of others is taken for nothing. MLAS, the library that
computes them, spreads out the input by kernel: all of it where there are more filters than pixels, else a piece for
each thread, of which one is counted. A transposed convolution holds all products before it adds those that overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from moccasin_mzn.graphs.importers.onnx_model import is_standard, packages
from moccasin_mzn.graphs.importers.onnx_shapes import Tensor

if TYPE_CHECKING:
    import onnx

_PIECE = 128 * 128 * 4
_FLOAT = 4
"""Bytes."""


def workspace(node: onnx.NodeProto, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> int:
    """Bytes that an operator takes so; inputs and outputs are one for each of `node.input` and `node.output`."""
    if not is_standard(node) or node.op_type not in ("Conv", "ConvTranspose") or len(inputs) < 2 or not outputs:
        return 0
    read, weights, put_out = inputs[0].shape, inputs[1].shape, outputs[0].shape
    if inputs[0].dtype != packages().TensorProto.FLOAT or not read or not weights or not put_out:
        return 0
    products = prod(weights[1:])
    if node.op_type == "ConvTranspose":
        return products * prod(read[2:]) * _FLOAT
    told = {attribute.name: attribute for attribute in node.attribute}
    strides, pads = (told[name].ints if name in told else () for name in ("strides", "pads"))
    if prod(weights[2:]) == 1 and all(stride == 1 for stride in strides) and not any(pads):
        return 0
    pixels, filters = prod(put_out[2:]), weights[0] // (told["group"].i if "group" in told else 1)
    return pixels * products * _FLOAT if filters > pixels else _PIECE
