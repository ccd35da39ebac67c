"""Randomly wired networks (Xie et al., ICCV 2019): the kind of graph the paper calls RW."""

from __future__ import annotations

from random import Random

from moccasin_mzn.errors import InputError
from moccasin_mzn.generators.layers import Add, Convolution, Dense, GlobalPooling, ReluSeparableConvolution
from moccasin_mzn.generators.network import INPUT, Network

_HEAD_CHANNELS = 1280


def randomly_wired(
    seed: int,
    cells: int = 4,
    cell_nodes: int = 32,
    neighbours: int = 4,
    rewiring: float = 0.75,
    channels: int = 78,
    image: int = 224,
    classes: int = 1000,
) -> Network:
    """A stem, `cells` Watts-Strogatz cells, and a classifier.

    Args:
        seed: the same seed gives the same network on every platform.
        cell_nodes, neighbours, rewiring: see `watts_strogatz_edges`.
        channels: of the first cell; every cell doubles them, and halves the image.
        image: height and width of the input, of 3 channels.

    In a cell an edge goes from the smaller to the larger number. Nodes without an input in the cell read the cell
    before, with stride 2; the outputs nothing in the cell reads are summed to the cell's output.
    """
    random = Random(seed)
    network = Network(f"randomly wired, seed {seed}", (image, image, 3))
    at = network.add("stem", Convolution(max(1, channels // 2), kernel=3, stride=2), INPUT)
    for cell in range(cells):
        edges = watts_strogatz_edges(random, cell_nodes, neighbours, rewiring)
        at = _add_cell(network, f"cell{cell}", edges, cell_nodes, channels * 2**cell, at)
    at = network.add("head", Convolution(_HEAD_CHANNELS, kernel=1), at)
    at = network.add("pool", GlobalPooling(), at)
    network.add("classifier", Dense(classes), at)
    return network


def watts_strogatz_edges(random: Random, n: int, neighbours: int, rewiring: float) -> list[tuple[int, int]]:
    """The edges (smaller, larger), sorted, of a small-world graph (Watts and Strogatz, 1998).

    Args:
        random: only its `random()` is used, whose values Python guarantees for a seed; `choice` and the like may
            change between versions.
        neighbours: even, below `n`: every node of a ring starts with this many nearest neighbours.
        rewiring: probability, 0 to 1, that an edge's far end moves to a random node.

    Raises:
        InputError: parameters out of range.
    """
    if neighbours < 2 or neighbours % 2 or neighbours >= n:
        raise InputError(f"neighbours is {neighbours}, expected an even number from 2 and below the {n} nodes")
    if not 0 <= rewiring <= 1:
        raise InputError(f"rewiring is {rewiring}, expected a probability")
    adjacent: list[set[int]] = [set() for _ in range(n)]
    for v in range(n):
        for step in range(1, neighbours // 2 + 1):
            adjacent[v].add((v + step) % n)
            adjacent[(v + step) % n].add(v)
    for step in range(1, neighbours // 2 + 1):
        for v in range(n):
            far = (v + step) % n
            if random.random() < rewiring:
                free = [u for u in range(n) if u != v and u not in adjacent[v]]
                if free and far in adjacent[v]:
                    new = free[int(random.random() * len(free))]
                    adjacent[v].remove(far)
                    adjacent[far].remove(v)
                    adjacent[v].add(new)
                    adjacent[new].add(v)
    return [(u, v) for u in range(n) for v in sorted(adjacent[u]) if u < v]


def _add_cell(network: Network, name: str, edges: list[tuple[int, int]], n: int, channels: int, source: int) -> int:
    """Add one cell that reads layer `source`; returns the layer that is the cell's output."""
    layers: list[int] = []
    for v in range(n):
        inputs = [layers[u] for u, head in edges if head == v]
        layer = ReluSeparableConvolution(channels, stride=1 if inputs else 2)
        layers.append(network.add(f"{name}_node{v}", layer, *(inputs or [source])))
    read = {u for u, _ in edges}
    return network.add(f"{name}_output", Add(), *(layers[v] for v in range(n) if v not in read))
