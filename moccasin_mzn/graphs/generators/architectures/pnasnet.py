"""PNASNet-5 (Liu et al., ECCV 2018), the cells of its authors' code; without their auxiliary classifier."""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architecture import IMAGE, SEARCHED, Architecture
from moccasin_mzn.graphs.generators.architectures.blocks import Blocks
from moccasin_mzn.graphs.generators.network import Network


def _pnasnet(name: str, *shape: int, cells_wanted: int, filters: int, stem: int, classes: int, fused: int) -> Network:
    """Two halving cells as stem, then `cells_wanted` cells; the first of the second and the third part halve.

    Args:
        filters: channels inside the cells of the first part; every part doubles them.
        stem: channels of the first convolution.
    """
    blocks = Blocks(Network(name, shape), fused > 0)
    at = blocks.stem(stem)
    at, before = _add_cell(blocks, "stem1", filters // 4, 2, at, at), at
    at, before = _add_cell(blocks, "stem2", filters // 2, 2, at, before), at
    for number in range(cells_wanted):
        part, first = divmod(number * 3, cells_wanted)
        part_filters, stride = filters * 2**part, 2 if number and first == 0 else 1
        at, before = _add_cell(blocks, f"cell{number}", part_filters, stride, at, before), at
    blocks.head(classes, at)
    return blocks.network


def _add_cell(blocks: Blocks, name: str, filters: int, stride: int, source: int, before: int) -> int:
    """Add a cell of 5 `filters` channels that reads the cell before and the one before that; returns its output."""
    network, twice = blocks.network, partial(blocks.twice, filters)

    def pool(name: str, at: int) -> int:
        """Maxima of 3 x 3; a convolution changes the number of channels where it must."""
        at = network.add(name, nn.Pooling(3, stride, "same"), at)
        if network.shape(at)[2] == filters:
            return at
        at = network.add(f"{name}_conv", nn.Convolution(filters, kernel=1, bias=False), at)
        return network.add(f"{name}_bn", nn.BatchNorm(), at)

    def strided(name: str, at: int) -> int:
        return blocks.convolution(name, filters, stride, at) if stride > 1 else at

    left = blocks.adjusted(f"{name}_adjust", filters, source, before)
    right = blocks.convolution(f"{name}_begin", filters, 1, source)
    x0 = blocks.sum(name, 0, (twice(5, stride), left), (pool, left))
    x1 = blocks.sum(name, 1, (twice(7, stride), right), (pool, right))
    x2 = blocks.sum(name, 2, (twice(5, stride), right), (twice(3, stride), right))
    x3 = blocks.sum(name, 3, (twice(3, 1), x2), (pool, right))
    x4 = blocks.sum(name, 4, (twice(3, stride), left), (strided, right))
    return network.add(f"{name}_concat", nn.Concatenate(), x0, x1, x2, x3, x4)


_SOURCE = "Liu et al., ECCV 2018"
_MOBILE = partial(_pnasnet, "PNASNet-5 mobile", cells_wanted=9, filters=54, stem=32)
"""279 layers fused, 621 otherwise. Sides of 3 or more."""
_LARGE = partial(_pnasnet, "PNASNet-5 large", cells_wanted=12, filters=216, stem=96)
"""348 layers fused, 774 otherwise. Sides of 3 or more."""
NETWORKS = (
    Architecture("pnasnet5-mobile", "PNASNet-5 mobile", _SOURCE, IMAGE, SEARCHED, _MOBILE),
    Architecture("pnasnet5-large", "PNASNet-5 large", _SOURCE, (331, 331, 3), SEARCHED, _LARGE),
)
