"""The judge: what a sequence of computations costs, straight from the definition.

It shares no code with anything that makes sequences and knows nothing but the graph. All positions in a
sequence are counted from 1, and retention intervals are closed: [start, end] contains both.

The sequence a b c b d of the graph a -> b, b -> c, b -> d, c -> d, where b is computed twice::

    position      1   2   3   4   5
    computed      a   b   c   b   d
    a            [=============]             read by b at 2 and at 4
    b, first         [=====]                 read by c at 3, then dropped
    c                    [=========]         read by d at 5
    b, again                 [=====]         read by d at 5
    d                            [=]         read by nothing: freed at once

Memory at a position is the sum of the sizes of the outputs whose interval contains it: while a node is
computed its inputs and its output are all resident. The workspace of the node that is computed there, if it has one,
comes on top, at this position only.

In place. If the graph runs in place, a computation of v overwrites an input u that v may overwrite (`in_place`) and
whose copy dies there: its interval ends at this position, so that nothing reads it later. The output of v, which is no
larger than that of u, then takes the memory of u, and of the two only u counts at this position, and from the next one
on only v. One input is overwritten, the largest that may be, of equals the first in `ComputationGraph.nodes`; whichever
it is, memory at the position is less by the size of v. The sequence a b c d of the graph a -> b, b -> c, a -> d and
c -> d, where b may overwrite a, c may overwrite b, and d may overwrite a or c::

    position      1   2   3   4
    computed      a   b   c   d
    a            [=============]             read by d at 4: b at 2 cannot overwrite it
    b                [=====]                 dies at 3
    c                    [=====]             takes the memory of b: does not count at 3
    d                        [=]             takes that of a or c, the larger one: does not count at 4
    memory        a  a+b a+b a+c

Several outputs. Computing the first output of an operation makes all of them, so that at its position all count, the
further ones as a workspace. Those that are retained come directly after it, at positions of their own, where nothing
else is computed; what is not listed there is dropped at once.

A copy that somebody reads later is never overwritten, and neither is what nothing reads, such as results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Protocol

from moccasin_mzn.base.errors import shown
from moccasin_mzn.base.formatting import memory_text, over_text
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text


@dataclass(frozen=True)
class Interval:
    """One copy of a node's output in memory, at all positions start..end of the sequence (from 1, both inside)."""

    node: int
    """Position of the node in `ComputationGraph.nodes`."""
    start: int
    """Position in the sequence that computes the copy."""
    end: int
    """Last position that reads the copy; `start` if nothing does."""


@dataclass(frozen=True)
class Violation:
    """Why a sequence is not a schedule."""

    kind: str
    """"unknown-node", "missing-input", "apart", "never-computed", "over-budget"; `validate` adds its own."""
    position: int | None
    """Position in the sequence, from 1; None if the violation belongs to no single position."""
    node: int | None
    """Position of the node in `ComputationGraph.nodes`; None if it is about no node of the graph."""
    message: str
    """One line naming ids and values."""


@dataclass(frozen=True)
class Simulation:
    """The account of a sequence. With violations, the figures are those of the computations that can be counted."""

    memory: tuple[int, ...]
    """Memory in use at each position, in the graph's size unit; `memory[t - 1]` is that of position t."""
    peak: int
    """Largest memory, 0 for an empty sequence."""
    duration: int
    """Sum of the durations of all computations, in the graph's duration unit."""
    intervals: tuple[Interval, ...]
    """In order of their start."""
    violations: tuple[Violation, ...]
    """In order of position, those without a position last."""
    overwrites: tuple[tuple[int, int], ...] = ()
    """(position, node) where a computation overwrites the output of another node, in order of position."""

    @property
    def feasible(self) -> bool:
        """True if there is no violation."""
        return not self.violations


def simulate(graph: ComputationGraph, sequence: Sequence[int]) -> Simulation:
    """Run `sequence`, positions of nodes in `graph.nodes` in the order of computing them.

    Computing a node reads the latest copy of each input and replaces the node's own earlier copy. Time and space
    are proportional to the computations plus their reads.

    A sequence that is no schedule is simulated too: a missing input and a value that is no node are reported as
    violations and occupy nothing.
    """
    n = len(graph.nodes)
    latest = [0] * n  # start of each node's latest copy; 0: none yet
    end = [0] * (len(sequence) + 1)  # end[t]: last read of the copy computed at t; 0: position t computes nothing
    violations = []
    for t, v in enumerate(sequence, start=1):
        if not _is_position(v, n):
            message = f"position {t}: {shown(v)} is not a node, expected 0..{n - 1}"
            violations.append(Violation("unknown-node", t, None, message))
            continue
        for u in graph.predecessors[v]:
            if latest[u]:
                end[latest[u]] = t
            else:
                reading, read = node_text(graph, v), node_text(graph, u)
                message = f"position {t}: node {reading} reads node {read}, which is not computed before"
                violations.append(Violation("missing-input", t, int(v), message))
        latest[v] = end[t] = t
    for t in graph.outputs_apart(sequence):
        message = (
            f"position {t + 1}: node {node_text(graph, sequence[t])} does not come directly after its first output"
        )
        violations.append(Violation("apart", t + 1, int(sequence[t]), message))
    for v in range(n):
        if not latest[v]:
            message = f"node {node_text(graph, v)} is never computed"
            violations.append(Violation("never-computed", None, v, message))

    intervals = tuple(Interval(int(v), t, end[t]) for t, v in enumerate(sequence, start=1) if end[t])
    memory = profile(graph.sizes, intervals, len(sequence))
    if graph.has_workspaces:
        taken = graph.workspace_of
        known = (v if _is_position(v, n) else None for v in sequence)
        memory = tuple(m + (0 if v is None else taken[v]) for m, v in zip(memory, known, strict=True))
    overwrites = _overwrites(graph, intervals)
    if overwrites:
        spared = {t: graph.sizes[sequence[t - 1]] for t, _ in overwrites}
        memory = tuple(m - spared.get(t, 0) for t, m in enumerate(memory, start=1))
    return Simulation(
        memory=memory,
        peak=max(memory, default=0),
        duration=sum(graph.durations[interval.node] for interval in intervals),
        intervals=intervals,
        violations=in_order(violations),
        overwrites=overwrites,
    )


def _overwrites(graph: ComputationGraph, intervals: Sequence[Interval]) -> tuple[tuple[int, int], ...]:
    """(position, node overwritten) of each computation that overwrites an input."""
    if graph.overwritable is None:
        return ()
    dying: dict[int, set[int]] = {}  # by position: nodes of which a copy is read there for the last time
    for interval in intervals:
        dying.setdefault(interval.end, set()).add(interval.node)
    found = []
    for interval in intervals:
        may_be = [u for u in graph.overwritable[interval.node] if u in dying.get(interval.start, ())]
        if may_be:
            found.append((interval.start, max(may_be, key=lambda u: (graph.sizes[u], -u))))
    return tuple(found)


def judge(graph: ComputationGraph, sequence: Sequence[int], budget: int) -> Simulation:
    """`simulate`, with a violation "over-budget" for every position that needs more memory than `budget`."""
    simulation = simulate(graph, sequence)
    over = []
    for t, memory in enumerate(simulation.memory, start=1):
        if memory > budget:
            v = sequence[t - 1]
            known = _is_position(v, len(graph.nodes))
            doing = f" while computing node {node_text(graph, v)}" if known else ""
            over_by = over_text(memory, budget, graph.size_unit)
            message = f"position {t}: memory {memory_text(memory, graph.size_unit)} is {over_by}{doing}"
            over.append(Violation("over-budget", t, int(v) if known else None, message))
    return replace(simulation, violations=in_order((*simulation.violations, *over)))


class Retained(Protocol):
    """A copy of the output of `node` in memory at all positions start..end."""

    @property
    def node(self) -> int: ...
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


def profile(sizes: Sequence[int], intervals: Iterable[Retained], length: int) -> tuple[int, ...]:
    """Memory at positions 1..length: of the outputs whose closed interval (`node`, `start`, `end`) contains it."""
    change = [0] * (length + 2)
    for interval in intervals:
        change[interval.start] += sizes[interval.node]
        change[interval.end + 1] -= sizes[interval.node]
    return tuple(accumulate(change[1:-1]))


def in_order(violations: Sequence[Violation]) -> tuple[Violation, ...]:
    """`violations` by position, otherwise in the given order; those without a position last."""
    return tuple(sorted(violations, key=lambda v: (v.position is None, v.position or 0)))


def _is_position(value: int, n: int) -> bool:
    """True for an integer of any type (numpy's too) in 0..n-1."""
    return not isinstance(value, bool) and hasattr(value, "__index__") and 0 <= value < n
