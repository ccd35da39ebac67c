"""MobileNet (Howard et al., 2017), layer by layer as in Keras Applications: a chain."""

from __future__ import annotations

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architecture import IMAGE, LABELS, Architecture
from moccasin_mzn.graphs.generators.architectures.blocks import add_norm_relu
from moccasin_mzn.graphs.generators.network import INPUT, Network

_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *5 * ((512, 1),), (1024, 2), (1024, 1))
"""Output channels and stride of each depthwise separable block."""


def mobilenet(height: int = 224, width: int = 224, channels: int = 3, classes: int = 1000) -> Network:
    """MobileNet of width multiplier 1: 92 layers. Sides of 32 or more."""
    network = Network("MobileNet", (height, width, channels))
    at = network.add("conv1_pad", nn.ZeroPadding(0, 1, 0, 1), INPUT)
    at = network.add("conv1", nn.Convolution(32, kernel=3, stride=2, padding="valid", bias=False), at)
    at = add_norm_relu(network, "conv1", at)
    for number, (block_channels, stride) in enumerate(_BLOCKS, start=1):
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
    network.add("act_softmax", nn.Activation(), at)
    return network


NETWORKS = (Architecture("mobilenet", "MobileNet", "Howard et al., 2017", IMAGE, LABELS, mobilenet),)
