"""Arenas for schedules: the retention intervals of a sequence as buffers, in either direction."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.judges.schedules import Simulation


def buffers_of(graph: ComputationGraph, simulation: Simulation) -> tuple[Buffer, ...]:
    """One buffer for each retention interval, in the same order.

    The closed interval [start, end] of positions becomes the half-open lifespan start..end + 1: an output that is read
    for the last time while another is computed does not share memory with it. Names are the node's id, with its human
    name if it has one, and, from its second computation on, "#2", "#3" ...; a name that is taken gets "'" behind it.
    """
    counts: dict[int, int] = {}
    names: set[str] = set()
    buffers = []
    for interval in simulation.intervals:
        copy = counts[interval.node] = counts.get(interval.node, 0) + 1
        name = node_text(graph, interval.node) + (f"#{copy}" if copy > 1 else "")
        while name in names:
            name += "'"
        names.add(name)
        buffers.append(Buffer(name, interval.start, interval.end + 1, graph.sizes[interval.node]))
    return tuple(buffers)


def carried_over(
    arena: Arena, before: Simulation, buffers: tuple[Buffer, ...], after: Simulation, alignment: int
) -> list[int]:
    """Offsets for a schedule that is near another one: the order from below stays, and each buffer rests on others.

    Args:
        arena: of the schedule before.
        buffers: of the schedule after; each begins where the copy of the node is whose stage is nearest.
    """
    from moccasin_mzn.extensions.addresses.insertion import settle

    known: dict[int, list[tuple[int, int]]] = {}
    for (node, stage), offset in zip(_stages(before), arena.offsets, strict=True):
        known.setdefault(node, []).append((stage, offset))
    place = [min(known[node], key=lambda at: abs(at[0] - stage))[1] for node, stage in _stages(after)]
    rows = [(b.start, b.end, b.size, alignment) for b in buffers]
    start, end, size, step = np.array(rows, np.int64).T.copy()
    offsets, top = np.zeros(len(rows), np.int64), np.zeros(int(end.max()), np.int64)
    settle(np.argsort(np.array(place), kind="stable"), start, end, size, step, top, offsets)
    return offsets.tolist()


def _stages(simulation: Simulation) -> list[tuple[int, int]]:
    """Node of each retention interval, and how many nodes have been computed before it begins."""
    seen: set[int] = set()
    stages = []
    for interval in simulation.intervals:
        stages.append((interval.node, len(seen)))
        seen.add(interval.node)
    return stages
