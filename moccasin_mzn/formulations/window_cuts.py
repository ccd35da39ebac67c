"""Which nodes a window of stages takes in, and its data for the models.

Nodes are positions in `graph.nodes`. A node from before the window is one of these::

    at hand      a copy is in memory when the window begins
      retained   and stays throughout, as it is read after the window: out of the model, its size off the budget
      chosen       a node of the model, which may be dropped, and recomputed if C_v and its inputs allow
    absent       no copy is in memory, nor could be retained until then: memory before the window is short
      chosen       a node of the model, which has to be recomputed before it can be read
    of no use    everything else: not in the model

Chosen are at least the outputs that the window's own nodes read or the incumbent recomputes, with their inputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from moccasin_mzn.formulations.presolve import ModelData, StageData, reduced
from moccasin_mzn.problem.instance import Instance

EXIT = -1
"""In place of a position in `graph.nodes`: the node that stands for all reads after the window."""


@dataclass(frozen=True)
class Freedom:
    """The freedom of a window beyond what the incumbent does in it: the more, the larger its model."""

    max_nodes: int = 500
    """Outputs from before the window may be dropped and recomputed while there is room for them in the model, those of
    much memory and short duration first. What must be in the model is, however much that is."""
    depth: int = 3
    """Length of the longest chain of absent outputs recomputed for the sake of one that the incumbent keeps."""
    spare: int = 1
    """How many more recomputations each node may have than in the incumbent, within C_v."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A window of stages, and how the incumbent meets its ends."""

    instance: Instance
    freedom: Freedom
    number: Sequence[int]
    """Place of each node in the input order, from 1."""
    first: int
    last: int
    """Stages of the window, from 1, both inside."""
    begin: int
    end: int
    """Positions begin + 1..end of the incumbent are in the window."""
    inside: tuple[int, ...]
    """The computations of the incumbent there."""
    at_hand: frozenset[int]
    """Nodes with a copy in memory when the last computation before the window takes place, which is not overwritten
    then, or that may have one."""
    last_end: np.ndarray
    """By node: the position until which the last copy from before the window is retained, if there is one."""
    slack: np.ndarray
    """Memory not in use, at each position before the window."""
    overwrites: Mapping[int, tuple[int, frozenset[int]]]
    """By position before the window where an input is overwritten: the size of the output, and the nodes whose copies
    die there, the memory of one of which it takes."""
    read_after: frozenset[int]
    """Nodes with a copy from before the end of the window that is read after it."""
    counts: Sequence[int]
    """How often the whole incumbent computes each node."""
    fixed_duration: int
    """The duration of all computations outside the window, in the graph's duration unit."""

    @cached_property
    def own(self) -> tuple[int, ...]:
        """Nodes first computed in the window, in input order."""
        return self.instance.order[self.first - 1 : self.last]

    @cached_property
    def recomputed(self) -> frozenset[int]:
        """Nodes that the incumbent recomputes in the window."""
        return frozenset((Counter(self.inside) - Counter(self.own)).keys())

    @cached_property
    def _inside_counts(self) -> Counter[int]:
        return Counter(self.inside)

    def is_before(self, v: int) -> bool:
        """True if v is first computed before the window."""
        return self.number[v] < self.first

    def first_output(self, v: int) -> int | None:
        """The node whose computation makes v too; None if v is computed itself."""
        return None if self.instance.graph.output_of is None else self.instance.graph.output_of[v]

    def left(self, v: int) -> int:
        """How often v may be recomputed in the window: what C_v leaves over, but few times more than now. It is the
        same for all outputs of an operation that take memory."""
        if not self.instance.graph.sizes[v]:
            return 0
        v = self.instance.graph.operation_of[v]
        now = self._inside_counts[v] - (not self.is_before(v))
        return now + min(self.instance.max_computations[v] - self.counts[v], self.freedom.spare)

    def density(self, v: int) -> tuple[float, int]:
        """The duration of a recomputation for the memory that it relieves; equal ones by position."""
        graph = self.instance.graph
        return graph.durations[graph.operation_of[v]] / max(1, graph.sizes[v]), v

    def retaining(self, nodes: Iterable[int]) -> Cut:
        """The same with more at hand: those nodes whose last copies can all be retained until the window begins.

        Those that are long to compute for their size come first. What is written over the last copy has to have memory
        of its own then, unless another input dies there as well.
        """
        sizes, slack, retained, overwrites = self.instance.graph.sizes, self.slack.copy(), set(), dict(self.overwrites)
        for v in sorted(set(nodes) - self.at_hand, key=lambda v: (-self.density(v)[0], v)):
            end = int(self.last_end[v])
            written, dying = overwrites.get(end, (0, frozenset[int]()))
            more = written if dying == {v} else 0
            free = slack[end:]
            if free.min(initial=sizes[v]) >= sizes[v] and slack[end - 1] >= more:
                free -= sizes[v]
                slack[end - 1] -= more
                overwrites[end] = written, dying - {v}
                retained.add(v)
        return replace(self, at_hand=self.at_hand | retained, slack=slack, overwrites=overwrites)

    def inputs_before(self, v: int) -> list[int]:
        """Inputs of v from before the window. What needs no memory is always there, and does not count."""
        graph = self.instance.graph
        return [u for u in graph.predecessors[v] if self.is_before(u) and graph.sizes[u]]


def window_data(cut: Cut) -> tuple[ModelData, Cut]:
    """The data of a window, and the cut with all that is retained until it begins.

    Nodes of no use, as presolve finds them, are taken out until there are none.
    """
    cut = cut.retaining(v for v in cut.recomputed if cut.is_before(v))
    chosen, retained = _choose(cut)
    cut = cut.retaining(chosen)
    choice = _Choice(frozenset(chosen), retained, _recomputable(cut, chosen, retained))
    while True:
        data = reduced(_stages(cut, choice))
        simpler = _without_use(cut, choice, data)
        if simpler == choice:
            return data, cut
        choice = simpler


@dataclass(frozen=True)
class _Choice:
    """The nodes from before the window that matter."""

    chosen: frozenset[int]
    retained: frozenset[int]
    again: dict[int, int]
    """How often each chosen node, or one of the window's own, may be recomputed; 0 is left out."""


def _stages(cut: Cut, choice: _Choice) -> StageData:
    """The window's own numbering 1..n: chosen nodes, the window's own, the exit."""
    graph = cut.instance.graph
    entry = sorted(choice.chosen, key=lambda v: cut.number[v])
    order = [*entry, *cut.own]
    place: dict[int | None, int] = {v: k for k, v in enumerate(order, 1)}
    readers: list[list[int]] = [[] for _ in order]
    reading = {v: None for v in (*entry, *cut.own) if v in choice.again or not cut.is_before(v)}
    for x in reading:
        for u in graph.predecessors[x]:
            if u in place:
                readers[place[u] - 1].append(place[x])
    after = [place[v] for v in cut.read_after if v in place]
    if after:
        order.append(EXIT)
        readers.append([])
    for k in after:
        readers[k - 1].append(len(order))
    return StageData(
        order=order,
        duration=[graph.durations[v] if v != EXIT else 0 for v in order],
        size=[graph.sizes[v] if v != EXIT else 0 for v in order],
        workspace=[graph.workspace_of[v] if v != EXIT else 0 for v in order] if graph.has_workspaces else [],
        readers=readers,
        budget=cut.instance.budget - sum(graph.sizes[v] for v in choice.retained),
        most=[1 + choice.again.get(v, 0) for v in order],
        entry=len(entry),
        absent=frozenset(place[v] for v in entry if v not in cut.at_hand),
        exit=int(bool(after)),
        overwritable=[{place[u] for u in (rows[v] if v in reading else ()) if u in place} for v in order]
        if (rows := graph.overwritable)
        else (),
        output_of=tuple(place.get(cut.first_output(v), 0) if v != EXIT else 0 for v in order)
        if graph.output_of
        else (),
    )


def _without_use(cut: Cut, choice: _Choice, data: ModelData) -> _Choice:
    """`choice` without recomputations, and nodes, that presolve has found to be of no use."""
    again = {v: count - 1 for v, count in zip(data.order, data.max_computations, strict=True) if count > 1}
    read = {data.order[tail - 1] for tail, _ in data.edges}
    stay = frozenset(v for v in choice.chosen & cut.at_hand & cut.read_after if v not in again)
    return replace(choice, chosen=(choice.chosen & read) - stay, retained=choice.retained | stay, again=again)


def _choose(cut: Cut) -> tuple[set[int], frozenset[int]]:
    """Nodes that must be in the model or may be recomputed, while there is room; and those retained throughout."""
    needed = {u for v in cut.own for u in cut.inputs_before(v)}
    needed.update(u for v in cut.recomputed for u in cut.inputs_before(v))
    needed.update(v for v in cut.recomputed if cut.is_before(v) and cut.instance.graph.sizes[v])
    through = {v for v in cut.read_after & cut.at_hand if cut.is_before(v) and cut.instance.graph.sizes[v]}
    selection = _Selection(cut, needed - (through - cut.recomputed), through - cut.recomputed)
    waiting = needed | through
    while waiting:
        waiting = selection.add(waiting)
    return selection.chosen, frozenset(selection.through - selection.chosen)


@dataclass
class _Selection:
    """Nodes from before the window, chosen one by one."""

    cut: Cut
    chosen: set[int]
    through: set[int] = field(default_factory=set)
    """At hand and read after the window: retained if not chosen, and so there to be read in any case."""

    def add(self, candidates: set[int]) -> set[int]:
        """Let candidates be recomputed, those first that relieve most memory for their duration. What else is chosen
        for their sake and at hand: candidates of the next round."""
        room = self.cut.freedom.max_nodes - len(self.cut.own)
        added: set[int] = set()
        for v in sorted(candidates, key=self.cut.density):
            if self.cut.left(v) > 0:
                chain = self._chain(v, self.cut.freedom.depth, room - len(self.chosen))
                if chain is not None and len(self.chosen | chain) <= room:
                    added |= {u for u in chain - self.chosen if u in self.cut.at_hand and u != v}
                    self.chosen |= chain
        return added

    def _chain(self, v: int, depth: int, room: int) -> set[int] | None:
        """What is yet to be chosen if v is to be recomputed, v itself too; None if that cannot be or is too much."""
        chain = set() if v in self.chosen else {v}
        for u in self.cut.inputs_before(v):
            if u in self.chosen or u in self.through:
                continue
            if u in self.cut.at_hand:
                chain.add(u)
                continue
            further = self._chain(u, depth - 1, room) if depth > 0 and self.cut.left(u) > 0 else None
            if further is None:
                return None
            chain |= further
            if len(chain) > max(0, room):
                return None
        return chain


def _recomputable(cut: Cut, chosen: set[int], retained: frozenset[int]) -> dict[int, int]:
    """How often chosen nodes and the window's own may be recomputed, given what is there to be read."""
    there = set(retained) | {v for v in chosen if v in cut.at_hand}
    again = {}
    for v in [*sorted(chosen, key=lambda v: cut.number[v]), *cut.own]:
        first = cut.first_output(v)
        if first is not None and first not in again:
            continue
        if cut.left(v) > 0 and all(u in there or u in again for u in cut.inputs_before(v)):
            again[v] = cut.left(v)
    return again
