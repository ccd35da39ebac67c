"""Several operations as one node, as an implementation may run them: what is in between is not kept."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moccasin_mzn.graphs.generators.layers.base import Layer, Shape, equal, slid
from moccasin_mzn.graphs.generators.layers.convolutions import Convolution, SeparableConvolution


@dataclass(frozen=True)
class ReluConvolution(Layer):
    """ReLU, convolution without a bias, batch norm."""

    channels: int
    kernel: int = 1
    stride: int = 1

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*slid(self, inputs[0], self.kernel, self.stride, "same"), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """The sum of the parts' costs."""
        return prod(inputs[0]) + self._convolution.flops(inputs, output) + 4 * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """The convolution's, and 4 per output channel for the batch norm."""
        return self._convolution.parameters(inputs, output) + 4 * self.channels

    def untrained_parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """2 per output channel: the batch norm's running mean and variance."""
        return 2 * self.channels

    @property
    def _convolution(self) -> Convolution:
        return Convolution(self.channels, self.kernel, self.stride, bias=False)


@dataclass(frozen=True)
class ReluSeparableConvolution(Layer):
    """The fused node of a randomly wired network: sum of the inputs, ReLU, separable convolution, batch norm."""

    inputs_wanted: ClassVar[int | None] = None

    channels: int
    kernel: int = 3
    stride: int = 1

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*slid(self, equal(self, inputs), self.kernel, self.stride, "same"), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """The sum of the parts' costs; a single input needs no sum."""
        total = prod(inputs[0]) * (len(inputs) if len(inputs) > 1 else 0)
        relu = prod(inputs[0])
        return total + relu + self._convolution.flops(inputs[:1], output) + 4 * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """The convolution's, and 4 per output channel for the batch norm."""
        return self._convolution.parameters(inputs[:1], output) + 4 * self.channels

    def untrained_parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """2 per output channel: the batch norm's running mean and variance."""
        return 2 * self.channels

    @property
    def _convolution(self) -> SeparableConvolution:
        return SeparableConvolution(self.channels, self.kernel, self.stride)
