"""DenseNet (Huang et al., CVPR 2017), layer by layer as in Keras Applications.

In a dense block each convolution reads all that the block has put out so far: concatenations grow, nearly a chain.
"""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architecture import IMAGE, LABELS, Architecture
from moccasin_mzn.graphs.generators.architectures.blocks import add_norm_relu
from moccasin_mzn.graphs.generators.network import INPUT, Network


def _densenet(name: str, blocks: tuple[int, ...], growth: int, *shape: int, classes: int) -> Network:
    """A stem, dense blocks of so many convolution pairs with transitions in between, and a classifier."""
    network = Network(name, shape)
    at = network.add("conv1_pad", nn.ZeroPadding(3, 3, 3, 3), INPUT)
    at = network.add("conv1_conv", nn.Convolution(2 * growth, kernel=7, stride=2, padding="valid", bias=False), at)
    at = add_norm_relu(network, "conv1", at)
    at = network.add("pool1_pad", nn.ZeroPadding(1, 1, 1, 1), at)
    at = network.add("pool1", nn.Pooling(window=3, stride=2), at)
    for stage, count in enumerate(blocks, start=2):
        for number in range(1, count + 1):
            at = _add_pair(network, f"conv{stage}_block{number}", growth, at)
        if stage < len(blocks) + 1:
            at = add_norm_relu(network, f"pool{stage}", at)
            at = network.add(f"pool{stage}_conv", nn.Convolution(network.shape(at)[2] // 2, kernel=1, bias=False), at)
            at = network.add(f"pool{stage}_pool", nn.Pooling(), at)
    at = add_norm_relu(network, "final", at)
    at = network.add("avg_pool", nn.GlobalPooling(), at)
    network.add("predictions", nn.Dense(classes), at)
    return network


def _add_pair(network: Network, name: str, growth: int, source: int) -> int:
    """Add a narrow and a 3 x 3 convolution that read `source`, and join their `growth` channels to it."""
    at = add_norm_relu(network, f"{name}_0", source)
    at = network.add(f"{name}_1_conv", nn.Convolution(4 * growth, kernel=1, bias=False), at)
    at = add_norm_relu(network, f"{name}_1", at)
    at = network.add(f"{name}_2_conv", nn.Convolution(growth, kernel=3, bias=False), at)
    return network.add(f"{name}_concat", nn.Concatenate(), source, at)


_SIZES = {
    121: ((6, 12, 24, 16), 32),
    161: ((6, 12, 36, 24), 48),
    169: ((6, 12, 32, 32), 32),
    201: ((6, 12, 48, 32), 32),
}
"""Pairs of convolutions in each block, and the growth: 428, 568, 596 and 708 layers. Sides of 32 or more."""
NETWORKS = tuple(
    Architecture(
        f"densenet{size}", f"DenseNet{size}", "Huang et al., CVPR 2017", IMAGE, LABELS,
        partial(_densenet, f"DenseNet{size}", blocks, growth),
    )
    for size, (blocks, growth) in _SIZES.items()
)  # fmt: skip
