"""Windows of stages: a part of a schedule to be made better by the same models, with everything outside it frozen.

Given a schedule in stages of the input order, the recomputations in stages first..last are free: they may go, move
inside the window, or become more, up to what C_v leaves over. All other computations stay::

    stage       ... first - 1 | first ............... last | last + 1 ...
                      frozen  |           free             |  frozen
    u           [=============+============================+======]        read after the window: retained at its end
    v           [========]    |          [====]    [====]  |               absent when it begins

A window becomes data of `models/staged.mzn`, small whatever the size of the graph: see `window_cuts` for what it
takes in. Memory outside fits the budget whatever is done inside: what is read after it from inside is the same for all
its schedules, and copies from before the window may be read in it only if they are in memory at its beginning, or can
all be retained until then. In place, a copy that is retained for longer is no longer overwritten where it died: its
writer needs room of its own there. An operation with several outputs is in a window as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.retention import Intervals, as_intervals, decode, unused_event
from moccasin_mzn.formulations.window_cuts import Cut, Freedom, window_data
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.features import OF_ONE_MEMORY, Ability, Feature, refuse
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation, simulate

EVERYTHING_NEAR = Freedom()
"""Windows of 50 to 200 stages of a graph of 1000 nodes are then improved, or proven best, in seconds."""
WINDOWS = Ability("windows", OF_ONE_MEMORY - {Feature.ANY_ORDER})
"""Windows are of stages of the input order."""


@dataclass(frozen=True, eq=False)
class Incumbent:
    """A schedule from which windows are cut; built once, in time linear in its computations and their reads.

    Raises:
        InputError: `sequence` is no schedule within the budget and C_v, or not in stages of the input order.
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
        """A window of the schedule; None if the recomputations in it take no time, so that nothing can be saved, or if
        one of them is between outputs of an operation, where the models have none.

        Args:
            first_stage, last_stage: of the window, from 1, both inside; with further stages up to the first and the
                last output of an operation.

        Raises:
            InputError: stages that are not in the instance.
        """
        if not 1 <= first_stage <= last_stage <= len(self.instance.order):
            raise InputError(f"window {first_stage}..{last_stage}: expected stages in 1..{len(self.instance.order)}")
        cut = self._cut(*self._of_operations(first_stage, last_stage), freedom)
        if not any(self.instance.graph.durations[v] for v in cut.recomputed) or self._is_between(cut):
            return None
        data, cut = window_data(cut)
        return Window(self, cut, data, _encode(cut, data))

    def _of_operations(self, first_stage: int, last_stage: int) -> tuple[int, int]:
        """The least window of all stages of operations that has these stages."""
        order, operation = self.instance.order, self.instance.graph.operation_of
        while operation[order[first_stage - 1]] != order[first_stage - 1]:
            first_stage -= 1
        while last_stage < len(order) and operation[order[last_stage]] != order[last_stage]:
            last_stage += 1
        return first_stage, last_stage

    def _is_between(self, cut: Cut) -> bool:
        """True if anything is recomputed in a stage that ends with a further output."""
        further = (self._number[v] for v in cut.own if cut.first_output(v) is not None)
        return any(self._first[k] - self._first[k - 1] > 1 for k in further)

    @cached_property
    def _overwrites(self) -> dict[int, tuple[int, frozenset[int]]]:
        """See `Cut.overwrites`; of the whole schedule."""
        graph, dying = self.instance.graph, dict[int, set[int]]()
        if graph.overwritable is None:
            return {}
        for interval in self._simulation.intervals:
            dying.setdefault(interval.end, set()).add(interval.node)
        written = [(t, self.sequence[t - 1]) for t, _ in self._simulation.overwrites]
        return {t: (graph.sizes[v], frozenset(graph.overwritable[v]) & dying[t]) for t, v in written}

    def _cut(self, first_stage: int, last_stage: int, freedom: Freedom) -> Cut:
        begin, end = int(self._first[first_stage - 1]), int(self._first[last_stage])
        inside = self.sequence[begin:end]
        durations = self.instance.graph.durations
        last_end = np.zeros(len(self._number), np.int64)
        last_end[self._nodes[:begin]] = self._ends[:begin]  # of several copies the last
        at_hand = frozenset(self._nodes[:begin][self._ends[:begin] >= begin].tolist())
        _, gone = self._overwrites.get(begin, (0, frozenset[int]()))
        return Cut(
            instance=self.instance,
            freedom=freedom,
            number=self._number.tolist(),
            first=first_stage,
            last=last_stage,
            begin=begin,
            end=end,
            inside=inside,
            at_hand=at_hand - gone,
            last_end=last_end,
            slack=self.instance.budget - self._memory[:begin],
            overwrites=self._overwrites,
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
