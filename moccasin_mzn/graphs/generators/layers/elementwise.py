"""Layers that work on each element, or normalize over some."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moccasin_mzn.graphs.generators.layers.base import Layer, Shape, equal


@dataclass(frozen=True)
class Dropout(Layer):
    """Dropout: free in the cost model."""


@dataclass(frozen=True)
class Activation(Layer):
    """An activation function of its own, not fused into the layer before; softmax is one."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per element."""
        return prod(inputs[0])


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Batch normalization of each channel."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """4 per element."""
        return 4 * prod(inputs[0])

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """4 per channel: scale and shift, which are trained, running mean and variance, which are not."""
        return 4 * inputs[0][-1]

    def untrained_parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """2 per channel: the running mean and variance."""
        return 2 * inputs[0][-1]


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Layer normalization (Ba et al., 2016) over the channels of each position."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """4 per element, as for batch normalization: Checkmate has no rule for it."""
        return 4 * prod(inputs[0])

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """2 per channel: scale and shift."""
        return 2 * inputs[0][-1]


@dataclass(frozen=True)
class Add(Layer):
    """The elementwise sum of inputs of one shape."""

    inputs_wanted: ClassVar[int | None] = None

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """The inputs' shape."""
        return equal(self, inputs)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per element of every input."""
        return sum(map(prod, inputs))
