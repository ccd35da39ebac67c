"""How the time to the best schedule grows with the number of nodes: a power law, fitted as a line in log-log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEAST_SIZES = 3
"""A line through fewer different sizes says nothing."""
FLOOR = 0.01
"""Shorter times count as this many seconds: they are not measured."""


@dataclass(frozen=True)
class PowerLaw:
    """seconds = factor * nodes ** exponent, by least squares of logarithms."""

    exponent: float
    factor: float

    def at(self, nodes: np.ndarray) -> np.ndarray:
        """Seconds for each number of nodes."""
        return self.factor * np.asarray(nodes, dtype=float) ** self.exponent


def fit(nodes: Sequence[float], seconds: Sequence[float]) -> PowerLaw | None:
    """The power law through points; None if they have fewer than `LEAST_SIZES` different numbers of nodes."""
    sizes, times = np.asarray(nodes, dtype=float), np.maximum(np.asarray(seconds, dtype=float), FLOOR)
    if len(np.unique(sizes)) < LEAST_SIZES:
        return None
    exponent, offset = np.polyfit(np.log10(sizes), np.log10(times), 1)
    return PowerLaw(float(exponent), float(10**offset))
