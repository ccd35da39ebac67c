"""U-shaped graphs: a chain whose first half is read again by the second, as in a U-Net. ::

    0 --> 1 --> 2 --> 3 --> 4 --> 5 --> 6 --> 7        n = 8
    |     |     `-----------------^     ^     ^
    |     `-----------------------------'     |        skip v -> n - 1 - v, of length n - 1 - 2 v
    `-----------------------------------------'

Memory piles up on the way to the middle and is let go on the way back; long skips are the ones to drop.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.errors import InputError
from moccasin_mzn.graphs.generators.randomness import RawRandom, check_integer, check_nodes, check_number
from moccasin_mzn.graphs.graph import ComputationGraph

LARGEST = 999
"""Durations are uniform integers from 1 to this, and so are sizes at the two ends."""


def u_shaped(
    n: int, seed: int, *, shortest: int = 2, longest: int | None = None, density: float = 1.0, shrink: float = 1.0
) -> ComputationGraph:
    """A U-shaped graph of `n` nodes with ids 0..n-1, which are its only topological order.

    Args:
        n: 2 or more.
        seed: of sizes, durations and of the skips chosen, 0 or more.
        shortest, longest: lengths of skips, n - 1 - 2 v for the skip from v; 2 or more; no longest means n - 1.
        density: fraction of the skips of these lengths that are there.
        shrink: sizes go down from the ends to the middle by this factor in all, as those of a network that halves its
            images; 1 leaves them alike. A size is never below 1.

    Raises:
        InputError: parameters out of range.
    """
    check_nodes(n, 2)
    check_integer("seed", seed, 0)
    check_integer("shortest", shortest, 2)
    longest = max(shortest, n - 1) if longest is None else longest
    if type(longest) is not int or longest < shortest:
        raise InputError(f"longest is {longest}, expected an integer not below shortest, {shortest}")
    check_number("density", density, 0, 1)
    check_number("shrink", shrink, 0, 1)
    random = RawRandom(seed)
    durations = random.integers(1, LARGEST, n)
    depths = np.minimum(np.arange(n), np.arange(n)[::-1]) / max(1, (n - 1) // 2)  # 0 at the ends, 1 in the middle
    sizes = np.maximum(1, np.floor(random.integers(1, LARGEST, n) * (1 - (1 - shrink) * depths))).astype(np.int64)
    chosen = random.fractions(n) < density
    skips = [(v, n - 1 - v) for v in range(n // 2) if chosen[v] and shortest <= n - 1 - 2 * v <= longest]
    return ComputationGraph(
        nodes=tuple(range(n)),
        durations=tuple(durations.tolist()),
        sizes=tuple(sizes.tolist()),
        edges=tuple(sorted({*((v, v + 1) for v in range(n - 1)), *skips})),
        order=tuple(range(n)),
        name=f"U-shaped, {n} nodes, seed {seed}",
    )
