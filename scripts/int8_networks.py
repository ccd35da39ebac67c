"""Int8 networks of published architectures as .tflite files; weights, scales and zero points are drawn with seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from moccasin_mzn.deploy.tflite_model import packed
from moccasin_mzn.graphs.importers.tflite import schema

SPREAD, WEIGHT_SPREAD = 40.0, 73.0
"""Standard deviation of activations that is aimed at, and that of weights drawn from all of int8."""
MIDDLE, GAIN = 24, 3.0
"""Mean of what has an activation, over its zero point; how much more what is averaged is multiplied by."""
VERSIONS = {
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D", "SUB", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), 3),
    **dict.fromkeys(("ADD", "MUL", "MEAN", "AVERAGE_POOL_2D", "MAX_POOL_2D", "SOFTMAX", "CONCATENATION", "PAD"), 2),
    **dict.fromkeys(("PADV2", "RELU", "RELU6", "LOGISTIC", "TANH", "TRANSPOSE", "QUANTIZE", "DEQUANTIZE"), 2),
    "FULLY_CONNECTED": 4, "LEAKY_RELU": 2,
}  # fmt: skip
"""Versions of operators of int8; default: 1."""


class Builder:
    """One subgraph of int8 tensors, operator by operator; values are numbers of tensors."""

    def __init__(self, seed: int, *shape: int, scale: float = 0.0157, zero: int = -1) -> None:
        self.s, self.random = schema(), np.random.default_rng(seed)
        self.model, self.graph = self.s.ModelT(), self.s.SubGraphT()
        self.model.version, self.model.subgraphs, self.model.buffers = 3, [self.graph], [self.s.BufferT()]
        self.model.operatorCodes, self.graph.tensors, self.graph.operators = [], [], []
        self.codes: dict[str, int] = {}
        self.positive: set[int] = set()
        """What has an activation, and so a mean above its zero point."""
        self.input = self.tensor(shape, scale, zero)
        self.graph.inputs, self.graph.name = [self.input], "main"

    def tensor(
        self, shape: Sequence[int], scale: float | Sequence[float] = 0.0, zero: int = 0, kind: str = "INT8",
        values: np.ndarray | None = None, axis: int = 0,
    ) -> int:  # fmt: skip
        """A tensor; with values a constant. Without a scale it has none."""
        tensor = self.s.TensorT()
        tensor.shape, tensor.type, tensor.buffer = [*map(int, shape)], getattr(self.s.TensorType, kind), 0
        tensor.name = f"tensor{len(self.graph.tensors)}"
        scales = [scale] if isinstance(scale, float) else [*scale]
        if any(scales):
            tensor.quantization = self.s.QuantizationParametersT()
            tensor.quantization.scale = [float(np.float32(each)) for each in scales]
            tensor.quantization.zeroPoint = [zero] * len(scales)
            tensor.quantization.quantizedDimension = axis
        if values is not None:
            buffer = self.s.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            self.model.buffers.append(buffer)
            tensor.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def integers(self, values: Any) -> int:
        """A constant of int32."""
        array = np.asarray(values, np.int32)
        return self.tensor(array.shape, kind="INT32", values=array)

    def operator(self, name: str, read: Sequence[int], made: int, options: str = "", **about: Any) -> int:
        """Add an operator; its output."""
        if name not in self.codes:
            code = self.s.OperatorCodeT()
            code.builtinCode = getattr(self.s.BuiltinOperator, name)
            code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), VERSIONS.get(name, 1)
            self.model.operatorCodes.append(code)
            self.codes[name] = len(self.model.operatorCodes) - 1
        operator = self.s.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = self.codes[name], [*read], [made]
        if options:
            operator.builtinOptionsType = getattr(self.s.BuiltinOptions, options)
            operator.builtinOptions = getattr(self.s, f"{options}T")()
            for key, value in about.items():
                setattr(operator.builtinOptions, key, value)
        self.graph.operators.append(operator)
        return made

    def shape(self, x: int) -> list[int]:
        return [int(side) for side in self.graph.tensors[x].shape]

    def scale(self, x: int) -> float:
        return float(self.graph.tensors[x].quantization.scale[0])

    def packed(self, *results: int) -> bytes:
        self.graph.outputs = [*results]
        return packed(self.model)

    # --- Layers ---

    def convolution(
        self, x: int, filters: int, kernel: int | tuple[int, int] = 1, stride: int = 1, relu: str = "RELU6",
        deep: bool = False,
    ) -> int:  # fmt: skip
        """A convolution, or one channel by channel, with a bias, SAME."""
        _, height, width, depth = self.shape(x)
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        shape = (1, *size, depth) if deep else (filters, *size, depth)
        made = (1, -(-height // stride), -(-width // stride), filters)
        out, constants = self._weighted(x, shape, made, relu, prod(size) * (1 if deep else depth), 3 if deep else 0)
        about = {"strideH": stride, "strideW": stride, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 0}
        about["fusedActivationFunction"] = getattr(self.s.ActivationFunctionType, relu)
        if deep:
            return self.operator(
                "DEPTHWISE_CONV_2D", (x, *constants), out, "DepthwiseConv2DOptions", depthMultiplier=1, **about
            )
        return self.operator("CONV_2D", (x, *constants), out, "Conv2DOptions", **about)

    def dense(self, x: int, units: int, gain: float = 1.0) -> int:
        """A matrix product with a bias, of one row."""
        depth = prod(self.shape(x))
        out, constants = self._weighted(x, (units, depth), (1, units), "NONE", depth, None, gain)
        return self.operator("FULLY_CONNECTED", (x, *constants), out, "FullyConnectedOptions")

    def _weighted(
        self, x: int, shape: Sequence[int], made: Sequence[int], relu: str, terms: int, axis: int | None,
        gain: float = 1.0,
    ) -> tuple[int, tuple[int, int]]:  # fmt: skip
        """The output of a layer, its weights and its bias, with scales at which outputs differ."""
        scale = {"RELU6": 6 / 255, "RELU": 0.03, "NONE": 0.05}[relu]
        out = self.tensor(made, scale, -128 if relu != "NONE" else int(self.random.integers(-20, 20)))
        count = 1 if axis is None else shape[axis]
        aim = gain * SPREAD * scale / (self.scale(x) * SPREAD * WEIGHT_SPREAD * sqrt(terms))
        scales = np.float32(aim * self.random.uniform(0.6, 1.6, count))
        weights = self.random.integers(-127, 128, shape).astype(np.int8)
        w = self.tensor(shape, scales.tolist(), values=weights, axis=axis or 0)
        size = int(SPREAD * WEIGHT_SPREAD * sqrt(terms) / 4)
        others = tuple(each for each in range(len(shape)) if each != (axis or 0))
        centre = MIDDLE * weights.sum(others, dtype=np.int64) if x in self.positive else 0  # lest it outweigh the rest
        bias = (self.random.integers(-size, size + 1, shape[axis or 0]) - centre).astype(np.int32)
        if relu != "NONE":
            self.positive.add(out)
        products = [float(np.float32(self.scale(x)) * each) for each in scales]
        return out, (w, self.tensor(bias.shape, products, kind="INT32", values=bias))

    def add(self, x: int, y: int, relu: str = "NONE") -> int:
        out = self.tensor(self.shape(x), 1.3 * max(self.scale(x), self.scale(y)), -128 if relu != "NONE" else 3)
        activation = getattr(self.s.ActivationFunctionType, relu)
        return self.operator("ADD", (x, y), out, "AddOptions", fusedActivationFunction=activation)

    def mean(self, x: int) -> int:
        """The mean over rows and columns."""
        shape, tensor = self.shape(x), self.graph.tensors[x].quantization
        out = self.tensor((1, shape[3]), 0.5 * self.scale(x), int(tensor.zeroPoint[0]))
        return self.operator("MEAN", (x, self.integers([1, 2])), out, "ReducerOptions", keepDims=False)

    def pool(self, x: int) -> int:
        """The average of all places."""
        _, height, width, depth = self.shape(x)
        out = self.tensor((1, 1, 1, depth), self.scale(x), int(self.graph.tensors[x].quantization.zeroPoint[0]))
        self.positive.add(out)
        about = {"filterHeight": height, "filterWidth": width, "strideH": height, "strideW": width, "padding": 1}
        return self.operator("AVERAGE_POOL_2D", (x,), out, "Pool2DOptions", **about)

    def reshaped(self, x: int, *shape: int) -> int:
        out = self.tensor(shape, self.scale(x), int(self.graph.tensors[x].quantization.zeroPoint[0]))
        self.positive.add(out)
        return self.operator("RESHAPE", (x, self.integers(shape)), out, "ReshapeOptions", newShape=[*shape])

    def softmax(self, x: int) -> int:
        return self.operator("SOFTMAX", (x,), self.tensor(self.shape(x), 1 / 256, -128), "SoftmaxOptions", beta=1.0)


def inverted(net: Builder, x: int, filters: int, expansion: int, stride: int, adds: bool) -> int:
    """An inverted bottleneck."""
    y, inner = x, net.shape(x)[3] * expansion
    if expansion > 1:
        y = net.convolution(y, inner)
    y = net.convolution(y, inner, 3, stride, deep=True)
    y = net.convolution(y, filters, relu="NONE")
    return net.add(x, y) if adds and stride == 1 and net.shape(x) == net.shape(y) else y


MOBILENET = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip
"""Blocks of MobileNetV2: expansion, channels, how many, stride of the first."""


def mobilenet_chain() -> bytes:
    """MobileNetV2 0.35 at 144 x 144 as msf-CNN has it: without additions and classifier."""
    net = Builder(1, 1, 144, 144, 3)
    x = net.convolution(net.input, int(32 * 0.35), 3, 2)
    for expansion, filters, count, first in MOBILENET:
        for at in range(count):
            x = inverted(net, x, int(filters * 0.35), expansion, 1 if at else first, adds=False)
    return net.packed(net.convolution(x, int(1280 * 0.35)))


def mobilenet() -> bytes:
    """MobileNetV2 0.35 at 144 x 144 with its additions and its classifier."""
    net = Builder(2, 1, 144, 144, 3)

    def channels(of: int) -> int:
        return max(8, int(of * 0.35 + 4) // 8 * 8)

    x = net.convolution(net.input, channels(32), 3, 2)
    for expansion, filters, count, first in MOBILENET:
        for at in range(count):
            x = inverted(net, x, channels(filters), expansion, 1 if at else first, adds=True)
    x = net.mean(net.convolution(x, 1280))
    return net.packed(net.dense(x, 1000, GAIN))


def person_detection() -> bytes:
    """MobileNetV1 0.25 at 96 x 96, two classes: visual wake words of MLPerf Tiny."""
    net = Builder(3, 1, 96, 96, 3)
    x = net.convolution(net.input, 8, 3, 2, relu="RELU")
    for filters, stride in (
        (16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5, (256, 2), (256, 1)
    ):  # fmt: skip
        x = net.convolution(x, net.shape(x)[3], 3, stride, relu="RELU", deep=True)
        x = net.convolution(x, filters, relu="RELU")
    x = net.pool(x)
    return net.packed(net.softmax(net.dense(net.reshaped(x, 1, 256), 2, GAIN)))


def keyword_spotting() -> bytes:
    """DS-CNN of MLPerf Tiny: 49 x 10 features, twelve words."""
    net = Builder(4, 1, 49, 10, 1, scale=0.58, zero=83)
    x = net.convolution(net.input, 64, (10, 4), 2, relu="RELU")
    for _ in range(4):
        x = net.convolution(x, 64, 3, relu="RELU", deep=True)
        x = net.convolution(x, 64, relu="RELU")
    x = net.pool(x)
    return net.packed(net.softmax(net.dense(net.reshaped(x, 1, 64), 12, GAIN)))


def resnet8() -> bytes:
    """ResNet8 of MLPerf Tiny: 32 x 32 pixels, ten classes."""
    net = Builder(5, 1, 32, 32, 3, scale=1 / 255, zero=-128)
    x = net.convolution(net.input, 16, 3, relu="RELU")
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        y = net.convolution(net.convolution(x, filters, 3, stride, relu="RELU"), filters, 3, relu="NONE")
        x = x if stride == 1 else net.convolution(x, filters, 1, stride, relu="NONE")
        x = net.add(x, y, relu="RELU")
    x = net.pool(x)
    return net.packed(net.softmax(net.dense(net.reshaped(x, 1, 64), 10, GAIN)))


def autoencoder() -> bytes:
    """The network of MLPerf Tiny for sounds of machines: ten layers of one row."""
    net = Builder(6, 1, 640)
    x = net.input
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128, 640):
        x = net.dense(x, units)
    return net.packed(x)


NETWORKS: dict[str, Callable[[], bytes]] = {
    "mobilenet_chain": mobilenet_chain, "mobilenet": mobilenet, "person_detection": person_detection,
    "keyword_spotting": keyword_spotting, "resnet8": resnet8, "autoencoder": autoencoder,
}  # fmt: skip
