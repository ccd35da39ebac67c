"""Offsets of one schedule carried over to another."""

from __future__ import annotations

import numpy as np

from moccasin_mzn.problem.arena import Arena, Buffer
from moccasin_mzn.problem.judges.schedules import Simulation


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
