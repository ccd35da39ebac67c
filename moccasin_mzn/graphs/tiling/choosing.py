"""Tilings from coarse to fine: of each layer the largest parts that can be computed in a share of a budget. ::

    budget 16 KiB, share 1/4        conv1  36 KiB out, 1 row of it and what that reads: 1.1 KiB   2 rows a part
                                    conv2  12 KiB out, ...                             1.9 KiB   2 rows a part
                                    conv9   1 KiB out, 1.5 KiB with all that it reads             whole

What is far below the budget stays whole; what is over it even in single rows is cut into columns too. Smaller shares
leave more room for what else is in memory, and need more parts. What no parts make smaller, such as the input of a
network, is a bound for all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

from moccasin_mzn.graphs.graph import ComputationGraph, WorkingSet
from moccasin_mzn.graphs.operators import Operator
from moccasin_mzn.graphs.tiling.axes import Axes, tiling_axes
from moccasin_mzn.graphs.tiling.cutting import Cuts, check_operators_known, cuts_of, nodes_of, steps
from moccasin_mzn.graphs.tiling.strips import strips_within

MOST_NODES = 20_000
"""Finer tilings, whose graphs have more nodes, are not tried."""
_HALVINGS = 12
MANY_NODES = 1_000
"""Tilings of more nodes are tried after all others, the coarsest of them first."""
FEW_ROWS, MANY_ROWS = 8, 64
"""Parts of each number of rows up to this one are tried; from coarse to fine, where the coarsest are wanted, up to the
other one."""
SQUARES = (4, 8, 16, 32)
"""Rows and columns of tiles that are tried for any budget."""
STRIPS = (2, 3, 4)
"""Numbers of strips that are tried for a budget."""
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


def candidates(graph: ComputationGraph, budget: int | None, *, coarse_first: bool = False) -> list[dict[int, Cuts]]:
    """The cuts of all tilings that are worth a trial: parts of a fixed number of rows, tiles, those for a budget, and
    those for strips; fine ones of up to `MANY_NODES` first, then coarser ones, then finer ones.

    Args:
        budget: in the graph's size unit; None: the largest working set.
        coarse_first: from coarse to fine.

    Raises:
        InputError: as `tilings`.
    """
    found = [*tilings(graph, max(graph.working_sets, default=0) if budget is None else budget)]
    longest = max((extent for one in graph.operators or () if one is not None for extent in one.shape), default=1)
    fixed = [cuts_of(graph, rows=rows) for rows in _heights(longest, MANY_ROWS if coarse_first else FEW_ROWS)]
    fixed += [cuts_of(graph, rows=side, columns=side) for side in SQUARES if side < longest]
    if budget is not None:
        fixed += [strips_within(graph, count, budget) for count in STRIPS]
    for cuts in fixed:
        kept = {v: {axis: points for axis, points in own.items() if len(points) > 2} for v, own in cuts.items()}
        found.append({v: own for v, own in kept.items() if own})
    different = {tuple(sorted((v, *sorted(own.items())) for v, own in cuts.items())): cuts for cuts in found}
    counted = [(nodes_of(graph, cuts), cuts) for cuts in different.values()]
    ordered = sorted((each for each in counted if each[0] <= MOST_NODES), key=lambda each: -each[0])
    if coarse_first:
        return [cuts for _, cuts in reversed(ordered)]
    few = [cuts for count, cuts in ordered if count <= MANY_NODES]
    return few + [cuts for count, cuts in reversed(ordered) if count > MANY_NODES]


def _heights(longest: int, few: int) -> list[int]:
    """Rows of parts that are tried: all up to a few, and above them the least of each number of parts of the longest
    axis."""
    parts = {-(-longest // rows) for rows in range(few + 1, longest)}
    return sorted({*range(1, max(2, min(few + 1, longest))), *(-(-longest // count) for count in parts)})


def needed_in_any_parts(graph: ComputationGraph, whole: Collection[int] = ()) -> WorkingSet:
    """What no tiling makes smaller: a node, and memory without which it is not computed.

    Args:
        whole: nodes whose output is never cut, further to those that have nothing to be cut along.
    """
    axes = [() if v in whole else _some(own) for v, own in enumerate(tiling_axes(graph))]
    needed = [not readers for readers in graph.successors]
    found = [0] * len(graph.nodes)
    for v in reversed(graph.input_order()):
        if needed[v]:
            read = _met(graph, v)
            found[v] = _least_of(graph, v, axes, read)
            for u in read:
                needed[u] = True
    most = max(found, default=0)
    return WorkingSet(found.index(most) if found else 0, most)


def _some(axes: Axes) -> tuple[int, ...]:
    return tuple(axis for axis in axes if axis is not None)


def _met(graph: ComputationGraph, v: int) -> set[int]:
    """The inputs where a node reads some place, and not padding alone."""
    operator = graph.operators[v] if graph.operators is not None else None
    if operator is None:
        return set(graph.predecessors[v])
    return {
        read.source for read in operator.reads
        if read.source is not None
        and all(
            reach is None or len(reach.places(0, operator.shape[reach.axis], extent))
            for reach, extent in zip(read.axes, read.shape, strict=True)
        )
    }  # fmt: skip


def _least_of(graph: ComputationGraph, v: int, axes: Sequence[tuple[int, ...]], read: Collection[int]) -> int:
    """Memory of what is there whole while some part of a node is computed."""
    operator, fixed = graph.operators[v] if graph.operators is not None else None, [u for u in read if not axes[u]]
    if axes[v] and operator is not None:
        extents = (1 if axis in axes[v] else extent for axis, extent in enumerate(operator.shape))
        own = 0 if graph.spared[v] else graph.sizes[v] * prod(extents) // max(1, operator.elements)
        return own + graph.workspace_of[v] + max((graph.sizes[u] for u in fixed), default=0)  # a part may read one
    own = graph.sizes[v] - graph.spared[v] + graph.workspace_of[v] + sum(graph.sizes[u] for u in fixed)
    if operator is None:
        own += sum(graph.sizes[u] for u in read if axes[u])
    elif not operator.accumulator:
        own += sum(graph.sizes[u] for u in _read_whole(operator) if axes[u])
    return max(own, graph.sizes[v])


def _read_whole(operator: Operator) -> set[int]:
    """An operator's inputs that are read as a whole."""
    return {read.source for read in operator.reads if read.source is not None and not any(read.axes)}


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
