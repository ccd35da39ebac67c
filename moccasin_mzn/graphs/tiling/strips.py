"""Tilings for networks that are computed strip by strip: rows, cut where one strip overlaps the next. ::

    conv3 of a window of 3, two strips      |<-- strip 1 -->|<- strip 2 ->|         strip 1 reads conv2 up to b
                                            0               5             9         strip 2 reads it from a on
    conv2, which it reads                   0           4       6         9         parts [0:4] [4:6] [6:9]
                                                        a       b

Lines of a strip take a share of the memory that whole lines take, and what both strips read, [4:6] of each row, is
kept until the second strip, or recomputed there, which is what a schedule decides. A layer that is larger than all
that it reads is rather recomputed there: it is cheaper to keep what it is made of, so what that must have is cut out
there too. A layer that reads places one by one passes on where it is cut. Layers that fit into memory as a whole end a
zone: they have strips of their own, as the overlaps of many layers would add up to a strip.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach
from moccasin_mzn.graphs.tiling.axes import tiling_axes
from moccasin_mzn.graphs.tiling.cutting import Cuts, check_operators_known, steps

SMALL = 2
"""A layer that takes at most such a part of the budget ends a zone, if it is no larger than its inputs."""
FINE = 32
"""Parts take at most such a part of the budget, as far as columns can be cut."""
LEAST_WIDTH = 2
"""Columns of the narrowest strips of a layer that ends a zone."""


@dataclass(frozen=True)
class _Borders:
    """Where the strips of a layer meet, by border: it is computed up to `ends` for the strips before it, and what those
    behind it read begins at `begins`."""

    ends: tuple[int, ...]
    begins: tuple[int, ...]
    points: frozenset[int]
    """All places where the layer is cut."""


@dataclass
class _Images:
    """The layers of a graph that have columns."""

    graph: ComputationGraph

    def __post_init__(self) -> None:
        self.axes = tiling_axes(self.graph)
        self.width = {v: self.operator(v).shape[own[1]] for v, own in enumerate(self.axes) if own[1] is not None}

    def operator(self, v: int) -> Operator:
        assert self.graph.operators is not None
        operator = self.graph.operators[v]
        assert operator is not None
        return operator

    def reaches(self, v: int) -> Iterator[tuple[int, Reach | None]]:
        """The readers of a layer, each with what it reads along the columns; None: all, or along another axis."""
        assert self.graph.operators is not None
        axis = self.axes[v][1]
        for y in self.graph.successors[v]:
            operator = self.graph.operators[y]
            if operator is None:
                yield y, None
                continue
            for read in operator.reads:
                if read.source == v:
                    reach = None if axis is None else read.axes[axis]
                    yield y, reach if reach is not None and reach.axis == self.axes[y][1] else None

    def keeps(self, v: int) -> bool:
        """Return whether a layer is no larger than what it reads, so that its overlap is kept rather than that of its
        inputs."""
        return self.graph.sizes[v] <= sum(self.graph.sizes[u] for u in self.graph.predecessors[v])

    def zones(self, small: int) -> dict[int, int]:
        """By layer the one that ends its zone: itself if it takes at most `small`, or if no zone of all its readers is
        its own."""
        zones: dict[int, int] = {}
        for v in reversed(self.graph.input_order()):
            if v not in self.width:
                continue
            readers = list(self.reaches(v))
            ends = {zones[y] for y, reach in readers if reach is not None}
            follows = len(ends) == 1 and all(reach is not None for _, reach in readers)
            end = ends.pop() if follows else v
            wide = self.width[end] < 2 * LEAST_WIDTH <= self.width[v]
            zones[v] = v if wide or (self.keeps(v) and self.graph.sizes[v] <= small) else end
        return zones

    def borders(self, v: int, of: dict[int, _Borders]) -> _Borders:
        """The borders of a layer that follow from those of its readers."""
        extent, ends, begins, points = self.width[v], list[list[int]](), list[list[int]](), set[int]()
        for y, reach in self.reaches(v):
            assert reach is not None
            needed = of[y].ends if self.keeps(y) else of[y].begins
            ends.append([_met(reach, 0, end, extent)[1] for end in of[y].ends])
            begins.append([_met(reach, begin, self.width[y], extent)[0] for begin in needed])
            points.update(of[y].points if reach.is_identity else ())
        return _Borders(tuple(map(max, *ends, ends[0])), tuple(map(min, *begins, begins[0])), frozenset(points))


def strips_within(graph: ComputationGraph, count: int, budget: int) -> dict[int, Cuts]:
    """The cuts for up to `count` strips where what is large or small is so in comparison with a budget, in the graph's
    size unit.

    Raises:
        InputError: as `cutting.tile`.
    """
    return strips(graph, count, budget // SMALL, budget // FINE)


def strips(graph: ComputationGraph, count: int, small: int, most: int) -> dict[int, Cuts]:
    """The cuts for up to `count` strips: single rows, and columns where strips overlap or parts would be large.

    Args:
        small: layers of up to so much end zones, if they are no larger than their inputs; in the graph's size unit.
        most: the size of a part at most, as far as columns make it smaller.

    Raises:
        InputError: as `cutting.tile`.
    """
    check_operators_known(graph)
    images, cuts = _Images(graph), dict[int, Cuts]()
    zones = images.zones(small)
    chosen, borders = _even(images, zones, count), dict[int, _Borders]()
    for v in reversed(graph.input_order()):
        rows, columns, _ = images.axes[v]
        if rows is None:
            continue
        shape = images.operator(v).shape
        own = {rows: steps(shape[rows], 1)}
        if columns is not None:
            at = chosen.get(v)
            borders[v] = images.borders(v, borders) if at is None else _Borders(at, at, frozenset(at))
            points = borders[v].points.union(borders[v].ends, borders[v].begins)
            place = max(1, graph.sizes[v] // (shape[rows] * shape[columns]))
            own[columns] = _refined(points, shape[columns], max(1, most // place))
        cuts[v] = {axis: points for axis, points in own.items() if len(points) > 2}
    return {v: own for v, own in cuts.items() if own}


def _even(images: _Images, zones: dict[int, int], count: int) -> dict[int, tuple[int, ...]]:
    """The borders of the layers that end zones, such that all layers of the zone, by size, are divided evenly."""
    every, sums = dict[int, _Borders](), dict[int, list[float]]()
    weights = dict.fromkeys(zones.values(), 0.0)
    for v, end in zones.items():
        at = tuple(range(1, images.width[v]))
        every[v] = images.borders(v, every) if end != v else _Borders(at, at, frozenset())
        weight = max(1, images.graph.sizes[v])
        weights[end] += weight
        before = sums.setdefault(end, [0.0] * len(every[v].ends))
        sums[end] = [one + weight * at / images.width[v] for one, at in zip(before, every[v].ends, strict=True)]
    chosen = {}
    for end, positions in sums.items():
        most = max(1, min(count, images.width[end] // LEAST_WIDTH))
        aims = [weights[end] * j / most for j in range(1, most)]
        found = {min(range(len(positions)), key=lambda at: abs(positions[at] - aim)) + 1 for aim in aims}
        chosen[end] = tuple(sorted(found))
    return chosen


def _met(reach: Reach, begin: int, end: int, extent: int) -> tuple[int, int]:
    """The first place that is read for places begin..end - 1, and the one behind the last; nothing is read: the end of
    the input, and its beginning."""
    places = reach.places(begin, end, extent)
    return (int(places[0]), int(places[-1]) + 1) if len(places) else (extent, 0)


def _refined(points: Iterable[int], extent: int, width: int) -> tuple[int, ...]:
    """From 0 to `extent` with these points and more, so that no two that follow are more than `width` apart."""
    found = [0]
    for at in sorted({*(at for at in points if 0 < at < extent), extent}):
        begin = found[-1]
        parts = -(-(at - begin) // width)
        found += [begin + (at - begin) * j // parts for j in range(1, parts + 1)]
    return tuple(found)
