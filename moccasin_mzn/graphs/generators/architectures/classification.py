"""Networks that classify images, by hand: VGG, ResNet, MobileNet, DenseNet; layer by layer as in Keras Applications."""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architectures.blocks import add_norm_relu
from moccasin_mzn.graphs.generators.network import IMAGE, INPUT, LABELS, Architecture, Network

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
_VGG = (
    Architecture("vgg16", "VGG16", _SOURCE, IMAGE, LABELS, partial(_vgg, "VGG16", VGG16_BLOCKS)),
    Architecture("vgg19", "VGG19", _SOURCE, IMAGE, LABELS, partial(_vgg, "VGG19", VGG19_BLOCKS)),
)


# --- ResNet (He et al., CVPR 2016), layer by layer as in Keras Applications: the first convolution of a block
# strides


def _resnet(name: str, blocks: tuple[int, ...], *shape: int, classes: int) -> Network:
    """A stem, stages with these numbers of `blocks`, and a classifier."""
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
            at = _add_resnet_block(network, prefix, 64 * 2**stage, stride, block == 0, at)
    at = network.add("avg_pool", nn.GlobalPooling(), at)
    network.add("probs", nn.Dense(classes), at)
    return network


def _add_resnet_block(network: Network, prefix: str, channels: int, stride: int, project: bool, source: int) -> int:
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


_RESNET_BLOCKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of each stage: 176, 346 and 516 layers."""
_RESNETS = tuple(
    Architecture(
        f"resnet{size}", f"ResNet{size}", "He et al., CVPR 2016", IMAGE, LABELS,
        partial(_resnet, f"ResNet{size}", blocks),
    )
    for size, blocks in _RESNET_BLOCKS.items()
)  # fmt: skip


# --- MobileNet (Howard et al., 2017), layer by layer as in Keras Applications: a chain ------------------------


_MOBILENET_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *5 * ((512, 1),), (1024, 2), (1024, 1))
"""Output channels and stride of each depthwise separable block."""


def mobilenet(height: int = 224, width: int = 224, channels: int = 3, classes: int = 1000) -> Network:
    """MobileNet of width multiplier 1: 92 layers. Sides of 32 or more."""
    network = Network("MobileNet", (height, width, channels))
    at = network.add("conv1_pad", nn.ZeroPadding(0, 1, 0, 1), INPUT)
    at = network.add("conv1", nn.Convolution(32, kernel=3, stride=2, padding="valid", bias=False), at)
    at = add_norm_relu(network, "conv1", at)
    for number, (block_channels, stride) in enumerate(_MOBILENET_BLOCKS, start=1):
        if stride == 2:
            at = network.add(f"conv_pad_{number}", nn.ZeroPadding(0, 1, 0, 1), at)
        depthwise = nn.DepthwiseConvolution(kernel=3, stride=stride, padding="same" if stride == 1 else "valid")
        at = add_norm_relu(network, f"conv_dw_{number}", network.add(f"conv_dw_{number}", depthwise, at))
        at = network.add(f"conv_pw_{number}", nn.Convolution(block_channels, kernel=1, bias=False), at)
        at = add_norm_relu(network, f"conv_pw_{number}", at)
    at = network.add("global_average_pooling2d", nn.GlobalPooling(), at)
    at = network.add("reshape_1", nn.Reshape((1, 1, 1024)), at)
    at = network.add("dropout", nn.Dropout(), at)
    at = network.add("conv_preds", nn.Convolution(classes, kernel=1), at)
    at = network.add("reshape_2", nn.Reshape((classes,)), at)
    network.add("act_softmax", nn.Activation(softmax=True), at)
    return network


_MOBILENET = (Architecture("mobilenet", "MobileNet", "Howard et al., 2017", IMAGE, LABELS, mobilenet),)


# --- DenseNet (Huang et al., CVPR 2017), layer by layer as in Keras Applications ------------------------------

# In a dense block each convolution reads all that the block has put out so far: concatenations grow, nearly a chain.


def _densenet(name: str, blocks: tuple[int, ...], growth: int, *shape: int, classes: int) -> Network:
    """A stem, dense blocks with these numbers of convolution pairs with transitions in between, and a classifier."""
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


_DENSENET_SIZES = {
    121: ((6, 12, 24, 16), 32),
    161: ((6, 12, 36, 24), 48),
    169: ((6, 12, 32, 32), 32),
    201: ((6, 12, 48, 32), 32),
}
"""Pairs of convolutions in each block, and the growth: 428, 568, 596 and 708 layers. Sides of 32 or more."""
_DENSENETS = tuple(
    Architecture(
        f"densenet{size}", f"DenseNet{size}", "Huang et al., CVPR 2017", IMAGE, LABELS,
        partial(_densenet, f"DenseNet{size}", blocks, growth),
    )
    for size, (blocks, growth) in _DENSENET_SIZES.items()
)  # fmt: skip

NETWORKS = (*_VGG, *_RESNETS, *_MOBILENET, *_DENSENETS)
