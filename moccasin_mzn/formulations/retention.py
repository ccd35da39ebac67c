"""Retention intervals (paper, 2.1) as arrays of a model, from and to sequences of computations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate


@dataclass(frozen=True)
class Intervals:
    """Values of the model's arrays, one entry per computation: `active`, and the events `start` and `end` (closed)."""

    active: tuple[bool, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]


def decode(data: ModelData, intervals: Intervals) -> tuple[int, ...]:
    """The sequence a solution stands for: active computations by start, as positions in `graph.nodes`."""
    performed = sorted(
        (start, node)
        for active, start, node in zip(intervals.active, intervals.start, data.computation_nodes, strict=True)
        if active
    )
    return tuple(data.order[node - 1] for _, node in performed)


def encode(
    graph: ComputationGraph, data: ModelData, sequence: Sequence[int], staged: bool, index: str = "affine"
) -> Intervals:
    """The solution that stands for a sequence, with every interval ending at its last read; inverse of `decode`.

    The sequence computes each node 1..C_v times; with staged events, numbered by `index`, it is in stages of the input
    order.
    """
    events = staged_events(data, sequence, index) if staged else range(1, len(sequence) + 1)
    copies: list[list[tuple[int, int]]] = [[] for _ in graph.nodes]
    for interval in simulate(graph, sequence).intervals:
        copies[interval.node].append((events[interval.start - 1], events[interval.end - 1]))
    active, start, end = [], [], []
    unused = len(sequence)  # free events: inactive computations take the events after the last
    for number, (v, count) in enumerate(zip(data.order, data.max_computations, strict=True), 1):
        for i in range(count):
            active.append(i < len(copies[v]))
            if active[-1]:
                first, last = copies[v][i]
            elif staged:
                first = last = _staged_event(data, data.earliest_stage[number - 1], number, index)
            else:
                unused += 1
                first = last = unused
            start.append(first)
            end.append(last)
    return Intervals(tuple(active), tuple(start), tuple(end))


def staged_events(data: ModelData, sequence: Sequence[int], index: str = "affine") -> list[int]:
    """The staged event of each computation in a sequence that is in stages of the input order (paper, 2.3)."""
    number = {v: k for k, v in enumerate(data.order, 1)}
    events, stage = [], 1
    for v in sequence:
        events.append(_staged_event(data, stage, number[v], index))
        if number[v] == stage:
            stage += 1
    return events


def _staged_event(data: ModelData, stage: int, number: int, index: str) -> int:
    """Where node v is computed in stage k, both counted from 1.

    Affine: n (k - 1) + v, as in `models/lib/staged.mzn`. Triangular: k (k - 1) / 2 + v, where v <= k, as in
    `models/lib/staged_triangular.mzn`.
    """
    before = {"affine": len(data.order) * (stage - 1), "triangular": stage * (stage - 1) // 2}[index]
    return before + number
