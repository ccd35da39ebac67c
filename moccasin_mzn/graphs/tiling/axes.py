"""Along which axes an output is cut into parts: rows first, then columns, then channels.

An axis of an output is worth cutting where the operator reads only some places of an input for a place along it. Such
axes of operators that follow each other belong together::

    CONV_2D, NHWC       1   H   W   C         rows      H of all of them: each reads its own rows, and some around
                            |   |   x         columns   W
    DEPTHWISE_CONV_2D   1   H   W   C         channels  C of the depthwise one and the sum: the convolution below
                            |   |   |                   reads all channels for each of its own
    ADD                 1   H   W   C
                            |   |   x
    CONV_2D             1   H   W   C

Axes that belong together are one class. Of the classes that an output's axes are in, the one with most memory comes
first, those that some window slides along before all others: rows and columns of images, positions of sequences. What
has little memory and no window is for channels, also where an output has no rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator

Axis = tuple[int, int]
"""A node, and an axis of its output."""
Axes = tuple[int | None, int | None, int | None]
"""The axes of rows, columns and channels; None if absent."""


LITTLE = 10
"""Rows and columns have at least this part of the memory that the largest class has."""


def tiling_axes(graph: ComputationGraph) -> tuple[Axes, ...]:
    """For each node the axes along which its output may be cut."""
    operators = graph.operators or (None,) * len(graph.nodes)
    local = [_local_axes(operator, size) for operator, size in zip(operators, graph.sizes, strict=True)]
    group, weights = _classes(graph, operators, local)

    def ranked(v: int) -> Axes:
        axes = sorted(local[v], key=lambda axis: (-weights[group[v, axis]][0], -weights[group[v, axis]][1], axis))
        first = {group[v, axis]: axis for axis in reversed(axes)}  # of two axes of one class, such as of scores, one
        axes = [axis for axis in axes if first[group[v, axis]] == axis]
        large = [axis for axis in axes if _is_large(weights[group[v, axis]], most)][:2]
        rows, columns = (*large, None, None)[:2]
        return rows, columns, next((axis for axis in axes if axis not in large), None)

    most = max((memory for _, memory in weights.values()), default=0)
    return tuple(map(ranked, range(len(operators))))


def is_one_row(shape: Sequence[int], axes: Axes) -> bool:
    """Return whether an output is an image of one row, so that what its first axis has is columns."""
    first = axes[0]
    return first is not None and len(shape) > 3 and first > 1 and shape[first - 1] == 1


def _is_large(weight: tuple[bool, int], most: int) -> bool:
    slides, memory = weight
    return slides or memory * LITTLE >= most


def _local_axes(operator: Operator | None, size: int) -> list[int]:
    """The axes of more than one place along which an operator reads some places of an input only."""
    if operator is None or not operator.elements or size % operator.elements:
        return []
    found = {reach.axis for read in operator.reads for reach in read.axes if reach is not None}
    return [] if _is_flattened(operator) else sorted(axis for axis in found if operator.shape[axis] > 1)


def _is_flattened(operator: Operator) -> bool:
    """Return whether several axes have become one: parts of that are no rows, and what follows reads all of it."""
    own = sum(extent > 1 for extent in operator.shape)
    return own <= 1 and any(
        reach is not None and reach.divisor > 1 and sum(extent > 1 for extent in read.shape) > 1
        for read in operator.reads for reach in read.axes
    )  # fmt: skip


def _classes(
    graph: ComputationGraph, operators: tuple[Operator | None, ...], local: list[list[int]]
) -> tuple[dict[Axis, Axis], dict[Axis, tuple[bool, int]]]:
    """The class of each axis, by one of its members; and by class whether a window slides along it, and the memory of
    all outputs that have such an axis."""
    parent = {(v, axis): (v, axis) for v, axes in enumerate(local) for axis in axes}

    def root(axis: Axis) -> Axis:
        while parent[axis] != axis:
            parent[axis] = axis = parent[parent[axis]]
        return axis

    slides = set()
    for v, axes in enumerate(local):
        operator = operators[v]
        for read in operator.reads if operator is not None and axes else ():
            for at, reach in enumerate(read.axes):
                if reach is None or reach.axis not in axes:
                    continue
                if reach.window > 1:
                    slides.add((v, reach.axis))
                if read.source is not None and (read.source, at) in parent:
                    parent[root((v, reach.axis))] = root((read.source, at))
    group = {axis: root(axis) for axis in parent}
    windows = {group[axis] for axis in slides}
    memory: dict[Axis, int] = defaultdict(int)
    for (v, _), one in group.items():
        memory[one] += graph.sizes[v]
    return group, {one: (one in windows, memory[one]) for one in memory}
