r"""Random layered graphs: the kind of graph the paper calls RL (Gagrani et al., NeurIPS 2022, Appendix A).

A source, layers of random widths, a target. Edges between neighbouring layers are spread evenly, others skip layers::

    layer       0     1     2     3     4
                .---- 2 --- 4 --- 6 ----.
    source      0 --- 3 --- 5 --- 7 --- 1      target
                       \_________/
                          a skip

The laws were inferred from the published graphs: shapes, edges between neighbouring layers and the rounding of sizes
are theirs exactly, the weights of sizes and the way to an input order fit best.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import ceil, floor, sqrt

import numpy as np

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.generators.families import (
    Array,
    RawRandom,
    check_edges,
    check_integer,
    check_nodes,
    check_number,
)
from moccasin_mzn.graphs.graph import ComputationGraph

SIZE_MEANS = (0.5, 1.0, 3.0, 5.0)
SIZE_DEVIATIONS = (0.5, 1.0, 1.0, 1.0)
SIZE_CUMULATIVE_WEIGHTS = (0.3, 0.6, 0.9)
"""The mixture of Gaussians that sizes come from, in thousands; the fourth has the rest of the weight."""
LARGEST_DURATION = 999
LEAST_WIDTH = 1e-9
"""Below it every layer has one node, whatever `n` is."""
SKIP_REACH = 0.2
"""A skip ends at most this fraction of its layer further to the right than it begins."""

_RIGHTMOST = 0.999


@dataclass(frozen=True)
class _Laws:
    """Parameters of the graphs, checked; see `random_layered`."""

    n: int
    seed: int
    width: float
    width_spread: float
    density: float
    skips: float

    def __post_init__(self) -> None:
        check_nodes(self.n, 2)
        check_integer("seed", self.seed, 0)
        for what in ("width", "width_spread", "density", "skips"):
            check_number(what, getattr(self, what), 0, 1)
        if self.skips == 1:
            raise InputError(f"skips is {self.skips}, expected a number between 0 and 1")
        if not LEAST_WIDTH <= self.width < 1:
            raise InputError(f"width is {self.width}, expected a number from {LEAST_WIDTH} to below 1")


def random_layered(
    n: int, seed: int, *, width: float = 0.31, width_spread: float = 0.75, density: float = 0.2, skips: float = 0.14
) -> ComputationGraph:
    """A random layered graph of `n` nodes with an input order; in memory and time proportional to its edges.

    Args:
        n: 2 or more. Id 0 is the source, 1 the target, the others follow layer by layer.
        seed: the same seed gives the same graph on every platform.
        width: w in 0 < w < 1: layers have about sqrt(n w / (1 - w)) nodes. Published: 0.27, 0.43, 0.36 and 0.31 for
            n = 100, 250, 500 and 1,000.
        width_spread: nlv: widths are uniform within this fraction of their mean.
        density: ed: the fraction of all pairs of neighbouring layers that are edges; what it lacks to 1 is made up for
            by one edge for each node of the larger layer.
        skips: scd, below 1: the fraction of all edges that skip layers, but for those drawn twice.

    There are about 1.16 n (1 + density * nodes of a layer) edges: at the default width 6,000, 170,000 and 5 million
    for n = 1,000, 10,000 and 100,000. See `width_of_layers` for large graphs with fewer.

    Raises:
        InputError: parameters out of range.
    """
    laws = _Laws(n, seed, width, width_spread, density, skips)
    check_edges(round(n * (1 + density * sqrt(n * width / (1 - width))) / (1 - skips)))
    random = RawRandom(seed)
    layers = _layers(laws, random)
    near = [_between(above, below, laws.density, random) for above, below in zip(layers, layers[1:], strict=False)]
    tails, heads = np.concatenate([*near, _skips(layers, sum(len(pairs[0]) for pairs in near), laws, random)], axis=1)
    edges = np.unique(tails * n + heads)
    tails, heads = edges // n, edges % n
    number = list(range(n))  # one object for each number, however many edges name it
    durations = random.integers(1, LARGEST_DURATION, n).tolist()
    return ComputationGraph(
        nodes=tuple(number),
        durations=(0, 0, *durations[2:]),
        sizes=tuple(_sizes(n, random).tolist()),
        edges=tuple(zip(map(number.__getitem__, tails.tolist()), map(number.__getitem__, heads.tolist()), strict=True)),
        order=_random_order(tails, heads, random.keys(n)),
        name=f"random layered, {n} nodes, width {width}, seed {seed}",
        attributes={"width": width, "width_spread": width_spread, "density": density, "skips": skips, "seed": seed},
    )


def width_of_layers(n: int, nodes: float) -> float:
    """The parameter `width` that gives layers of `nodes` nodes in the mean, whatever `n` is; edges then grow like n.

    The largest published graph has layers of 21.2 nodes, and 5.9 edges a node.

    Raises:
        InputError: `n` is out of range, `nodes` is not positive or not below it.
    """
    check_nodes(n, 2)
    if not 0 < nodes < n:
        raise InputError(f"nodes of a layer are {shown(nodes)}, expected a number over 0 and below the {n} nodes")
    return nodes * nodes / (n + nodes * nodes)


def _layers(laws: _Laws, random: RawRandom) -> list[Array]:
    """The nodes of each layer, source and target included."""
    wanted = ceil(sqrt(laws.n * (1 / laws.width - 1)))
    mean = laws.n / wanted
    least = max(1, ceil(mean * (1 - laws.width_spread)))
    most = max(least, floor(mean * (1 + laws.width_spread)))
    layers, first = [np.array([0])], 2
    while first < laws.n:
        end = min(laws.n, first + int(random.integers(least, most, 1)[0]))
        layers.append(np.arange(first, end))
        first = end
    return [*layers, np.array([1])]


def _between(above: Array, below: Array, density: float, random: RawRandom) -> Array:
    """Edges from one layer to the next, as an array of tails and one of heads.

    Each node of the larger layer (the later of equals) gets equally many edges, random ones one more, to contiguous
    nodes of the smaller layer around its own place.
    """
    large, small = (below, above) if len(below) >= len(above) else (above, below)
    s, t = len(large), len(small)
    count = round(s * t * density + (1 - density) * s)
    degrees = np.full(s, count // s)
    degrees[np.argsort(random.keys(s), kind="stable")[: count % s]] += 1
    middles = np.rint(np.arange(s) * (t - 1) / max(1, s - 1)).astype(np.int64)
    starts = np.clip(middles - (degrees - 1) // 2, 0, t - degrees)
    along = np.arange(count) - np.repeat(np.cumsum(degrees) - degrees, degrees)  # 0, 1, ... for each node
    ends = np.repeat(large, degrees), small[np.repeat(starts, degrees) + along]
    return np.stack(ends[::-1] if large is below else ends)


def _skips(layers: list[Array], near: int, laws: _Laws, random: RawRandom) -> Array:
    """Edges that skip at least one layer, some perhaps twice; never from the source or to the target.

    Args:
        near: number of edges between neighbouring layers.
    """
    inner = len(layers) - 2
    count = round(near * laws.skips / (1 - laws.skips)) if inner >= 3 else 0
    widths = np.array([len(layer) for layer in layers])
    firsts = np.array([layer[0] for layer in layers])
    source = random.integers(1, inner - 2, count)
    target = random.integers(source + 2, inner, count)
    left = random.fractions(count)
    right = np.minimum(left + SKIP_REACH * random.fractions(count), _RIGHTMOST)
    tails = firsts[source] + np.floor(left * widths[source]).astype(np.int64)
    return np.stack([tails, firsts[target] + np.floor(right * widths[target]).astype(np.int64)])


def _sizes(n: int, random: RawRandom) -> Array:
    """Sizes of outputs: a mixture of Gaussians, the Gaussian of each drawn again until positive, in thousands.

    The product of hundredths with 1000 is cut, not rounded, as in the published graphs: 4.06 gives 4059.
    """
    kinds = np.searchsorted(SIZE_CUMULATIVE_WEIGHTS, random.fractions(n), side="right")
    means, deviations = np.array(SIZE_MEANS)[kinds], np.array(SIZE_DEVIATIONS)[kinds]
    hundredths = np.rint(100 * (means + deviations * random.normals(n)))
    while (refused := np.flatnonzero(hundredths <= 0)).size:
        hundredths[refused] = np.rint(100 * (means[refused] + deviations[refused] * random.normals(len(refused))))
    return np.floor(1000 * (hundredths / 100)).astype(np.int64)


def _random_order(tails: Array, heads: Array, keys: Array) -> tuple[int, ...]:
    """A topological order: of the nodes that are ready always the one with the smallest key; edges sorted by tail."""
    by_rank = np.argsort(keys, kind="stable")
    rank = np.empty(len(keys), np.int64)
    rank[by_rank] = np.arange(len(keys))
    first = np.searchsorted(tails, np.arange(len(keys) + 1)).tolist()
    readers = heads.tolist()
    waiting = np.bincount(heads, minlength=len(keys)).tolist()
    node_of, rank_of = by_rank.tolist(), rank.tolist()
    ready = [rank_of[v] for v, count in enumerate(waiting) if count == 0]
    heapq.heapify(ready)
    order = []
    while ready:
        v = node_of[heapq.heappop(ready)]
        order.append(v)
        for head in readers[first[v] : first[v + 1]]:
            waiting[head] -= 1
            if waiting[head] == 0:
                heapq.heappush(ready, rank_of[head])
    return tuple(order)
