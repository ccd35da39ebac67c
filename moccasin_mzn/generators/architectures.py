"""Published networks, layer by layer. Each function returns the network without a batch."""

from __future__ import annotations

from moccasin_mzn.errors import InputError
from moccasin_mzn.generators.layers import (
    Activation,
    Add,
    Concatenate,
    Convolution,
    Crop,
    Dense,
    Dropout,
    Flatten,
    Pooling,
    Reshape,
    TransposedConvolution,
)
from moccasin_mzn.generators.network import INPUT, Network

_VGG16_BLOCKS = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))
"""Convolutions and channels of each block."""


def vgg16(height: int = 224, width: int = 224, classes: int = 1000) -> Network:
    """VGG16 (Simonyan and Zisserman, 2015): 22 layers, a chain."""
    network = Network("VGG16", (height, width, 3))
    at = network.add("flatten", Flatten(), _vgg16_blocks(network)[-1])
    at = network.add("fc1", Dense(4096), at)
    at = network.add("fc2", Dense(4096), at)
    network.add("predictions", Dense(classes), at)
    return network


def fcn8(height: int = 416, width: int = 608, classes: int = 19) -> Network:
    """FCN8 on VGG16 (Long et al., 2015): 36 layers, three scales added up. Sides must be multiples of 32."""
    _check_multiple("FCN8", 32, height, width)
    network = Network("FCN8", (height, width, 3))
    pools = _vgg16_blocks(network)
    at = network.add("fc6", Convolution(4096, kernel=7), pools[4])
    at = network.add("drop6", Dropout(), at)
    at = network.add("fc7", Convolution(4096, kernel=1), at)
    at = network.add("drop7", Dropout(), at)
    at = network.add("score5", Convolution(classes, kernel=1), at)

    at = network.add("up5", TransposedConvolution(classes, kernel=4, stride=2), at)
    at = _crop(network, "crop5", at, pools[3])
    score = network.add("score4", Convolution(classes, kernel=1), pools[3])
    at = network.add("add4", Add(), at, score)

    at = network.add("up4", TransposedConvolution(classes, kernel=4, stride=2), at)
    # The two layers below are equally far from the output: the order of creation is that of the published graph.
    wide = network.add("crop4_width", Crop(network.shape(at)[0], network.shape(pools[2])[1]), at)
    score = network.add("score3", Convolution(classes, kernel=1), pools[2])
    at = network.add("crop4_height", Crop(*network.shape(pools[2])[:2]), wide)
    at = network.add("add3", Add(), score, at)

    at = network.add("up3", TransposedConvolution(classes, kernel=16, stride=8), at)
    out_height, out_width, _ = network.shape(at)
    at = network.add("pixels", Reshape((out_height * out_width, classes)), at)
    network.add("softmax", Activation(), at)
    return network


def unet(height: int = 256, width: int = 256, depth: int = 4, base_channels: int = 64, classes: int = 2) -> Network:
    """U-Net (Ronneberger et al., 2015) with "same" padding: 7 depth + 3 layers.

    Args:
        height, width: of the image, of 3 channels; multiples of 2**depth.
        depth: times the image is halved.
        base_channels: of the top level; every level down doubles them.

    Each level's output is read again by the concatenation on the way up, and is kept all the way down and back.
    """
    _check_multiple("U-Net", 2**depth, height, width)
    network = Network("U-Net", (height, width, 3))
    at, skips = INPUT, []
    for level in range(depth):
        at = _two_convolutions(network, f"down{level}", base_channels * 2**level, at)
        skips.append(at)
        at = network.add(f"down{level}_pool", Pooling(), at)
    at = _two_convolutions(network, "bottom", base_channels * 2**depth, at)
    for level in reversed(range(depth)):
        channels = base_channels * 2**level
        at = network.add(f"up{level}_upsample", TransposedConvolution(channels, kernel=2, stride=2), at)
        at = network.add(f"up{level}_concat", Concatenate(), skips[level], at)
        at = _two_convolutions(network, f"up{level}", channels, at)
    network.add("scores", Convolution(classes, kernel=1), at)
    return network


def _vgg16_blocks(network: Network) -> list[int]:
    """Add the convolutional part of VGG16; returns the pooling layer of each block."""
    at, pools = INPUT, []
    for block, (convolutions, channels) in enumerate(_VGG16_BLOCKS, start=1):
        for number in range(1, convolutions + 1):
            at = network.add(f"block{block}_conv{number}", Convolution(channels, kernel=3), at)
        at = network.add(f"block{block}_pool", Pooling(), at)
        pools.append(at)
    return pools


def _two_convolutions(network: Network, name: str, channels: int, at: int) -> int:
    at = network.add(f"{name}_conv1", Convolution(channels, kernel=3), at)
    return network.add(f"{name}_conv2", Convolution(channels, kernel=3), at)


def _crop(network: Network, name: str, at: int, like: int) -> int:
    """Crop first the width, then the height of layer `at` to those of layer `like`."""
    height, width, _ = network.shape(like)
    at = network.add(f"{name}_width", Crop(network.shape(at)[0], width), at)
    return network.add(f"{name}_height", Crop(height, width), at)


def _check_multiple(name: str, unit: int, height: int, width: int) -> None:
    for what, value in (("height", height), ("width", width)):
        if value < unit or value % unit:
            raise InputError(f"{name}: {what} is {value}, expected a multiple of {unit}")
