"""What all layers have in common: shapes, costs and the rules that several share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from moccasin_mzn.errors import InputError, shown

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Output:
    """What a layer makes of one sample, and what that takes."""

    shape: Shape
    flops: int = 0
    """Of the forward pass."""
    parameters: int = 0
    """Trained or not; those of weights shared with another layer count there."""
    untrained: int = 0
    """Those of `parameters` that no gradient changes: batch normalization's running means and variances."""


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
        """What it makes of inputs of these shapes.

        Raises:
            InputError: the inputs do not fit this layer.
        """
        return Output(inputs[0])

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
