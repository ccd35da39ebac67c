"""Random int8 networks with scales of every kind: what is drawn at random has no ties, and fixed point has many.

A sum times the quotient of its scales lies halfway between two integers if scales are powers of two, round, or small
fractions of each other; there the ways of rounding differ that kernels have.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log2, log10, prod, sqrt

import numpy as np
from int8_networks import Builder

KINDS = ("random", "powers", "round", "fractions", "equal", "far")
"""Kinds of scales: any; powers of two; 1, 2, 2.5 or 5 times a power of ten; an odd number times a power of two; one for all;
up to 30,000 times larger or smaller than what fits."""
_ODD = (1, 3, 5, 7, 9, 11, 13, 15, 21, 49)


class Scales:
    """Draws scales of a kind."""

    def __init__(self, random: np.random.Generator, kind: str) -> None:
        self.random, self.kind = random, kind
        self.same = float(np.float32(random.choice([0.5, 0.25, 0.1, 0.05, 0.0157, 1 / 3, float(random.uniform(0.01, 1))])))

    def any(self) -> float:
        """A scale of activations."""
        return self.near(float(self.random.uniform(0.004, 0.5)))

    def near(self, value: float) -> float:
        """A scale that is of the order of a value, but for those that are to be equal or far."""
        random, power = self.random, 2.0 ** round(log2(value))
        if self.kind == "powers":
            return power
        if self.kind == "round":
            return float(np.float32(random.choice([1, 2, 2.5, 5]) * 10.0 ** round(log10(value) - 0.4)))
        if self.kind == "fractions":
            return float(random.choice(_ODD)) * 2.0 ** round(log2(value) - random.integers(5))
        if self.kind == "equal":
            return self.same
        return value * float(10.0 ** random.uniform(-4.5, 4.5) if self.kind == "far" else random.uniform(0.4, 2))

    def weights(self, count: int) -> list[float]:
        """Scales of weights, for each channel one, of which some are equal."""
        middle = float(self.random.uniform(0.001, 0.02))
        found = [self.near(middle) for _ in range(count)]
        return [found[int(self.random.integers(count))] for _ in found] if self.random.integers(2) else found


def scales_of(random: np.random.Generator) -> Scales:
    """Scales of a kind that is drawn."""
    return Scales(random, KINDS[int(random.integers(len(KINDS)))])


def spread(random: np.random.Generator) -> tuple[int, float]:
    """The largest weight, and the standard deviation of weights up to that."""
    most = int(random.choice([1, 3, 20, 127, 127]))
    return most, sqrt(most * (most + 1) / 3)
