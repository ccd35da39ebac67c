"""Rows of answers: their status, the retention intervals of a schedule, the incumbents of a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.problem.judges.schedules import Retained
from moccasin_mzn.problem.platform import Plan, computed_nodes
from moccasin_mzn.problem.runtime_plan import reads_of
from moccasin_mzn.search.result import Result as Found
from moccasin_mzn.search.result import TracePoint


@dataclass(frozen=True)
class Interval:
    """A retention interval: a copy of a node's output in memory, from the step that makes it to the last that reads it.

    Steps are counted from 1 in `Result.sequence`, or in `Result.plan` with several memories, as in files.
    """

    node: NodeId
    """The id of the node."""
    memory: str
    """The name of the memory; "memory" where there is only one."""
    start: int
    """The step that computes the node, or copies its output there."""
    end: int
    """The last step that reads the copy; `start` if none does."""
    offset: int | None
    """The offset in the arena of the memory, in the graph's size unit; None without addresses."""
    size: int
    """The size of the output, in the graph's size unit."""
    label: str | None = field(default=None, repr=False)
    """The node's name for people; None: the graph has no labels."""
    reads: tuple[int, ...] = field(default=(), repr=False)
    """The steps whose outputs the step `start` reads, in the order of the node's inputs; of a copy the step that wrote
    what is copied."""

    def as_row(self, several: bool) -> JsonObject:
        """Return its row of `to_frame`: its memory if there are several, its offset if it has one."""
        memory = {"memory": self.memory} if several else {}
        offset = {} if self.offset is None else {"offset": self.offset}
        return {"node": self.node, **memory, "start": self.start, "end": self.end, **offset, "size": self.size}


@dataclass(frozen=True)
class Incumbent:
    """An answer that was the best one known from this moment on."""

    seconds: float
    """Seconds since the search began."""
    value: int
    """The total of what is minimized: the duration, or another objective of several memories."""
    bound: int
    """The lower bound on the value that was known then."""
    found_by: str
    """The search, solver, strategy or warm start that found it."""
    schedule: tuple[NodeId, ...] | None = field(repr=False)
    """Ids of the nodes in the order of computing them, in any memory; None: the schedule was not kept, which happens to
    the earliest of many incumbents of very large graphs."""
    plan: Plan | None = field(default=None, repr=False)
    """The computations and copies in their order, with several memories; None with one."""


def incumbents_of(result: Found) -> tuple[Incumbent, ...]:
    """Return the incumbents of a search in order of time; with addresses, those whose arenas are within the budgets."""
    points = result.trace if result.placed is None else result.placed
    found = tuple(_incumbents(result, points))
    if not found and result.valid:  # known without a search
        seconds, bound = result.seconds.total, result.bound
        only = TracePoint(seconds, result.value, bound, result.found_by, result.answer)
        found = tuple(_incumbents(result, (only,)))
    return found


def _incumbents(result: Found, points: tuple[TracePoint, ...]) -> Iterator[Incumbent]:
    value = None
    for point in points:
        if point.value is None or (point.answer is None and point.value == value):
            continue  # a better bound
        value, answer = point.value, point.answer
        schedule = None if answer is None else computed_nodes(result.problem.graph, answer)
        plan = None if answer is None else result.problem.actions(answer)
        yield Incumbent(point.seconds, value, point.bound, point.source, schedule, plan)


def intervals_of(result: Found) -> tuple[Interval, ...] | None:
    """Return the retention intervals of the answer, one for each step; None without an answer."""
    if result.answer is None:
        return None
    problem, found, arenas = result.problem, result.simulation.intervals, result.arenas
    names = [memory.name for memory in problem.platform.memories]
    offsets = [None] * len(found) if arenas is None else problem.offsets(arenas, result.simulation)
    plan, platform = problem.as_plan(result.answer), problem.platform
    return named_intervals(problem.graph, names, found, offsets, plan, platform.devices)


def named_intervals(
    graph: ComputationGraph,
    names: Sequence[str],
    found: Sequence[Retained],
    offsets: Sequence[int | None],
    plan: Plan,
    devices: Sequence[int] = (0,),
) -> tuple[Interval, ...]:
    """Return the judge's intervals of a plan, one for each step, with ids and names.

    Args:
        names: those of the memories.
        offsets: one for each interval.
        devices: see `Platform`.

    Raises:
        InputError: a step reads what is not there.
    """
    reads, _ = reads_of(graph, plan, devices)
    return tuple(
        Interval(
            graph.nodes[one.node], names[getattr(one, "memory", 0)], one.start, one.end, at, graph.sizes[one.node],
            graph.labels[one.node] if graph.labels else None, tuple(step + 1 for step in read),
        )
        for one, at, read in zip(found, offsets, reads, strict=True)
    )  # fmt: skip
