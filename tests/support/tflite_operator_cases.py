"""TFLite models of one random operator each, of many kinds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from access_judge import drawn
from hypothesis import strategies as st
from onnx_operator_cases import Draw

from moccasin_mzn.graphs.importers.tflite import schema


@dataclass
class Case:
    """One operator."""

    name: str
    inputs: list[tuple[int, ...]]
    """Shapes of what the network reads, which come first among the inputs, but where `order` says other."""
    constants: list[np.ndarray] = field(default_factory=list)
    options: str = ""
    """The class of options in the schema; empty: none."""
    about: dict[str, Any] = field(default_factory=dict)
    order: list[int] | None = None
    """Of inputs and constants, counted through, as the operator has them."""
    dtype: type = np.float32
    version: int = 1
    needed: bool = False
    """Everything that is said to be read changes something."""

    def model(self, shape: tuple[int, ...] = ()) -> bytes:
        """The file.

        Args:
            shape: of the output, if it is known.
        """
        import flatbuffers

        s = schema()
        model, graph, code, operator = s.ModelT(), s.SubGraphT(), s.OperatorCodeT(), s.OperatorT()
        code.builtinCode = getattr(s.BuiltinOperator, self.name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), self.version
        model.version, model.subgraphs, model.operatorCodes = 3, [graph], [code]
        model.buffers = [s.BufferT() for _ in range(1 + len(self.constants))]
        graph.tensors = [self._tensor(one, self.dtype) for one in self.inputs]
        for at, value in enumerate(self.constants, start=1):
            model.buffers[at].data = np.frombuffer(value.tobytes(), np.uint8)
            graph.tensors.append(self._tensor(value.shape, value.dtype.type, at))
        graph.tensors.append(self._tensor(shape, self.dtype))
        graph.inputs, graph.outputs = list(range(len(self.inputs))), [len(graph.tensors) - 1]
        operator.opcodeIndex, operator.outputs = 0, graph.outputs
        operator.inputs = self.order or list(range(len(graph.tensors) - 1))
        if self.options:
            operator.builtinOptionsType = getattr(s.BuiltinOptions, self.options)
            operator.builtinOptions = getattr(s, f"{self.options}T")()
            for name, value in self.about.items():
                setattr(operator.builtinOptions, name, value)
        graph.operators = [operator]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    def _tensor(self, shape, dtype, buffer: int = 0):
        s = schema()
        tensor = s.TensorT()
        kinds = {np.float32: "FLOAT32", np.int32: "INT32", np.int8: "INT8", np.bool_: "BOOL"}
        tensor.shape, tensor.buffer, tensor.name = list(shape), buffer, f"t{buffer}"
        tensor.type = getattr(s.TensorType, kinds[dtype])
        if dtype is np.int8:
            tensor.quantization = s.QuantizationParametersT()
            tensor.quantization.scale, tensor.quantization.zeroPoint = [0.05], [0]
        return tensor

    def numbers(self, random: np.random.Generator) -> list[np.ndarray]:
        """Random inputs."""
        return [drawn(random, shape, self.dtype) for shape in self.inputs]


KINDS: dict[str, Callable[[Draw], Case]] = {}


def kind(function: Callable[[Draw], Case]) -> Callable[[Draw], Case]:
    KINDS[function.__name__] = function
    return function


def cases(name: str) -> st.SearchStrategy[Case]:
    """Random operators of a kind."""
    return st.composite(lambda draw: KINDS[name](Draw(draw)))()


def integers(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def strides(d: Draw) -> dict[str, int]:
    return {"padding": d.of(0, 1), "strideH": d.upto(3), "strideW": d.upto(3)}


def image(d: Draw, sizes: list[int], channels: int, dilations: tuple[int, ...] = (1, 1)) -> tuple[int, ...]:
    """A shape into which a window fits."""
    sides = [d.upto(11, (size - 1) * by + 1) for size, by in zip(sizes, dilations, strict=True)]
    return (d.upto(2), *sides, channels)


# --- Windows --------------------------------------------------------------------------------------------------


@kind
def convolution(d: Draw) -> Case:
    kernel, dilations, groups = d.ints(2, 3), d.ints(2, 2), d.of(1, 1, 2)
    depth, filters = groups * d.upto(2), groups * d.upto(2)
    about = {**strides(d), "dilationHFactor": dilations[0], "dilationWFactor": dilations[1]}
    constants = [d.weights(filters, *kernel, depth // groups), d.weights(filters)]
    return Case("CONV_2D", [image(d, kernel, depth, dilations)], constants, "Conv2DOptions", about, needed=groups == 1)


@kind
def depthwise(d: Draw) -> Case:
    kernel, dilations, depth, times = d.ints(2, 3), d.ints(2, 2), d.upto(3), d.upto(2)
    about = {**strides(d), "dilationHFactor": dilations[0], "dilationWFactor": dilations[1], "depthMultiplier": times}
    constants = [d.weights(1, *kernel, depth * times), d.weights(depth * times)]
    return Case("DEPTHWISE_CONV_2D", [image(d, kernel, depth, dilations)], constants, "DepthwiseConv2DOptions", about,
                needed=True)  # fmt: skip


@kind
def transposed_convolution(d: Draw) -> Case:
    kernel, about, sides, depth, filters = d.ints(2, 4), strides(d), d.ints(2, 5), d.upto(2), d.upto(2)
    made = []
    for side, size, stride in zip(sides, kernel, (about["strideH"], about["strideW"]), strict=True):
        least = (side - 1) * stride + 1 if about["padding"] == 0 else (side - 1) * stride + size
        made.append(least + d.upto(stride - 1, 0))
    constants = [integers(1, *made, filters), d.weights(filters, *kernel, depth)]
    return Case("TRANSPOSE_CONV", [(1, *sides, depth)], constants, "TransposeConvOptions", about, order=[1, 2, 0])


@kind
def pooling(d: Draw) -> Case:
    kernel, name = d.ints(2, 3), d.of("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")
    about = {**strides(d), "filterHeight": kernel[0], "filterWidth": kernel[1]}
    return Case(name, [image(d, kernel, d.upto(3))], [], "Pool2DOptions", about, needed=name != "MAX_POOL_2D")


# --- Products of matrices -------------------------------------------------------------------------------------


@kind
def dense(d: Draw) -> Case:
    rows, length, units = d.upto(3), d.upto(4), d.upto(4)
    keep = d.of(True, False)
    shape = d.of((rows, length), (1, rows, length), (2, rows, length))
    if not keep and d.of(True, False):
        shape, length = (2, 2, rows), 2 * rows
    constants = [d.weights(units, length)]
    return Case(
        "FULLY_CONNECTED",
        [shape],
        constants,
        "FullyConnectedOptions",
        {"keepNumDims": keep},
        version=5,
        needed=len(shape) == 2 or (keep and shape[-1] == length),
    )


@kind
def product(d: Draw) -> Case:
    rows, inner, columns = d.ints(3, 4)
    turned = d.of(0, 1), d.of(0, 1)
    first, second = (rows, inner)[:: 1 - 2 * turned[0]], (inner, columns)[:: 1 - 2 * turned[1]]
    stacks = d.of(((), ()), ((2,), (2,)), ((1, 3), (2, 1)), ((3,), (1,)))
    about = {"adjX": bool(turned[0]), "adjY": bool(turned[1])}
    return Case(
        "BATCH_MATMUL", [(*stacks[0], *first), (*stacks[1], *second)], [], "BatchMatMulOptions", about, needed=True
    )


# --- Each place by itself, or along some axes -----------------------------------------------------------------


@kind
def unary(d: Draw) -> Case:
    name = d.of("RELU", "RELU6", "LOGISTIC", "TANH", "ABS", "EXP", "HARD_SWISH", "NEG", "SQUARE", "ELU", "SIN", "FLOOR")
    options = {"ABS": "AbsOptions", "EXP": "ExpOptions", "NEG": "NegOptions", "SQUARE": "SquareOptions"}
    return Case(name, [d.shape()], [], options.get(name, ""))


@kind
def binary(d: Draw) -> Case:
    shape = d.shape()
    other = tuple(d.of(extent, 1) for extent in shape[d.upto(len(shape) - 1, 0) :])
    name, options = d.of(("ADD", "Add"), ("SUB", "Sub"), ("MUL", "Mul"), ("DIV", "Div"), ("MAXIMUM", "MaximumMinimum"),
                         ("MINIMUM", "MaximumMinimum"), ("SQUARED_DIFFERENCE", "SquaredDifference"))  # fmt: skip
    return Case(name, [shape, other] if d.of(True, False) else [other, shape], [], f"{options}Options")


@kind
def addition_of_many(d: Draw) -> Case:
    return Case("ADD_N", [d.shape()] * d.upto(3, 2), [], "AddNOptions")


@kind
def slope(d: Draw) -> Case:
    shape = d.shape(least_rank=4)
    return Case("PRELU", [shape], [d.weights(1, 1, shape[3])])


@kind
def along_the_last(d: Draw) -> Case:
    name = d.of("SOFTMAX", "LOG_SOFTMAX", "L2_NORMALIZATION")
    options = {"SOFTMAX": "SoftmaxOptions", "L2_NORMALIZATION": "L2NormOptions"}.get(name, "LogSoftmaxOptions")
    return Case(name, [d.shape(least_rank=2)], [], options, {"beta": 1.0} if name == "SOFTMAX" else {})


@kind
def reduction(d: Draw) -> Case:
    shape = d.shape()
    axes = d.draw(st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1, max_size=len(shape)))
    constants = [integers(*(axis - d.of(0, len(shape)) for axis in axes))]
    name = d.of("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")
    return Case(name, [shape], constants, "ReducerOptions", {"keepDims": d.of(True, False)})


# --- Places that are moved ------------------------------------------------------------------------------------


@kind
def concatenation(d: Draw) -> Case:
    shape = d.shape(least_rank=2)
    axis = d.upto(len(shape) - 1, 0)
    inputs = [(*shape[:axis], d.upto(4), *shape[axis + 1 :]) for _ in range(d.upto(3))]
    return Case("CONCATENATION", inputs, [], "ConcatenationOptions", {"axis": axis - d.of(0, len(shape))}, needed=True)


@kind
def stacking(d: Draw) -> Case:
    shape, count = d.shape(3), d.upto(3)
    about = {"axis": d.upto(len(shape), 0), "valuesCount": count}
    return Case("PACK", [shape] * count, [], "PackOptions", about)


@kind
def padding(d: Draw) -> Case:
    shape = d.shape(4)
    pads = np.array([d.ints(2, 3, 0) for _ in shape], np.int32)
    if d.of(True, False):
        return Case("PAD", [shape], [pads], "PadOptions", needed=True)
    return Case("PADV2", [shape], [pads, np.array([2.5], np.float32)], "PadV2Options")


@kind
def mirroring(d: Draw) -> Case:
    shape, mode = d.shape(3), d.of(0, 1)
    pads = np.array([[d.upto(side - 1 + mode, 0) for _ in "ab"] for side in shape], np.int32)
    return Case("MIRROR_PAD", [shape], [pads], "MirrorPadOptions", {"mode": mode})


@kind
def slicing(d: Draw) -> Case:
    shape = d.shape(4)
    starts = [d.upto(side - 1, 0) for side in shape]
    sizes = [d.upto(side - start) for side, start in zip(shape, starts, strict=True)]
    return Case("SLICE", [shape], [integers(*starts), integers(*sizes)], "SliceOptions", needed=True)


@kind
def strided(d: Draw) -> Case:
    shape = d.shape(4, 8)
    starts = [d.upto(side - 1, -side) for side in shape]
    ends, steps = [100] * len(shape), [d.of(1, 1, 2, 3) for _ in shape]
    masks = {name: d.upto(2 ** len(shape) - 1, 0) for name in ("beginMask", "endMask")}
    dropped = d.of(0, d.upto(2 ** len(shape) - 1, 0))
    for axis, start in enumerate(starts):
        if dropped >> axis & 1:
            starts[axis], steps[axis] = abs(start) % shape[axis], 1
            ends[axis] = starts[axis] + 1
            masks = {name: value & ~(1 << axis) for name, value in masks.items()}
    about = {**masks, "shrinkAxisMask": dropped, "ellipsisMask": 0, "newAxisMask": 0}
    constants = [integers(*starts), integers(*ends), integers(*steps)]
    return Case("STRIDED_SLICE", [shape], constants, "StridedSliceOptions", about)


@kind
def reshaping(d: Draw) -> Case:
    parts = d.draw(st.lists(st.sampled_from([1, 2, 2, 3, 4]), min_size=1, max_size=5))
    cut = sorted(d.draw(st.lists(st.integers(0, len(parts)), max_size=3)))
    made = [int(np.prod(parts[a:b])) for a, b in zip([0, *cut], [*cut, len(parts)], strict=True)]
    return Case("RESHAPE", [tuple(parts)], [integers(*made)], "ReshapeOptions", {"newShape": made})


@kind
def transposition(d: Draw) -> Case:
    shape = d.shape()
    return Case(
        "TRANSPOSE", [shape], [integers(*d.draw(st.permutations(range(len(shape)))))], "TransposeOptions", needed=True
    )


@kind
def resizing(d: Draw) -> Case:
    name, options = d.of(("RESIZE_BILINEAR", "ResizeBilinear"), ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighbor"))
    corners = d.of(True, False)
    about = {"alignCorners": corners, "halfPixelCenters": not corners and d.of(True, False)}
    shape = (d.upto(2), *d.ints(2, 9), d.upto(3))
    return Case(name, [shape], [integers(*d.ints(2, 20))], f"{options}Options", about, version=3)


@kind
def depth_to_space(d: Draw) -> Case:
    block, depth, sides = d.upto(3), d.upto(3), d.ints(2, 4)
    if d.of(True, False):
        shape = (d.upto(2), *(block * side for side in sides), depth)
        return Case("SPACE_TO_DEPTH", [shape], [], "SpaceToDepthOptions", {"blockSize": block})
    return Case("DEPTH_TO_SPACE", [(1, *sides, depth * block**2)], [], "DepthToSpaceOptions", {"blockSize": block})


@kind
def batches(d: Draw) -> Case:
    blocks, sides = d.ints(2, 3), d.ints(2, 4)
    if d.of(True, False):
        pads = [d.ints(2, 2, 0) for _ in "hw"]
        shape = [max(1, block * side - sum(pad)) for block, side, pad in zip(blocks, sides, pads, strict=True)]
        constants = [integers(*blocks), np.array(pads, np.int32)]
        return Case("SPACE_TO_BATCH_ND", [(d.upto(2), *shape, 2)], constants, "SpaceToBatchNDOptions")
    crops = np.array([[d.upto(block - 1, 0) // 2 for _ in "ab"] for block in blocks], np.int32)
    constants = [integers(*blocks), crops]
    return Case("BATCH_TO_SPACE_ND", [(blocks[0] * blocks[1], *sides, 2)], constants, "BatchToSpaceNDOptions")


@kind
def gathering(d: Draw) -> Case:
    shape = d.shape()
    axis = d.upto(len(shape) - 1, 0)
    indices = np.array(d.random.integers(shape[axis], size=d.shape(2, 3, 0)), np.int32)
    return Case("GATHER", [shape], [indices], "GatherOptions", {"axis": axis, "batchDims": 0})


@kind
def broadcasting(d: Draw) -> Case:
    shape = d.shape()
    made = [*d.shape(1, 3, 0), *(side if side > 1 else d.upto(3) for side in shape)]
    return Case("BROADCAST_TO", [shape], [integers(*made)], "BroadcastToOptions", version=2)


@kind
def unlisted(d: Draw) -> Case:
    """An operator of which nothing is known: all is read."""
    return Case("CUMSUM", [d.shape(2)], [integers(0)], "CumsumOptions")
