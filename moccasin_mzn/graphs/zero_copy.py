"""Graphs without concatenations that need copy nothing: who reads their output reads the inputs, side by side. ::

    a ──> concat ──> c                a ──┬──> c
    b ──>        └─> d                b ──┴──> d          c and d read a and b as one, see `graphs.adjacency`

    memory   a: [====]                a: [===========]    a, b and the output of the concatenation are twice as much
             b: [====]                b: [===========]    memory on the left, while it copies, and take time to copy
             concat: [=======]

A concatenation is taken out where its inputs, one directly after the other, are its output, byte by byte: before the
axis along which they are joined every axis has one place, and all inputs but the last take their share of the output's
memory: three numbers of 4 bits take more, and what follows them would begin inside of a byte. All its inputs must be
outputs of nodes, each read once, and be able to lie so: with addresses that are multiples of an alignment, all but the
last take a multiple of it, and an output that several concatenations read must fit all of them. Where it does not, the
first in the input order is taken out, and the others stay, and copy. Nested concatenations are taken out from the
inside.

Without addresses no schedule is lost: where one computes a concatenation, the inputs stay in memory in place of its
output, which takes as much; and it may be recomputed for nothing. With addresses some are: what lies side by side stays
where it is, and leaves others no room that a copy elsewhere would leave. In place some are as well: what lies side by
side neither overwrites an input nor is overwritten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import prod

from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.clock import nothing
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.graphs.access_maps import shifted
from moccasin_mzn.graphs.adjacency import Blocks
from moccasin_mzn.graphs.checks import TAKEN_OUT
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator
from moccasin_mzn.graphs.wording import node_text

CONCATENATIONS = frozenset(("Concat", "CONCATENATION", "QLinearConcat"))
"""Names of operators that are concatenations, of ONNX and of TFLite."""


@dataclass(frozen=True)
class ZeroCopy:
    """A graph without some of its concatenations."""

    original: ComputationGraph
    graph: ComputationGraph
    taken_out: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The concatenations that are no longer there, with what lies side by side in their place, by the order of
    addresses; positions in `original`."""
    kept: Mapping[int, str] = field(default_factory=dict)
    """The concatenations that copy, with the reason."""

    def text(self) -> str:
        """How many concatenations were taken out, and why others stay, in a line."""
        if not self.taken_out and not self.kept:
            why = "it has none" if self.original.operators else "its operators are not known: import the model anew"
            if (before := attribute_of(self.original)) is not None:
                why = f"that was done before, for alignment {before}"
            return f"no concatenation of the graph is taken out: {why}"
        count = len(self.taken_out) + len(self.kept)
        parts = [f"{len(self.taken_out):,} of {count_text(count, 'concatenation')} taken out"]
        reasons = Counter(self.kept.values())
        for reason, times in reasons.most_common():
            first = next(v for v, other in self.kept.items() if other == reason)
            more = f" and {times - 1:,} more" if times > 1 else ""
            parts.append(f"{node_text(self.original, first)}{more} stays: {reason}")
        return "; ".join(parts)


def changed_graph(
    graph: ComputationGraph, in_place: bool, alignment: int | None, note: Callable[[str], object] = nothing
) -> ComputationGraph:
    """Return a graph without concatenations, or to run in place, as a question asks for it.

    Args:
        alignment: concatenations that need copy nothing at this alignment are taken out; None: none are.
        note: called with a line on those that were taken out.

    Raises:
        InputError: see `zero_copy_concat`.
    """
    if alignment is not None:
        found = zero_copy_concat(graph, alignment)
        note(found.text())
        graph = found.graph
    return graph.run_in_place() if in_place else graph


def changed_for(graph: ComputationGraph, document: object) -> ComputationGraph:
    """Return a graph as the file of a schedule or a plan has it, see `changes_of`.

    Raises:
        InputError: see `zero_copy_concat`.
    """
    in_place = isinstance(document, Mapping) and document.get("in_place") is True
    return changed_graph(graph, in_place, alignment_in(document))


def changes_of(graph: ComputationGraph) -> JsonObject:
    """How a graph was changed, as files of schedules and plans have it: "in_place", and the alignment for which
    concatenations were taken out."""
    in_place = {} if graph.overwritable is None else {"in_place": True}
    alignment = attribute_of(graph)
    return {**in_place, **({} if alignment is None else {TAKEN_OUT: alignment})}


def zero_copy_concat(graph: ComputationGraph, alignment: int = 1) -> ZeroCopy:
    """Take concatenations that need copy nothing out of a graph.

    Args:
        alignment: addresses are to be multiples of it, in the graph's size unit.

    Returns:
        Nodes keep their ids, and their order. The graph attribute "zero_copy_concat" lists what was taken out. A graph
        without any such concatenation is itself, and so is one that some were taken out of before: for another
        alignment others would have been, and one attribute has one alignment.

    Raises:
        InputError: a tiled graph; an alignment that is no integer of 1 or more.
    """
    alignment = plain(alignment)
    if type(alignment) is not int or alignment < 1:
        raise InputError(f"alignment {shown(alignment)} is not a positive integer")
    if graph.parts is not None:
        raise InputError("the graph is tiled: concatenations are taken out of graphs that are not")
    found = _Search(graph, alignment)
    for v in graph.input_order() if attribute_of(graph) is None else ():
        found.look_at(v)
    made = found.graph_without() if found.taken_out else graph
    return ZeroCopy(graph, made, found.taken_out, found.kept)


def attribute_of(graph: ComputationGraph) -> int | None:
    """The alignment for which concatenations were taken out of a graph; None: none were."""
    found = None if graph.adjacent is None else graph.attributes.get(TAKEN_OUT)
    return _positive(found, "alignment")


def alignment_in(document: object) -> int | None:
    """The alignment for which concatenations were taken out of the graph that a schedule's file is of; None: none."""
    return _positive(document, TAKEN_OUT)


def alignment_for(document: object) -> int:
    """The alignment for which a schedule's file wants concatenations taken out, if they are to be: where none could be
    taken out it does not have one, but that of its offsets; 1 without offsets."""
    return alignment_in(document) or _positive(document, "alignment") or 1


def _positive(document: object, key: str) -> int | None:
    found = document.get(key) if isinstance(document, Mapping) else None
    return found if type(found) is int and found > 0 else None


def difference(document: object, graph: ComputationGraph) -> str:
    """What a schedule's file has about concatenations and a graph has not, in words; empty if they agree."""
    made, given = (
        "without --zero-copy-concat" if alignment is None else f"with --zero-copy-concat (alignment {alignment})"
        for alignment in (alignment_in(document), attribute_of(graph))
    )
    return "" if made == given else f"made {made}, this graph {given}"


class _Search:
    """Concatenations, one after the other."""

    def __init__(self, graph: ComputationGraph, alignment: int) -> None:
        self.graph, self.alignment = graph, alignment
        self.taken_out: dict[int, tuple[int, ...]] = {}
        self.kept: dict[int, str] = {}
        self._blocks = Blocks(graph.sizes)
        for row in graph.adjacent or ():
            for group in row:
                self._blocks.join(group)

    def look_at(self, v: int) -> None:
        """Take a node out, if it is a concatenation that need not copy."""
        operator = self.graph.operators[v] if self.graph.operators is not None else None
        if operator is None or not (operator.unchanged or operator.name in CONCATENATIONS):
            return
        leaves = tuple(leaf for read in operator.reads for leaf in self._leaves(read.source))
        reason = self._of_operator(v, operator) or self._of_places(v, operator, leaves)
        if reason:
            self.kept[v] = reason
        else:
            self._blocks.join(leaves)
            self.taken_out[v] = leaves

    def _leaves(self, source: int | None) -> tuple[int, ...]:
        if source is None:
            return ()
        return self.taken_out.get(source, (source,))

    def _of_operator(self, v: int, operator: Operator) -> str:
        """Why the inputs of a concatenation are not its output, byte by byte; empty: they are."""
        graph, reads = self.graph, operator.reads
        if not operator.unchanged:
            return "it is not known to leave numbers as they are"
        if any(read.source is None for read in reads):
            return "it reads inputs of the caller's"
        if v in graph.computed_once or graph.workspace_of[v] or (graph.output_of and graph.output_of[v] is not None):
            return "it is more than a concatenation"
        if not graph.successors[v]:
            return "its output is one of the network's"
        if graph.adjacent is not None and (graph.adjacent[v] or graph.places[v] is not None):
            return "its own inputs or output lie side by side with others already"
        axis = joined_axis(operator)
        if axis is None:
            return "it reads more than outputs of nodes, or not all of them"
        if prod(operator.shape[:axis]) != 1:
            return "its inputs alternate in its output"
        return ""

    def _of_places(self, v: int, operator: Operator, leaves: tuple[int, ...]) -> str:
        """Why these nodes cannot lie side by side; empty: they can."""
        sizes = self.graph.sizes
        if len(leaves) < 2 or len({*leaves}) < len(leaves):
            return "it reads an output twice" if len(leaves) > 1 else "it joins nothing"
        if not all(sizes[u] for u in leaves) or sum(sizes[u] for u in leaves) != sizes[v]:
            return "its inputs together do not take the memory of its output"
        first = [(sizes[read.source], prod(read.shape)) for read in operator.reads[:-1] if read.source is not None]
        if any(size * operator.elements != sizes[v] * elements for size, elements in first):
            return "an input that another one would follow does not take its share of the output's memory"
        if any(sizes[u] % self.alignment for u in leaves[:-1]):
            step = memory_text(self.alignment, self.graph.size_unit)
            return f"an input that another one would follow takes no multiple of {step}"
        if self._blocks.misfit(leaves) is not None:
            return "its inputs lie side by side with other outputs, for another concatenation"
        return ""

    def graph_without(self) -> ComputationGraph:
        """The graph without what was taken out."""
        graph, gone = self.graph, self.taken_out
        kept = [v for v in range(len(graph.nodes)) if v not in gone]
        at = {v: place for place, v in enumerate(kept)}
        edges = {(at[leaf], at[v]): None for u, v in graph.edges if v in at for leaf in self._leaves(u)}
        once = [at[v] for v in graph.computed_once]
        new = [(tuple(at[leaf] for leaf in gone[u]) for u in graph.predecessors[v] if u in gone) for v in kept]
        old = [
            (tuple(at[u] for u in group) for group in (graph.adjacent[v] if graph.adjacent else ())) for v in kept
        ]  # fmt: skip
        operators = graph.operators or (None,) * len(graph.nodes)
        taken = {str(graph.nodes[v]): [graph.nodes[u] for u in leaves] for v, leaves in gone.items()}
        return replace(
            graph,
            nodes=tuple(graph.nodes[v] for v in kept),
            durations=tuple(graph.durations[v] for v in kept),
            sizes=tuple(graph.sizes[v] for v in kept),
            edges=tuple(edges),
            order=None if graph.order is None else tuple(at[v] for v in graph.order if v in at),
            labels=None if graph.labels is None else tuple(graph.labels[v] for v in kept),
            attributes={**graph.attributes, TAKEN_OUT: {"alignment": self.alignment, "taken_out": taken}},
            backward=None if graph.backward is None else tuple(graph.backward[v] for v in kept),
            device_durations={
                device: tuple(durations[v] for v in kept) for device, durations in graph.device_durations.items()
            },
            workspaces=None if graph.workspaces is None else tuple(graph.workspaces[v] for v in kept),
            in_place=self._overwritable(kept, at),
            computed_once=tuple(once),
            operators=tuple(_placed(operators[v], at) for v in kept),
            output_of=None
            if graph.output_of is None
            else tuple(None if (of := graph.output_of[v]) is None else at[of] for v in kept),
            adjacent=tuple(tuple(dict.fromkeys((*one, *other))) for one, other in zip(old, new, strict=True)),
        )

    def _overwritable(self, kept: list[int], at: Mapping[int, int]) -> tuple[tuple[int, ...], ...] | None:
        """What each node may overwrite, where neither lies side by side with others."""
        rows, blocks = self.graph.in_place, self._blocks
        if rows is None:
            return None
        alone = [v in at and blocks.place_of(v) is None for v in range(len(rows))]
        return tuple(tuple(at[u] for u in rows[v] if alone[u] and alone[v]) for v in kept)


def _placed(operator: Operator | None, at: Mapping[int, int]) -> Operator | None:
    """What a node computes, in the positions of the new graph; None for what reads concatenations taken out."""
    if operator is None or not all(read.source is None or read.source in at for read in operator.reads):
        return None
    reads = (replace(read, source=None if read.source is None else at[read.source]) for read in operator.reads)
    return replace(operator, reads=tuple(reads))


def joined_axis(operator: Operator) -> int | None:
    """The axis along which an operator joins all of what it reads, one after the other; None: it does not."""
    shape, reads = operator.shape, operator.reads
    if any(len(read.shape) != len(shape) for read in reads):
        return None
    for axis in range(len(shape)):
        *starts, end = accumulate((read.shape[axis] for read in reads), initial=0)
        others = all(
            (*read.shape[:axis], *read.shape[axis + 1 :]) == (*shape[:axis], *shape[axis + 1 :]) for read in reads
        )
        maps = [shifted(len(shape), {axis: start}) for start in starts]
        if end == shape[axis] and others and [read.axes for read in reads] == maps:
            return axis
    return None
