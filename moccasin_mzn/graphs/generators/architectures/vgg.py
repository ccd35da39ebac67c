"""VGG (Simonyan and Zisserman, ICLR 2015), layer by layer as in Keras Applications: a chain."""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architecture import IMAGE, LABELS, Architecture
from moccasin_mzn.graphs.generators.network import INPUT, Network

VGG16_BLOCKS = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and channels of each block."""
VGG19_BLOCKS = ((2, 64), (2, 128), (4, 256), (4, 512), (4, 512))


def add_vgg_blocks(network: Network, blocks: tuple[tuple[int, int], ...]) -> list[int]:
    """Add the convolutional part; returns the pooling layer of each block."""
    at, pools = INPUT, []
    for block, (convolutions, channels) in enumerate(blocks, start=1):
        for number in range(1, convolutions + 1):
            at = network.add(f"block{block}_conv{number}", nn.Convolution(channels, kernel=3), at)
        at = network.add(f"block{block}_pool", nn.Pooling(), at)
        pools.append(at)
    return pools


def _vgg(name: str, blocks: tuple[tuple[int, int], ...], *shape: int, classes: int) -> Network:
    """22 layers for VGG16, 25 for VGG19. Sides of 32 or more."""
    network = Network(name, shape)
    at = network.add("flatten", nn.Flatten(), add_vgg_blocks(network, blocks)[-1])
    at = network.add("fc1", nn.Dense(4096), at)
    at = network.add("fc2", nn.Dense(4096), at)
    network.add("predictions", nn.Dense(classes), at)
    return network


_SOURCE = "Simonyan and Zisserman, ICLR 2015"
NETWORKS = (
    Architecture("vgg16", "VGG16", _SOURCE, IMAGE, LABELS, partial(_vgg, "VGG16", VGG16_BLOCKS)),
    Architecture("vgg19", "VGG19", _SOURCE, IMAGE, LABELS, partial(_vgg, "VGG19", VGG19_BLOCKS)),
)
