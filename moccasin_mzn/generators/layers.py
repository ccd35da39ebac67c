"""Layers: the shape of the output and the cost of the forward pass, for one sample.

Shapes are (height, width, channels) or (units,) and leave out the batch. Costs are those of Checkmate's FLOP mode
(Jain et al., MLSys 2020), which counts a multiply-add as one operation and moving data as none; they were checked
against the published FCN8 training graph.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import prod
from typing import ClassVar

from moccasin_mzn.errors import InputError, shown

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """One operation; the base class passes its only input on, at no cost.

    Raises:
        InputError: a parameter that is an integer but less than 1.
    """

    inputs_wanted: ClassVar[int | None] = 1
    """Number of inputs, None for any number from 1."""

    def __post_init__(self) -> None:
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            if type(value) is int and value < 1:
                raise InputError(f"{type(self).__name__}: {parameter.name} is {value}, expected 1 or more")

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Shape of the output.

        Raises:
            InputError: the inputs do not fit this layer.
        """
        return inputs[0]

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Cost of the forward pass of one sample, in FLOP."""
        return 0


@dataclass(frozen=True)
class Convolution(Layer):
    """A square convolution, its activation fused; "same" padding keeps the size, "valid" adds nothing."""

    channels: int
    kernel: int
    stride: int = 1
    padding: str = "same"

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*_window(self, inputs[0], self.kernel, self.stride, self.padding), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 * input channels per output element."""
        return self.kernel**2 * inputs[0][2] * prod(output)


@dataclass(frozen=True)
class DepthwiseConvolution(Layer):
    """A convolution of each channel by itself, "same" padding."""

    kernel: int
    stride: int = 1

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, channels of the input)."""
        return (*_window(self, inputs[0], self.kernel, self.stride, "same"), inputs[0][2])

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """kernel^2 per output element."""
        return self.kernel**2 * prod(output)


@dataclass(frozen=True)
class TransposedConvolution(Layer):
    """A learned upsampling without padding."""

    channels: int
    kernel: int
    stride: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """((height - 1) * stride + kernel, likewise the width, `channels`)."""
        height, width, _ = _image(self, inputs[0])
        return ((height - 1) * self.stride + self.kernel, (width - 1) * self.stride + self.kernel, self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Input channels per output element: the cost model leaves the kernel out."""
        return inputs[0][2] * prod(output)


@dataclass(frozen=True)
class ReluSeparableConvolution(Layer):
    """The fused node of a randomly wired network: sum of the inputs, ReLU, separable convolution, batch norm."""

    inputs_wanted: ClassVar[int | None] = None

    channels: int
    kernel: int = 3
    stride: int = 1

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, `channels`)."""
        return (*_window(self, _equal(self, inputs), self.kernel, self.stride, "same"), self.channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """The sum of the parts' costs; a single input needs no sum."""
        total = prod(inputs[0]) * (len(inputs) if len(inputs) > 1 else 0)
        relu = prod(inputs[0])
        depthwise = self.kernel**2 * inputs[0][2] * output[0] * output[1]
        pointwise = inputs[0][2] * prod(output)
        return total + relu + depthwise + pointwise + 4 * prod(output)


@dataclass(frozen=True)
class Pooling(Layer):
    """A square pooling window, no padding."""

    window: int = 2
    stride: int = 2

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, channels of the input)."""
        return (*_window(self, inputs[0], self.window, self.stride, "valid"), inputs[0][2])


@dataclass(frozen=True)
class GlobalPooling(Layer):
    """The mean over height and width."""

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(channels,)."""
        return (_image(self, inputs[0])[2],)


@dataclass(frozen=True)
class Upsampling(Layer):
    """Every pixel repeated `factor` times in both directions, or bilinear in between."""

    factor: int = 2
    bilinear: bool = False

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height * factor, width * factor, channels of the input)."""
        height, width, channels = _image(self, inputs[0])
        return (height * self.factor, width * self.factor, channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per output element, 5 if bilinear."""
        return (5 if self.bilinear else 1) * prod(output)


@dataclass(frozen=True)
class Crop(Layer):
    """The image cut down to a given height and width."""

    height: int
    width: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(`height`, `width`, channels of the input)."""
        height, width, channels = _image(self, inputs[0])
        if self.height > height or self.width > width:
            raise InputError(f"Crop: {self.height} x {self.width} is larger than the input, {height} x {width}")
        return (self.height, self.width, channels)


@dataclass(frozen=True)
class Flatten(Layer):
    """All elements in one row."""

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(elements,)."""
        return (prod(inputs[0]),)


@dataclass(frozen=True)
class Reshape(Layer):
    """The same elements in another shape."""

    shape: Shape

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """`shape`."""
        if prod(self.shape) != prod(inputs[0]):
            raise InputError(f"Reshape: {inputs[0]} does not have the {prod(self.shape)} elements of {self.shape}")
        return self.shape


@dataclass(frozen=True)
class Dropout(Layer):
    """Dropout: free in the cost model."""


@dataclass(frozen=True)
class Activation(Layer):
    """An activation function of its own, not fused into the layer before."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per element."""
        return prod(inputs[0])


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Batch normalization."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """4 per element."""
        return 4 * prod(inputs[0])


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer, its activation fused."""

    units: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(`units`,)."""
        if len(inputs[0]) != 1:
            raise InputError(f"Dense: the input {inputs[0]} is not flat")
        return (self.units,)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Inputs times units."""
        return inputs[0][0] * self.units


@dataclass(frozen=True)
class Add(Layer):
    """The elementwise sum of inputs of one shape."""

    inputs_wanted: ClassVar[int | None] = None

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """The inputs' shape."""
        return _equal(self, inputs)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """1 per element of every input."""
        return sum(map(prod, inputs))


@dataclass(frozen=True)
class Concatenate(Layer):
    """Images of one height and width, channels side by side."""

    inputs_wanted: ClassVar[int | None] = None

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(height, width, sum of the channels)."""
        images = [_image(self, shape) for shape in inputs]
        if len({image[:2] for image in images}) != 1:
            raise InputError(f"Concatenate: the inputs {shown(inputs)} differ in height or width")
        return (*images[0][:2], sum(image[2] for image in images))


def _image(layer: Layer, shape: Shape) -> Shape:
    if len(shape) != 3:
        raise InputError(f"{type(layer).__name__}: the input {shape} is not (height, width, channels)")
    return shape


def _equal(layer: Layer, inputs: tuple[Shape, ...]) -> Shape:
    if len(set(inputs)) != 1:
        raise InputError(f"{type(layer).__name__}: the inputs {shown(inputs)} differ in shape")
    return inputs[0]


def _window(layer: Layer, shape: Shape, window: int, stride: int, padding: str) -> tuple[int, int]:
    """Height and width after sliding a square window."""
    height, width, _ = _image(layer, shape)
    if padding == "same":
        return -(-height // stride), -(-width // stride)
    if padding != "valid":
        raise InputError(f'{type(layer).__name__}: padding is {shown(padding)}, expected "same" or "valid"')
    if window > min(height, width):
        raise InputError(f"{type(layer).__name__}: a window of {window} does not fit into {height} x {width}")
    return (height - window) // stride + 1, (width - window) // stride + 1
