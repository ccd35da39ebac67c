"""Networks that label every pixel: FCN8, U-Net and SegNet."""

from __future__ import annotations

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architectures.blocks import add_norm_relu
from moccasin_mzn.graphs.generators.architectures.classification import VGG16_BLOCKS, add_vgg_blocks
from moccasin_mzn.graphs.generators.network import INPUT, Architecture, Network, Parameter, classes


def fcn8(height: int = 416, width: int = 608, channels: int = 3, classes: int = 19) -> Network:
    """FCN8 on VGG16 (Long et al., CVPR 2015): 36 layers, three scales added up. Sides must be multiples of 32."""
    _check_multiple("FCN8", 32, height, width)
    network = Network("FCN8", (height, width, channels))
    pools = add_vgg_blocks(network, VGG16_BLOCKS)
    at = network.add("fc6", nn.Convolution(4096, kernel=7), pools[4])
    at = network.add("drop6", nn.Dropout(), at)
    at = network.add("fc7", nn.Convolution(4096, kernel=1), at)
    at = network.add("drop7", nn.Dropout(), at)
    at = network.add("score5", nn.Convolution(classes, kernel=1), at)

    at = network.add("up5", nn.TransposedConvolution(classes, kernel=4, stride=2, bias=False), at)
    at = _crop(network, "crop5", at, pools[3])
    score = network.add("score4", nn.Convolution(classes, kernel=1), pools[3])
    at = network.add("add4", nn.Add(), at, score)

    at = network.add("up4", nn.TransposedConvolution(classes, kernel=4, stride=2, bias=False), at)
    # The two layers below are equally far from the output: the order of creation is that of the published graph.
    wide = network.add("crop4_width", nn.Crop(network.shape(at)[0], network.shape(pools[2])[1]), at)
    score = network.add("score3", nn.Convolution(classes, kernel=1), pools[2])
    at = network.add("crop4_height", nn.Crop(*network.shape(pools[2])[:2]), wide)
    at = network.add("add3", nn.Add(), score, at)

    at = network.add("up3", nn.TransposedConvolution(classes, kernel=16, stride=8, bias=False), at)
    _add_pixel_softmax(network, at)
    return network


def unet(
    height: int = 256, width: int = 256, channels: int = 3, classes: int = 2, depth: int = 4, base_channels: int = 64
) -> Network:
    """U-Net (Ronneberger et al., MICCAI 2015) with "same" padding: 7 depth + 3 layers. Sides: multiples of 2**depth.

    Each level's output is read again by the concatenation on the way up, and is kept all the way down and back.
    """
    _check_multiple("U-Net", 2**depth, height, width)
    network = Network("U-Net", (height, width, channels))
    at, skips = INPUT, []
    for level in range(depth):
        at = _two_convolutions(network, f"down{level}", base_channels * 2**level, at)
        skips.append(at)
        at = network.add(f"down{level}_pool", nn.Pooling(), at)
    at = _two_convolutions(network, "bottom", base_channels * 2**depth, at)
    for level in reversed(range(depth)):
        up_channels = base_channels * 2**level
        at = network.add(f"up{level}_upsample", nn.TransposedConvolution(up_channels, kernel=2, stride=2), at)
        at = network.add(f"up{level}_concat", nn.Concatenate(), skips[level], at)
        at = _two_convolutions(network, f"up{level}", up_channels, at)
    network.add("scores", nn.Convolution(classes, kernel=1), at)
    return network


def segnet(height: int = 416, width: int = 608, channels: int = 3, classes: int = 19) -> Network:
    """SegNet (Badrinarayanan et al., TPAMI 2017): 88 layers, VGG16's convolutions and their mirror image.

    Every convolution but the last has a batch normalization and an activation of its own. Unpooling puts values back
    to the positions of the maxima, hence reads the pooling of its level. Sides must be multiples of 32.
    """
    _check_multiple("SegNet", 32, height, width)
    network = Network("SegNet", (height, width, channels))
    at, pools = INPUT, []
    for block, (convolutions, block_channels) in enumerate(VGG16_BLOCKS, start=1):
        for number in range(1, convolutions + 1):
            at = _normalized_convolution(network, f"encoder{block}_{number}", block_channels, at)
        at = network.add(f"encoder{block}_pool", nn.Pooling(), at)
        pools.append(at)
    for block in reversed(range(1, len(VGG16_BLOCKS) + 1)):
        convolutions, block_channels = VGG16_BLOCKS[block - 1]
        at = network.add(f"decoder{block}_unpool", nn.Unpooling(), at, pools[block - 1])
        for number in reversed(range(2, convolutions + 1)):
            at = _normalized_convolution(network, f"decoder{block}_{number}", block_channels, at)
        if block > 1:
            at = _normalized_convolution(network, f"decoder{block}_1", VGG16_BLOCKS[block - 2][1], at)
    at = network.add("decoder1_1_conv", nn.Convolution(classes, kernel=3), at)
    _add_pixel_softmax(network, at)
    return network


def _add_pixel_softmax(network: Network, at: int) -> None:
    """Add the end: the classes' probabilities, pixels in one row."""
    height, width, classes = network.shape(at)
    at = network.add("pixels", nn.Reshape((height * width, classes)), at)
    network.add("softmax", nn.Activation(softmax=True), at)


def _two_convolutions(network: Network, name: str, channels: int, at: int) -> int:
    at = network.add(f"{name}_conv1", nn.Convolution(channels, kernel=3), at)
    return network.add(f"{name}_conv2", nn.Convolution(channels, kernel=3), at)


def _normalized_convolution(network: Network, name: str, channels: int, at: int) -> int:
    return add_norm_relu(network, name, network.add(f"{name}_conv", nn.Convolution(channels, kernel=3), at))


def _crop(network: Network, name: str, at: int, like: int) -> int:
    """Crop first the width, then the height of layer `at` to those of layer `like`."""
    height, width, _ = network.shape(like)
    at = network.add(f"{name}_width", nn.Crop(network.shape(at)[0], width), at)
    return network.add(f"{name}_height", nn.Crop(height, width), at)


def _check_multiple(name: str, unit: int, height: int, width: int) -> None:
    for what, value in (("height", height), ("width", width)):
        if value < unit or value % unit:
            raise InputError(f"{name}: {what} is {value}, expected a multiple of {unit}")


_STREET = (416, 608, 3)
_UNET = (
    classes(2),
    Parameter("depth", 4, "times the image is halved", most=16),
    Parameter("base_channels", 64, "channels of the top level; every level down doubles them"),
)
NETWORKS = (
    Architecture("fcn8", "FCN8 on VGG16", "Long et al., CVPR 2015", _STREET, (classes(19),), fcn8),
    Architecture("unet", "U-Net", "Ronneberger et al., MICCAI 2015", (256, 256, 3), _UNET, unet),
    Architecture("segnet", "SegNet", "Badrinarayanan et al., TPAMI 2017", _STREET, (classes(19),), segnet),
)
