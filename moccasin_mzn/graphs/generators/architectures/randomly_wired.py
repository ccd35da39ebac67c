"""Randomly wired networks (Xie et al., ICCV 2019): the kind of graph the paper calls RW."""

from __future__ import annotations

from random import Random

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architectures.blocks import BlockBuilder
from moccasin_mzn.graphs.generators.layers import Shape
from moccasin_mzn.graphs.generators.network import IMAGE, INPUT, LABELS, Architecture, Network, Parameter

_HEAD_CHANNELS = 1280


def randomly_wired(
    seed: int,
    cells: int = 4,
    cell_nodes: int = 32,
    neighbours: int = 4,
    rewiring: float = 0.75,
    channels: int = 78,
    input_shape: Shape = (224, 224, 3),
    classes: int = 1000,
    fused: bool = True,
    sums_fused: bool = True,
) -> Network:
    """A stem, `cells` Watts-Strogatz cells, and a classifier.

    Args:
        seed: the same seed gives the same network on every platform.
        cell_nodes, neighbours, rewiring: see `watts_strogatz_edges`.
        channels: of the first cell; every cell doubles them, and halves the image.
        input_shape: height, width and channels of the input.
        fused: ReLU, separable convolution and batch norm of a cell's node are one layer.
        sums_fused: if these are, so is the sum of the node's inputs before them.

    In a cell an edge goes from the smaller to the larger number. Nodes without an input in the cell read the cell
    before, with stride 2; the outputs nothing in the cell reads are summed to the cell's output.
    """
    random = Random(seed)
    network = Network(f"randomly wired, seed {seed}", input_shape)
    at = network.add("stem", nn.Convolution(max(1, channels // 2), kernel=3, stride=2), INPUT)
    for cell in range(cells):
        inputs: list[list[int]] = [[] for _ in range(cell_nodes)]
        for u, v in watts_strogatz_edges(random, cell_nodes, neighbours, rewiring):
            inputs[v].append(u)
        at = _add_cell(network, f"cell{cell}", inputs, channels * 2**cell, (fused, sums_fused), at)
    at = network.add("head", nn.Convolution(_HEAD_CHANNELS, kernel=1), at)
    at = network.add("pool", nn.GlobalPooling(), at)
    network.add("classifier", nn.Dense(classes), at)
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


def _add_cell(
    network: Network, name: str, inputs: list[list[int]], channels: int, fused: tuple[bool, bool], source: int
) -> int:
    """Add one cell that reads layer `source`; returns the layer that is the cell's output.

    Args:
        inputs: for each node of the cell the nodes it reads.
        fused: see `fused` and `sums_fused` of `randomly_wired`.
    """
    blocks = BlockBuilder(network, fused[0])
    layers: list[int] = []
    for v, nodes in enumerate(inputs):
        read = [layers[u] for u in nodes] or [source]
        if len(read) > 1 and not all(fused):
            read = [network.add(f"{name}_node{v}_sum", nn.Add(), *read)]
        stride = 1 if nodes else 2
        layers.append(blocks.separable(f"{name}_node{v}", channels, 3, stride, *read))
    inner = {u for nodes in inputs for u in nodes}
    return network.add(f"{name}_output", nn.Add(), *(layer for u, layer in enumerate(layers) if u not in inner))


def _randwire(height: int, width: int, channels: int, *, base_channels: int, fused: int, **others: int) -> Network:
    shape = (height, width, channels)
    return randomly_wired(channels=base_channels, input_shape=shape, fused=fused > 0, sums_fused=fused > 1, **others)


_PARAMETERS = (
    *LABELS,
    Parameter("seed", 0, "seed of the wiring", least=0, most=2**63 - 1),
    Parameter("cells", 4, "Watts-Strogatz cells; each halves the image and doubles the channels", most=16),
    Parameter("cell_nodes", 32, "nodes of a cell", most=512),
    Parameter("neighbours", 4, "neighbours of a node before rewiring, an even number", least=2, most=510),
    Parameter("base_channels", 78, "channels of the first cell"),
    Parameter("fused", 2, "2: sum, ReLU, convolution and batch norm are one node; 1: all but the sum; 0: none", 0, 2),
)
NETWORKS = (Architecture("randwire", "RandWire", "Xie et al., ICCV 2019", IMAGE, _PARAMETERS, _randwire),)
