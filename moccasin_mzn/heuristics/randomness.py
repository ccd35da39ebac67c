"""Random numbers for compiled code; a generator is an array of one uint64 other than 0."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.heuristics.compiling import compiled


def generator_of(seed: int) -> np.ndarray:
    """A generator, another one for each seed."""
    return np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)


@compiled
def _random(generator):
    """The next 64 random bits (xorshift64*)."""
    x = generator[0]
    x ^= x >> np.uint64(12)
    x ^= x << np.uint64(25)
    x ^= x >> np.uint64(27)
    generator[0] = x
    return x * np.uint64(2685821657736338717)


@compiled
def below(generator, n):
    """A random integer in 0..n-1."""
    return np.int64((_random(generator) >> np.uint64(33)) % np.uint64(n))


@compiled
def unit(generator):
    """A random number in [0, 1)."""
    return np.float64(_random(generator) >> np.uint64(11)) / 9007199254740992.0
