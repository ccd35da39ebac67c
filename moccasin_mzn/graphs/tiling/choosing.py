"""Tilings from coarse to fine: of each layer the largest parts that can be computed in a share of a budget. ::

    budget 16 KiB, share 1/4        conv1  36 KiB out, 1 row of it and what that reads: 1.1 KiB   2 rows a part
                                    conv2  12 KiB out, ...                             1.9 KiB   2 rows a part
                                    conv9   1 KiB out, 1.5 KiB with all that it reads             whole

What is far below the budget stays whole; what is over it even in single rows is cut into columns too. Smaller shares
leave more room for what else is in memory, and need more parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator
from moccasin_mzn.graphs.tiling.axes import Axes, tiling_axes
from moccasin_mzn.graphs.tiling.cutting import Cuts, check_operators_known, nodes_of, steps

MOST_NODES = 20_000
"""Finer tilings, whose graphs have more nodes, are not tried."""
_HALVINGS = 12
Extents = Mapping[int, int]
"""By axis the places of a part."""


def tilings(graph: ComputationGraph, budget: int) -> Iterator[dict[int, Cuts]]:
    """The cuts of tilings for a budget, each finer than the one before; the first one leaves all whole that it can.

    Args:
        budget: in the graph's size unit.

    Raises:
        InputError: the graph has no operators, or is tiled.
    """
    check_operators_known(graph)
    axes, before = tiling_axes(graph), None
    for halving in range(1, _HALVINGS + 1):
        chosen = _fitting(graph, axes, budget >> halving)
        if nodes_of(graph, chosen) > MOST_NODES:
            return
        if chosen != before:
            yield chosen
        before = chosen


def _fitting(graph: ComputationGraph, axes: tuple[Axes, ...], room: int) -> dict[int, Cuts]:
    """The coarsest cuts with which each part, and what it reads, takes no more than `room`, as far as there are any."""
    assert graph.operators is not None
    found: dict[int, Extents] = {}
    for v in graph.input_order():
        operator = graph.operators[v]
        if operator is not None and operator.elements:
            found[v] = _extents(graph, v, operator, axes[v][:2], room, found)
    cuts = {}
    for v, extents in found.items():
        operator = graph.operators[v]
        assert operator is not None
        own = {axis: steps(operator.shape[axis], extent) for axis, extent in extents.items()}
        cuts[v] = {axis: points for axis, points in own.items() if len(points) > 2}
    return {v: own for v, own in cuts.items() if own}


def _extents(
    graph: ComputationGraph, v: int, operator: Operator, axes: tuple[int | None, ...], room: int,
    inputs: Mapping[int, Extents],
) -> Extents:  # fmt: skip
    """Rows and columns of a part: powers of two, columns only where single rows are too much."""
    extents: dict[int, int] = {}
    for axis in axes:
        if axis is None or _needed(graph, v, operator, extents, inputs) <= room:
            break
        length = 1 << (operator.shape[axis] - 1).bit_length()
        while length > 1:
            length //= 2
            extents[axis] = length
            if _needed(graph, v, operator, extents, inputs) <= room:
                break
    return extents


def _needed(
    graph: ComputationGraph, v: int, operator: Operator, extents: Extents, inputs: Mapping[int, Extents]
) -> int:
    """Memory of a part and of what it reads, but for inputs that are read whole, which no parts of it make smaller."""
    own = [min(extents.get(axis, extent), extent) for axis, extent in enumerate(operator.shape)]
    total = graph.sizes[v] * prod(own) // operator.elements
    for read in operator.reads:
        if read.source is None or not any(read.axes) or not prod(read.shape):
            continue
        cut, met = inputs.get(read.source, {}), 1
        for axis, (reach, extent) in enumerate(zip(read.axes, read.shape, strict=True)):
            if reach is None:
                met *= extent
            else:
                span = ((own[reach.axis] - 1) * reach.stride + (reach.window - 1) * reach.dilation) // reach.divisor + 1
                met *= min(extent, span + cut.get(axis, 1) - 1)  # parts of it that are touched are read whole
        total += graph.sizes[read.source] * met // prod(read.shape)
    return total
