"""Random int8 networks with scales of every kind: what is drawn at random has no ties, and fixed point has many.

A sum times the quotient of its scales lies halfway between two integers if scales are powers of two, round, or small
fractions of each other; there the ways of rounding differ that kernels have.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, log10, prod, sqrt
from typing import Any

import numpy as np
from int8_networks import Builder

KINDS = ("random", "powers", "round", "fractions", "equal", "far")
"""Kinds of scales: any; powers of two; 1, 2, 2.5 or 5 times a power of ten; an odd number times a power of two; one for
all; up to 30,000 times larger or smaller than what fits."""
_ODD = (1, 3, 5, 7, 9, 11, 13, 15, 21, 49)


class Scales:
    """Draws scales of a kind."""

    def __init__(self, random: np.random.Generator, kind: str) -> None:
        self.random, self.kind = random, kind
        self.same = float(
            np.float32(random.choice([0.5, 0.25, 0.1, 0.05, 0.0157, 1 / 3, float(random.uniform(0.01, 1))]))
        )

    def any(self) -> float:
        """A scale of activations."""
        return self.near(float(self.random.uniform(0.004, 0.5)))

    def near(self, value: float) -> float:
        """A scale that is of the order of a value, but for those that are to be equal or far."""
        random, power = self.random, 2.0 ** round(log2(value))
        if self.kind == "powers":
            return power
        if self.kind == "round":
            return float(np.float32(random.choice([1, 2, 2.5, 5]) * 10.0 ** round(log10(value) - 0.4)))
        if self.kind == "fractions":
            return float(random.choice(_ODD)) * 2.0 ** round(log2(value) - random.integers(5))
        if self.kind == "equal":
            return self.same
        return value * float(10.0 ** random.uniform(-4.5, 4.5) if self.kind == "far" else random.uniform(0.4, 2))

    def weights(self, count: int) -> list[float]:
        """Scales of weights, for each channel one, some of them equal."""
        middle = float(self.random.uniform(0.001, 0.02))
        found = [self.near(middle) for _ in range(count)]
        return [found[int(self.random.integers(count))] for _ in found] if self.random.integers(2) else found


def scales_of(random: np.random.Generator) -> Scales:
    """Scales of a kind that is drawn."""
    return Scales(random, KINDS[int(random.integers(len(KINDS)))])


def spread(random: np.random.Generator) -> tuple[int, float]:
    """The largest weight, and the standard deviation of weights up to that."""
    most = int(random.choice([1, 3, 20, 127, 127]))
    return most, sqrt(most * (most + 1) / 3)


class _Network:
    """A network so far: each layer reads some of the last ones."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random, self.scales = random, scales_of(random)
        images, height, width = self.of(1, 1, 2), self.side(), self.side()
        shape = self.of(
            (images, height, width, self.of(1, 3, 4)), (images, height, width, 2), (height, width), (images, 9)
        )
        self.net = Builder(0, *shape, scale=self.scales.any(), zero=self.zero())
        self.made = [self.net.input]

    def of(self, *values: Any) -> Any:
        return values[int(self.random.integers(len(values)))]

    def side(self) -> int:
        return int(self.of(1, *range(2, 12)))

    def zero(self) -> int:
        return int(self.of(-128, 0, 127, *self.random.integers(-128, 128, 3)))

    def zero_of(self, x: int) -> int:
        return int(self.net.graph.tensors[x].quantization.zeroPoint[0])

    def output(self, shape: Sequence[int], near: float) -> int:
        return self.net.tensor(shape, self.scales.near(near), self.zero())

    def like(self, x: int, shape: Sequence[int]) -> int:
        """An output with the scale and zero point of another tensor."""
        return self.net.tensor(shape, self.net.scale(x), self.zero_of(x))

    def activation(self) -> dict[str, int]:
        return {"fusedActivationFunction": self.of(0, 0, 1, 2, 3)}

    def weighted(self, x: int, shape: Sequence[int], terms: int, axis: int, made: Sequence[int]) -> list[int]:
        """What a layer reads, and its output at the end; scales are for each channel of an axis, or one for all."""
        net, (most, deviation) = self.net, spread(self.random)
        scales = self.scales.weights(self.of(1, shape[axis]))
        values = self.random.integers(-most, most + 1, shape).astype(np.int8)
        size = int(40 * deviation * sqrt(terms)) + 1
        bias = self.random.integers(-size, size, shape[axis]).astype(np.int32)
        products = [float(np.float32(net.scale(x)) * np.float32(each)) for each in scales]
        w = net.tensor(shape, scales, values=values, axis=axis)
        b = net.tensor(bias.shape, products, kind="INT32", values=bias)
        return [x, w, b, self.output(made, net.scale(x) * float(np.mean(scales)) * deviation * sqrt(terms))]

    def window(self, x: int) -> tuple[list[int], list[int], dict[str, int]]:
        """Sides of a window, those of the output, and its options."""
        sides = self.net.shape(x)[1:3]
        size, stride, same = [], [], self.of(True, False)
        for side in sides:
            size.append(int(self.random.integers(1, min(4, side) + 1)))
            stride.append(int(self.random.integers(1, 4)))
        reach = [0 if same else k - 1 for k in size]
        made = [-(-(side - more) // step) for side, more, step in zip(sides, reach, stride, strict=True)]
        return size, made, {"strideH": stride[0], "strideW": stride[1], "padding": 0 if same else 1}

    # --- Layers: each returns its output, or None where it does not apply ---

    def convolution(self, x: int) -> int:
        (images, *_, depth), (size, made, about) = self.net.shape(x), self.window(x)
        filters, deep = int(self.random.integers(1, 7)), self.of(True, False)
        about |= {"dilationHFactor": 1, "dilationWFactor": 1, **self.activation()}
        if deep:
            times = self.of(1, 1, 2)
            out = images, *made, depth * times
            *read, y = self.weighted(x, (1, *size, depth * times), prod(size), 3, out)
            return self.net.operator(
                "DEPTHWISE_CONV_2D", read, y, "DepthwiseConv2DOptions", depthMultiplier=times, **about
            )
        *read, y = self.weighted(x, (filters, *size, depth), prod(size) * depth, 0, (images, *made, filters))
        return self.net.operator("CONV_2D", read, y, "Conv2DOptions", **about)

    def pool(self, x: int) -> int:
        (images, *_, depth), (size, made, about) = self.net.shape(x), self.window(x)
        about |= {"filterHeight": size[0], "filterWidth": size[1], **self.activation()}
        y = self.like(x, (images, *made, depth))
        return self.net.operator(self.of("AVERAGE_POOL_2D", "MAX_POOL_2D"), (x,), y, "Pool2DOptions", **about)

    def resize(self, x: int) -> int:
        images, _, _, depth = self.net.shape(x)
        made, name = [self.side(), self.side()], self.of("ResizeBilinear", "ResizeNearestNeighbor")
        corners, half = self.of((False, False), (True, False), (False, True))
        kind = {"ResizeBilinear": "RESIZE_BILINEAR", "ResizeNearestNeighbor": "RESIZE_NEAREST_NEIGHBOR"}[name]
        about = {"alignCorners": corners, "halfPixelCenters": half}
        y = self.like(x, (images, *made, depth))
        return self.net.operator(kind, (x, self.net.integers(made)), y, f"{name}Options", **about)

    def dense(self, x: int) -> int:
        *before, depth = self.net.shape(x)
        units = int(self.random.integers(1, 9))
        *read, y = self.weighted(x, (units, depth), depth, 0, (*before, units))
        about = {"keepNumDims": True, **self.activation()}
        return self.net.operator("FULLY_CONNECTED", read, y, "FullyConnectedOptions", **about)

    def binary(self, x: int) -> int:
        """With a tensor of the same shape, that itself too, or a constant, which may be broadcast."""
        net, shape = self.net, self.net.shape(x)
        name, same = self.of("Add", "Sub", "Mul"), [y for y in self.made if net.shape(y) == shape]
        y = self.of(*same)
        if self.of(True, False):
            other = [self.of(side, 1) for side in shape][self.of(0, len(shape) - 1) :]
            values = self.random.integers(-128, 128, other).astype(np.int8)
            y = net.tensor(other, self.scales.any(), self.zero(), values=values)
        real = net.scale(x) * net.scale(y) * 40 if name == "Mul" else net.scale(x) + net.scale(y)
        read = self.of((x, y), (y, x))
        return net.operator(name.upper(), read, self.output(shape, real), f"{name}Options", **self.activation())

    def unary(self, x: int) -> int:
        shape, near = self.net.shape(x), self.net.scale(x)
        name = self.of("RELU", "LEAKY_RELU", "HARD_SWISH", "LOGISTIC", "TANH", "QUANTIZE", "SOFTMAX")
        fixed = {"LOGISTIC": (1 / 256, -128), "TANH": (1 / 128, 0), "SOFTMAX": (1 / 256, -128)}.get(name)
        y = self.net.tensor(shape, *fixed) if fixed else self.output(shape, near)
        options, about = {
            "LEAKY_RELU": ("LeakyReluOptions", {"alpha": float(self.of(0.1, 0.5, self.random.uniform(0, 0.9)))}),
            "HARD_SWISH": ("HardSwishOptions", {}), "SOFTMAX": ("SoftmaxOptions", {"beta": self.of(1.0, 0.5)}),
        }.get(name, ("", {}))  # fmt: skip
        return self.net.operator(name, (x,), y, options, **about)

    def mean(self, x: int) -> int:
        shape = self.net.shape(x)
        axes = [axis for axis in range(len(shape)) if self.of(True, False)] or [len(shape) - 1]
        keep = self.of(True, False) or len(axes) == len(shape)
        made = [1 if axis in axes else side for axis, side in enumerate(shape) if keep or axis not in axes]
        y = self.of(self.like(x, made), self.output(made, self.net.scale(x)))
        return self.net.operator("MEAN", (x, self.net.integers(axes)), y, "ReducerOptions", keepDims=keep)

    def moved(self, x: int) -> int:
        """Elements that only move: padded, in another shape, transposed, joined with others."""
        net, shape, name = self.net, self.net.shape(x), self.of("Pad", "Reshape", "Transpose", "Concatenation")
        if name == "Pad":
            pads = self.random.integers(0, 3, (len(shape), 2))
            made, read, about = (
                [side + sum(both) for side, both in zip(shape, pads, strict=True)],
                (x, net.integers(pads)),
                {},
            )
        elif name == "Reshape":
            made = self.of([prod(shape)], [1, prod(shape)], [shape[0], 1, prod(shape[1:])], [*reversed(shape)])
            read, about = (x, net.integers(made)), {"newShape": made}
        elif name == "Transpose":
            order = self.random.permutation(len(shape))
            made, read, about = [shape[axis] for axis in order], (x, net.integers(order)), {}
        else:
            axis, y = int(self.random.integers(len(shape))), self.of(*(y for y in self.made if net.shape(y) == shape))
            z = net.operator("QUANTIZE", (y,), self.like(x, shape))
            made, read, about = [side * (1 + (at == axis)) for at, side in enumerate(shape)], (x, z), {"axis": axis}
        return net.operator(name.upper(), read, self.like(x, made), f"{name}Options", **about)

    def add_layer(self) -> None:
        net, x = self.net, self.of(*self.made[-3:])
        rules = [self.dense, self.binary, self.binary, self.unary, self.mean, self.moved]
        if len(net.shape(x)) == 4:
            rules += [self.convolution] * 4 + [self.pool, self.resize]
        self.made.append(self.of(*rules)(x))


def random_network(random: np.random.Generator) -> bytes:
    """Some layers, each of one or two of those before; the last one or two are outputs; floats in and out at times."""
    of = _Network(random)
    net = of.net
    if of.of(True, False, False):
        x = net.tensor(net.shape(net.input), kind="FLOAT32")
        net.operator("QUANTIZE", (x,), net.input)
        net.graph.inputs = [x]
    for _ in range(int(random.integers(1, 9))):
        of.add_layer()
    ends = of.made[-2:] if len(of.made) > 2 and of.of(True, False) else of.made[-1:]
    if of.of(True, False, False):
        ends[0] = net.operator("DEQUANTIZE", (ends[0],), net.tensor(net.shape(ends[0]), kind="FLOAT32"))
    return net.packed(*ends)
