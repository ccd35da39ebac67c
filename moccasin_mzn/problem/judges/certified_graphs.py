"""Graphs that certificates are about, made of the one in the file by the checker itself, from the definitions.

It shares no code with what takes out concatenations or cuts layers, and refuses what is not as a certificate states.

**Without concatenations.** The inputs of a concatenation are its output, byte by byte, if before the axis along which
it joins them there is one place only, it changes no number, and each but the last takes its share of the memory, a
multiple of the alignment. Each input is then at a fixed distance from the next one, which has to be so for all such
concatenations together. Who reads the concatenation reads its inputs. Any schedule with the concatenations becomes one
without them that needs no more memory, unless it overwrites them: a bound without them holds with them.

**In parts.** See `certified_parts`.

**In place** computations overwrite what the file lets them; nothing does that lies side by side with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.certificate_values import CertificateError, Json, read, require
from moccasin_mzn.problem.judges.certified_parts import Parts, cuts_of

CHANGES: Json = {"in_place": bool, "taken_out": [None], "alignment": 1, "cut": None, "graph": str}
"""How a graph is made of that in the file; "cut" is null, or has the axes of each layer that is cut, with where."""


@dataclass(frozen=True)
class CertifiedGraph:
    """A graph, and how it was made of that in the file, in a few words."""

    graph: ComputationGraph
    text: str
    is_single: bool = False
    """Are its parts of one place each, so that whatever is proven holds for larger ones along the same axes?"""


def certified_graph(graph: ComputationGraph, about: Json) -> CertifiedGraph:
    """Return the graph that a certificate is about.

    Args:
        about: the changes, of the form `CHANGES`.

    Raises:
        CertificateError: they are not possible.
    """
    try:
        return _made(graph, about)
    except InputError as error:  # ids that clash, such as of a part and of a layer
        raise CertificateError(f"about: {error}") from None


def _made(graph: ComputationGraph, about: Json) -> CertifiedGraph:
    texts, single = [], False
    if about["taken_out"]:
        graph, text = _without(graph, read("about.taken_out", about["taken_out"], [graph]), about["alignment"])
        texts.append(text)
    if about["cut"] is not None:
        parts = Parts(graph, cuts_of(graph, read("about.cut", about["cut"], [[None]])))
        graph, single = parts.graph(), parts.are_single and not about["in_place"]
        texts.append(f"in {len(graph.nodes):,} parts")
    if about["in_place"]:
        texts.append("in place")
    return CertifiedGraph(graph.run_in_place(about["in_place"]), ", ".join(texts), single)


# --- Without concatenations -----------------------------------------------------------------------------------


def _without(graph: ComputationGraph, gone: list[int], alignment: int) -> tuple[ComputationGraph, str]:
    require(len(set(gone)) == len(gone), "about.taken_out: a node is given twice")
    adjacent = [group for row in graph.adjacent or () for group in row]
    leaves: dict[int, tuple[int, ...]] = {}
    for v in graph.topological_order():
        if v in gone:
            leaves[v] = _joined(graph, v, leaves, alignment, {u for group in adjacent for u in group})
    adjacent += leaves.values()
    _check_places(graph, adjacent)
    kept = [v for v in range(len(graph.nodes)) if v not in leaves]
    at, lies = {v: k for k, v in enumerate(kept)}, {u for group in adjacent for u in group}
    edges = {(at[leaf], at[v]) for u, v in graph.edges if v in at for leaf in leaves.get(u, (u,))}
    rows = graph.in_place or ((),) * len(graph.nodes)
    made = ComputationGraph(
        nodes=[graph.nodes[v] for v in kept], durations=[graph.durations[v] for v in kept],
        sizes=[graph.sizes[v] for v in kept], edges=sorted(edges),
        workspaces=None if graph.workspaces is None else [graph.workspaces[v] for v in kept],
        in_place=[[at[u] for u in rows[v] if u in at and not {u, v} & lies] for v in kept],
        computed_once=[at[v] for v in graph.computed_once],
        output_of=graph.output_of and [None if (of := graph.output_of[v]) is None else at[of] for v in kept],
        adjacent=[_read_as_one(graph, v, leaves, at) for v in kept],
        duration_unit=graph.duration_unit, size_unit=graph.size_unit,
    )  # fmt: skip
    names = ", ".join(str(graph.nodes[v]) for v in gone[:3]) + ", ..." * (len(gone) > 3)
    return made, f"without {len(gone):,} concatenation{'s' * (len(gone) > 1)} ({names})"


def _read_as_one(
    graph: ComputationGraph, v: int, leaves: Mapping[int, tuple[int, ...]], at: Mapping[int, int]
) -> list[list[int]]:
    before, new = graph.adjacent[v] if graph.adjacent else (), (leaves[u] for u in graph.predecessors[v] if u in leaves)
    groups = [*before, *new]
    return [[at[u] for u in group] for group in dict.fromkeys(groups)]


def _joined(
    graph: ComputationGraph, v: int, leaves: Mapping[int, tuple[int, ...]], alignment: int, adjacent: set[int]
) -> tuple[int, ...]:
    """The outputs that lie side by side in place of a concatenation, in the order of their addresses."""
    operator, size = (graph.operators or {v: None})[v], graph.sizes
    where = f"about.taken_out: {graph.nodes[v]}"
    require(operator is not None and operator.unchanged, f"{where} is not known to be a concatenation")
    assert operator is not None
    sources = [one.source for one in operator.reads if one.source is not None]
    group = tuple(leaf for u in sources for leaf in leaves.get(u, (u,)))
    once = v in graph.computed_once or graph.workspace_of[v] or (graph.output_of and graph.output_of[v] is not None)
    require(
        not once and v not in adjacent and not (graph.adjacent and graph.adjacent[v]), f"{where} does more than join"
    )
    require(bool(graph.successors[v]), f"{where}: nothing reads it")
    is_joined = any(_joins(operator.shape, operator.reads, axis) for axis in range(len(operator.shape)))
    require(len(sources) == len(operator.reads) and is_joined, f"{where}: its inputs are not its output, byte by byte")
    fits = all(size[u] > 0 for u in group) and sum(size[u] for u in group) == size[v]
    for one in operator.reads[:-1]:
        fits &= one.source is not None and size[one.source] * prod(operator.shape) == size[v] * prod(one.shape)
    require(fits and len(set(group)) == len(group) > 1, f"{where}: its inputs do not take its memory together")
    require(all(size[u] % alignment == 0 for u in group[:-1]), f"{where}: its inputs are not aligned")
    return group


def _joins(shape: Sequence[int], reads: Json, axis: int) -> bool:
    """Does an operator output what it reads one after the other along an axis, with one place along all before it?"""
    starts = [0, *accumulate(one.shape[axis] if len(one.shape) == len(shape) else -1 for one in reads)]
    if prod(shape[:axis]) != 1 or starts[-1] != shape[axis]:
        return False
    for start, one in zip(starts, reads, strict=False):
        extents = [*one.shape[:axis], shape[axis], *one.shape[axis + 1 :]]
        if len(one.shape) != len(shape) or extents != list(shape) or any(reach is None for reach in one.axes):
            return False
        for at, reach in enumerate(one.axes):
            moved = reach.before == (start if at == axis else 0) and reach.axis == at
            if not moved or (reach.stride, reach.window, reach.divisor) != (1, 1, 1):
                return False
    return True


def _check_places(graph: ComputationGraph, groups: Sequence[Sequence[int]]) -> None:
    """Check that all of a group can lie side by side for all groups together."""
    near: dict[int, list[tuple[int, int]]] = {}
    for u, v in (pair for group in groups for pair in pairwise(group)):
        near.setdefault(u, []).append((v, graph.sizes[u]))
        near.setdefault(v, []).append((u, -graph.sizes[u]))
    place: dict[int, int] = {}
    for first in near:
        if first in place:
            continue
        place[first], block = 0, [first]
        for u in block:
            for v, distance in near[u]:
                if v not in place:
                    place[v] = place[u] + distance
                    block.append(v)
                require(place[v] == place[u] + distance, f"about.taken_out: {graph.nodes[v]} cannot be in two places")
        boxes = sorted((place[u], place[u] + graph.sizes[u], u) for u in block)
        for (_, end, _), (start, _, v) in pairwise(boxes):
            require(end <= start, f"about.taken_out: {graph.nodes[v]} lies where another output does")
