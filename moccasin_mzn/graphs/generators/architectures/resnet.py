"""ResNet (He et al., CVPR 2016), layer by layer as in Keras Applications: the first convolution of a block strides."""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architecture import IMAGE, LABELS, Architecture
from moccasin_mzn.graphs.generators.architectures.blocks import add_norm_relu
from moccasin_mzn.graphs.generators.network import INPUT, Network


def _resnet(name: str, blocks: tuple[int, ...], *shape: int, classes: int) -> Network:
    """A stem, stages of so many `blocks`, and a classifier."""
    network = Network(name, shape)
    at = network.add("conv1_pad", nn.ZeroPadding(3, 3, 3, 3), INPUT)
    at = network.add("conv1_conv", nn.Convolution(64, kernel=7, stride=2, padding="valid"), at)
    at = add_norm_relu(network, "conv1", at)
    at = network.add("pool1_pad", nn.ZeroPadding(1, 1, 1, 1), at)
    at = network.add("pool1_pool", nn.Pooling(window=3, stride=2), at)
    for stage, count in enumerate(blocks):
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            prefix = f"conv{stage + 2}_block{block + 1}"
            at = _add_block(network, prefix, 64 * 2**stage, stride, block == 0, at)
    at = network.add("avg_pool", nn.GlobalPooling(), at)
    network.add("probs", nn.Dense(classes), at)
    return network


def _add_block(network: Network, prefix: str, channels: int, stride: int, project: bool, source: int) -> int:
    """Add a bottleneck of three convolutions; the shortcut is a convolution if `project`, else the input itself."""
    shortcut = source
    if project:
        shortcut = network.add(f"{prefix}_0_conv", nn.Convolution(4 * channels, kernel=1, stride=stride), source)
        shortcut = network.add(f"{prefix}_0_bn", nn.BatchNorm(), shortcut)
    at = network.add(f"{prefix}_1_conv", nn.Convolution(channels, kernel=1, stride=stride), source)
    at = add_norm_relu(network, f"{prefix}_1", at)
    at = network.add(f"{prefix}_2_conv", nn.Convolution(channels, kernel=3), at)
    at = add_norm_relu(network, f"{prefix}_2", at)
    at = network.add(f"{prefix}_3_conv", nn.Convolution(4 * channels, kernel=1), at)
    at = network.add(f"{prefix}_3_bn", nn.BatchNorm(), at)
    at = network.add(f"{prefix}_add", nn.Add(), shortcut, at)
    return network.add(f"{prefix}_out", nn.Activation(), at)


_BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of each stage: 176, 346 and 516 layers."""
NETWORKS = tuple(
    Architecture(
        f"resnet{size}", f"ResNet{size}", "He et al., CVPR 2016", IMAGE, LABELS,
        partial(_resnet, f"ResNet{size}", blocks),
    )
    for size, blocks in _BLOCKS.items()
)  # fmt: skip
