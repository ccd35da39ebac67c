"""Values of a model that are there in parts, and how an operator gets what it reads of them, for any model format. ::

    y[0:4]  y[4:8]  y[8:12]            y[3:6] of a reader = Concat(Slice(y[0:4], 3:4), Slice(y[4:8], 0:2))

What several operators read is sliced and joined once, and so a value of the model that a schedule may recompute, as all
others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Generic, TypeVar

from moccasin_mzn.graphs.access_maps import Axes
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Read
from moccasin_mzn.graphs.tiling.axes import tiling_axes
from moccasin_mzn.graphs.tiling.cutting import Box, Cuts, boxes_of, steps

REDUCTION_PARTS = 8
"""Parts of operators that are cut for what they read; each reads a slice of each part of it."""
ValueT = TypeVar("ValueT", bound=Hashable)
"""How values are named: by texts in ONNX, by numbers in TFLite."""


class Unsplittable(Exception):
    """This part cannot be computed by an operator of the same kind on a part of what it reads."""


@dataclass(frozen=True)
class Parts(Generic[ValueT]):
    """A value that is there in parts."""

    cuts: Cuts
    boxes: Mapping[tuple[int, ...], Box]
    """By number along each axis that is cut."""
    values: Mapping[tuple[int, ...], ValueT]


@dataclass
class Gathering(ABC, Generic[ValueT]):
    """The values of a tiled model so far."""

    parts: dict[ValueT, Parts[ValueT]] = field(default_factory=dict, init=False)
    """By value that is not whole its parts."""
    joined: set[ValueT] = field(default_factory=set, init=False)
    """Values in parts that are there as a whole too."""
    made: dict[tuple[object, ...], ValueT] = field(default_factory=dict, init=False)
    """Slices, concatenations and constants that are there, by what they are."""

    @abstractmethod
    def shape_of(self, value: ValueT) -> tuple[int, ...]:
        """The shape of a value of the model that is tiled."""

    @abstractmethod
    def add_concatenation(self, pieces: Sequence[ValueT], axis: int, whole: ValueT | None) -> ValueT:
        """Add the operator; its output is a new value, or `whole`."""

    @abstractmethod
    def add_slice(self, value: ValueT, own: Box, inner: Mapping[int, tuple[int, int]]) -> ValueT:
        """Add the operator that has a part of a value, or store it, if that is a constant.

        Args:
            own: the places of the value.
            inner: what is wanted of it, by axis that is not wanted as a whole.
        """

    def keep_parts(self, value: ValueT, cuts: Cuts, made: Mapping[tuple[int, ...], ValueT]) -> None:
        """Note the parts of a value, by number along each axis that is cut."""
        self.parts[value] = Parts(cuts, numbered_boxes(self.shape_of(value), cuts), made)

    def whole(self, value: ValueT) -> None:
        """Have a value whole, as itself."""
        if value in self.parts and value not in self.joined:
            self.joined.add(value)
            self._gathered(self.parts[value], full(self.shape_of(value)), whole=value)

    def read(self, value: ValueT, box: Box) -> ValueT:
        """Have a part of a value."""
        if value in self.parts:
            return self._gathered(self.parts[value], box)
        return self.sliced(value, box, full(self.shape_of(value)))

    def sliced(self, value: ValueT, box: Box, own: Box) -> ValueT:
        """Have what a box has of a value that is a box itself."""
        inner = {
            axis: (max(start, first) - first, min(stop, last) - first)
            for axis, ((start, stop), (first, last)) in enumerate(zip(box, own, strict=True))
        }
        inner = {axis: each for axis, each in inner.items() if each != (0, own[axis][1] - own[axis][0])}
        if not inner:
            return value
        key = ("Slice", value, *inner.items())
        if key not in self.made:
            self.made[key] = self.add_slice(value, own, inner)
        return self.made[key]

    def _gathered(
        self, parts: Parts[ValueT], box: Box, index: tuple[int, ...] = (), whole: ValueT | None = None
    ) -> ValueT:
        """Have a part of what is there in parts: along the first axis that is cut pieces of pieces, and so on.

        Args:
            index: of these pieces, along the axes before.
            whole: what is made; None: a new value.
        """
        if len(index) == len(parts.cuts):
            return self.sliced(parts.values[index], box, parts.boxes[index])
        axis, points = list(parts.cuts.items())[len(index)]
        start, stop = box[axis]
        met = [at for at, (low, high) in enumerate(pairwise(points)) if low < stop and high > start]
        pieces = [self._gathered(parts, box, (*index, at)) for at in met]
        return self._joined(pieces, axis, whole)

    def _joined(self, pieces: Sequence[ValueT], axis: int, whole: ValueT | None) -> ValueT:
        if len(pieces) == 1:
            return pieces[0]
        key = ("Concat", axis, *pieces)
        if key not in self.made or whole is not None:
            self.made[key] = self.add_concatenation(pieces, axis, whole)
        return self.made[key]


def cut_axes(box: Box, shape: Sequence[int]) -> set[int]:
    """The axes along which a box is not all of an output."""
    return {axis for axis, each in enumerate(box) if each != (0, shape[axis])}


def read_box(axes: Axes, box: Box, shape: Sequence[int]) -> Box:
    """What a part reads of an input.

    Args:
        axes: the map of the input, see `graphs.access_maps`.
        box: the part of the output.
        shape: of the input.

    Raises:
        Unsplittable: nothing is read.
    """
    found = []
    for reach, extent in zip(axes, shape, strict=True):
        places = [0, extent - 1] if reach is None else reach.places(*box[reach.axis], extent)
        if not len(places):
            raise Unsplittable
        found.append((int(places[0]), int(places[-1]) + 1))
    return tuple(found)


def check_own_places(maps: Iterable[Axes], cut: Set[int]) -> None:
    """Check that along axes that are cut each place of the output reads its own place of inputs.

    Raises:
        Unsplittable: another is read.
    """
    reaches = [reach for axes in maps for reach in axes if reach is not None]
    met = {reach.axis for reach in reaches if reach.is_identity}
    moved = {reach.axis for reach in reaches} - met
    if not cut <= met or cut & moved:
        raise Unsplittable


def splittable(shape: Sequence[int], wanted: Cuts, split: Callable[[Box], object]) -> dict[int, tuple[int, ...]]:
    """The cuts along those axes along which an output can be split; `split` raises `Unsplittable` for a part."""
    kept: dict[int, tuple[int, ...]] = {}
    for axis, points in wanted.items():
        more = {**kept, axis: points}
        try:
            for box in boxes_of(tuple(shape), more) if len(points) > 2 else ():
                split(box)
        except Unsplittable:
            continue
        kept = more if len(points) > 2 else kept
    return kept


def numbered_boxes(shape: Sequence[int], cuts: Cuts) -> dict[tuple[int, ...], Box]:
    """The parts of an output by their numbers along each axis that is cut."""
    numbers = product(*(range(len(points) - 1) for points in cuts.values()))
    return dict(zip(numbers, boxes_of(tuple(shape), cuts), strict=True))


def full(shape: Sequence[int]) -> Box:
    """All places of a value."""
    return tuple((0, extent) for extent in shape)


def suffix_of(box: Box, axes: Sequence[int]) -> str:
    """What is added to the name of a value for a part of it, such as [0:4,16:32]."""
    return f"[{','.join('{}:{}'.format(*box[axis]) for axis in axes)}]"


# --- Which cuts make sense where operators read copies --------------------------------------------------------


def of_same_parts(one: ComputationGraph, other: ComputationGraph) -> bool:
    """Return whether two graphs are of the same parts; nodes may be mere numbers, which are the same for others."""
    return one.nodes == other.nodes and one.parts == other.parts and one.sizes == other.sizes


def with_reductions(graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> dict[int, Cuts]:
    """More cuts: an operator that reads parts whole, such as a mean over rows, is cut along another axis, such as
    channels, so that all that it reads is never copied at once."""
    found = dict(cuts)
    for w, axes in enumerate(tiling_axes(graph)):
        operator = graph.operators[w] if graph.operators is not None else None
        along = next((axis for axis in reversed(axes) if axis is not None), None)
        if operator is None or w in cuts or along is None:
            continue
        if any(read.axes[axis] is None for read in operator.reads for axis in cuts.get(_source(read), ())):
            extent = operator.shape[along]
            found[w] = {along: steps(extent, -(-extent // REDUCTION_PARTS))}
    return found


def _source(read: Read) -> int:
    return -1 if read.source is None else read.source


def useful_cuts(graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> dict[int, Cuts]:
    """The cuts that make sense.

    Where all who read an output read all of it, its parts are in memory together with the whole: it is cut only if it
    is smaller than what is read for it.
    """
    found = dict(cuts)
    for v in reversed(graph.input_order()):
        read = sum(graph.sizes[u] for u in graph.predecessors[v])
        if v in found and graph.sizes[v] >= read and not _read_in_parts(graph, v, found):
            del found[v]
    return found


def _read_in_parts(graph: ComputationGraph, v: int, cuts: Mapping[int, Cuts]) -> bool:
    """Is there a reader whose parts read parts of an output?"""
    operators = graph.operators or ()
    for w in graph.successors[v]:
        reader = operators[w]
        for read in reader.reads if reader is not None and w in cuts else ():
            if read.source == v and any(reach is not None and reach.axis in cuts[w] for reach in read.axes):
                return True
    return False
