"""Random numbers that are the same on every platform and in every version of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from moccasin_mzn.errors import InputError, shown

Array = np.ndarray

NODE_LIMIT = 5_000_000
EDGE_LIMIT = 20_000_000
"""Larger graphs are not made: they would take tens of GiB."""


class RawRandom:
    """Uniform and normal numbers from a seed.

    Only the raw bits of PCG64 are used, which numpy promises for a seed; the methods of its `Generator` may change.
    """

    def __init__(self, seed: int) -> None:
        """`seed` is an integer of 0 or more."""
        self._bits = np.random.PCG64(seed)

    def keys(self, count: int) -> Array:
        """Uniform 64-bit integers."""
        return self._bits.random_raw(count)

    def fractions(self, count: int) -> Array:
        """Uniform multiples of 2**-53 in [0, 1)."""
        return (self.keys(count) >> np.uint64(11)) * 2.0**-53

    def integers(self, least: int | Array, most: int | Array, count: int) -> Array:
        """Uniform integers, `least` and `most` included."""
        return (least + np.floor(self.fractions(count) * (most - least + 1))).astype(np.int64)

    def normals(self, count: int) -> Array:
        """Standard normal numbers by Marsaglia's polar method."""
        x, y = 2 * self.fractions(count) - 1, 2 * self.fractions(count) - 1
        square = x * x + y * y
        inside = (square > 0) & (square < 1)
        found = x[inside] * np.sqrt(-2 * logarithm(square[inside]) / square[inside])
        return found if len(found) == count else np.concatenate([found, self.normals(count - len(found))])


def logarithm(values: Array) -> Array:
    """Natural logarithms of positive numbers, to some 2**-52, by operations that IEEE 754 defines to the last bit.

    `numpy.log` may differ in the last bit between processors. With values = m 2**e and s = (m - 1) / (m + 1),
    log m = 2 (s + s**3 / 3 + s**5 / 5 + ...); |s| is at most 0.172, so 12 terms do.
    """
    mantissas, exponents = np.frexp(values)
    low = mantissas < np.sqrt(0.5)
    mantissas, exponents = np.where(low, 2 * mantissas, mantissas), exponents - low
    s = (mantissas - 1) / (mantissas + 1)
    square, total = s * s, np.zeros_like(s)
    for odd in range(23, 0, -2):
        total = total * square + 1 / odd
    return 2 * s * total + exponents * 0.6931471805599453


def check_nodes(n: Any, least: int) -> None:
    """Raise an `InputError` unless `n` is a number of nodes from `least` to `NODE_LIMIT`."""
    check_integer("n", n, least)
    if n > NODE_LIMIT:
        raise InputError(f"n is {shown(n)}, over the limit of {NODE_LIMIT}")


def check_edges(count: int) -> None:
    """Raise an `InputError` if so many edges, expected or wanted, are over `EDGE_LIMIT`."""
    if count > EDGE_LIMIT:
        raise InputError(f"{shown(count)} edges are over the limit of {EDGE_LIMIT}")


def check_integer(what: str, value: Any, least: int) -> None:
    """Raise an `InputError` unless `value` is an integer of `least` or more."""
    if type(value) is not int or value < least:
        raise InputError(f"{what} is {shown(value)}, expected an integer of {least} or more")


def check_number(what: str, value: Any, least: float, most: float) -> None:
    """Raise an `InputError` unless `value` is a number from `least` to `most`."""
    if type(value) not in (int, float) or not least <= value <= most:
        raise InputError(f"{what} is {shown(value)}, expected a number from {least} to {most}")
