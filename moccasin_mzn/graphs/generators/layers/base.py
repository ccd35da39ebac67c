"""What all layers have in common, and the shape rules that several share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from moccasin_mzn.errors import InputError, shown

Shape = tuple[int, ...]


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
                raise InputError(f"{type(self).__name__}: {parameter.name} is {value}, expected {self.least} or more")

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Shape of the output.

        Raises:
            InputError: the inputs do not fit this layer.
        """
        return inputs[0]

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Cost of the forward pass of one sample, in FLOP."""
        return 0

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Number of parameters, trained or not; those of weights shared with another layer count there."""
        return 0

    def untrained_parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Those of `parameters` that no gradient changes: batch normalization's running means and variances."""
        return 0


def image(layer: Layer, shape: Shape) -> Shape:
    """`shape`, which must be (height, width, channels)."""
    if len(shape) != 3:
        raise InputError(f"{type(layer).__name__}: the input {shape} is not (height, width, channels)")
    return shape


def equal(layer: Layer, inputs: tuple[Shape, ...]) -> Shape:
    """The one shape that all inputs must have."""
    if len(set(inputs)) != 1:
        raise InputError(f"{type(layer).__name__}: the inputs {shown(inputs)} differ in shape")
    return inputs[0]


def slid(layer: Layer, shape: Shape, window: int, stride: int, padding: str) -> tuple[int, int]:
    """Height and width after sliding a square window; padding "same" gives ceil(size / stride)."""
    height, width, _ = image(layer, shape)
    if padding == "same":
        return -(-height // stride), -(-width // stride)
    if padding != "valid":
        raise InputError(f'{type(layer).__name__}: padding is {shown(padding)}, expected "same" or "valid"')
    if window > min(height, width):
        raise InputError(f"{type(layer).__name__}: a window of {window} does not fit into {height} x {width}")
    return (height - window) // stride + 1, (width - window) // stride + 1
