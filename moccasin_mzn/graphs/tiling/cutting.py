"""A graph of layers becomes one of their parts. ::

    conv1, 6 rows      [0:2] [2:4] [4:6]           an edge for each part that some place of the part reads:
                         | \\ / |  \\  |             rows 1, 2, 3 and 4 of conv1 for rows 2 and 3 of conv2,
    conv2, 3 x 3       [0:2] [2:4] [4:6]           of a window of three rows
                         |     |     |
    mean over rows     step 0 -> 1 -> 2            a chain of partial results, each overwriting the one before

Each part is computed at once and is a tensor of its own. Parts of one layer do not overlap, so that they are the whole
together: their sizes and durations add up to those of the layer. Parts that nothing reads, such as rows between the
windows of a stride, are left out, unless nothing reads the layer either. What several parts read is kept, or
recomputed, which is what schedules decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise, product
from math import prod

import numpy as np

from moccasin_mzn.base.arguments import checked
from moccasin_mzn.base.checks import plain, sequence
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.memory_model import refuse_adjacent
from moccasin_mzn.graphs.operators import Operator, Part, Read
from moccasin_mzn.graphs.tiling.axes import is_one_row, tiling_axes

Box = tuple[tuple[int, int], ...]
Cuts = Mapping[int, tuple[int, ...]]
"""By axis of an output where it is cut: ascending, from 0 to its number of places. An axis that is missing is whole."""

PARTS_LIMIT = 1_000_000
"""Most nodes of a tiled graph."""


@checked()
def tile(
    graph: ComputationGraph,
    rows: int | None = None,
    columns: int | None = None,
    channels: int | None = None,
    layers: Sequence[str] = (),
) -> ComputationGraph:
    """Cut the outputs of a graph into parts with given numbers of rows, columns and channels.

    Args:
        graph: one whose `operators` are known, as those of imported models.
        rows, columns, channels: places along the axes that `axes.tiling_axes` finds: rows of images, positions of
            sequences; of images of one row columns, where both are given. None: all.
        layers: patterns such as "conv*" of ids or labels; only these layers are cut. Empty: all that can be.

    Returns:
        The graph of parts, see the module; `parts` has what each node is, as its ids do: conv1[0:4].

    Raises:
        InputError: no operators are known; the graph is tiled; nothing is to be cut; an extent that is no integer of 1
            or more; a pattern that no layer has; more than `PARTS_LIMIT` parts and steps of sums.
    """
    return cut(graph, cuts_of(graph, rows, columns, channels, layers))


def cuts_of(
    graph: ComputationGraph,
    rows: int | None = None,
    columns: int | None = None,
    channels: int | None = None,
    layers: Sequence[str] = (),
) -> dict[int, Cuts]:
    """By node the cuts of its output into parts with given numbers of rows, columns and channels, see `tile`.

    Raises:
        InputError: as `tile`.
    """
    if not isinstance(graph, ComputationGraph):
        raise InputError(f"graph: expected a ComputationGraph, got {shown(graph)}")
    extents = {name: plain(given) for name, given in (("rows", rows), ("columns", columns), ("channels", channels))}
    for name, extent in extents.items():
        if extent is not None and (type(extent) is not int or extent < 1):
            raise InputError(f"{name} is {shown(extent)}, expected an integer of 1 or more")
    if not any(extent is not None for extent in extents.values()):
        raise InputError("nothing is to be cut: give rows, columns or channels")
    check_operators_known(graph)
    patterns = sequence(layers, "layers", "a sequence of patterns")
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise InputError(f"layers has {shown(pattern)}, expected a pattern")
    chosen = chosen_layers(graph, patterns)
    cuts: dict[int, Cuts] = {}
    for v, axes in enumerate(tiling_axes(graph)):
        if v in chosen:
            shape = shape_of(graph, v)
            one_row = rows is not None and columns is not None and is_one_row(shape, axes)
            given = (columns, None, channels) if one_row else (rows, columns, channels)
            pairs = zip(axes, map(plain, given), strict=True)
            cuts[v] = {axis: steps(shape[axis], by) for axis, by in pairs if axis is not None and by is not None}
    return cuts


def check_operators_known(graph: ComputationGraph) -> None:
    """Check that a graph can be tiled.

    Raises:
        InputError: it is tiled, nodes of it read several outputs as one, or nothing is known of what its nodes compute.
    """
    refuse_adjacent(graph, "parts")
    if graph.parts is not None:
        raise InputError("the graph is tiled: tile the one that it was made of")
    if graph.operators is None:
        raise InputError(
            "the graph has no operators, so that nothing is known of parts: make it anew by import onnx, import tflite "
            "or generate network"
        )


def chosen_layers(graph: ComputationGraph, patterns: Sequence[str]) -> set[int]:
    """Positions of the nodes whose id or label has one of these patterns; all of them, if there are none.

    Raises:
        InputError: a pattern that no node has.
    """
    names = [{str(node), graph.labels[v] if graph.labels else str(node)} for v, node in enumerate(graph.nodes)]
    chosen = set(range(len(names))) if not patterns else set()
    for pattern in patterns:
        found = {v for v, known in enumerate(names) if any(fnmatchcase(name, pattern) for name in known)}
        if not found:
            raise InputError(f"no layer is named {shown(pattern)}")
        chosen |= found
    return chosen


def shape_of(graph: ComputationGraph, v: int) -> tuple[int, ...]:
    """The shape of a node's output; empty, if it is not known."""
    operator = graph.operators[v] if graph.operators is not None else None
    return operator.shape if operator is not None else ()


def steps(extent: int, length: int) -> tuple[int, ...]:
    """Where an axis of `extent` places is cut into parts of `length` places; the last one may be shorter."""
    return (*range(0, extent, length), extent)


def cut(graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> ComputationGraph:
    """The graph of parts.

    Args:
        cuts: by node the cuts of its output; one that is missing stays whole.

    Raises:
        InputError: as `tile`.
    """
    check_operators_known(graph)
    cuts = {v: {axis: points for axis, points in own.items() if len(points) > 2} for v, own in cuts.items()}
    if nodes_of(graph, cuts) > PARTS_LIMIT:
        raise InputError(f"more than {PARTS_LIMIT} parts and steps of sums over them: choose larger ones")
    tilings = [_Tiling.of(graph, v, cuts.get(v, {})) for v in range(len(graph.nodes))]
    made = _Made()
    for v in graph.input_order():
        _cut_layer(graph, v, cuts, tilings, made)
    if any(cuts.values()):
        made.leave_out_unread(graph)
    return made.graph_of(graph)


def nodes_of(graph: ComputationGraph, cuts: Mapping[int, Cuts]) -> int:
    """The most nodes that the graph of parts may have: where parts are computed step by step, each has one for each
    part of its input.

    Args:
        cuts: see `cut`, of axes with more than one part.
    """
    total = 0
    for v, operator in enumerate(graph.operators or ()):
        read = None if operator is None else _accumulated(operator, cuts)
        total += count_of(cuts.get(v, {})) * (1 if read is None else count_of(cuts[read]))
    return total


def count_of(cuts: Cuts) -> int:
    """The number of parts of an output."""
    return prod(len(points) - 1 for points in cuts.values())


def boxes_of(shape: Sequence[int], cuts: Cuts) -> Iterator[Box]:
    """The parts of an output in order, along the last axis that is cut first."""
    for chosen in product(*(pairwise(points) for points in cuts.values())):
        placed = dict(zip(cuts, chosen, strict=True))
        yield tuple(placed.get(axis, (0, extent)) for axis, extent in enumerate(shape))


@dataclass(frozen=True)
class _Tiling:
    """How the output of one node is cut, and its parts in order."""

    shape: tuple[int, ...]
    cuts: Cuts
    boxes: tuple[Box, ...]

    @classmethod
    def of(cls, graph: ComputationGraph, v: int, cuts: Cuts) -> _Tiling:
        shape = shape_of(graph, v)
        if cuts and (not set(cuts) <= set(range(len(shape))) or graph.sizes[v] % max(1, prod(shape))):
            raise InputError(f"node {graph.nodes[v]}: its output cannot be cut along {shown(list(cuts))}")
        return cls(shape, cuts, tuple(boxes_of(shape, cuts)))

    def number_of(self, places: Sequence[int]) -> int:
        """The number of the part with these intervals along all axes."""
        number = 0
        for axis, points in self.cuts.items():
            number = number * (len(points) - 1) + places[axis]
        return number

    def met(self, read: Read, box: Box) -> tuple[int, ...]:
        """The numbers of the parts of this tensor that some place of a reader's box reads, ascending.

        Each axis for itself: where two of them are read along one axis of the output, of a diagonal all of its square.
        """
        along: list[Iterable[int]] = []
        for axis, reach in enumerate(read.axes):
            points = self.cuts.get(axis, (0, read.shape[axis]))
            if reach is None:
                along.append(range(len(points) - 1))
            else:
                places = reach.places(*box[reach.axis], read.shape[axis])
                along.append(np.unique(np.searchsorted(points, places, "right") - 1).tolist())
        numbers = map(self.number_of, product(*along))
        return tuple(sorted(numbers))


@dataclass
class _Node:
    """A node of the tiled graph."""

    id: NodeId
    label: str
    layer: int
    part: Part | None
    share: tuple[int, int, int]
    """The share of the layer's work: from, to, and the total."""
    size: int
    reads: tuple[int, ...]
    overwrites: tuple[int, ...] = ()


@dataclass
class _Made:
    """Nodes of the tiled graph so far, in an order in which they can be computed."""

    nodes: list[_Node] = field(default_factory=list)
    last: dict[tuple[int, int], int] = field(default_factory=dict)
    """By layer and number of a part the node that has the part when it is done."""

    def add(self, node: _Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def leave_out_unread(self, graph: ComputationGraph) -> None:
        """Leave out what nothing reads of layers that others read; not what is computed once, as for its effects."""
        nodes, kept_layers = self.nodes, {*graph.computed_once, *_several(graph)}
        needed = [node.layer in kept_layers or not graph.successors[node.layer] for node in nodes]
        for at in range(len(nodes) - 1, -1, -1):
            for u in nodes[at].reads if needed[at] else ():
                needed[u] = True
        if all(needed):
            return
        number = {at: new for new, at in enumerate(at for at, kept in enumerate(needed) if kept)}
        self.nodes = [
            replace(
                node, reads=tuple(number[u] for u in node.reads),
                overwrites=tuple(number[u] for u in node.overwrites if u in number),
            )
            for node, kept in zip(nodes, needed, strict=True) if kept
        ]  # fmt: skip

    def graph_of(self, graph: ComputationGraph) -> ComputationGraph:
        def shared(amounts: Sequence[int | None]) -> tuple[int | None, ...]:
            return tuple(_share(amounts[node.layer], node.share) for node in self.nodes)

        nodes = self.nodes
        once = set(graph.computed_once)
        edges = [(u, at) for at, node in enumerate(nodes) for u in node.reads]
        return ComputationGraph(
            nodes=[node.id for node in nodes],
            durations=[amount for amount in shared(graph.durations) if amount is not None],
            sizes=[node.size for node in nodes],
            edges=edges,
            order=range(len(nodes)),
            name=graph.name,
            labels=None if graph.labels is None else [node.label for node in nodes],
            duration_unit=graph.duration_unit,
            size_unit=graph.size_unit,
            attributes=graph.attributes,
            backward=None if graph.backward is None else [graph.backward[node.layer] for node in nodes],
            fixed_memory=graph.fixed_memory,
            device_durations={device: shared(amounts) for device, amounts in graph.device_durations.items()},
            workspaces=None if graph.workspaces is None else [graph.workspaces[node.layer] for node in nodes],
            in_place=[node.overwrites for node in nodes],
            computed_once=[at for at, node in enumerate(nodes) if node.layer in once],
            runs_in_place=graph.runs_in_place,
            parts=[node.part for node in nodes],
            output_of=self._output_of(graph),
        )

    def _output_of(self, graph: ComputationGraph) -> list[int | None] | None:
        """First outputs of further ones; operations with several are whole, as it is not known what they compute."""
        if graph.output_of is None:
            return None
        number = {node.layer: at for at, node in enumerate(self.nodes)}
        first = (graph.output_of[node.layer] for node in self.nodes)
        return [None if of is None else number[of] for of in first]


def _several(graph: ComputationGraph) -> set[int]:
    """The outputs of operations that have several."""
    pairs = [(v, of) for v, of in enumerate(graph.output_of or ()) if of is not None]
    return {v for pair in pairs for v in pair}


def _share(amount: int | None, share: tuple[int, int, int]) -> int | None:
    """What falls to a part of the work, so that the parts of it have all of it together."""
    start, stop, whole = share
    return None if amount is None else amount * stop // max(1, whole) - amount * start // max(1, whole)


def _cut_layer(
    graph: ComputationGraph, v: int, cuts: Mapping[int, Cuts], tilings: Sequence[_Tiling], made: _Made
) -> None:  # fmt: skip
    """Add the parts of one layer, whose inputs are there."""
    own, elements = tilings[v], max(1, prod(tilings[v].shape))
    operator = graph.operators[v] if graph.operators is not None else None
    stepwise = operator is not None and _accumulated(operator, cuts) is not None
    done = 0
    for number, box in enumerate(own.boxes):
        volume = _volume(box)
        name = _name(box, own.cuts)
        part = Part(str(graph.nodes[v]), box) if own.cuts else None
        node = _Node(
            id=f"{graph.nodes[v]}{name}" if own.cuts else graph.nodes[v],
            label=f"{graph.labels[v]}{name}" if graph.labels else "",
            layer=v, part=part, share=(done, done + volume, elements),
            size=graph.sizes[v] * volume // elements, reads=_reads(graph, v, box, tilings, made),
            overwrites=_overwritten(graph, v, number, tilings, made),
        )  # fmt: skip
        done += volume
        if operator is not None and stepwise and node.reads:
            made.last[v, number] = _chain(operator, node, box, made)
        else:
            made.last[v, number] = made.add(node)


def _reads(
    graph: ComputationGraph, v: int, box: Box, tilings: Sequence[_Tiling], made: _Made
) -> tuple[int, ...]:  # fmt: skip
    """The nodes that a part reads; all parts of all inputs, if it is not known what the node computes."""
    operator = graph.operators[v] if graph.operators is not None else None
    found: dict[int, None] = {}
    if operator is None:
        for u in graph.predecessors[v]:
            found.update((made.last[u, number], None) for number in range(len(tilings[u].boxes)))
    for read in operator.reads if operator is not None else ():
        if read.source is not None:
            numbers = tilings[read.source].met(read, box)
            found.update((made.last[read.source, number], None) for number in numbers)
    return tuple(found)


def _overwritten(
    graph: ComputationGraph, v: int, number: int, tilings: Sequence[_Tiling], made: _Made
) -> tuple[int, ...]:
    """The parts that a part may overwrite: those at the same place of inputs that are cut the same way."""
    if graph.in_place is None or not graph.in_place[v]:
        return ()
    operator = graph.operators[v] if graph.operators is not None else None
    if not tilings[v].cuts and not any(tilings[u].cuts for u in graph.in_place[v]):
        return tuple(made.last[u, 0] for u in graph.in_place[v])
    found = []
    for u in graph.in_place[v]:
        same = tilings[u].shape == tilings[v].shape and list(tilings[u].cuts.items()) == list(tilings[v].cuts.items())
        reads = [read for read in operator.reads if read.source == u] if operator is not None else []
        if same and reads and all(_is_aligned(read) for read in reads) and graph.sizes[v] <= graph.sizes[u]:
            found.append(made.last[u, number])
    return tuple(found)


def _is_aligned(read: Read) -> bool:
    """Return whether each place reads the same place of an input, and no other."""
    return all(each is not None and each.is_identity and each.axis == axis for axis, each in enumerate(read.axes))


def _accumulated(operator: Operator, cuts: Mapping[int, Cuts]) -> int | None:
    """The input of an operator that is computed step by step: it can be, and reads all parts of its one input whole;
    None: the operator is computed at once."""
    if not operator.accumulator or len(operator.reads) != 1:
        return None
    (read,) = operator.reads
    if read.source is None or not (own := cuts.get(read.source)):
        return None
    return read.source if all(read.axes[axis] is None for axis in own) else None


def _chain(operator: Operator, whole: _Node, box: Box, made: _Made) -> int:
    """Add a step for each part that a node reads; the last one outputs the result. Returns its position."""
    start, stop, all_work = whole.share
    parts, before = [made.nodes[u] for u in whole.reads], -1
    sizes = [max(1, _volume(each.part.box)) if each.part is not None else 1 for each in parts]
    total, done = sum(sizes), 0
    layer = whole.part.layer if whole.part is not None else str(whole.id)
    for at, (u, volume) in enumerate(zip(whole.reads, sizes, strict=True)):
        last = at == len(sizes) - 1
        share = start * total + (stop - start) * done, start * total + (stop - start) * (done + volume)
        done += volume
        size = whole.size if last else operator.accumulator * _volume(box)
        before = made.add(
            _Node(
                id=whole.id if last else f"{whole.id} step {at}",
                label=whole.label if last else f"{whole.label} step {at}",
                layer=whole.layer,
                part=Part(layer, box, at),
                share=(*share, all_work * total),
                size=size,
                reads=(u,) if before < 0 else (u, before),
                overwrites=(before,) if before >= 0 and size <= made.nodes[before].size else (),
            )  # fmt: skip
        )
    return before


def _volume(box: Box) -> int:
    return prod(stop - start for start, stop in box)


def _name(box: Box, cuts: Cuts) -> str:
    """What is added to the name of a layer for a part of it, such as [0:4,16:32]."""
    return f"[{','.join(f'{box[axis][0]}:{box[axis][1]}' for axis in cuts)}]" if cuts else ""


def layers_of(graph: ComputationGraph) -> Iterator[tuple[str, Sequence[int]]]:
    """The layers of a tiled graph in the order of their first parts, each with its nodes in order."""
    found: dict[str, list[int]] = {}
    for v, part in enumerate(graph.parts or (None,) * len(graph.nodes)):
        found.setdefault(part.layer if part is not None else str(graph.nodes[v]), []).append(v)
    yield from found.items()
