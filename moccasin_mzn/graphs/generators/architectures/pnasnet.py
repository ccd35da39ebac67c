"""PNASNet-5 (Liu et al., ECCV 2018), the cells of its authors' code; without their auxiliary classifier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from moccasin_mzn.graphs.generators.architecture import IMAGE, SEARCHED, Architecture
from moccasin_mzn.graphs.generators.architectures.separable import (
    add_factorized_reduction,
    add_relu_convolution,
    add_relu_separable,
)
from moccasin_mzn.graphs.generators.layers import (
    Activation,
    Add,
    BatchNorm,
    Concatenate,
    Convolution,
    Dense,
    GlobalPooling,
    Pooling,
)
from moccasin_mzn.graphs.generators.network import INPUT, Network


def _pnasnet(name: str, *shape: int, cells_wanted: int, filters: int, stem: int, classes: int, fused: int) -> Network:
    """Two halving cells as stem, then `cells_wanted` cells; the first of the second and the third part halve.

    Args:
        filters: channels inside the cells of the first part; every part doubles them.
        stem: channels of the first convolution.
    """
    network = Network(name, shape)
    cells = _Cells(network, fused > 0)
    at = network.add("stem_conv", Convolution(stem, kernel=3, stride=2, padding="valid", bias=False), INPUT)
    at = network.add("stem_bn", BatchNorm(), at)
    at, before = cells.cell("stem1", filters // 4, 2, at, at), at
    at, before = cells.cell("stem2", filters // 2, 2, at, before), at
    for number in range(cells_wanted):
        part, first = divmod(number * 3, cells_wanted)
        part_filters, stride = filters * 2**part, 2 if number and first == 0 else 1
        at, before = cells.cell(f"cell{number}", part_filters, stride, at, before), at
    at = network.add("relu", Activation(), at)
    at = network.add("avg_pool", GlobalPooling(), at)
    network.add("predictions", Dense(classes), at)
    return network


@dataclass(frozen=True)
class _Cells:
    """Adds cells to a network."""

    network: Network
    fused: bool

    def cell(self, name: str, filters: int, stride: int, source: int, before: int) -> int:
        """Add a cell of 5 `filters` channels that reads the cell before and the one before that; returns its output."""
        add = self.network.add
        left = self._adjust(f"{name}_adjust", filters, source, before)
        right = add_relu_convolution(self.network, f"{name}_begin", self.fused, filters, 1, source)
        a = self._separable(f"{name}_left0", filters, 5, stride, left)
        b = self._pool(f"{name}_right0", filters, stride, left)
        x0 = add(f"{name}_add0", Add(), a, b)
        a = self._separable(f"{name}_left1", filters, 7, stride, right)
        b = self._pool(f"{name}_right1", filters, stride, right)
        x1 = add(f"{name}_add1", Add(), a, b)
        a = self._separable(f"{name}_left2", filters, 5, stride, right)
        b = self._separable(f"{name}_right2", filters, 3, stride, right)
        x2 = add(f"{name}_add2", Add(), a, b)
        a = self._separable(f"{name}_left3", filters, 3, 1, x2)
        b = self._pool(f"{name}_right3", filters, stride, right)
        x3 = add(f"{name}_add3", Add(), a, b)
        a = self._separable(f"{name}_left4", filters, 3, stride, left)
        b = right
        if stride > 1:
            b = add_relu_convolution(self.network, f"{name}_right4", self.fused, filters, stride, right)
        x4 = add(f"{name}_add4", Add(), a, b)
        return add(f"{name}_concat", Concatenate(), x0, x1, x2, x3, x4)

    def _separable(self, name: str, filters: int, kernel: int, stride: int, at: int) -> int:
        """Two separable convolutions; the first one strides."""
        at = add_relu_separable(self.network, f"{name}_1", self.fused, filters, kernel, stride, at)
        return add_relu_separable(self.network, f"{name}_2", self.fused, filters, kernel, 1, at)

    def _pool(self, name: str, filters: int, stride: int, at: int) -> int:
        """Maxima of 3 x 3; a convolution changes the number of channels where it must."""
        at = self.network.add(name, Pooling(3, stride, "same"), at)
        if self.network.shape(at)[2] == filters:
            return at
        at = self.network.add(f"{name}_conv", Convolution(filters, kernel=1, bias=False), at)
        return self.network.add(f"{name}_bn", BatchNorm(), at)

    def _adjust(self, name: str, filters: int, source: int, before: int) -> int:
        """`before` in the size of `source` and with so many channels; unchanged if it is `source`."""
        shape = self.network.shape(before)
        if before == source:
            return before
        if shape[:2] != self.network.shape(source)[:2]:
            return add_factorized_reduction(self.network, name, self.fused, filters, before)
        if shape[2] != filters:
            return add_relu_convolution(self.network, name, self.fused, filters, 1, before)
        return before


_SOURCE = "Liu et al., ECCV 2018"
_MOBILE = partial(_pnasnet, "PNASNet-5 mobile", cells_wanted=9, filters=54, stem=32)
"""279 layers fused, 621 otherwise. Sides of 3 or more."""
_LARGE = partial(_pnasnet, "PNASNet-5 large", cells_wanted=12, filters=216, stem=96)
"""348 layers fused, 774 otherwise. Sides of 3 or more."""
NETWORKS = (
    Architecture("pnasnet5-mobile", "PNASNet-5 mobile", _SOURCE, IMAGE, SEARCHED, _MOBILE),
    Architecture("pnasnet5-large", "PNASNet-5 large", _SOURCE, (331, 331, 3), SEARCHED, _LARGE),
)
