"""NASNet-A (Zoph et al., CVPR 2018), the cells of Keras Applications; not fused, layer by layer as there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from moccasin_mzn.graphs.generators.architecture import IMAGE, SEARCHED, Architecture
from moccasin_mzn.graphs.generators.architectures.separable import (
    add_factorized_reduction,
    add_padding,
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


def _nasnet(
    name: str, *shape: int, blocks: int, filters: int, stem: int, skip_reduction: bool, classes: int, fused: int
) -> Network:
    """Two reductions as stem, then three stages of `blocks` normal cells with a reduction in between.

    Args:
        filters: channels inside the cells of the first stage; every reduction doubles them.
        stem: channels of the first convolution.
        skip_reduction: the cell after a reduction reads, besides it, not its input but the cell before that.
    """
    network = Network(name, shape)
    cells = _Cells(network, fused > 0)
    at = network.add("stem_conv", Convolution(stem, kernel=3, stride=2, padding="valid", bias=False), INPUT)
    at = network.add("stem_bn", BatchNorm(), at)
    at, before = cells.reduction("stem1", filters // 4, at, None), at
    at, before = cells.reduction("stem2", filters // 2, at, before), at
    for stage in range(3):
        if stage > 0:
            reduced = cells.reduction(f"reduction{stage}", filters * 2**stage, at, before)
            at, before = reduced, before if skip_reduction else at
        for block in range(blocks):
            at, before = cells.normal(f"cell{stage}_{block}", filters * 2**stage, at, before), at
    at = network.add("relu", Activation(), at)
    at = network.add("avg_pool", GlobalPooling(), at)
    network.add("predictions", Dense(classes), at)
    return network


@dataclass(frozen=True)
class _Cells:
    """Adds cells to a network; each reads the cell before, `source`, and the one before that, `before`."""

    network: Network
    fused: bool

    def normal(self, name: str, filters: int, source: int, before: int) -> int:
        """A cell that keeps the size and puts out 6 `filters` channels; returns its output."""
        add = self.network.add
        p = self._adjust(f"{name}_adjust", filters, source, before)
        h = add_relu_convolution(self.network, f"{name}_begin", self.fused, filters, 1, source)
        left = self._separable(f"{name}_left1", filters, 5, 1, h)
        right = self._separable(f"{name}_right1", filters, 3, 1, p)
        x1 = add(f"{name}_add1", Add(), left, right)
        left = self._separable(f"{name}_left2", filters, 5, 1, p)
        right = self._separable(f"{name}_right2", filters, 3, 1, p)
        x2 = add(f"{name}_add2", Add(), left, right)
        left = add(f"{name}_left3", Pooling(3, 1, "same"), h)
        x3 = add(f"{name}_add3", Add(), left, p)
        left = add(f"{name}_left4", Pooling(3, 1, "same"), p)
        right = add(f"{name}_right4", Pooling(3, 1, "same"), p)
        x4 = add(f"{name}_add4", Add(), left, right)
        left = self._separable(f"{name}_left5", filters, 3, 1, h)
        x5 = add(f"{name}_add5", Add(), left, h)
        return add(f"{name}_concat", Concatenate(), p, x1, x2, x3, x4, x5)

    def reduction(self, name: str, filters: int, source: int, before: int | None) -> int:
        """A cell that halves the size and puts out 4 `filters` channels; returns its output."""
        add = self.network.add
        p = source if before is None else self._adjust(f"{name}_adjust", filters, source, before)
        h = add_relu_convolution(self.network, f"{name}_begin", self.fused, filters, 1, source)
        padded = h if self.fused else add_padding(self.network, f"{name}_pad", 3, h)
        halving = Pooling(3, 2, "same" if self.fused else "valid")
        left = self._separable(f"{name}_left1", filters, 5, 2, h)
        right = self._separable(f"{name}_right1", filters, 7, 2, p)
        x1 = add(f"{name}_add1", Add(), left, right)
        left = add(f"{name}_left2", halving, padded)
        right = self._separable(f"{name}_right2", filters, 7, 2, p)
        x2 = add(f"{name}_add2", Add(), left, right)
        left = add(f"{name}_left3", halving, padded)
        right = self._separable(f"{name}_right3", filters, 5, 2, p)
        x3 = add(f"{name}_add3", Add(), left, right)
        left = add(f"{name}_left4", Pooling(3, 1, "same"), x1)
        x4 = add(f"{name}_add4", Add(), x2, left)
        left = self._separable(f"{name}_left5", filters, 3, 1, x1)
        right = add(f"{name}_right5", halving, padded)
        x5 = add(f"{name}_add5", Add(), left, right)
        return add(f"{name}_concat", Concatenate(), x2, x3, x4, x5)

    def _separable(self, name: str, filters: int, kernel: int, stride: int, at: int) -> int:
        """Two separable convolutions; the first one strides."""
        at = add_relu_separable(self.network, f"{name}_1", self.fused, filters, kernel, stride, at)
        return add_relu_separable(self.network, f"{name}_2", self.fused, filters, kernel, 1, at)

    def _adjust(self, name: str, filters: int, source: int, before: int) -> int:
        """`before` in the size of `source` and with so many channels."""
        shape = self.network.shape(before)
        if shape[:2] != self.network.shape(source)[:2]:
            return add_factorized_reduction(self.network, name, self.fused, filters, before)
        if shape[2] != filters:
            return add_relu_convolution(self.network, name, self.fused, filters, 1, before)
        return before


_SOURCE = "Zoph et al., CVPR 2018"
_MOBILE = partial(_nasnet, "NASNet-A mobile", blocks=4, filters=44, stem=32, skip_reduction=False)
"""360 layers fused, 770 otherwise. Sides of 3 or more."""
_LARGE = partial(_nasnet, "NASNet-A large", blocks=6, filters=168, stem=96, skip_reduction=True)
"""486 layers fused, 1040 otherwise. Sides of 3 or more."""
NETWORKS = (
    Architecture("nasnet-mobile", "NASNet-A (4 @ 1056)", _SOURCE, IMAGE, SEARCHED, _MOBILE),
    Architecture("nasnet-large", "NASNet-A (6 @ 4032)", _SOURCE, (331, 331, 3), SEARCHED, _LARGE),
)
