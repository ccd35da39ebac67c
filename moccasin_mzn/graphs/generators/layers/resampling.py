"""Layers that move, drop or repeat elements: pooling, padding, cropping, joining."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.layers.base import Layer, Shape, image, slid


@dataclass(frozen=True)
class Pooling(Layer):
    """The maximum or the mean of a square window: free in the cost model."""

    window: int = 2
    stride: int = 2
    padding: str = "valid"

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, channels of the input)."""
        return (*slid(self, inputs[0], self.window, self.stride, self.padding), inputs[0][2])


@dataclass(frozen=True)
class GlobalPooling(Layer):
    """The mean over height and width: free in the cost model."""

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(channels,)."""
        return (image(self, inputs[0])[2],)


@dataclass(frozen=True)
class Unpooling(Layer):
    """Maxima put back to where a pooling took them from, zeros elsewhere.

    The second input is that pooling: it stands for the positions, which take as much memory as its output.
    """

    inputs_wanted: ClassVar[int | None] = 2

    factor: int = 2

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height * factor, width * factor, channels of the input)."""
        if inputs[0] != inputs[1]:
            raise InputError(f"Unpooling: the inputs {shown(inputs)} differ in shape")
        height, width, channels = image(self, inputs[0])
        return (height * self.factor, width * self.factor, channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per output element, as for nearest upsampling: Checkmate has no rule for it."""
        return prod(output)


@dataclass(frozen=True)
class Upsampling(Layer):
    """Every pixel repeated `factor` times in both directions, or bilinear in between."""

    factor: int = 2
    bilinear: bool = False

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height * factor, width * factor, channels of the input)."""
        height, width, channels = image(self, inputs[0])
        return (height * self.factor, width * self.factor, channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per output element, 5 if bilinear."""
        return (5 if self.bilinear else 1) * prod(output)


@dataclass(frozen=True)
class ZeroPadding(Layer):
    """Rows and columns of zeros around the image: free in the cost model."""

    least: ClassVar[int] = 0

    top: int
    bottom: int
    left: int
    right: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height + top + bottom, width + left + right, channels of the input)."""
        height, width, channels = image(self, inputs[0])
        return (height + self.top + self.bottom, width + self.left + self.right, channels)


@dataclass(frozen=True)
class Crop(Layer):
    """The image cut down to a given height and width: free in the cost model."""

    height: int
    width: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(`height`, `width`, channels of the input)."""
        height, width, channels = image(self, inputs[0])
        if self.height > height or self.width > width:
            raise InputError(f"Crop: {self.height} x {self.width} is larger than the input, {height} x {width}")
        return (self.height, self.width, channels)


@dataclass(frozen=True)
class Flatten(Layer):
    """All elements in one row: free in the cost model."""

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(elements,)."""
        return (prod(inputs[0]),)


@dataclass(frozen=True)
class Reshape(Layer):
    """The same elements in another shape: free in the cost model."""

    shape: Shape

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """`shape`."""
        if prod(self.shape) != prod(inputs[0]):
            raise InputError(f"Reshape: {inputs[0]} does not have the {prod(self.shape)} elements of {self.shape}")
        return self.shape


@dataclass(frozen=True)
class Concatenate(Layer):
    """Images of one height and width, channels side by side: free in the cost model."""

    inputs_wanted: ClassVar[int | None] = None

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, sum of the channels)."""
        images = [image(self, shape) for shape in inputs]
        if len({shape[:2] for shape in images}) != 1:
            raise InputError(f"Concatenate: the inputs {shown(inputs)} differ in height or width")
        return (*images[0][:2], sum(shape[2] for shape in images))
