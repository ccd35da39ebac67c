"""Arenas for schedules: the retention intervals of a sequence as buffers, in either direction."""

from __future__ import annotations

from moccasin_mzn.addresses.buffers import Buffer
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.simulate import Simulation


def buffers_of(graph: ComputationGraph, simulation: Simulation) -> tuple[Buffer, ...]:
    """One buffer for each retention interval, in the same order.

    The closed interval [start, end] of positions becomes the half-open lifespan start..end + 1: an output that is read
    for the last time while another is computed does not share memory with it. Names are the node's id and, from its
    second computation on, "#2", "#3" ...; a name that is taken gets "'" behind it.
    """
    counts: dict[int, int] = {}
    names: set[str] = set()
    buffers = []
    for interval in simulation.intervals:
        copy = counts[interval.node] = counts.get(interval.node, 0) + 1
        name = str(graph.nodes[interval.node]) + (f"#{copy}" if copy > 1 else "")
        while name in names:
            name += "'"
        names.add(name)
        buffers.append(Buffer(name, interval.start, interval.end + 1, graph.sizes[interval.node]))
    return tuple(buffers)
