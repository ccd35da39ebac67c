"""Schedules made on demand: what a computation lacks is recomputed right before it, within a budget. ::

    order       a  b  c  cut  C  B  A             room for three outputs
    schedule    a  b  c  cut  C  a  b  B  A       a was dropped when there was no room for it, and b for C

Each computation in its turn is run with all that it reads and is not in memory, in the input order. What is then read
later stays if there is room, in the order of a rule: what is read soon, or is small, or takes long to recompute comes
first. Outputs of the backward pass, and of what has been computed as often as it may be, stay in any case.

That takes no search, and often much less memory than blocks recomputed: a network's last block, its loss and its first
block may each need nearly all of the budget. It is the rule by which virtual memory drops pages (Belady, "A study of
replacement algorithms for a virtual-storage computer", 1966), since all that will be read is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from moccasin_mzn.base.clock import never
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.problem import StepProblem

Rule = Callable[[ComputationGraph, int, int], float]
"""A rank by node and the number of stages until it is read next: nodes of low rank stay."""


def _soonest(graph: ComputationGraph, node: int, distance: int) -> float:
    return distance


def _smallest(graph: ComputationGraph, node: int, distance: int) -> float:
    return distance * graph.sizes[node]


def _longest(graph: ComputationGraph, node: int, distance: int) -> float:
    return distance * graph.sizes[node] / (1 + graph.durations[node])


_RULES: tuple[Rule, ...] = _smallest, _longest, _soonest
_SHARES = 1.0, 0.9, 0.8, 0.7
"""Fractions of the budget up to which outputs stay that may be recomputed; a later one is tried where an earlier one
gives no schedule. Where less stays, it is recomputed sooner, with fewer gradients in memory."""


def on_demand(
    problem: StepProblem, budget: int, most: float = math.inf, stop: Callable[[], bool] = never
) -> tuple[int, ...] | None:
    """The shortest schedule that a rule gives within a budget; None: none does, or all was stopped.

    Args:
        budget: in the graph's size unit.
        most: how often anything may be computed.
        stop: ends it by returning true.
    """
    graph, found = problem.graph, list[tuple[int, tuple[int, ...]]]()
    for share in _SHARES:
        for rule in _RULES:
            sequence = _OnDemand(problem, budget, int(share * budget), rule, most).schedule(stop)
            simulation = None if sequence is None else simulate(graph, sequence)
            if sequence is not None and simulation is not None and simulation.peak <= budget:
                found.append((simulation.duration, sequence))
        if found:
            return min(found)[1]
    return None


class _OnDemand:
    """A schedule in the making."""

    def __init__(self, problem: StepProblem, budget: int, limit: int, rule: Rule, most: float) -> None:
        graph, order = problem.graph, problem.graph.input_order()
        self.graph, self.budget, self.limit, self.order = graph, budget, limit, order
        self.rule, self.most = rule, most
        self.position = {node: at for at, node in enumerate(order)}
        self.firm = [not many or most <= 1 or problem.is_backward(v) for v, many in enumerate(problem.most)]
        self.count = [0] * len(order)
        self.needed = [self.position[v] for v in range(len(order))]
        """For each node the last stage that may need it, by those who read it or what is recomputed of it."""
        for v in reversed(order):
            for x in graph.successors[v]:
                self.needed[v] = max(self.needed[v], self.position[x] if self.firm[x] else self.needed[x])
        self.reads = [self._stages(v) for v in range(len(order))]
        self.present: dict[int, None] = {}
        """What is in memory between stages: all of it is read later."""

    def _stages(self, v: int) -> list[int]:
        """The stages that read a node, the last one first; if it is never dropped, the last that may need it."""
        if self.firm[v]:
            return [self.needed[v]]
        return sorted((self.position[x] for x in self.graph.successors[v]), reverse=True)

    def schedule(self, stop: Callable[[], bool]) -> tuple[int, ...] | None:
        """All stages; None: there is too little memory for one, or it was stopped."""
        sequence, taken = list[int](), 0
        for stage, v in enumerate(self.order):
            if stop():
                return None
            run = self._run(v)
            if len(run) == 1 and taken + self.graph.sizes[v] + self.graph.workspace_of[v] <= self.limit:
                self._computed(run)
                self.present[v] = None
                ended = [u for u in (v, *self.graph.predecessors[v]) if not self._read_after(u, stage)]
                for u in ended:
                    del self.present[u]
                taken += self.graph.sizes[v] - sum(self.graph.sizes[u] for u in ended)
            elif self._recomputed(run, stage):
                taken = sum(self.graph.sizes[u] for u in self.present)
            else:
                return None
            sequence += run
        return tuple(sequence)

    def _run(self, v: int) -> list[int]:
        """What a computation lacks, and itself, in the input order."""
        lacking, waiting = {v}, [v]
        for x in waiting:
            new = [u for u in self.graph.predecessors[x] if u not in self.present and u not in lacking]
            lacking.update(new)
            waiting += new
        return sorted(lacking, key=self.position.__getitem__)

    def _computed(self, run: Sequence[int]) -> None:
        for x in run:
            self.count[x] += 1
            if self.count[x] >= self.most and not self.firm[x]:
                self.firm[x] = True
                self.reads[x] = self._stages(x)

    def _read_after(self, u: int, stage: int) -> bool:
        reads = self.reads[u]
        while reads and reads[-1] <= stage:
            reads.pop()
        return bool(reads)

    def _recomputed(self, run: Sequence[int], stage: int) -> bool:
        """Compute all of a run, and choose what stays; False: it does not fit."""
        sizes, ends = self.graph.sizes, dict[int, int]()
        begins = {x: at for at, x in enumerate(run)}
        for at, x in enumerate(run):
            ends.update(dict.fromkeys((x, *self.graph.predecessors[x]), at + 1))
        change = np.zeros(len(run) + 1, np.int64)
        for u, end in ends.items():
            change[begins.get(u, 0)] += sizes[u]
            change[end] -= sizes[u]
        memory = np.cumsum(change)[:-1] + [self.graph.workspace_of[x] for x in run]
        self._computed(run)
        wanted = [u for u in dict.fromkeys((*self.present, *run)) if self._read_after(u, stage)]
        wanted.sort(key=lambda u: (not self.firm[u], self.rule(self.graph, u, self.reads[u][-1] - stage)))
        self.present = {}
        for u in wanted:
            rest = memory[ends.get(u, 0) :]
            if self.firm[u] or not len(rest) or int(rest.max()) + sizes[u] <= self.limit:
                rest += sizes[u]
                self.present[u] = None
        return int(memory.max()) <= self.budget
