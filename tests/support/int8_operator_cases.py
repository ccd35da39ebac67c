"""Random int8 operators: shapes, strides, dilations, paddings, zero points, scales of every kind and activations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt

import numpy as np
from hypothesis import strategies as st
from int8_networks import Builder
from onnx_operator_cases import Draw
from random_int8 import KINDS as SCALES
from random_int8 import Scales, spread

KINDS: dict[str, Callable[[Net], int]] = {}
"""By name what adds an operator to a network and returns what it puts out."""


class Net(Draw):
    """A network of one random operator, whose inputs and output may pass others before and after it."""

    def __init__(self, draw: st.DrawFn) -> None:
        super().__init__(draw)
        self.net = Builder(0, 1)
        self.scales = Scales(self.random, self.of(*SCALES))
        self.net.graph.tensors, self.net.graph.inputs = [], []

    def scale(self) -> float:
        return self.scales.any()

    def zero(self) -> int:
        return self.upto(127, -128)

    def input(self, shape: Sequence[int], scale: float | None = None, zero: int | None = None) -> int:
        """An input of the operator: of the network, or of another operator before it."""
        scale, zero = self.scale() if scale is None else scale, self.zero() if zero is None else zero
        behind = self.of(True, False)
        x = self.net.tensor(shape, self.scale() if behind else scale, self.zero() if behind else zero)
        self.net.graph.inputs.append(x)
        return self.net.operator("QUANTIZE", (x,), self.net.tensor(shape, scale, zero)) if behind else x

    def constant(self, shape: Sequence[int]) -> int:
        values = self.random.integers(-128, 128, shape).astype(np.int8)
        return self.net.tensor(shape, self.scale(), self.zero(), values=values)

    def like(self, x: int, shape: Sequence[int]) -> int:
        """An output with the scale and zero point of another tensor."""
        about = self.net.graph.tensors[x].quantization
        return self.net.tensor(shape, float(about.scale[0]), int(about.zeroPoint[0]))

    def activation(self) -> int:
        return getattr(self.net.s.ActivationFunctionType, self.of("NONE", "RELU", "RELU6", "RELU_N1_TO_1"))

    def weighted(
        self, x: int, shape: Sequence[int], terms: int, axis: int, by_channel: bool, always_bias: bool = False
    ) -> tuple[float, list[int]]:
        """Weights and perhaps a bias, and a scale of the output at which not all of it is at its limits."""
        scales, (most, deviation) = self.scales.weights(shape[axis] if by_channel else 1), spread(self.random)
        values = self.random.integers(-most, most + 1, shape).astype(np.int8)
        w = self.net.tensor(shape, scales, values=values, axis=axis)
        out = self.scales.near(self.net.scale(x) * float(np.mean(scales)) * deviation * sqrt(terms))
        if always_bias or self.of(True, True, False):  # LiteRT's convolutions have one
            size = int(40 * deviation * sqrt(terms)) + 1
            bias = self.random.integers(-size, size, shape[axis]).astype(np.int32)
            products = [float(np.float32(self.net.scale(x)) * np.float32(each)) for each in scales]
            return out, [w, self.net.tensor(bias.shape, products, kind="INT32", values=bias)]
        return out, [w]


def kind(function: Callable[[Net], int]) -> Callable[[Net], int]:
    KINDS[function.__name__] = function
    return function


def models(name: str) -> st.SearchStrategy[bytes]:
    """Files of random operators of a kind."""

    def make(draw: st.DrawFn) -> bytes:
        net = Net(draw)
        made = KINDS[name](net)
        if net.of(True, False) and net.net.graph.tensors[made].type == net.net.s.TensorType.INT8:
            after = net.net.tensor(net.net.shape(made), net.scale(), net.zero())
            made = net.net.operator("QUANTIZE", (made,), after)
        return net.net.packed(made)

    return st.composite(make)()


def sides(d: Net, size: Sequence[int], dilation: Sequence[int]) -> tuple[list[int], list[int], dict[str, int]]:
    """Extents into which a window fits, those of the output, and its options."""
    stride, padding = d.ints(2, 3), d.of(0, 1)
    extents = [d.upto(11, (k - 1) * by + 1) for k, by in zip(size, dilation, strict=True)]
    reach = [0 if padding == 0 else (k - 1) * by for k, by in zip(size, dilation, strict=True)]
    made = [-(-(extent - more) // step) for extent, more, step in zip(extents, reach, stride, strict=True)]
    return extents, made, {"strideH": stride[0], "strideW": stride[1], "padding": padding}


@kind
def convolution(d: Net) -> int:
    size, dilation, groups, images = d.ints(2, 4), d.ints(2, 2), d.of(1, 1, 1, 2), d.of(1, 1, 2)
    depth, filters = groups * d.upto(5), groups * d.upto(6)
    extents, made, about = sides(d, size, dilation)
    x = d.input((images, *extents, depth))
    shape = (filters, *size, depth // groups)
    scale, constants = d.weighted(x, shape, prod(shape[1:]), 0, d.of(True, True, False), always_bias=True)
    out = d.net.tensor((images, *made, filters), scale, d.zero())
    about |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1], "fusedActivationFunction": d.activation()}
    return d.net.operator("CONV_2D", (x, *constants), out, "Conv2DOptions", **about)


@kind
def depthwise(d: Net) -> int:
    size, dilation, depth, times, images = d.ints(2, 4), d.ints(2, 2), d.upto(7), d.of(1, 1, 2, 3), d.of(1, 1, 2)
    extents, made, about = sides(d, size, dilation)
    x = d.input((images, *extents, depth))
    scale, constants = d.weighted(x, (1, *size, depth * times), prod(size), 3, by_channel=d.of(True, True, False))
    out = d.net.tensor((images, *made, depth * times), scale, d.zero())
    about |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1], "depthMultiplier": times}
    about["fusedActivationFunction"] = d.activation()
    return d.net.operator("DEPTHWISE_CONV_2D", (x, *constants), out, "DepthwiseConv2DOptions", **about)


@kind
def dense(d: Net) -> int:
    units, shape = d.upto(9), d.of((d.upto(4), d.upto(40)), (1, d.upto(3), d.upto(4), d.upto(8)))
    rows, depth = (shape[0], shape[1]) if len(shape) == 2 else (1, prod(shape))
    x = d.input(shape)
    scale, constants = d.weighted(x, (units, depth), depth, 0, by_channel=d.of(True, False))
    out = d.net.tensor((rows, units), scale, d.zero())
    activation = d.activation()
    return d.net.operator(
        "FULLY_CONNECTED", (x, *constants), out, "FullyConnectedOptions", fusedActivationFunction=activation
    )


@kind
def dense_of_rows(d: Net) -> int:
    units, shape = d.upto(9), (1, d.upto(6), d.upto(20))
    x = d.input(shape)
    scale, constants = d.weighted(x, (units, shape[-1]), shape[-1], 0, by_channel=d.of(True, False))
    out = d.net.tensor((*shape[:-1], units), scale, d.zero())
    return d.net.operator("FULLY_CONNECTED", (x, *constants), out, "FullyConnectedOptions", keepNumDims=True)


def pooled(d: Net, name: str) -> int:
    size = d.ints(2, 4)
    extents, made, about = sides(d, size, (1, 1))
    images, depth = d.of(1, 1, 2), d.upto(6)
    if d.of(True, False, False):  # of all places
        size, made, about = list(extents), [1, 1], {"strideH": d.upto(3), "strideW": d.upto(3), "padding": 1}
    x = d.input((images, *extents, depth))
    about |= {"filterHeight": size[0], "filterWidth": size[1], "fusedActivationFunction": d.activation()}
    return d.net.operator(name, (x,), d.like(x, (images, *made, depth)), "Pool2DOptions", **about)


@kind
def average_pool(d: Net) -> int:
    return pooled(d, "AVERAGE_POOL_2D")


@kind
def max_pool(d: Net) -> int:
    return pooled(d, "MAX_POOL_2D")


@kind
def mean(d: Net) -> int:
    shape = d.shape(4, 7, 2)
    axes = sorted(d.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    if d.of(True, False) and len(shape) == 4:
        axes = [1, 2]
    keep = d.of(True, False)
    x = d.input(shape)
    made = [1 if axis in axes else extent for axis, extent in enumerate(shape) if keep or axis not in axes]
    out = d.like(x, made) if d.of(True, False) else d.net.tensor(made, d.scale(), d.zero())
    numbers = d.net.integers([axis - d.of(0, len(shape)) for axis in axes])
    return d.net.operator("MEAN", (x, numbers), out, "ReducerOptions", keepDims=keep)


def binary(d: Net, name: str, options: str) -> int:
    shape = list(d.shape(4, 6))
    other = [d.of(extent, extent, 1) for extent in shape][d.of(0, 0, len(shape) - 1) :]
    x, y = d.input(shape), d.constant(other) if d.of(True, False, False) else d.input(other)
    read = (y, x) if d.of(True, False, False) else (x, y)
    scales = [d.net.scale(each) for each in read]
    real = sum(scales) if name != "MUL" else prod(scales) * d.of(1, 8, 80)
    out = d.net.tensor(shape, d.scales.near(real), d.zero())
    return d.net.operator(name, read, out, options, fusedActivationFunction=d.activation())


@kind
def add(d: Net) -> int:
    return binary(d, "ADD", "AddOptions")


@kind
def subtract(d: Net) -> int:
    return binary(d, "SUB", "SubOptions")


@kind
def multiply(d: Net) -> int:
    return binary(d, "MUL", "MulOptions")


@kind
def concatenation(d: Net) -> int:
    shape, count = list(d.shape(4, 5, 2)), d.upto(4, 2)
    axis, scale, zero = d.upto(len(shape) - 1, 0), d.scale(), d.zero()
    extents = d.ints(count, 4)
    shapes = [[extent if at == axis else side for at, side in enumerate(shape)] for extent in extents]
    read = [d.input(each, scale, zero) for each in shapes]
    shape[axis] = sum(extents)
    out = d.net.tensor(shape, scale, zero)
    return d.net.operator("CONCATENATION", read, out, "ConcatenationOptions", axis=axis - d.of(0, len(shape)))


@kind
def pad(d: Net) -> int:
    shape = d.shape(4, 5)
    x, pads = d.input(shape), [d.ints(2, 2, 0) for _ in shape]
    made = [extent + sum(both) for extent, both in zip(shape, pads, strict=True)]
    if d.of(True, False):
        return d.net.operator("PAD", (x, d.net.integers(pads)), d.like(x, made), "PadOptions")
    about = d.net.graph.tensors[x].quantization
    value = np.array([d.upto(127, -128)], np.int8)
    constant = d.net.tensor((1,), float(about.scale[0]), int(about.zeroPoint[0]), values=value)
    return d.net.operator("PADV2", (x, d.net.integers(pads), constant), d.like(x, made), "PadV2Options")


def unary(d: Net, name: str, options: str = "", scale: float = 0.0, zero: int = 0, **about: float) -> int:
    shape = d.shape()
    x = d.input(shape)
    out = d.net.tensor(shape, scale or d.scale(), zero if scale else d.zero())
    return d.net.operator(name, (x,), out, options, **about)


@kind
def relu(d: Net) -> int:
    return unary(d, d.of("RELU", "RELU6"))


@kind
def leaky_relu(d: Net) -> int:
    return unary(d, "LEAKY_RELU", "LeakyReluOptions", alpha=float(d.random.uniform(0, 0.9)))


@kind
def hard_swish(d: Net) -> int:
    return unary(d, "HARD_SWISH", "HardSwishOptions")


@kind
def logistic(d: Net) -> int:
    return unary(d, "LOGISTIC", scale=1 / 256, zero=-128)


@kind
def tanh(d: Net) -> int:
    return unary(d, "TANH", scale=1 / 128, zero=0)


@kind
def softmax(d: Net) -> int:
    shape = d.shape(4, 7) if d.of(True, True, False) else [1, d.upto(511)]  # more may end the reference kernel
    x = d.input(shape, scale=d.scales.near(d.of(0.01, 0.1, 0.5, 2.0)))
    beta = float(d.of(1.0, 1.0, 0.3))
    return d.net.operator("SOFTMAX", (x,), d.net.tensor(shape, 1 / 256, -128), "SoftmaxOptions", beta=beta)


@kind
def dequantize(d: Net) -> int:
    shape = d.shape()
    return d.net.operator("DEQUANTIZE", (d.input(shape),), d.net.tensor(shape, kind="FLOAT32"))


@kind
def quantize(d: Net) -> int:
    shape = d.shape()
    x = d.net.tensor(shape, kind="FLOAT32")
    d.net.graph.inputs.append(x)
    return d.net.operator("QUANTIZE", (x,), d.net.tensor(shape, d.scale(), d.zero()))


@kind
def reshape(d: Net) -> int:
    shape = list(d.shape(4, 5))
    made = list(d.draw(st.permutations(shape)))
    made = d.of(made, [prod(shape)], [1, prod(shape)], [prod(shape[:1]), 1, prod(shape[1:])])
    x = d.input(shape)
    out = d.like(x, made)
    return d.net.operator("RESHAPE", (x, d.net.integers(made)), out, "ReshapeOptions", newShape=made)


@kind
def transpose(d: Net) -> int:
    shape = d.shape(4, 5, 2)
    order = list(d.draw(st.permutations(range(len(shape)))))
    x = d.input(shape)
    out = d.like(x, [shape[axis] for axis in order])
    return d.net.operator("TRANSPOSE", (x, d.net.integers(order)), out, "TransposeOptions")


def resized(d: Net, name: str, options: str) -> int:
    images, height, width, depth = d.of(1, 1, 2), d.upto(9), d.upto(9), d.upto(5)
    made, (corners, half) = d.ints(2, 20), d.of((False, False), (True, False), (False, True))
    x = d.input((images, height, width, depth))
    out = d.like(x, (images, *made, depth))
    about = {"alignCorners": corners, "halfPixelCenters": half}
    return d.net.operator(name, (x, d.net.integers(made)), out, options, **about)


@kind
def nearest(d: Net) -> int:
    return resized(d, "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")


@kind
def bilinear(d: Net) -> int:
    return resized(d, "RESIZE_BILINEAR", "ResizeBilinearOptions")
