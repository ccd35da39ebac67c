"""Retention intervals (paper, 2.1) as arrays of a model, from and to sequences of computations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
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


def decode(data: ModelData, intervals: Intervals, first: float = 0, last: float = math.inf) -> tuple[int, ...]:
    """The sequence a solution stands for: active computations by start, as positions in `graph.nodes`, of those that
    start at the events first..last."""
    performed = sorted(
        (start, node)
        for active, start, node in zip(intervals.active, intervals.start, data.computation_nodes, strict=True)
        if active and first <= start <= last
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
    number = {v: k for k, v in enumerate(data.order)}
    copies: list[list[tuple[int, int]]] = [[] for _ in data.order]
    for interval in simulate(graph, sequence).intervals:
        copies[number[interval.node]].append((events[interval.start - 1], events[interval.end - 1]))
    return as_intervals(data, copies, unused_events(data, len(sequence), staged, index))


def as_intervals(data: ModelData, copies: Sequence[Sequence[Sequence[int]]], unused: Callable[[int], int]) -> Intervals:
    """Values for all computations, from (start, end) of the copies of node 1, 2, ..., n; `unused` is the event of an
    inactive computation of a node."""
    active, start, end = tuple(zip(*interval_rows(data, copies, unused), strict=True)) or ((), (), ())
    return Intervals(active, start, end)


def interval_rows(
    data: ModelData, copies: Sequence[Sequence[Sequence[int]]], unused: Callable[[int], int], more: Sequence[int] = ()
) -> Iterator[tuple[int, ...]]:
    """A row of values for each computation: whether it is active, its first and last event, and what a model has more.

    Args:
        copies: of node 1, 2, ..., n, each with its first and last event and what there is more.
        unused: the event of an inactive computation of a node.
        more: what an inactive one has more.
    """
    for k, (present, count) in enumerate(zip(copies, data.max_computations, strict=True), 1):
        yield from ((True, *copy) for copy in present)
        yield from ((False, event, event, *more) for event in [unused(k) for _ in range(count - len(present))])


def unused_events(data: ModelData, length: int, staged: bool, index: str = "affine") -> Callable[[int], int]:
    """The event of each inactive computation of a node, from 1; free events are those after the `length` that are
    used."""
    last = itertools.count(length + 1)
    return lambda number: unused_event(data, number, index) if staged else next(last)


def unused_event(data: ModelData, number: int, index: str = "affine") -> int:
    """The fixed place of inactive computations of a node, from 1, among staged events (`models/lib/staged.mzn`)."""
    return _staged_event(data, data.earliest_stage[number - 1], number, index)


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
    """Return the event at which node v is computed in stage k, both counted from 1.

    Affine: n (k - 1) + v. Triangular: k (k - 1) / 2 + v, where v <= k. Both are in `models/lib/staged.mzn`.
    """
    before = {"affine": len(data.order) * (stage - 1), "triangular": stage * (stage - 1) // 2}[index]
    return before + number
