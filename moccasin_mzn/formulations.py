"""The models by name, and the translation between their solutions and sequences of computations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.presolve import ModelData
from moccasin_mzn.simulate import simulate

FORMULATIONS = ("staged", "general")
PRECEDENCES = ("served-by", "reservoir")
INDICES = ("affine", "triangular")


@dataclass(frozen=True)
class Formulation:
    """One of the paper's formulations with one form of its precedence constraint and of its event index.

    `Formulation("staged", "reservoir", "triangular")` is the published one, without redundant constraints.

    Raises:
        InputError: an unknown name, where the message lists the known ones; or a triangular index of free events.
    """

    name: str = "staged"
    """"staged": stages of the input order (2.3); "general": the order is open (2.1)."""
    precedence: str = "served-by"
    """"served-by": half-reified booleans; "reservoir": as published (2.2)."""
    index: str = "affine"
    """How staged events are numbered. "affine": starts without holes, and redundant constraints; "triangular": as
    published (2.3), neither."""

    def __post_init__(self) -> None:
        for what, value, known in (
            ("formulation", self.name, FORMULATIONS),
            ("precedence", self.precedence, PRECEDENCES),
            ("index", self.index, INDICES),
        ):
            if value not in known:
                raise InputError(f"unknown {what} {shown(value)}, expected one of {', '.join(known)}")
        if self.index == "triangular" and not self.staged:
            raise InputError("the triangular index numbers staged events, the general formulation has free ones")

    @property
    def staged(self) -> bool:
        return self.name == "staged"

    def model(self, objective: str) -> Path:
        """The model file for an objective, "duration" or "peak" (phase 1)."""
        suffix = {"affine": "", "triangular": "_triangular"}[self.index]
        suffix += {"served-by": "", "reservoir": "_reservoir"}[self.precedence]
        suffix += {"duration": "", "peak": "_peak"}[objective]
        return models_folder() / f"{self.name}{suffix}.mzn"

    def data_items(
        self,
        graph: ComputationGraph,
        data: ModelData,
        incumbent: Sequence[int] | Intervals | None = None,
        duration_limit: int | None = None,
    ) -> dict[str, Any]:
        """The items of the `.dzn` file, as declared in `models/lib/instance.mzn`.

        Args:
            incumbent: the warm start, as a sequence or as what stands for it in the model; None: there is none.
            duration_limit: only schedules that take no longer count, in the model's duration unit; None: all count.
        """
        if not isinstance(incumbent, Intervals):
            none = Intervals((), (), ())
            incumbent = encode(graph, data, incumbent, self.staged, self.index) if incumbent else none
        if duration_limit is None:
            duration_limit = sum(w * most for w, most in zip(data.duration, data.max_computations, strict=True))
        return {
            "nodes": len(data.size),
            "duration": data.duration,
            "size": data.size,
            "edges": len(data.edges),
            "tail": [tail for tail, _ in data.edges],
            "head": [head for _, head in data.edges],
            "budget": data.budget,
            "input_order_memory": data.input_order_memory,
            "max_computations": data.max_computations,
            "entry": data.entry,
            "absent": data.absent,
            "exit": data.exit,
            "earliest_stage": data.earliest_stage,
            "latest_stage": data.latest_stage,
            "critical_stage": data.critical_stage,
            "duration_limit": duration_limit,
            "incumbent_active": incumbent.active,
            "incumbent_start": incumbent.start,
            "incumbent_end": incumbent.end,
        }


def models_folder() -> Path:
    """Where the `.mzn` files are: inside an installed package, or beside the package in a checkout."""
    package = Path(str(resources.files("moccasin_mzn")))
    installed = package / "models"
    return installed if installed.is_dir() else package.parent / "models"


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
