"""Tensors and operators of a model, as kernels of C are made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ai_edge_litert.schema_py_generated import ModelT, OperatorT
    from numpy import ndarray

SIZES = {"INT8": 1, "FLOAT32": 4}
"""Bytes of an element, by the types that activations may have."""


@dataclass(frozen=True)
class Tensor:
    """A tensor of a model."""

    number: int
    name: str
    shape: tuple[int, ...]
    kind: str
    """The tensor's type, such as "INT8"."""
    scales: tuple[float, ...]
    """One, one for each channel, or none."""
    zeros: tuple[int, ...]
    axis: int
    """The axis of the channels that `scales` are for."""
    values: ndarray | None
    """The values of a constant."""

    @cached_property
    def extents(self) -> tuple[int, int, int, int]:
        """Images, rows, columns and channels; axes before the last four are images."""
        shape = (1,) * (4 - len(self.shape)) + self.shape
        images = 1
        for extent in shape[:-3]:
            images *= extent
        return images, shape[-3], shape[-2], shape[-1]

    @property
    def scale(self) -> float:
        """The scale of a tensor that has one.

        Raises:
            ValueError: it has none, or several.
        """
        (scale,) = self.scales
        if not 0.0 < scale < float("inf"):
            raise ValueError(scale)
        return scale

    @property
    def zero(self) -> int:
        """The zero point; 0 if none is given."""
        return self.zeros[0] if self.zeros else 0


@dataclass(frozen=True)
class Given:
    """An operator."""

    model: ModelT
    operator: OperatorT
    name: str
    options: Any
    """As the schema has them."""
    read: tuple[Tensor, ...]
    """The inputs that are there, without optional ones that are not."""
    output: Tensor

    def numbers(self, at: int) -> list[int]:
        """The integers of an input that is a constant.

        Raises:
            ValueError: it is not one.
        """
        values = self.read[at].values
        if values is None or not self.read[at].kind.startswith("INT"):
            raise ValueError(f"input {at} is no constant of integers")
        return [int(value) for value in values.ravel()]
