"""Memory that ONNX Runtime's operators take on the CPU while they compute, above what they read and put out.

Of convolutions and recurrent layers in single precision, which take most; that of others is taken for nothing. MLAS,
the library that computes convolutions, spreads out the input by kernel: all of it where there are more filters than
pixels, else a piece for each thread, of which one is counted. A transposed convolution holds all products before it
adds those that overlap. LSTM and GRU hold the gates of all steps; those that go backwards what they read, and put out,
the other way round as well.
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
        return _recurrent(node, read, weights)
    if not put_out:
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


def _recurrent(node: onnx.NodeProto, read: Sequence[int], weights: Sequence[int]) -> int:
    steps, batch, width = read
    direction = next((attribute.s for attribute in node.attribute if attribute.name == "direction"), b"forward")
    hidden = weights[1] // _GATES[node.op_type]
    kept = batch * hidden * (steps * _GATES[node.op_type] + _STATES[node.op_type])
    if node.op_type == "RNN":  # one direction after the other
        return kept * _FLOAT
    turned = 0 if direction == b"forward" else steps * batch * (width + hidden)
    return (kept * weights[0] + turned) * _FLOAT
