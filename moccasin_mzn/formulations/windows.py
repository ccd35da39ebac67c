"""Windows of stages: a part of a schedule to be made better by the same models, with everything outside it frozen.

Given a schedule in stages of the input order, the recomputations in stages first..last are free: they may go, move
inside the window, or become more, up to what C_v leaves over. All other computations stay::

    stage       ... first - 1 | first ............... last | last + 1 ...
                      frozen  |           free             |  frozen
    u           [=============+============================+======]        read after the window: retained at its end
    v           [========]    |          [====]    [====]  |               absent when it begins

A window becomes data of `models/staged.mzn`, small whatever the size of the graph: see below for what it
takes in. Memory outside fits the budget whatever is done inside: what is read after it from inside is the same for all
its schedules, and copies from before the window may be read in it only if they are in memory at its beginning, or can
all be retained until then.

Which nodes a window of stages takes in, and its data for the models.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.formulations.presolve import ModelData, StageData, reduced
from moccasin_mzn.formulations.retention import Intervals, as_intervals, decode, unused_event
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Ability, Feature, refuse
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, simulate

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
    """Nodes with a copy in memory when the last computation before the window takes place, or that may have one."""
    last_end: np.ndarray
    """By node: the position until which the last copy from before the window is retained, if there is one."""
    slack: np.ndarray
    """Memory not in use, at each position before the window."""
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

    def left(self, v: int) -> int:
        """How often v may be recomputed in the window: what C_v leaves over, but few times more than now."""
        if not self.instance.graph.sizes[v]:
            return 0
        now = self._inside_counts[v] - (not self.is_before(v))
        return now + min(self.instance.max_computations[v] - self.counts[v], self.freedom.spare)

    def retaining(self, nodes: Iterable[int]) -> Cut:
        """The same with more at hand: those nodes whose last copies can all be retained until the window begins.

        Those that are long to compute for their size come first.
        """
        durations, sizes = self.instance.graph.durations, self.instance.graph.sizes
        slack, retained = self.slack.copy(), set()
        for v in sorted(set(nodes) - self.at_hand, key=lambda v: (-durations[v] / max(1, sizes[v]), v)):
            free = slack[self.last_end[v] :]
            if free.min() >= sizes[v]:
                free -= sizes[v]
                retained.add(v)
        return replace(self, at_hand=self.at_hand | retained, slack=slack)

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
    place = {v: k for k, v in enumerate(order, 1)}
    readers: list[list[int]] = [[] for _ in order]
    for x in [v for v in entry if v in choice.again] + list(cut.own):
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
        graph = self.cut.instance.graph
        room = self.cut.freedom.max_nodes - len(self.cut.own)
        added: set[int] = set()
        for v in sorted(candidates, key=lambda v: (graph.durations[v] / max(1, graph.sizes[v]), v)):
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
        if cut.left(v) > 0 and all(u in there or u in again for u in cut.inputs_before(v)):
            again[v] = cut.left(v)
    return again


# --- Windows of an incumbent, as data of the model ------------------------------------------------------------


EVERYTHING_NEAR = Freedom()
"""Windows of 50 to 200 stages of a graph of 1000 nodes are then improved, or proven best, in seconds."""


WINDOWS = Ability("windows", OF_ONE_MEMORY - {Feature.IN_PLACE, Feature.OUTPUTS, Feature.ANY_ORDER})
"""Windows are of stages of the input order, and count copies by size alone."""


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A schedule from which windows are cut; built once, in time linear in its computations and their reads.

    Raises:
        InputError: `sequence` is no schedule within the budget and C_v, or not in stages of the input order; or the
            graph runs in place.
    """

    instance: Instance
    sequence: tuple[int, ...]
    """Positions in `graph.nodes`."""

    def __post_init__(self) -> None:
        graph, most = self.instance.graph, self.instance.max_computations
        refuse(self.instance.features, [WINDOWS], "no window handles")
        if self._simulation.violations:
            raise InputError(f"incumbent: {self._simulation.violations[0].message}")
        if self._simulation.peak > self.instance.budget:
            raise InputError(f"incumbent: peak {self._simulation.peak} is over the budget {self.instance.budget}")
        if np.any(self._counts > np.asarray(most)):
            v = int(np.flatnonzero(self._counts > np.asarray(most))[0])
            times = count_text(self._counts[v], "time")
            raise InputError(f"incumbent: node {node_text(graph, v)} is computed {times}, at most {most[v]} allowed")
        places = self._number[self._nodes]
        stage = np.searchsorted(self._first, np.arange(1, len(places) + 1))
        events = stage * (len(graph.nodes) + 1) + places
        within = self._first[-1] == len(places) and np.all(places <= stage)
        if np.any(np.diff(self._first) <= 0) or not within or np.any(np.diff(events) <= 0):
            raise InputError("incumbent: the sequence is not in stages of the input order")

    @cached_property
    def _simulation(self) -> Simulation:
        return simulate(self.instance.graph, self.sequence)

    @property
    def duration(self) -> int:
        """The duration of the whole schedule, in the graph's duration unit."""
        return self._simulation.duration

    @cached_property
    def _nodes(self) -> np.ndarray:
        return np.asarray(self.sequence, np.int64)

    @cached_property
    def _ends(self) -> np.ndarray:
        """Position of the last read of the copy that each position computes, from 1."""
        return np.array([interval.end for interval in self._simulation.intervals], np.int64)

    @cached_property
    def _memory(self) -> np.ndarray:
        return np.array(self._simulation.memory, np.int64)

    @cached_property
    def _counts(self) -> np.ndarray:
        """How often each node is computed."""
        return np.bincount(self._nodes, minlength=len(self.instance.graph.nodes))

    @cached_property
    def _number(self) -> np.ndarray:
        """Place of each node in the input order, from 1."""
        number = np.empty(len(self.instance.order), np.int64)
        number[np.asarray(self.instance.order)] = np.arange(1, len(number) + 1)
        return number

    @cached_property
    def _first(self) -> np.ndarray:
        """Entry k: the position that ends stage k, the first computation of the k-th node; entry 0: 0."""
        first = np.zeros(len(self.instance.order) + 1, np.int64)
        first[self._number[self._nodes[::-1]]] = np.arange(len(self.sequence), 0, -1)
        return first

    def window(self, first_stage: int, last_stage: int, freedom: Freedom = EVERYTHING_NEAR) -> Window | None:
        """A window of the schedule; None if the recomputations in it take no time, so that nothing can be saved.

        Args:
            first_stage, last_stage: of the window, from 1, both inside.

        Raises:
            InputError: stages that are not in the instance.
        """
        if not 1 <= first_stage <= last_stage <= len(self.instance.order):
            raise InputError(f"window {first_stage}..{last_stage}: expected stages in 1..{len(self.instance.order)}")
        cut = self._cut(first_stage, last_stage, freedom)
        if not any(self.instance.graph.durations[v] for v in cut.recomputed):
            return None
        data, cut = window_data(cut)
        return Window(self, cut, data, _encode(cut, data))

    def _cut(self, first_stage: int, last_stage: int, freedom: Freedom) -> Cut:
        begin, end = int(self._first[first_stage - 1]), int(self._first[last_stage])
        inside = self.sequence[begin:end]
        durations = self.instance.graph.durations
        last_end = np.zeros(len(self._number), np.int64)
        last_end[self._nodes[:begin]] = self._ends[:begin]  # of several copies the last
        return Cut(
            instance=self.instance,
            freedom=freedom,
            number=self._number.tolist(),
            first=first_stage,
            last=last_stage,
            begin=begin,
            end=end,
            inside=inside,
            at_hand=frozenset(self._nodes[:begin][self._ends[:begin] >= begin].tolist()),
            last_end=last_end,
            slack=self.instance.budget - self._memory[:begin],
            read_after=frozenset(self._nodes[:end][self._ends[:end] > end].tolist()),
            counts=self._counts.tolist(),
            fixed_duration=self.duration - sum(durations[v] for v in inside),
        )


@dataclass(frozen=True, eq=False)
class Window:
    """A window of an incumbent as data of the staged models, and the way back."""

    whole: Incumbent
    cut: Cut
    data: ModelData
    incumbent: Intervals
    """The solution that stands for the incumbent in the model with affine events, without useless recomputations."""

    def duration(self, objective: int) -> int:
        """Return the full schedule's duration, in the graph's duration unit, for a value of the model's objective."""
        return self.cut.fixed_duration + objective * self.data.duration_scale

    @property
    def objective(self) -> int:
        """The model's objective for `incumbent`, the largest that makes sense as its `duration_limit`."""
        rows = zip(self.data.computation_nodes, self.incumbent.active, strict=True)
        return sum(self.data.duration[v - 1] for v, active in rows if active) - sum(
            self.data.duration[: self.data.entry]
        )

    def decode(self, intervals: Intervals) -> tuple[int, ...]:
        """The full sequence for a solution of the window, as positions in `graph.nodes`."""
        n = len(self.data.size)
        part = decode(self.data, intervals, n * self.data.entry + 1, n * (n - self.data.exit))
        return self.whole.sequence[: self.cut.begin] + part + self.whole.sequence[self.cut.end :]


def window(
    instance: Instance,
    sequence: Sequence[int],
    first_stage: int,
    last_stage: int,
    freedom: Freedom = EVERYTHING_NEAR,
) -> Window | None:
    """Return a window of a schedule; see `Incumbent.window`, which saves time for more than one window."""
    return Incumbent(instance, tuple(sequence)).window(first_stage, last_stage, freedom)


def _encode(cut: Cut, data: ModelData) -> Intervals:
    """The solution of a window's model that stands for what the incumbent computes in it."""
    n = len(data.size)
    place = {v: k for k, v in enumerate(data.order, 1)}
    copies: list[list[list[int]]] = [[] for _ in range(n + 1)]  # by node: [start, end]
    for k in range(1, data.entry + 1):
        copies[k].append([n * (k - 1) + k] * 2)

    def read(tails: Sequence[int], event: int) -> None:
        for u in tails:
            if u in place:
                copies[place[u]][-1][1] = event

    stage = data.entry + 1
    for v in cut.inside:
        k = place.get(v, 0)
        if k == 0 or (k != stage and not _may_recompute(data, k, stage)):
            continue
        event = n * (stage - 1) + k
        read(cut.instance.graph.predecessors[v], event)
        copies[k].append([event, event])
        stage += k == stage
    if data.exit:
        read(sorted(cut.read_after), n * n)
        copies[n].append([n * n, n * n])
    return as_intervals(data, copies[1:], lambda k: unused_event(data, k))


def _may_recompute(data: ModelData, k: int, stage: int) -> bool:
    return data.max_computations[k - 1] > 1 and data.earliest_stage[k - 1] <= stage <= data.latest_stage[k - 1]
