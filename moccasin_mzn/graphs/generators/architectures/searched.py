"""Networks whose cells were searched for: NASNet-A and PNASNet-5.

NASNet-A (Zoph et al., CVPR 2018), the cells of Keras Applications; not fused, layer by layer as there.
"""

from __future__ import annotations

from functools import partial

from moccasin_mzn.graphs.generators import layers as nn
from moccasin_mzn.graphs.generators.architectures.blocks import BlockBuilder
from moccasin_mzn.graphs.generators.network import IMAGE, SEARCHED, Architecture, Network


def _nasnet(
    name: str, *shape: int, blocks: int, filters: int, stem: int, skip_reduction: bool, classes: int, fused: int
) -> Network:
    """Two reductions as stem, then three stages of `blocks` normal cells with a reduction in between.

    Args:
        filters: channels inside the cells of the first stage; every reduction doubles them.
        stem: channels of the first convolution.
        skip_reduction: the cell after a reduction reads, besides it, not its input but the cell before that.
    """
    cells = _Cells(Network(name, shape), fused > 0)
    at = cells.stem(stem)
    at, before = cells.reduction("stem1", filters // 4, at, at), at
    at, before = cells.reduction("stem2", filters // 2, at, before), at
    for stage in range(3):
        if stage > 0:
            reduced = cells.reduction(f"reduction{stage}", filters * 2**stage, at, before)
            at, before = reduced, before if skip_reduction else at
        for block in range(blocks):
            at, before = cells.normal(f"cell{stage}_{block}", filters * 2**stage, at, before), at
    cells.head(classes, at)
    return cells.network


class _Cells(BlockBuilder):
    def normal(self, name: str, filters: int, source: int, before: int) -> int:
        """A cell that keeps the size and outputs 6 `filters` channels; returns its output."""
        p = self.adjusted(f"{name}_adjust", filters, source, before)
        h = self.convolution(f"{name}_begin", filters, 1, source)
        three, five, pool = self.twice(filters, 3, 1), self.twice(filters, 5, 1), self._pool
        x1 = self.sum(name, 1, (five, h), (three, p))
        x2 = self.sum(name, 2, (five, p), (three, p))
        x3 = self.sum(name, 3, (pool, h), (None, p))
        x4 = self.sum(name, 4, (pool, p), (pool, p))
        x5 = self.sum(name, 5, (three, h), (None, h))
        return self.network.add(f"{name}_concat", nn.Concatenate(), p, x1, x2, x3, x4, x5)

    def reduction(self, name: str, filters: int, source: int, before: int) -> int:
        """A cell that halves the size and outputs 4 `filters` channels; returns its output."""
        p = self.adjusted(f"{name}_adjust", filters, source, before)
        h = self.convolution(f"{name}_begin", filters, 1, source)
        padded = h if self.fused else self.padding(f"{name}_pad", 3, h)
        five, seven = self.twice(filters, 5, 2), self.twice(filters, 7, 2)
        x1 = self.sum(name, 1, (five, h), (seven, p))
        x2 = self.sum(name, 2, (self._halved, padded), (seven, p))
        x3 = self.sum(name, 3, (self._halved, padded), (five, p))
        x4 = self.sum(name, 4, (self._pool, x1), (None, x2))
        x5 = self.sum(name, 5, (self.twice(filters, 3, 1), x1), (self._halved, padded))
        return self.network.add(f"{name}_concat", nn.Concatenate(), x2, x3, x4, x5)

    def _pool(self, name: str, at: int) -> int:
        return self.network.add(name, nn.Pooling(3, 1, "same"), at)

    def _halved(self, name: str, at: int) -> int:
        """Not fused, a padding layer comes before."""
        return self.network.add(name, nn.Pooling(3, 2, "same" if self.fused else "valid"), at)


_NASNET_SOURCE = "Zoph et al., CVPR 2018"
_NASNET_MOBILE = partial(_nasnet, "NASNet-A mobile", blocks=4, filters=44, stem=32, skip_reduction=False)
"""360 layers fused, 770 otherwise. Sides of 3 or more."""
_NASNET_LARGE = partial(_nasnet, "NASNet-A large", blocks=6, filters=168, stem=96, skip_reduction=True)
"""486 layers fused, 1040 otherwise. Sides of 3 or more."""
_NASNETS = (
    Architecture("nasnet-mobile", "NASNet-A (4 @ 1056)", _NASNET_SOURCE, IMAGE, SEARCHED, _NASNET_MOBILE),
    Architecture("nasnet-large", "NASNet-A (6 @ 4032)", _NASNET_SOURCE, (331, 331, 3), SEARCHED, _NASNET_LARGE),
)


# --- PNASNet-5 (Liu et al., ECCV 2018), the cells of its authors' code; without their auxiliary classifier ----


def _pnasnet(name: str, *shape: int, cells_wanted: int, filters: int, stem: int, classes: int, fused: int) -> Network:
    """Two halving cells as stem, then `cells_wanted` cells; the first of the second and the third part halve.

    Args:
        filters: channels inside the cells of the first part; every part doubles them.
        stem: channels of the first convolution.
    """
    blocks = BlockBuilder(Network(name, shape), fused > 0)
    at = blocks.stem(stem)
    at, before = _add_cell(blocks, "stem1", filters // 4, 2, at, at), at
    at, before = _add_cell(blocks, "stem2", filters // 2, 2, at, before), at
    for number in range(cells_wanted):
        part, first = divmod(number * 3, cells_wanted)
        part_filters, stride = filters * 2**part, 2 if number and first == 0 else 1
        at, before = _add_cell(blocks, f"cell{number}", part_filters, stride, at, before), at
    blocks.head(classes, at)
    return blocks.network


def _add_cell(blocks: BlockBuilder, name: str, filters: int, stride: int, source: int, before: int) -> int:
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


_PNASNET_SOURCE = "Liu et al., ECCV 2018"
_PNASNET_MOBILE = partial(_pnasnet, "PNASNet-5 mobile", cells_wanted=9, filters=54, stem=32)
"""279 layers fused, 621 otherwise. Sides of 3 or more."""
_PNASNET_LARGE = partial(_pnasnet, "PNASNet-5 large", cells_wanted=12, filters=216, stem=96)
"""348 layers fused, 774 otherwise. Sides of 3 or more."""
_PNASNETS = (
    Architecture("pnasnet5-mobile", "PNASNet-5 mobile", _PNASNET_SOURCE, IMAGE, SEARCHED, _PNASNET_MOBILE),
    Architecture("pnasnet5-large", "PNASNet-5 large", _PNASNET_SOURCE, (331, 331, 3), SEARCHED, _PNASNET_LARGE),
)

NETWORKS = (*_NASNETS, *_PNASNETS)
