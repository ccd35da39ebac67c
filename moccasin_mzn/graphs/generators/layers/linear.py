"""Matrix products: fully connected layers, embeddings and attention."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.layers.base import Layer, Shape, equal


@dataclass(frozen=True)
class Dense(Layer):
    """A fully connected layer on a flat input, its activation fused."""

    units: int
    bias: bool = True

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(`units`,)."""
        if len(inputs[0]) != 1:
            raise InputError(f"Dense: the input {inputs[0]} is not flat")
        return (self.units,)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Inputs times units."""
        return inputs[0][0] * self.units

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Inputs, and one if there is a bias, per unit."""
        return (inputs[0][0] + self.bias) * self.units


@dataclass(frozen=True)
class Linear(Layer):
    """One fully connected layer for every position; `shared`: its weights are those of another layer."""

    units: int
    bias: bool = True
    shared: bool = False

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(positions, `units`)."""
        return (_sequence(self, inputs[0])[0], self.units)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Input channels per output element."""
        return inputs[0][1] * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Input channels unless they are shared, and one if there is a bias, per unit."""
        return ((0 if self.shared else inputs[0][1]) + self.bias) * self.units


@dataclass(frozen=True)
class Embedding(Layer):
    """A learned row for each of a sequence of token numbers: a look-up, free in the cost model."""

    vocabulary: int
    channels: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(positions, `channels`)."""
        if len(inputs[0]) != 1:
            raise InputError(f"Embedding: the input {inputs[0]} is not a sequence of numbers")
        return (*inputs[0], self.channels)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """`vocabulary` times `channels`."""
        return self.vocabulary * self.channels


@dataclass(frozen=True)
class PositionEmbedding(Layer):
    """A learned row added at each position."""

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """2 per element, as an addition of two inputs."""
        return 2 * prod(output)

    def parameters(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Positions times channels."""
        return prod(output)


@dataclass(frozen=True)
class AttentionScores(Layer):
    """Queries times keys (positions, channels each), head by head; a causal mask is fused and saves nothing."""

    inputs_wanted: ClassVar[int | None] = 2

    heads: int

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(heads, positions, positions)."""
        positions, channels = _sequence(self, equal(self, inputs))
        if channels % self.heads:
            raise InputError(f"AttentionScores: {channels} channels do not divide into {self.heads} heads")
        return (self.heads, positions, positions)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Channels of a head per output element."""
        return inputs[0][1] // self.heads * prod(output)


@dataclass(frozen=True)
class AttentionContext(Layer):
    """Attention weights (heads, positions, positions) times values (positions, channels), heads side by side."""

    inputs_wanted: ClassVar[int | None] = 2

    def output_shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """(positions, channels)."""
        positions, channels = _sequence(self, inputs[1])
        heads = inputs[0][0]
        if inputs[0] != (heads, positions, positions) or channels % heads:
            raise InputError(f"AttentionContext: the inputs {shown(inputs)} do not fit each other")
        return (positions, channels)

    def flops(self, inputs: tuple[Shape, ...], output: Shape) -> int:
        """Positions per output element."""
        return output[0] * prod(output)


def _sequence(layer: Layer, shape: Shape) -> Shape:
    if len(shape) != 2:
        raise InputError(f"{type(layer).__name__}: the input {shape} is not (positions, channels)")
    return shape
