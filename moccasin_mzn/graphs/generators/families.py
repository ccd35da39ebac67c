"""Graphs of no network: random directed acyclic graphs, U-shaped graphs and chains.

Random numbers are the same on every platform and in every version of numpy.
"""

from __future__ import annotations

import numpy as np

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.generators.network import training_graph
from moccasin_mzn.graphs.graph import TOTAL_LIMIT, ComputationGraph

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


def check_nodes(n: int, least: int) -> None:
    """Raise an `InputError` unless `n` is a number of nodes from `least` to `NODE_LIMIT`."""
    check_integer("n", n, least)
    if n > NODE_LIMIT:
        raise InputError(f"n is {shown(n)}, over the limit of {NODE_LIMIT}")


def check_edges(count: int) -> None:
    """Raise an `InputError` if that number of edges, expected or wanted, are over `EDGE_LIMIT`."""
    if count > EDGE_LIMIT:
        raise InputError(f"{shown(count)} edges are over the limit of {EDGE_LIMIT}")


def check_integer(what: str, value: object, least: int) -> None:
    """Raise an `InputError` unless `value` is an integer of `least` or more."""
    if type(value) is not int or value < least:
        raise InputError(f"{what} is {shown(value)}, expected an integer of {least} or more")


def check_number(what: str, value: float, least: float, most: float) -> None:
    """Raise an `InputError` unless `value` is a number from `least` to `most`."""
    if type(value) not in (int, float) or not least <= value <= most:
        raise InputError(f"{what} is {shown(value)}, expected a number from {least} to {most}")


# --- Random directed acyclic graphs without any structure, for tests ------------------------------------------


LARGEST_DAG = 999
"""Durations are uniform integers from 0 to this; sizes too, unless asked for otherwise."""


def random_dag(n: int, seed: int, *, edges: int | None = None, largest: int = LARGEST_DAG) -> ComputationGraph:
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


# --- U-shaped graphs: a chain whose first half is read again by the second, as in a U-Net.  -------------------

#     0 --> 1 --> 2 --> 3 --> 4 --> 5 --> 6 --> 7        n = 8
#     |     |     `-----------------^     ^     ^
#     |     `-----------------------------'     |        skip v -> n - 1 - v, of length n - 1 - 2 v
#     `-----------------------------------------'
#
# Memory piles up on the way to the middle and is let go on the way back; long skips are the ones to drop.


LARGEST_U = 999
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
        shrink: sizes go down from the ends to the middle by this factor in total, as those of a network that halves its
            images; 1 leaves them equal. A size is never below 1.

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
    durations = random.integers(1, LARGEST_U, n)
    depths = np.minimum(np.arange(n), np.arange(n)[::-1]) / max(1, (n - 1) // 2)  # 0 at the ends, 1 in the middle
    sizes = np.maximum(1, np.floor(random.integers(1, LARGEST_U, n) * (1 - (1 - shrink) * depths))).astype(np.int64)
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


# --- Chains: the least graph that memory can run out on, forward only or with a backward pass -----------------


LARGEST_CHAIN = 999
"""Sizes and durations are uniform integers from 1 to this."""


def chain(n: int, seed: int, *, training: bool = True, unit: bool = False) -> ComputationGraph:
    """A chain of `n` layers, each reading the one before.

    Args:
        n: layers, 1 or more.
        seed: of sizes and durations, 0 or more.
        training: add a loss and the gradients by Checkmate's construction: 2 n + 1 nodes. A forward chain alone has
            the peak of its largest step: no budget below that is feasible.
        unit: every size and duration is 1 (but those of the loss and of gradients).

    Raises:
        InputError: parameters out of range.
    """
    check_nodes(n, 1)
    check_integer("seed", seed, 0)
    random = RawRandom(seed)
    sizes, durations = ([1] * n if unit else random.integers(1, LARGEST_CHAIN, n).tolist() for _ in range(2))
    forward = ComputationGraph(
        nodes=tuple(range(n)),
        durations=tuple(durations),
        sizes=tuple(sizes),
        edges=tuple((v, v + 1) for v in range(n - 1)),
        order=tuple(range(n)),
        name=f"chain, {n} layers, {'training' if training else 'inference'}" + ("" if unit else f", seed {seed}"),
    )
    return training_graph(forward, 1) if training else forward
