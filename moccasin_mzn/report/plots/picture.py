"""What a picture of a schedule shows, as plain numbers: nothing here draws.

Every position of the sequence has a piece of the horizontal axis, from `edges[p - 1]` to `edges[p]`. By event all
pieces are equally wide. By stage all stages are, and share their width among their positions; stage k ends with the
k-th first computation (Bartan et al., ICML 2023, section 2.3)::

    position      1   2   3   4   5          sequence a b c b d, of which the second b is a recomputation
    by event    [ a | b | c | b | d ]        pieces 0.5..1.5, 1.5..2.5, ...
    stage         1   2   3 |   4
    by stage    [ a | b | c |b|d]            pieces 0.5..1.5, ..., 3.5..4.0, 4.0..4.5

The memory of the input order is drawn on the same axis, so that both profiles can be compared: its k-th computation has
the width of stage k, that is of everything the schedule does for its k-th first computation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from moccasin_mzn.errors import InputError, shown
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import Simulation, simulate
from moccasin_mzn.search.result import percent_over
from moccasin_mzn.words import memory_text

AXES = ("event", "stage")


@dataclass(frozen=True)
class Bar:
    """One copy of a node's output: a retention interval, closed, in positions of the sequence from 1."""

    node: int
    """Position in `graph.nodes`."""
    copy: int
    """Which copy of the node's output, from 1; the others are recomputed."""
    copies: int
    """How many there are of this node."""
    start: int
    end: int

    @property
    def kind(self) -> str:
        """ "only": the node is computed once; "first" or "again": it is computed more often."""
        if self.copies == 1:
            return "only"
        return "first" if self.copy == 1 else "again"


@dataclass(frozen=True)
class Profile:
    """Memory as a step function: `memory[i]`, in the graph's size unit, from `edges[i]` to `edges[i + 1]`."""

    edges: tuple[float, ...]
    memory: tuple[int, ...]

    @property
    def peak_at(self) -> float:
        """Middle of the first piece with the most memory."""
        i = self.memory.index(max(self.memory))
        return (self.edges[i] + self.edges[i + 1]) / 2


@dataclass(frozen=True)
class Picture:
    """A schedule to be drawn; it may exceed the budget, but must be a schedule.

    Raises:
        InputError: an axis that is neither "event" nor "stage", an order that is not topological, a negative budget, or
            a sequence that reads what is not computed or leaves a node out.
    """

    graph: ComputationGraph
    sequence: tuple[int, ...]
    """Positions in `graph.nodes` in the order of computing them."""
    order: tuple[int, ...]
    """Input order, likewise; the rows of the picture."""
    budget: int | None = None
    """In the graph's size unit; None: no line is drawn."""
    by: str = "event"

    def __post_init__(self) -> None:
        check_axis(self.by)
        if self.budget is not None and self.budget < 0:
            raise InputError(f"budget {self.budget} is negative")
        self.graph.check_order(self.order)
        if self.after.violations:
            raise InputError(f"not a schedule: {self.after.violations[0].message}")

    @cached_property
    def before(self) -> Simulation:
        """The input order with every node computed once."""
        return simulate(self.graph, self.order)

    @cached_property
    def after(self) -> Simulation:
        """The schedule."""
        return simulate(self.graph, self.sequence)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """For each node its place in the input order, from 0."""
        places = [0] * len(self.order)
        for place, v in enumerate(self.order):
            places[v] = place
        return tuple(places)

    @cached_property
    def bars(self) -> tuple[Bar, ...]:
        """All retention intervals in order of their start."""
        copies, seen, bars = Counter(self.sequence), Counter(), []
        for interval in self.after.intervals:
            v = interval.node
            seen[v] += 1
            bars.append(Bar(v, seen[v], copies[v], interval.start, interval.end))
        return tuple(bars)

    @cached_property
    def recomputed(self) -> tuple[int, ...]:
        """Nodes computed more than once, in the input order."""
        copies = Counter(self.sequence)
        return tuple(v for v in self.order if copies[v] > 1)

    @cached_property
    def stages(self) -> tuple[int, ...]:
        """The stage of each position of the sequence."""
        return stages(self.sequence)

    @cached_property
    def edges(self) -> tuple[float, ...]:
        """Where the pieces of the horizontal axis meet, 1 more than there are positions, from 0.5 on."""
        if self.by == "event":
            return tuple(p + 0.5 for p in range(len(self.sequence) + 1))
        width, edges, inside = Counter(self.stages), [0.5], Counter()
        for k in self.stages:
            inside[k] += 1
            edges.append(k - 0.5 + inside[k] / width[k])
        return tuple(edges)

    @property
    def axis_title(self) -> str:
        """What the horizontal axis counts."""
        if self.by == "event":
            return "event: position in the sequence of computations"
        return "stage: recomputations, then the next first computation"

    @cached_property
    def profile_before(self) -> Profile:
        """Memory of the input order, stage by stage on the schedule's axis."""
        last = [p for p, k in enumerate(self.stages, 1) if p == len(self.stages) or self.stages[p] > k]
        return Profile((self.edges[0], *(self.edges[p] for p in last)), self.before.memory)

    @cached_property
    def profile_after(self) -> Profile:
        """Memory of the schedule."""
        return Profile(self.edges, self.after.memory)

    @property
    def title(self) -> str:
        """The graph and the size of the schedule, in one line."""
        again = len(self.sequence) - len(self.order)
        return f"{self.graph.name or 'graph'}: {_counted(len(self.order), 'node')}, {_counted(again, 'recomputation')}"

    @property
    def subtitle(self) -> str:
        """What the schedule costs and what it needs, in one line."""
        tdi = percent_over(self.after.duration, self.before.duration)
        text = f"duration increase (TDI) {tdi:.3f} %, peak {self.amount(self.after.peak)}"
        if self.budget is not None:
            text += f" / budget {self.amount(self.budget)}"
            text += " - OVER THE BUDGET" if self.after.peak > self.budget else ""
        return text

    def amount(self, memory: int) -> str:
        """An amount of memory as people read it."""
        return memory_text(memory, self.graph.size_unit)


def check_axis(by: str) -> None:
    """Refuse an axis that is neither "event" nor "stage"."""
    if by not in AXES:
        raise InputError(f"axis {shown(by)}: expected {' or '.join(AXES)}")


def stages(sequence: Sequence[int]) -> tuple[int, ...]:
    """The stage of each position, from 1: stage k ends with the k-th first computation, the last with the sequence."""
    most, done, found = len(set(sequence)), set(), []
    for v in sequence:
        found.append(min(len(done) + 1, most))
        done.add(v)
    return tuple(found)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
