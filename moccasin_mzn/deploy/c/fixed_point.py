"""Real numbers as TensorFlow Lite's reference kernels have them: an integer of 31 bits and a power of two, or a double.

Kernels of int8 multiply sums of integers by real factors, such as the scale of the inputs over that of the output. The
runtime turns each factor into integers when a model is loaded; here that is done when C is written, in the same order
of operations and with the same rounding, so that results are the same bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

LEAST, MOST = -128, 127
"""The range of int8."""
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Factor:
    """The real number multiplier * 2**(shift - 31)."""

    multiplier: int
    shift: int

    @classmethod
    def of(cls, value: float) -> Factor:
        """The nearest factor of a double; what is below 2**-32 is 0."""
        if value == 0.0:
            return cls(0, 0)
        mantissa, shift = math.frexp(value)
        fixed = math.floor(mantissa * 2**31 + 0.5)
        if fixed == 2**31:
            fixed, shift = fixed // 2, shift + 1
        return cls(0, 0) if shift < -31 else cls(fixed, shift)

    def __str__(self) -> str:
        return f"{{{self.multiplier}, {self.shift}}}"

    def over(self, count: int) -> Factor:
        """The factor of a mean: this one over `count`, rounded down as the reference kernel of MEAN does."""
        shift = min(count.bit_length() - 1, 32, 31 + self.shift)
        return Factor((self.multiplier << shift) // count, self.shift - shift)


@dataclass(frozen=True)
class Double:
    """The real number multiplier / 2**down as a double has it, of 53 bits."""

    multiplier: int
    down: int

    @classmethod
    def of(cls, value: float) -> Double:
        """The factor that equals a double that is above 0."""
        mantissa, exponent = math.frexp(value)
        return cls(int(mantissa * 2**53), 53 - exponent)

    def __str__(self) -> str:
        return f"{{{self.multiplier >> 32}U, {self.multiplier & (2**32 - 1)}U, {self.down}}}"


def rounded(value: np.float32) -> int:
    """The nearest integer of a float, halves away from zero."""
    number = float(value)
    return math.floor(abs(number) + 0.5) * (1 if number >= 0 else -1)


def limits(activation: str, scale: float, zero: int) -> tuple[int, int]:
    """The least and the most value of an output with an activation that is part of the operator.

    Args:
        activation: as the schema names it, such as "RELU6".

    Raises:
        KeyError: another activation.
    """
    low, high = _ACTIVATIONS[activation]

    def at(value: float) -> int:
        return zero + rounded(np.float32(value) / np.float32(scale))

    return LEAST if low is None else max(LEAST, at(low)), MOST if high is None else min(MOST, at(high))


_ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None), "RELU": (0.0, None), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0),
}  # fmt: skip


# --- Softmax --------------------------------------------------------------------------------------------------


def exponentials(beta: float, scale: float) -> Iterator[int]:
    """exp(-distance * beta * scale) with 31 bits behind the point, for distances from 0, as far as they count.

    Distances become numbers of 5 bits before the point and 26 behind it.
    """
    real = min(beta * scale * 2**26, 2.0**31 - 1.0)
    factor = Factor.of(real)
    shift = max(0, factor.shift)
    most = min(255, math.floor(31 * 2.0**26 / 2.0**shift))
    for distance in range(most + 1):
        yield _exponential(_product(-distance << shift, factor.multiplier))


_HALVINGS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2**k) for k = -2 .. 4, with 31 bits behind the point."""


def _exponential(x: int) -> int:
    """exp of a number that is not above 0, with 26 bits behind the point."""
    if x == 0:
        return _LARGEST
    quarter = 1 << 24
    rest = (x & (quarter - 1)) - quarter
    found, remainder = _small_exponential(rest << 5), rest - x
    for at, factor in enumerate(_HALVINGS):
        if remainder & (quarter << at):
            found = _product(found, factor)
    return found


def _small_exponential(x: int) -> int:
    """exp of a number from -1/4 to 0: a polynomial around -1/8, of 31 bits behind the point."""
    middle, third = 1895147668, 715827883
    x += 1 << 28
    square = _product(x, x)
    cube, fourth = _product(square, x), _product(square, square)
    terms = _divided(_product(_divided(fourth, 2) + cube, third) + square, 1)
    return middle + _product(middle, x + terms)


def _product(a: int, b: int) -> int:
    """a * b / 2**31, rounded to the nearest, as the kernels' own."""
    product = a * b + (2**30 if a * b >= 0 else 1 - 2**30)
    return product // 2**31 if product >= 0 else -(-product // 2**31)


def _divided(x: int, exponent: int) -> int:
    """x / 2**exponent, rounded to the nearest, halves away from zero."""
    mask = (1 << exponent) - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))
