"""Operators of int8 as calls of the kernels in kernels.c: which one, and with which numbers.

All that a runtime prepares when it loads a model is computed here: real factors as integers, limits of activations,
padding, and tables. Elementwise operators of one input are a table of 256 bytes, which LiteRT's own kernel fills.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.c.fixed_point import LEAST, MOST, Double, Factor, exponentials, limits
from moccasin_mzn.deploy.c.reference import run
from moccasin_mzn.deploy.c.tensors import SIZES, Given, Tensor
from moccasin_mzn.graphs.access_maps import total_padding
from moccasin_mzn.graphs.importers.tflite import schema

if TYPE_CHECKING:
    from numpy import ndarray

INPUTS = 8
"""Most inputs of a layer, MC_INPUTS in kernels.h."""


class Unsupported(Exception):
    """There is no kernel for an operator; the message states why, if its kind has one."""


@dataclass(frozen=True)
class Array:
    """A constant array."""

    name: str
    kind: str
    """The type of an element in C."""
    values: Sequence[object]


Value = int | str | Array | Factor | Sequence[object] | Mapping[str, object]
"""A member of a structure: a number, a factor, an array that is pointed to, or what stands in braces."""


@dataclass(frozen=True)
class Kernel:
    """The call that computes a layer."""

    function: str
    """The name without its prefix, such as "convolution" of mc_convolution."""
    structure: str = ""
    """The type of its parameters; empty: it has none."""
    members: Mapping[str, Value] | None = None
    views: tuple[int, ...] = (0,)
    """The inputs of the operator that are read as activations."""
    taps: int = 0
    """Places of its window."""


def kernel_of(given: Given) -> Kernel:
    """The kernel of an operator.

    Raises:
        Unsupported: there is none.
    """
    rule = _RULES.get(given.name)
    if rule is None:
        raise Unsupported
    return rule(given)


def _check_kinds(*tensors: Tensor, kind: str = "INT8") -> None:
    for tensor in tensors:
        if tensor.kind != kind:
            raise Unsupported(f"{tensor.kind}, and kernels are of {kind}")


def _check(fits: bool) -> None:
    """Refuse shapes that do not belong together."""
    if not fits:
        raise Unsupported("its shapes do not fit")


def _constant(tensor: Tensor, kind: str) -> ndarray:
    _check_kinds(tensor, kind=kind)
    if tensor.values is None:
        raise Unsupported(f"{tensor.name} is no constant")
    return tensor.values


def _name_in(enumeration: type, value: int) -> str:
    return next(name for name, number in vars(enumeration).items() if number == value)


def _limits(given: Given) -> dict[str, Value]:
    """Zero point and limits of the output."""
    activation = _name_in(schema().ActivationFunctionType, given.options.fusedActivationFunction)
    output = given.output
    try:
        least, most = limits(activation, output.scale, output.zero)
    except KeyError:
        raise Unsupported(f"the activation {activation}") from None
    return {"out_zero": output.zero, "least": least, "most": most}


def _factor(value: float, most: int = 30) -> Factor:
    """The factor of a quotient of scales, whose shift may not be above `most`."""
    factor = Factor.of(value)
    if factor.shift > most:
        raise Unsupported("the scale of its output is too small")
    return factor


# --- Convolutions and matrix products -------------------------------------------------------------------------


def _window(given: Given, size: Sequence[int], dilation: Sequence[int]) -> dict[str, object]:
    options, read, made = given.options, given.read[0].extents, given.output.extents
    before = [
        total_padding(read[axis], made[axis], size[at], stride, dilation[at]) // 2
        for at, (axis, stride) in enumerate(((1, options.strideH), (2, options.strideW)))
    ]
    return {
        "in_height": read[1], "in_width": read[2], "out_height": made[1], "height": size[0], "width": size[1],
        "stride_y": options.strideH, "stride_x": options.strideW, "dilation_y": dilation[0],
        "dilation_x": dilation[1], "before_y": before[0], "before_x": before[1],
    }  # fmt: skip


def _bias(given: Given, channels: int) -> Value:
    if len(given.read) < 3:
        return "NULL"
    values = _constant(given.read[2], "INT32").ravel().tolist()
    _check(len(values) == channels)
    return Array("bias", "int32_t", values)


def _quotients(given: Given, channels: int) -> list[float]:
    """The scale of the products over that of the output: one for each channel, or one for all."""
    data, weights, output = given.read[0], given.read[1], given.output
    channel = 3 if given.name == "DEPTHWISE_CONV_2D" else 0
    others = tuple(axis for axis in range(len(weights.shape)) if axis != channel)
    largest = np.abs(_constant(weights, "INT8").astype(np.int64) - weights.zero).sum(others).max()
    if largest * max(127 - data.zero, 128 + data.zero) >= 2**31:
        raise Unsupported("its sums may not fit into 32 bits")
    if min(weights.scales) <= 0.0:
        raise Unsupported("a scale of its weights is not above 0")
    if len(weights.scales) not in (1, channels) or (len(weights.scales) > 1 and any(weights.zeros)):
        raise Unsupported("scales or zero points of its weights do not fit")
    return [data.scale * scale / output.scale for scale in weights.scales]


def _convolution(given: Given) -> Kernel:
    _check_kinds(given.read[0], given.output)
    weights, options = _constant(given.read[1], "INT8"), given.options
    deep, made = given.name == "DEPTHWISE_CONV_2D", given.output.extents[3]
    size, depth = weights.shape[1:3], given.read[0].extents[3]
    window = _window(given, size, (options.dilationHFactor, options.dilationWFactor))
    of, by = (made, depth) if deep else (depth, weights.shape[3])
    _check(weights.shape[3 if deep else 0] == made and of % by == 0)
    _check(not any(given.read[1].zeros))
    factors = [_factor(value) for value in _quotients(given, made)]
    factors *= made // len(factors)
    group = made // depth if deep else made // (depth // weights.shape[3])
    members: dict[str, Value] = {
        "window": window, "weights": Array("weights", "int8_t", weights.ravel().tolist()), "bias": _bias(given, made),
        "factors": Array("factors", "mc_factor", factors), "depth": weights.shape[3], "group": group,
        "in_zero": given.read[0].zero, **_limits(given),
    }  # fmt: skip
    name = "depthwise" if deep else "convolution"
    return Kernel(name, "mc_convolution_layer", members, taps=size[0] * size[1])


def _dense(given: Given) -> Kernel:
    data, output = given.read[0], given.output
    _check_kinds(data, output)
    weights, filters = _constant(given.read[1], "INT8"), given.read[1]
    units, depth = weights.shape
    if given.options.weightsFormat != 0 or depth % data.extents[3] or output.extents[3] != units:
        raise Unsupported("its rows do not begin with pixels of its input")
    factors = [Double.of(value) for value in _quotients(given, units)]
    members: dict[str, Value] = {
        "weights": Array("weights", "int8_t", weights.ravel().tolist()), "bias": _bias(given, units),
        "factors": Array("factors", "mc_double", factors), "step": int(len(factors) > 1), "depth": depth,
        "in_zero": data.zero, "weight_zero": filters.zero, **_limits(given),
    }  # fmt: skip
    return Kernel("dense", "mc_dense_layer", members)


# --- Pools and means ------------------------------------------------------------------------------------------


def _pool(given: Given) -> Kernel:
    _check_kinds(given.read[0], given.output)
    size = given.options.filterHeight, given.options.filterWidth
    window, (images, height, width, channels) = _window(given, size, (1, 1)), given.read[0].extents
    ends = {name: value for name, value in _limits(given).items() if name != "out_zero"}
    average = given.name == "AVERAGE_POOL_2D"
    if average and given.output.extents[1:3] == (1, 1) and size == (height, width):
        members: dict[str, Value] = {
            "images": images, "height": height, "width": width, "channels": channels, "over": [0, 1, 1, 0],
            "average": 1, "factor": Factor(0, 0), "count": height * width, "in_zero": 0, "out_zero": 0, **ends,
        }  # fmt: skip
        return Kernel("mean", "mc_mean_layer", members)
    members = {"window": window, **ends}
    return Kernel("average_pool" if average else "max_pool", "mc_pool_layer", members, taps=size[0] * size[1])


def _mean(given: Given) -> Kernel:
    data, output = given.read[0], given.output
    _check_kinds(data, output)
    rank = len(data.shape)
    axes = {axis % rank + 4 - rank for axis in given.numbers(1)}
    count = int(np.prod([data.extents[axis] for axis in axes]))
    images, height, width, channels = data.extents
    members: dict[str, Value] = {
        "images": images, "height": height, "width": width, "channels": channels,
        "over": [int(axis in axes) for axis in range(4)], "average": 0,
        "factor": _factor(data.scale / output.scale).over(count), "count": count, "in_zero": data.zero,
        "out_zero": output.zero, "least": LEAST, "most": MOST,
    }  # fmt: skip
    return Kernel("mean", "mc_mean_layer", members)


# --- Element by element ---------------------------------------------------------------------------------------


def _binary(given: Given) -> Kernel:
    output, read = given.output, given.read
    _check_kinds(*read, output)
    both = zip(read[0].extents, read[1].extents, output.extents, strict=True)
    _check(all({a, b} <= {1, made} and made == max(a, b) for a, b, made in both))
    members: dict[str, Value] = {
        "out_height": output.extents[1], "height": [each.extents[1] for each in read],
        "steps": [[int(extent > 1) for extent in each.extents] for each in read],
        "zero": [each.zero for each in read], "sign": -1 if given.name == "SUB" else 1, **_limits(given),
    }  # fmt: skip
    if given.name == "MUL":
        product = np.float32(read[0].scale) * np.float32(read[1].scale) / np.float32(output.scale)
        members |= {"factor": [Factor(0, 0)] * 2, "out_factor": _factor(float(product))}
        return Kernel("multiply", "mc_binary_layer", members, views=(0, 1))
    twice = 2 * max(each.scale for each in read)
    out_factor = _factor(twice / (2**20 * output.scale), most=0)
    members |= {"factor": [_factor(each.scale / twice) for each in read], "out_factor": out_factor}
    return Kernel("add", "mc_binary_layer", members, views=(0, 1))


def _unary(given: Given) -> Kernel:
    """A table, of what LiteRT outputs for each of 256 inputs."""
    _check_kinds(given.read[0], given.output)
    _check(given.read[0].extents == given.output.extents)
    model, graph, operator = copy(given.model), copy(given.model.subgraphs[0]), copy(given.operator)
    tensors = []
    for at, number in enumerate((given.read[0].number, given.output.number)):
        tensor = copy(given.model.subgraphs[0].tensors[number])
        tensor.shape, tensor.shapeSignature, tensor.buffer, tensor.name = [1, 256], None, 0, f"x{at}"
        tensors.append(tensor)
    operator.inputs, operator.outputs = [0], [1]
    graph.tensors, graph.operators, graph.inputs, graph.outputs = tensors, [operator], [0], [1]
    model.subgraphs, model.signatureDefs, model.metadata = [graph], [], []
    try:
        ((values,),) = run(model, [[np.arange(LEAST, MOST + 1, dtype=np.int8).reshape(1, 256)]])
    except InputError:
        raise Unsupported("LiteRT has none of int8 either") from None
    return Kernel("table", "mc_table_layer", {"values": Array("values", "int8_t", values.ravel().tolist())})


def _softmax(given: Given) -> Kernel:
    data, output = given.read[0], given.output
    _check_kinds(data, output)
    _check(data.extents == output.extents)
    if output.zero != LEAST or output.scale != 1 / 256:
        raise Unsupported("its output is not of scale 1/256 and zero point -128")
    values = [*exponentials(float(given.options.beta), data.scale)]
    members: dict[str, Value] = {"exponentials": Array("exponentials", "int32_t", values), "most": len(values) - 1}
    return Kernel("softmax", "mc_softmax_layer", members)


def _quantize(given: Given) -> Kernel:
    if given.read[0].kind == "INT8":
        return _unary(given)
    _check_kinds(given.read[0], kind="FLOAT32")
    _check_kinds(given.output)
    _check(given.read[0].extents == given.output.extents)
    return Kernel("quantize", "mc_scale_layer", _scale(given.output))


def _dequantize(given: Given) -> Kernel:
    _check_kinds(given.read[0])
    _check_kinds(given.output, kind="FLOAT32")
    _check(given.read[0].extents == given.output.extents)
    return Kernel("dequantize", "mc_scale_layer", _scale(given.read[0]))


def _scale(tensor: Tensor) -> dict[str, Value]:
    return {"scale": f"{float.hex(tensor.scale)}F", "zero": tensor.zero}


# --- Elements that only move ----------------------------------------------------------------------------------


def _element(given: Given) -> int:
    tensors = [tensor for tensor in (*given.read[:1], given.output) if tensor.kind not in SIZES]
    if tensors:
        raise Unsupported(f"{tensors[0].kind}, and kernels are of INT8 and FLOAT32")
    return SIZES[given.output.kind]


def _same_scale(given: Given, *tensors: Tensor) -> None:
    if any(each.scales != given.output.scales or each.zero != given.output.zero for each in tensors):
        raise Unsupported("scales of its inputs and its output differ")


def _concatenation(given: Given) -> Kernel:
    _element(given)
    _check_kinds(*given.read, kind=given.output.kind)
    _same_scale(given, *given.read)
    if given.options.fusedActivationFunction:
        raise Unsupported("it has an activation")
    rank = len(given.output.shape)
    members: dict[str, Value] = {
        "axis": given.options.axis % rank + 4 - rank, "inputs": len(given.read),
        "out_height": given.output.extents[1], "height": [each.extents[1] for each in given.read],
    }  # fmt: skip
    return Kernel("concatenation", "mc_concatenation_layer", members, views=tuple(range(len(given.read))))


def _pad(given: Given) -> Kernel:
    element, rank = _element(given), len(given.output.shape)
    _same_scale(given, given.read[0])
    before = [0] * (4 - rank) + given.numbers(1)[::2]
    value = np.zeros(1, np.float32) if given.output.kind == "FLOAT32" else np.array([given.output.zero], np.int8)
    if len(given.read) > 2:
        value = _constant(given.read[2], given.output.kind).ravel()
    members: dict[str, Value] = {
        "in_height": given.read[0].extents[1], "out_height": given.output.extents[1], "extents": given.read[0].extents,
        "before": before, "element": element, "value": [*value.tobytes()],
    }  # fmt: skip
    return Kernel("pad", "mc_pad_layer", members)


def _reshape(given: Given) -> Kernel:
    _element(given)
    _check(prod(given.read[0].shape) == prod(given.output.shape))
    return Kernel("reshape")


def _transpose(given: Given) -> Kernel:
    element, rank = _element(given), len(given.output.shape)
    axes = [*range(4 - rank), *(axis % rank + 4 - rank for axis in given.numbers(1))]
    members: dict[str, Value] = {
        "out_height": given.output.extents[1], "in_height": given.read[0].extents[1], "from": axes, "element": element,
    }  # fmt: skip
    return Kernel("transpose", "mc_transpose_layer", members)


def _resize(given: Given) -> Kernel:
    linear, options = given.name == "RESIZE_BILINEAR", given.options
    if linear:
        _check_kinds(given.read[0], given.output)
    _element(given)
    read, made = given.read[0].extents, given.output.extents
    rule, kind = (_between, "mc_between") if linear else (_nearest, "uint16_t")
    tables = [
        Array(name, kind, rule(read[axis], made[axis], bool(options.alignCorners), bool(options.halfPixelCenters)))
        for axis, name in ((1, "rows"), (2, "columns"))
    ]
    members: dict[str, Value] = {"in_height": read[1], "out_height": made[1], "rows": tables[0], "columns": tables[1]}
    name = "bilinear" if linear else "nearest"
    return Kernel(name, f"mc_{name}_layer", members)


def _nearest(extent: int, count: int, corners: bool, half: bool) -> list[int]:
    """The place that each place of the output reads, in single precision as the kernel has it."""
    single = np.float32
    scale = single(extent - 1) / single(count - 1) if corners and count > 1 else single(extent) / single(count)
    at = (np.arange(count).astype(single) + single(0.5 if half else 0.0)) * scale
    whole = np.floor(at + single(0.5)) if corners else np.floor(at)
    return [int(x) for x in np.clip(whole, 0, extent - 1)]


@dataclass(frozen=True)
class Between:
    """Two places that are read, and how far from the first to the second, in 1024ths."""

    low: int
    high: int
    part: int

    def __str__(self) -> str:
        return f"{{{self.low}, {self.high}, {self.part}}}"


def _between(extent: int, count: int, corners: bool, half: bool) -> list[Between]:
    if corners and count > 1:
        step = (1024 * (extent - 1) + (count - 1) // 2) // (count - 1)
    else:
        step = (1024 * extent + count // 2) // count
    found = []
    for place in range(count):
        at = place * step + (step // 2 - 512 if half else 0)
        low, high = max(0, int(at / 1024)), min(int((at + 1023) / 1024), extent - 1)
        found.append(Between(low, high, at - 1024 * low))
    return found


def resize_tables(kernel: Kernel) -> tuple[ndarray, ndarray]:
    """By place of rows and of columns of a resized image the places that are read."""
    assert kernel.members is not None
    found = []
    for name in ("rows", "columns"):
        array: Any = kernel.members[name]
        pairs = [(each.low, each.high) if isinstance(each, Between) else (each, each) for each in array.values]
        found.append(np.array(pairs))
    return found[0], found[1]


_UNARY = """
    ABS ELU EXP GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC NEG RELU RELU6 RELU_0_TO_1 RELU_N1_TO_1 RSQRT SQRT TANH
    """.split()  # noqa: SIM905
_RULES: Mapping[str, Callable[[Given], Kernel]] = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), _convolution),
    "FULLY_CONNECTED": _dense,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D"), _pool),
    "MEAN": _mean,
    **dict.fromkeys(("ADD", "MUL", "SUB"), _binary),
    **dict.fromkeys(_UNARY, _unary),
    "SOFTMAX": _softmax,
    "QUANTIZE": _quantize,
    "DEQUANTIZE": _dequantize,
    "CONCATENATION": _concatenation,
    **dict.fromkeys(("PAD", "PADV2"), _pad),
    **dict.fromkeys(("EXPAND_DIMS", "RESHAPE", "SQUEEZE"), _reshape),
    "TRANSPOSE": _transpose,
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), _resize),
}
