"""The graph of the parts of layers, for the judge of certificates, from the definition.

A layer is cut along axes of its output. A part takes its share of the memory and of the duration, and reads all parts
with a place that it reads. Sums over all that is cut are computed step by step. Parts that nothing reads are left out,
unless nothing reads the layer, or it is computed once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import prod

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import Json, read, require

MOST_PARTS = 1_000_000
Box = tuple[tuple[int, int], ...]
Points = dict[int, list[int]]
"""By axis where it is cut, from 0 to its number of places."""


def cuts_of(graph: ComputationGraph, entries: list[Json]) -> dict[int, Points]:
    """Return where layers are cut, as a certificate states."""
    require(graph.parts is None and graph.adjacent is None, "about.cut: outputs are in parts, or side by side, already")
    require(graph.operators is not None, "about.cut: the graph in the file has no operators")
    cuts: dict[int, Points] = {}
    for k, entry in enumerate(entries):
        where = f"about.cut[{k}]"
        require(len(entry) == 2, f"{where}: expected a layer and its axes")
        v, axes = read(where, entry[0], graph), read(where, entry[1], [[None]])
        operator = graph.operators[v] if graph.operators else None
        shape = () if operator is None else operator.shape
        require(v not in cuts and axes != [] and graph.sizes[v] % max(1, prod(shape)) == 0, f"{where} cannot be cut")
        cuts[v] = {}
        for pair in axes:
            axis, points = (*pair, None, None)[:2]
            fits = type(axis) is int and 0 <= axis < len(shape) and axis not in cuts[v] and type(points) is list
            fits = fits and all(type(point) is int for point in points)
            fits = fits and len(points) > 2 and all(a < b for a, b in pairwise(points))
            require(fits and (points[0], points[-1]) == (0, shape[axis]), f"{where}: it is not cut so")
            cuts[v][axis] = points
    parts = sum(prod(len(points) - 1 for points in axes.values()) for axes in cuts.values())
    require(parts <= MOST_PARTS, f"about.cut: more than {MOST_PARTS} parts")
    return cuts


@dataclass
class _Part:
    """A node of the graph of parts."""

    name: Json
    layer: int
    share: tuple[int, int, int]
    """Work of its layer: that before it, that until it is done, and all."""
    size: int
    reads: list[int]
    overwrites: list[int]
    volume: int
    """Places of a part of a layer that is cut, or of a step; 1 of one that is whole."""


@dataclass
class Parts:
    """The graph of parts: layer by layer, each after what it reads."""

    of: ComputationGraph
    cuts: Mapping[int, Points]
    has_sums: bool = False
    """Is a layer computed step by step?"""
    nodes: list[_Part] = field(default_factory=list)
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    """By layer and number of a part the node that has it."""

    def graph(self) -> ComputationGraph:
        """Return the graph of parts."""
        for v in self.of.topological_order():
            self._make_layer(v)
        graph, at = self.of, {k: new for new, k in enumerate(self._needed())}
        kept, last = [self.nodes[k] for k in at], {self.nodes[k].layer: at[k] for k in at}
        further = graph.output_of or (None,) * len(graph.nodes)
        return ComputationGraph(
            nodes=[node.name for node in kept],
            durations=[_share(graph.durations[node.layer], *node.share) for node in kept],
            sizes=[node.size for node in kept],
            edges=[(at[u], at[k]) for k in at for u in self.nodes[k].reads],
            workspaces=graph.workspaces and [graph.workspaces[node.layer] for node in kept],
            in_place=[[at[u] for u in node.overwrites if u in at] for node in kept],
            computed_once=[at[k] for k in at if self.nodes[k].layer in graph.computed_once],
            output_of=graph.output_of and [None if (u := further[node.layer]) is None else last[u] for node in kept],
            duration_unit=graph.duration_unit, size_unit=graph.size_unit,
        )  # fmt: skip

    @property
    def are_single(self) -> bool:
        """True if every layer that is cut is in parts of one place along one axis, and none is computed in steps."""
        ends = [points for axes in self.cuts.values() for points in axes.values()]
        alone = len(ends) == len(self.cuts) > 0
        return alone and not self.has_sums and all(points == [*range(len(points))] for points in ends)

    def _needed(self) -> list[int]:
        """Nodes that are computed: all, if nothing is cut."""
        graph, nodes = self.of, self.nodes
        several = {v for v, of in enumerate(graph.output_of or ()) if of is not None}
        several |= {of for of in graph.output_of or () if of is not None} | set(graph.computed_once)
        needed = [one.layer in several or not graph.successors[one.layer] or not self.cuts for one in nodes]
        for k in reversed(range(len(nodes))):
            for u in nodes[k].reads if needed[k] else ():
                needed[u] = True
        return [k for k, is_needed in enumerate(needed) if is_needed]

    def _make_layer(self, v: int) -> None:
        graph, axes, operator = self.of, self.cuts.get(v, {}), (self.of.operators or ())[v]
        shape, done = () if operator is None else operator.shape, 0
        for number, chosen in enumerate(product(*(pairwise(points) for points in axes.values()))):
            cut = dict(zip(axes, chosen, strict=True))
            box = tuple(cut.get(axis, (0, extent)) for axis, extent in enumerate(shape))
            volume, all_of = prod(b - a for a, b in box), max(1, prod(shape))
            texts = ",".join(f"{a}:{b}" for a, b in chosen)
            one = _Part(
                f"{graph.nodes[v]}[{texts}]" if axes else graph.nodes[v], v, (done, done + volume, all_of),
                graph.sizes[v] * volume // all_of, self._reads(v, box), self._overwritten(v, number),
                max(1, volume) if axes else 1,
            )  # fmt: skip
            done += volume
            if self._is_sum(v) and one.reads:
                self._add_steps(one, volume)
            else:
                self.nodes.append(one)
            require(len(self.nodes) <= MOST_PARTS, f"about.cut: more than {MOST_PARTS} parts and steps")
            self.done[v, number] = len(self.nodes) - 1

    def _reads(self, v: int, box: Box) -> list[int]:
        """The nodes that a part reads: of inputs all parts with a place that it reads."""
        operator, found = (self.of.operators or ())[v], dict[int, None]()
        if operator is None:
            return [k for (u, _), k in self.done.items() if u in self.of.predecessors[v]]
        for one in operator.reads:
            if one.source is None:
                continue
            axes, other = self.cuts.get(one.source, {}), (self.of.operators or ())[one.source]
            same = not axes or (other is not None and other.shape == one.shape)
            require(same, f"about.cut: {self.of.nodes[v]} reads {self.of.nodes[one.source]} in another shape")
            met = {axis: _met(reach, box, extent, axes.get(axis, [0, extent]))
                   for axis, (reach, extent) in enumerate(zip(one.axes, one.shape, strict=True))}  # fmt: skip
            for places in product(*(met[axis] for axis in axes)) if all(met.values()) else ():
                number = 0
                for axis, place in zip(axes, places, strict=True):
                    number = number * (len(axes[axis]) - 1) + place
                found[self.done[one.source, number]] = None
        return list(found)

    def _is_sum(self, v: int) -> bool:
        """Is a layer computed step by step: over its only input, along no axis that is cut?"""
        operator = (self.of.operators or ())[v]
        if operator is None or not operator.accumulator or len(operator.reads) != 1:
            return False
        one = operator.reads[0]
        axes = {} if one.source is None else self.cuts.get(one.source, {})
        return bool(axes) and all(one.axes[axis] is None for axis in axes)

    def _add_steps(self, whole: _Part, volume: int) -> None:
        """A step for each part that is read; the last one has the result."""
        self.has_sums = True
        operator, (begin, end, work) = (self.of.operators or ())[whole.layer], whole.share
        assert operator is not None
        volumes = [self.nodes[u].volume for u in whole.reads]
        for k, u in enumerate(whole.reads):
            is_last, so_far, total = k + 1 == len(volumes), sum(volumes[:k]), sum(volumes)
            size = whole.size if is_last else operator.accumulator * volume
            before = [len(self.nodes) - 1] * (k > 0)
            share = [begin * total + (end - begin) * amount for amount in (so_far, so_far + volumes[k])]
            self.nodes.append(_Part(
                whole.name if is_last else f"{whole.name} step {k}", whole.layer, (share[0], share[1], work * total),
                size, [u, *before], [x for x in before if size <= self.nodes[x].size], max(1, volume),
            ))  # fmt: skip

    def _overwritten(self, v: int, number: int) -> list[int]:
        """What a part may overwrite: the same part of an input that is cut the same way, and read place by place."""
        graph, operators = self.of, self.of.operators or ()
        rows = graph.in_place[v] if graph.in_place else ()
        if not self.cuts.get(v) and not any(self.cuts.get(u) for u in rows):
            return [self.done[u, 0] for u in rows]
        own, found = operators[v], list[int]()
        for u in rows:
            other = operators[u]
            reads = [] if own is None else [one for one in own.reads if one.source == u]
            same = own is not None and (() if other is None else other.shape) == own.shape
            same &= list(self.cuts.get(u, {}).items()) == list(self.cuts.get(v, {}).items())
            if same and reads and graph.sizes[v] <= graph.sizes[u] and all(map(_is_own, reads)):
                found.append(self.done[u, number])
        return found


def _share(amount: int, begin: int, end: int, work: int) -> int:
    """What falls to a part of the work, so that all parts have all of it together."""
    return amount * end // max(1, work) - amount * begin // max(1, work)


def _is_own(one: Json) -> bool:
    """Does each place read the same place of an input, and no other?"""
    return all(
        reach is not None
        and (reach.axis, reach.stride, reach.window, reach.dilation, reach.before, reach.divisor, reach.exact)
        == (axis, 1, 1, 1, 0, 1, False)
        for axis, reach in enumerate(one.axes)
    )


def _met(reach: Json, box: Box, extent: int, points: list[int]) -> list[int]:
    """Intervals of an axis of an input that a part reads a place of."""
    if reach is None:
        return list(range(len(points) - 1))
    met = set[int]()
    for place, k in product(range(*box[reach.axis]), range(reach.window)):
        at = place * reach.stride - reach.before + k * reach.dilation
        if not (reach.exact and at % reach.divisor) and 0 <= at // reach.divisor < extent:
            met.add(bisect_right(points, at // reach.divisor) - 1)
            if len(met) == len(points) - 1:
                break
    return sorted(met)
