"""Layers: the shape of the output, what each place of it reads, the cost of the forward pass and the number of
parameters, for one sample.

Shapes are (height, width, channels), (positions, channels) or (units,), and leave out the batch. Costs are those of
Checkmate's FLOP mode (Jain et al., MLSys 2020), which counts a multiply-add as one operation and moving data as none;
they were checked against the published FCN8 training graph. What that mode has no rule for (layer normalization,
attention) costs by the same principle, as its docstring explains.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fractions import Fraction
from math import prod
from typing import ClassVar

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.access_maps import (
    Axes,
    every,
    joined,
    reshaped,
    resized,
    shifted,
    total_padding,
    transposed_window,
    window,
)
from moccasin_mzn.graphs.operators import Reach, own

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Output:
    """What a layer makes of one sample, and what that takes."""

    shape: Shape
    flops: int = 0
    """FLOP of the forward pass for one sample."""
    parameters: int = 0
    """Trained or not; those of weights shared with another layer count there."""
    untrained: int = 0
    """The `parameters` that no gradient changes: batch normalization's running means and variances."""
    reads: tuple[Axes, ...] = ()
    """For each input which places are read, along axes of the output. Empty: its own place of each."""


@dataclass(frozen=True)
class Layer:
    """One operation; the base class passes its only input on, at no cost.

    Raises:
        InputError: a parameter that is an integer but less than `least`.
    """

    inputs_wanted: ClassVar[int | None] = 1
    """Number of inputs, None for any number from 1."""
    least: ClassVar[int] = 1
    """Smallest value of every integer field."""

    def __post_init__(self) -> None:
        for parameter in fields(self):
            value = getattr(self, parameter.name)
            if type(value) is int and value < self.least:
                raise self.error(f"{parameter.name} is {value}, expected {self.least} or more")

    def output(self, *inputs: Shape) -> Output:
        """What a layer makes of inputs of these shapes.

        Raises:
            InputError: the inputs do not fit this layer.
        """
        return Output(inputs[0])

    def reads(self, *inputs: Shape) -> tuple[Axes, ...]:
        """What is read of each of these inputs, see `Output.reads`."""
        return self.output(*inputs).reads or tuple(every(len(shape)) for shape in inputs)

    def error(self, message: str) -> InputError:
        """To raise, with the name of the layer's kind."""
        return InputError(f"{type(self).__name__}: {message}")

    def image(self, shape: Shape) -> tuple[int, int, int]:
        """`shape`, which must be (height, width, channels)."""
        if len(shape) != 3:
            raise self.error(f"the input {shape} is not (height, width, channels)")
        return shape[0], shape[1], shape[2]

    def sequence(self, shape: Shape) -> tuple[int, int]:
        """`shape`, which must be (positions, channels)."""
        if len(shape) != 2:
            raise self.error(f"the input {shape} is not (positions, channels)")
        return shape[0], shape[1]

    def equal(self, *inputs: Shape) -> Shape:
        """The one shape that all inputs must have."""
        if len(set(inputs)) != 1:
            raise self.error(f"the inputs {shown(inputs)} differ in shape")
        return inputs[0]

    def slid(self, shape: Shape, window: int, stride: int, padding: str) -> tuple[int, int]:
        """Height and width after sliding a square window; "same" gives ceil(size / stride), "valid" pads nothing."""
        height, width, _ = self.image(shape)
        if padding == "same":
            return -(-height // stride), -(-width // stride)
        if padding != "valid":
            raise self.error(f'padding is {shown(padding)}, expected "same" or "valid"')
        if window > min(height, width):
            raise self.error(f"a window of {window} does not fit into {height} x {width}")
        return (height - window) // stride + 1, (width - window) // stride + 1

    def windows(self, shape: Shape, put_out: Shape, size: int, stride: int, channels: Reach | None = None) -> Axes:
        """Which places of an image such a window reads; of channels all, if none are given."""
        sides = []
        for axis in (0, 1):
            before = total_padding(shape[axis], put_out[axis], size, stride) // 2
            sides.append(window(axis, shape[axis], put_out[axis], size, stride, before=before))
        return (*sides, channels)


# --- convolutions of images ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Convolution(Layer):
    """A square convolution, its activation fused."""

    channels: int
    kernel: int
    stride: int = 1
    padding: str = "same"
    bias: bool = True

    def output(self, *inputs: Shape) -> Output:
        shape = (*self.slid(inputs[0], self.kernel, self.stride, self.padding), self.channels)
        met = self.kernel**2 * inputs[0][2]
        reads = (self.windows(inputs[0], shape, self.kernel, self.stride),)
        return Output(shape, flops=met * prod(shape), parameters=(met + self.bias) * self.channels, reads=reads)


@dataclass(frozen=True)
class DepthwiseConvolution(Layer):
    """A convolution of each channel by itself, without a bias."""

    kernel: int
    stride: int = 1
    padding: str = "same"

    def output(self, *inputs: Shape) -> Output:
        shape = (*self.slid(inputs[0], self.kernel, self.stride, self.padding), inputs[0][2])
        reads = (self.windows(inputs[0], shape, self.kernel, self.stride, own(2)),)
        return Output(shape, self.kernel**2 * prod(shape), parameters=self.kernel**2 * inputs[0][2], reads=reads)


@dataclass(frozen=True)
class SeparableConvolution(Layer):
    """A depthwise and a pointwise convolution as one operation, without a bias; what is in between is not kept."""

    channels: int
    kernel: int
    stride: int = 1
    padding: str = "same"

    def output(self, *inputs: Shape) -> Output:
        depthwise = DepthwiseConvolution(self.kernel, self.stride, self.padding).output(*inputs)
        pointwise = Convolution(self.channels, kernel=1, bias=False).output(depthwise.shape)
        parameters = depthwise.parameters + pointwise.parameters
        reads = (self.windows(inputs[0], depthwise.shape, self.kernel, self.stride),)
        return Output(pointwise.shape, depthwise.flops + pointwise.flops, parameters, reads=reads)


@dataclass(frozen=True)
class TransposedConvolution(Layer):
    """A learned upsampling without padding; the cost model leaves its kernel out."""

    channels: int
    kernel: int
    stride: int
    bias: bool = True

    def output(self, *inputs: Shape) -> Output:
        height, width, channels = self.image(inputs[0])
        sides = ((side - 1) * self.stride + self.kernel for side in (height, width))
        shape = (*sides, self.channels)
        parameters = (self.kernel**2 * channels + self.bias) * self.channels
        reads = ((*(transposed_window(axis, self.kernel, self.stride) for axis in (0, 1)), None),)
        return Output(shape, flops=channels * prod(shape), parameters=parameters, reads=reads)


# --- on each element, or normalizing over some ---------------------------------------------------------------


@dataclass(frozen=True)
class Dropout(Layer):
    """Dropout: free in the cost model."""


@dataclass(frozen=True)
class Activation(Layer):
    """An activation function of its own, not fused into the layer before; softmax is one, over the last axis."""

    softmax: bool = False

    def output(self, *inputs: Shape) -> Output:
        reads = ((*every(len(inputs[0]) - 1), None),) if self.softmax else ()
        return Output(inputs[0], flops=prod(inputs[0]), reads=reads)


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Batch normalization of each channel: scale and shift, which are trained, running mean and variance."""

    def output(self, *inputs: Shape) -> Output:
        channels = inputs[0][-1]
        return Output(inputs[0], flops=4 * prod(inputs[0]), parameters=4 * channels, untrained=2 * channels)


@dataclass(frozen=True)
class LayerNorm(Layer):
    """Layer normalization (Ba et al., 2016) over the channels of each position: a scale and a shift for each.

    It costs what batch normalization does: Checkmate has no rule for it.
    """

    def output(self, *inputs: Shape) -> Output:
        reads = ((*every(len(inputs[0]) - 1), None),)
        return Output(inputs[0], flops=4 * prod(inputs[0]), parameters=2 * inputs[0][-1], reads=reads)


@dataclass(frozen=True)
class Add(Layer):
    """The elementwise sum of inputs of one shape: 1 per element of every input."""

    inputs_wanted: ClassVar[int | None] = None

    def output(self, *inputs: Shape) -> Output:
        return Output(self.equal(*inputs), flops=sum(map(prod, inputs)))


# --- several operations as one node, as an implementation may run them: what is in between is not kept --------


@dataclass(frozen=True)
class ReluConvolution(Layer):
    """ReLU, convolution without a bias, batch norm."""

    channels: int
    kernel: int = 1
    stride: int = 1

    def output(self, *inputs: Shape) -> Output:
        return _fused(self, Convolution(self.channels, self.kernel, self.stride, bias=False), *inputs)


@dataclass(frozen=True)
class ReluSeparableConvolution(Layer):
    """The fused node of a randomly wired network: sum of several inputs, ReLU, separable convolution, batch norm."""

    inputs_wanted: ClassVar[int | None] = None

    channels: int
    kernel: int = 3
    stride: int = 1

    def output(self, *inputs: Shape) -> Output:
        self.equal(*inputs)
        parts = _fused(self, SeparableConvolution(self.channels, self.kernel, self.stride), *inputs)
        total = Add().output(*inputs).flops if len(inputs) > 1 else 0
        return replace(parts, flops=total + parts.flops)


def _fused(whole: Layer, convolution: Layer, shape: Shape, *others: Shape) -> Output:
    """ReLU, a convolution and batch norm, one after the other, as parts of a layer that reads images of one shape."""
    made = convolution.output(whole.image(shape))
    norm = BatchNorm().output(made.shape)
    flops, parameters = prod(shape) + made.flops + norm.flops, made.parameters + norm.parameters
    return Output(made.shape, flops, parameters, norm.untrained, made.reads * (1 + len(others)))


# --- matrix products -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer on a flat input, its activation fused."""

    units: int
    bias: bool = True

    def output(self, *inputs: Shape) -> Output:
        if len(inputs[0]) != 1:
            raise self.error(f"the input {inputs[0]} is not flat")
        read = inputs[0][0]
        parameters = (read + self.bias) * self.units
        return Output((self.units,), flops=read * self.units, parameters=parameters, reads=((None,),))


@dataclass(frozen=True)
class Linear(Layer):
    """One fully connected layer for every position; `shared`: its weights are those of another layer."""

    units: int
    bias: bool = True
    shared: bool = False

    def output(self, *inputs: Shape) -> Output:
        positions, channels = self.sequence(inputs[0])
        parameters = ((0 if self.shared else channels) + self.bias) * self.units
        shape, flops = (positions, self.units), channels * positions * self.units
        return Output(shape, flops=flops, parameters=parameters, reads=((own(0), None),))


@dataclass(frozen=True)
class Embedding(Layer):
    """A learned row for each of a sequence of token numbers: a look-up, free in the cost model."""

    vocabulary: int
    channels: int

    def output(self, *inputs: Shape) -> Output:
        if len(inputs[0]) != 1:
            raise self.error(f"the input {inputs[0]} is not a sequence of numbers")
        return Output((*inputs[0], self.channels), parameters=self.vocabulary * self.channels, reads=((own(0),),))


@dataclass(frozen=True)
class PositionEmbedding(Layer):
    """A learned row added at each position: it costs what an addition of two inputs does."""

    def output(self, *inputs: Shape) -> Output:
        return Output(inputs[0], flops=2 * prod(inputs[0]), parameters=prod(inputs[0]))


@dataclass(frozen=True)
class AttentionScores(Layer):
    """Queries times keys (positions, channels each), head by head, to (heads, positions, positions).

    A causal mask is fused and saves nothing.
    """

    inputs_wanted: ClassVar[int | None] = 2

    heads: int

    def output(self, *inputs: Shape) -> Output:
        positions, channels = self.sequence(self.equal(*inputs))
        if channels % self.heads:
            raise self.error(f"{channels} channels do not divide into {self.heads} heads")
        head = Reach(0, channels // self.heads, channels // self.heads)
        reads = (own(1), head), (own(2), head)
        return Output((self.heads, positions, positions), flops=channels * positions**2, reads=reads)


@dataclass(frozen=True)
class AttentionContext(Layer):
    """Attention weights (heads, positions, positions) times values (positions, channels), heads side by side."""

    inputs_wanted: ClassVar[int | None] = 2

    def output(self, *inputs: Shape) -> Output:
        positions, channels = self.sequence(inputs[1])
        heads = inputs[0][0]
        if inputs[0] != (heads, positions, positions) or channels % heads:
            raise self.error(f"the inputs {shown(inputs)} do not fit each other")
        reads = (Reach(1, divisor=channels // heads), own(0), None), (None, own(1))
        return Output((positions, channels), flops=positions**2 * channels, reads=reads)


# --- moving, dropping or repeating elements: free in the cost model, if not noted otherwise -------------------


@dataclass(frozen=True)
class Pooling(Layer):
    """The maximum or the mean of a square window."""

    window: int = 2
    stride: int = 2
    padding: str = "valid"

    def output(self, *inputs: Shape) -> Output:
        shape = (*self.slid(inputs[0], self.window, self.stride, self.padding), inputs[0][2])
        return Output(shape, reads=(self.windows(inputs[0], shape, self.window, self.stride, own(2)),))


@dataclass(frozen=True)
class GlobalPooling(Layer):
    """The mean over height and width."""

    def output(self, *inputs: Shape) -> Output:
        return Output(self.image(inputs[0])[2:], reads=((None, None, own(0)),))


@dataclass(frozen=True)
class Upsampling(Layer):
    """Every pixel repeated `factor` times in both directions: 1 per output element; or bilinear in between: 5."""

    factor: int = 2
    bilinear: bool = False

    def output(self, *inputs: Shape) -> Output:
        height, width, channels = self.image(inputs[0])
        shape = height * self.factor, width * self.factor, channels
        sides = map(self._side, (0, 1), (height, width))
        return Output(shape, flops=(5 if self.bilinear else 1) * prod(shape), reads=((*sides, own(2)),))

    def _side(self, axis: int, extent: int) -> Reach | None:
        import numpy as np

        if not self.bilinear:
            return Reach(axis, divisor=self.factor)
        at = (np.arange(extent * self.factor) + 0.5) / self.factor - 0.5
        return resized(axis, extent, at, Fraction(1, self.factor), lambda at: np.floor([at, at + 1]))


@dataclass(frozen=True)
class Unpooling(Layer):
    """Maxima put back to where a pooling took them from, zeros elsewhere: 1 per output element, as for upsampling.

    The second input is that pooling: it stands for the positions, which take as much memory as its output.
    """

    inputs_wanted: ClassVar[int | None] = 2

    factor: int = 2

    def output(self, *inputs: Shape) -> Output:
        larger = Upsampling(self.factor).output(self.image(self.equal(*inputs)))
        return replace(larger, reads=larger.reads * 2)


@dataclass(frozen=True)
class ZeroPadding(Layer):
    """Rows and columns of zeros around the image."""

    least: ClassVar[int] = 0

    top: int
    bottom: int
    left: int
    right: int

    def output(self, *inputs: Shape) -> Output:
        height, width, channels = self.image(inputs[0])
        shape = height + self.top + self.bottom, width + self.left + self.right, channels
        return Output(shape, reads=(shifted(3, {0: self.top, 1: self.left}),))


@dataclass(frozen=True)
class Crop(Layer):
    """The image cut down to a given height and width, wherever that lies in it."""

    height: int
    width: int

    def output(self, *inputs: Shape) -> Output:
        height, width, channels = self.image(inputs[0])
        if self.height > height or self.width > width:
            raise self.error(f"{self.height} x {self.width} is larger than the input, {height} x {width}")
        sides = Reach(0, window=height - self.height + 1), Reach(1, window=width - self.width + 1)
        return Output((self.height, self.width, channels), reads=((*sides, own(2)),))


@dataclass(frozen=True)
class Flatten(Layer):
    """All elements in one row."""

    def output(self, *inputs: Shape) -> Output:
        return Reshape((prod(inputs[0]),)).output(*inputs)


@dataclass(frozen=True)
class Reshape(Layer):
    """The same elements in another shape."""

    shape: Shape

    def output(self, *inputs: Shape) -> Output:
        if prod(self.shape) != prod(inputs[0]):
            raise self.error(f"{inputs[0]} does not have the {prod(self.shape)} elements of {self.shape}")
        return Output(self.shape, reads=(reshaped(inputs[0], self.shape),))


@dataclass(frozen=True)
class Concatenate(Layer):
    """Images of one height and width, channels side by side."""

    inputs_wanted: ClassVar[int | None] = None

    def output(self, *inputs: Shape) -> Output:
        images = [self.image(shape) for shape in inputs]
        if len({shape[:2] for shape in images}) != 1:
            raise self.error(f"the inputs {shown(inputs)} differ in height or width")
        return Output((*images[0][:2], sum(shape[2] for shape in images)), reads=tuple(joined(2, images)))
