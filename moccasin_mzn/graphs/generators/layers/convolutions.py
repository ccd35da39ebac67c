"""Convolutions of images."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from moccasin_mzn.graphs.generators.layers.base import Layer, Shape, image, slid


@dataclass(frozen=True)
class Convolution(Layer):
    """A square convolution, its activation fused; "same" padding keeps the size, "valid" adds nothing."""

    channels: int
    kernel: int
    stride: int = 1
    padding: str = "same"
    bias: bool = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*slid(self, inputs[0], self.kernel, self.stride, self.padding), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 * input channels per output element."""
        return self.kernel**2 * inputs[0][2] * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 * input channels, and one if there is a bias, per output channel."""
        return (self.kernel**2 * inputs[0][2] + self.bias) * self.channels


@dataclass(frozen=True)
class DepthwiseConvolution(Layer):
    """A convolution of each channel by itself, without a bias."""

    kernel: int
    stride: int = 1
    padding: str = "same"

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, channels of the input)."""
        return (*slid(self, inputs[0], self.kernel, self.stride, self.padding), inputs[0][2])

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 per output element."""
        return self.kernel**2 * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 per channel."""
        return self.kernel**2 * inputs[0][2]


@dataclass(frozen=True)
class SeparableConvolution(Layer):
    """A depthwise and a pointwise convolution as one operation, without a bias; what is in between is not kept."""

    channels: int
    kernel: int
    stride: int = 1
    padding: str = "same"

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*slid(self, inputs[0], self.kernel, self.stride, self.padding), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 per element after the depthwise part, input channels per output element."""
        return self.kernel**2 * inputs[0][2] * output[0] * output[1] + inputs[0][2] * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 + `channels` per input channel."""
        return (self.kernel**2 + self.channels) * inputs[0][2]


@dataclass(frozen=True)
class TransposedConvolution(Layer):
    """A learned upsampling without padding."""

    channels: int
    kernel: int
    stride: int
    bias: bool = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """((height - 1) * stride + kernel, likewise the width, `channels`)."""
        height, width, _ = image(self, inputs[0])
        return ((height - 1) * self.stride + self.kernel, (width - 1) * self.stride + self.kernel, self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Input channels per output element: the cost model leaves the kernel out."""
        return inputs[0][2] * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 * input channels, and one if there is a bias, per output channel."""
        return (self.kernel**2 * inputs[0][2] + self.bias) * self.channels
