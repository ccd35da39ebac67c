"""The building blocks of searched and randomly wired networks, fused to one node or layer by layer."""

from __future__ import annotations

from moccasin_mzn.graphs.generators.layers import (
    Activation,
    BatchNorm,
    Concatenate,
    Convolution,
    Crop,
    Pooling,
    ReluConvolution,
    ReluSeparableConvolution,
    SeparableConvolution,
    ZeroPadding,
)
from moccasin_mzn.graphs.generators.network import Network


def add_relu_separable(
    network: Network, name: str, fused: bool, channels: int, kernel: int, stride: int, *inputs: int
) -> int:
    """Add ReLU, separable convolution, batch norm; several inputs, which are summed, only if fused.

    Not fused, a stride takes a padding layer.
    """
    if fused:
        return network.add(name, ReluSeparableConvolution(channels, kernel, stride), *inputs)
    at = network.add(f"{name}_relu", Activation(), *inputs)
    padding = "same"
    if stride > 1:
        at, padding = add_padding(network, f"{name}_pad", kernel, at), "valid"
    at = network.add(f"{name}_conv", SeparableConvolution(channels, kernel, stride, padding), at)
    return network.add(f"{name}_bn", BatchNorm(), at)


def add_relu_convolution(network: Network, name: str, fused: bool, channels: int, stride: int, at: int) -> int:
    """Add ReLU, 1 x 1 convolution without a bias, batch norm."""
    if fused:
        return network.add(name, ReluConvolution(channels, stride=stride), at)
    at = network.add(f"{name}_relu", Activation(), at)
    at = network.add(f"{name}_conv", Convolution(channels, kernel=1, stride=stride, bias=False), at)
    return network.add(f"{name}_bn", BatchNorm(), at)


def add_factorized_reduction(network: Network, name: str, fused: bool, channels: int, at: int) -> int:
    """Halve the image by two 1 x 1 convolutions, of the pixels at even places and of those one further, side by side.

    Fused, taking every second pixel is the convolution's stride.
    """
    at = network.add(f"{name}_relu", Activation(), at)
    paths = []
    for path, path_channels in enumerate((channels // 2, channels - channels // 2), start=1):
        pixels = at
        if not fused and path == 2:
            height, width, _ = network.shape(pixels)
            pixels = network.add(f"{name}_pad", ZeroPadding(0, 1, 0, 1), pixels)
            pixels = network.add(f"{name}_crop", Crop(height, width), pixels)
        if not fused:
            pixels = network.add(f"{name}_pool{path}", Pooling(window=1, stride=2), pixels)
        convolution = Convolution(path_channels, kernel=1, stride=2 if fused else 1, bias=False)
        paths.append(network.add(f"{name}_conv{path}", convolution, pixels))
    at = network.add(f"{name}_concat", Concatenate(), *paths)
    return network.add(f"{name}_bn", BatchNorm(), at)


def add_padding(network: Network, name: str, window: int, at: int) -> int:
    """Add the zeros with which a window of stride 2 halves the image, rounded up, without padding of its own."""
    height, width, _ = network.shape(at)
    after = window // 2
    return network.add(name, ZeroPadding(after - (height + 1) % 2, after, after - (width + 1) % 2, after), at)
