"""Random directed acyclic graphs without any structure, for tests."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.generators.randomness import Array, RawRandom, check_edges, check_integer, check_nodes
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph

LARGEST = 999
"""Durations are uniform integers from 0 to this; sizes too, unless asked for otherwise."""


def random_dag(n: int, seed: int, *, edges: int | None = None, largest: int = LARGEST) -> ComputationGraph:
    """A graph of `n` nodes and `edges` edges, drawn uniformly from all pairs u < v; positions are the input order.

    Args:
        n: 1 or more.
        seed: 0 or more; the same seed gives the same graph on every platform.
        edges: at most n (n - 1) / 2; None: 2 n, or all pairs if these are fewer.
        largest: sizes and durations are uniform integers from 0 to this.

    Raises:
        InputError: parameters out of range.
    """
    check_nodes(n, 1)
    check_integer("seed", seed, 0)
    check_integer("largest", largest, 0)
    if largest * n > TOTAL_LIMIT:
        raise InputError(f"largest is {shown(largest)}: {n} nodes of that size are over the limit 2**53")
    pairs = n * (n - 1) // 2
    edges = min(2 * n, pairs) if edges is None else edges
    check_integer("edges", edges, 0)
    check_edges(edges)
    if edges > pairs:
        raise InputError(f"edges is {edges}, but {n} nodes have only {pairs} pairs")
    random = RawRandom(seed)
    sizes, durations = (random.integers(0, largest, n).tolist() for _ in range(2))
    tails, heads = _pairs(_distinct(pairs, edges, random))
    return ComputationGraph(
        nodes=tuple(range(n)),
        durations=tuple(durations),
        sizes=tuple(sizes),
        edges=tuple(zip(tails.tolist(), heads.tolist(), strict=True)),
        order=tuple(range(n)),
        name=f"random DAG, {n} nodes, {edges} edges, seed {seed}",
    )


def _distinct(most: int, count: int, random: RawRandom) -> Array:
    """`count` distinct numbers below `most`, ascending."""
    if 2 * count > most:
        return np.sort(np.argsort(random.keys(most), kind="stable")[:count])
    found = np.empty(0, np.int64)
    while len(found) < count:  # drawn one after the other, the first of equals stays: uniform over all sets
        drawn = np.concatenate([found, random.integers(0, most - 1, count - len(found))])
        found = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return np.sort(found)


def _pairs(numbers: Array) -> tuple[Array, Array]:
    """The pairs u < v by number, v (v - 1) / 2 + u."""
    heads = np.floor((1 + np.sqrt(1 + 8 * numbers.astype(float))) / 2).astype(np.int64)
    heads -= heads * (heads - 1) // 2 > numbers  # the root is rounded
    heads += heads * (heads + 1) // 2 <= numbers
    return numbers - heads * (heads - 1) // 2, heads
