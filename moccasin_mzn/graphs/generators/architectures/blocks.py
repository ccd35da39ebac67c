"""Building blocks that several networks share; of searched and randomly wired ones fused, or layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.network import INPUT, Network

Branch = tuple[Callable[[str, int], int] | None, int]
"""What adds a branch of a cell, given its name and the layer it reads, and that layer; None: it is the layer."""


def add_norm_relu(network: Network, name: str, at: int) -> int:
    """Add batch norm and ReLU."""
    return network.add(f"{name}_relu", nn.Activation(), network.add(f"{name}_bn", nn.BatchNorm(), at))


@dataclass(frozen=True)
class BlockBuilder:
    """Adds blocks of layers to a network."""

    network: Network
    fused: bool

    def separable(self, name: str, channels: int, kernel: int, stride: int, *inputs: int) -> int:
        """Add ReLU, separable convolution, batch norm; several inputs, which are summed, only if fused.

        Not fused, a stride takes a padding layer.
        """
        add = self.network.add
        if self.fused:
            return add(name, nn.ReluSeparableConvolution(channels, kernel, stride), *inputs)
        at = add(f"{name}_relu", nn.Activation(), *inputs)
        padding = "same"
        if stride > 1:
            at, padding = self.padding(f"{name}_pad", kernel, at), "valid"
        at = add(f"{name}_conv", nn.SeparableConvolution(channels, kernel, stride, padding), at)
        return add(f"{name}_bn", nn.BatchNorm(), at)

    def convolution(self, name: str, channels: int, stride: int, at: int) -> int:
        """Add ReLU, 1 x 1 convolution without a bias, batch norm."""
        if self.fused:
            return self.network.add(name, nn.ReluConvolution(channels, stride=stride), at)
        at = self.network.add(f"{name}_relu", nn.Activation(), at)
        at = self.network.add(f"{name}_conv", nn.Convolution(channels, kernel=1, stride=stride, bias=False), at)
        return self.network.add(f"{name}_bn", nn.BatchNorm(), at)

    def factorized_reduction(self, name: str, channels: int, at: int) -> int:
        """Halve the image by two 1 x 1 convolutions, of the pixels at even places and of those one further.

        Fused, taking every second pixel is the convolution's stride.
        """
        add = self.network.add
        at = add(f"{name}_relu", nn.Activation(), at)
        paths = []
        for path, path_channels in enumerate((channels // 2, channels - channels // 2), start=1):
            pixels = at
            if not self.fused and path == 2:
                height, width, _ = self.network.shape(pixels)
                pixels = add(f"{name}_pad", nn.ZeroPadding(0, 1, 0, 1), pixels)
                pixels = add(f"{name}_crop", nn.Crop(height, width), pixels)
            if not self.fused:
                pixels = add(f"{name}_pool{path}", nn.Pooling(window=1, stride=2), pixels)
            convolution = nn.Convolution(path_channels, kernel=1, stride=2 if self.fused else 1, bias=False)
            paths.append(add(f"{name}_conv{path}", convolution, pixels))
        at = add(f"{name}_concat", nn.Concatenate(), *paths)
        return add(f"{name}_bn", nn.BatchNorm(), at)

    def padding(self, name: str, window: int, at: int) -> int:
        """Add the zeros with which a window of stride 2 halves the image, rounded up, without padding of its own."""
        height, width, _ = self.network.shape(at)
        after = window // 2
        zeros = nn.ZeroPadding(after - (height + 1) % 2, after, after - (width + 1) % 2, after)
        return self.network.add(name, zeros, at)

    # --- of cells, which read the cell before, `source`, and the one before that, `before` -------------------------

    def stem(self, channels: int) -> int:
        """Begin a network: a convolution that halves the image."""
        stem = nn.Convolution(channels, kernel=3, stride=2, padding="valid", bias=False)
        return self.network.add("stem_bn", nn.BatchNorm(), self.network.add("stem_conv", stem, INPUT))

    def head(self, classes: int, at: int) -> None:
        """End a network: a classifier."""
        at = self.network.add("relu", nn.Activation(), at)
        at = self.network.add("avg_pool", nn.GlobalPooling(), at)
        self.network.add("predictions", nn.Dense(classes), at)

    def adjusted(self, name: str, filters: int, source: int, before: int) -> int:
        """`before` in the size of `source` and with that number of channels; unchanged if it is `source`."""
        shape = self.network.shape(before)
        if before != source and shape[:2] != self.network.shape(source)[:2]:
            return self.factorized_reduction(name, filters, before)
        if before != source and shape[2] != filters:
            return self.convolution(name, filters, 1, before)
        return before

    def twice(self, filters: int, kernel: int, stride: int) -> Callable[[str, int], int]:
        """A branch of two separable convolutions; the first one strides."""

        def add(name: str, at: int) -> int:
            at = self.separable(f"{name}_1", filters, kernel, stride, at)
            return self.separable(f"{name}_2", filters, kernel, 1, at)

        return add

    def sum(self, name: str, number: int, *branches: Branch) -> int:
        """Add the sum of two branches, left and right, the pair of this number in a cell."""
        ends = [
            at if add is None else add(f"{name}_{side}{number}", at)
            for side, (add, at) in zip(("left", "right"), branches, strict=True)
        ]
        return self.network.add(f"{name}_add{number}", nn.Add(), *ends)
