"""How the graph of a proof was made of the one that was given, as certificates have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import prod

from moccasin_mzn.base.files import Json, JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.zero_copy import attribute_of
from moccasin_mzn.problem.judges.certificates import graph_digest, made_digest


def changes(given: ComputationGraph, graph: ComputationGraph) -> JsonObject | None:
    """Return what a certificate states under "about"; None if it is about the graph that was given.

    Args:
        given: the graph in the file.
        graph: the same in place, without concatenations, or in parts.
    """
    in_place, same = graph.overwritable is not None, graph_digest(given) == graph_digest(graph)
    if same and not in_place:
        return None
    alignment = attribute_of(graph)
    is_joined = not same and alignment is not None and attribute_of(given) is None
    there = set(graph.nodes)
    return {
        "in_place": in_place,
        "taken_out": [node for node in given.nodes if node not in there] if is_joined else [],
        "alignment": alignment if is_joined else 1,
        "cut": None if same or is_joined else cut_of(given, graph),
        "graph": made_digest(graph),
    }


def cut_of(given: ComputationGraph, graph: ComputationGraph) -> list[Json]:
    """Return where the layers of a graph of parts are cut: each layer with its axes, in the order in which parts
    follow each other, and the places where parts begin, from 0 to the number of places."""
    boxes: dict[str, dict[tuple[tuple[int, int], ...], None]] = {}
    for part in filter(None, graph.parts or ()):
        boxes.setdefault(part.layer, {})[part.box] = None
    found: list[Json] = []
    for v, node in enumerate(given.nodes):
        operator = given.operators[v] if given.operators is not None else None
        own = tuple(boxes.get(str(node), ()))
        if operator is None or not own:
            continue
        points = [sorted({0, extent, *(end for box in own for end in box[axis])})
                  for axis, extent in enumerate(operator.shape)]  # fmt: skip
        axes = [axis for axis, ends in enumerate(points) if len(ends) > 2]
        if axes:
            found.append([node, [[axis, points[axis]] for axis in _ordered(str(node), axes, own, graph)]])
    return found or _left_out(given, graph)


def _left_out(given: ComputationGraph, graph: ComputationGraph) -> list[Json]:
    """The cut of a layer that is left out, as nothing reads its parts, so that it does not matter where; or nothing."""
    there = {part.layer if part else str(node) for node, part in zip(graph.nodes, graph.parts or (), strict=False)}
    there |= set(map(str, graph.nodes))
    for node, operator, size in zip(given.nodes, given.operators or (), given.sizes, strict=False):
        shape = () if operator is None or str(node) in there else operator.shape
        axis = next((axis for axis, extent in enumerate(shape) if extent > 1 and size % max(1, prod(shape)) == 0), None)
        if axis is not None:
            return [[node, [[axis, [0, 1, shape[axis]]]]]]
    return []


def _ordered(
    layer: str, axes: Sequence[int], boxes: Sequence[tuple[tuple[int, int], ...]], graph: ComputationGraph
) -> Iterable[int]:
    """The axes in the order that the names of the parts have, along the last of which they follow each other."""
    ids = {str(node) for node in graph.nodes}
    for some in permutations(axes):
        keys = [tuple(box[axis] for axis in some) for box in boxes]
        names = (f"{layer}[{','.join(f'{a}:{b}' for a, b in key)}]" for key in keys)
        if keys == sorted(keys) and ids.issuperset(names):
            return some
    return axes
