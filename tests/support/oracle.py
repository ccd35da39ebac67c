"""Brute force on tiny graphs: the best schedules, straight from the definition of the problem.

Of the package only the graph is used, not the simulator, so that these oracles judge that as well. Both search over
states, which are all that the past means to the future:

    resident      the outputs in memory, a set of nodes as the bits of an int
    counts        how often each node has been computed so far

Computing v from a state needs v's inputs among the residents and, with them, v's own output and v's workspace, room
within the budget. Where the graph runs in place, one of the inputs that v may overwrite may be dropped while v is
computed: then v's output, which is no larger, needs no room of its own.
Of the other residents some may be dropped first. Dropping is free and can be done at any later time, so only the
largest sets that fit need to be tried, and computing what is in memory is never tried. This is the memory of the
definition: an interval that ends with the last read of a copy is a resident that is dropped right after that read.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from moccasin_mzn.graphs.graph import ComputationGraph

Counts = tuple[int, ...]
State = tuple[int, Counts]


@dataclass(frozen=True)
class Best:
    """A schedule of least duration."""

    duration: int
    """Of all its computations, in the graph's duration unit."""
    sequence: tuple[int, ...]
    """Positions of nodes in `ComputationGraph.nodes`, in the order of computing them."""


def best_fixed_order(
    graph: ComputationGraph, order: Sequence[int], budget: int, max_computations: int | Sequence[int] | None
) -> int | None:
    """Least duration of a staged schedule; None if none fits. See `fixed_order_schedule`."""
    best = fixed_order_schedule(graph, order, budget, max_computations)
    return None if best is None else best.duration


def best_free_order(graph: ComputationGraph, budget: int, max_computations: int | Sequence[int]) -> int | None:
    """Least duration of any schedule; None if none fits. See `free_order_schedule`."""
    best = free_order_schedule(graph, budget, max_computations)
    return None if best is None else best.duration


def fixed_order_schedule(
    graph: ComputationGraph, order: Sequence[int], budget: int, max_computations: int | Sequence[int] | None
) -> Best | None:
    """A best staged schedule (MOCCASIN, section 2.3), by dynamic programming over the events.

    Stage k is any subset of the first k-1 nodes of `order`, recomputed in that order, and then its k-th node.

    Args:
        graph: at most some 8 nodes.
        order: input order, a topological order of all nodes.
        budget: most memory at any position, in the graph's size unit.
        max_computations: most computations of each node, the first one included; one for all or one each; None: no
            limit, where counts need not be told apart, and a node or two more are no matter.
    """
    rules = _Rules(graph, budget, max_computations)
    reached = {rules.start: (0, ())}  # state: (duration, sequence) of the best way to it
    for stage, last in enumerate(order, start=1):
        for v in order[:stage]:
            following = {} if v == last else dict(reached)  # a recomputation may be left out
            for state, (duration, sequence) in reached.items():
                for after in rules.compute(state, v):
                    found = (duration + graph.durations[v], (*sequence, v))
                    following[after] = min(following.get(after, found), found)
            reached = following
    return Best(*min(reached.values())) if reached else None


def free_order_schedule(graph: ComputationGraph, budget: int, max_computations: int | Sequence[int]) -> Best | None:
    """A best schedule in any order (MOCCASIN, section 2.1), by Dijkstra's algorithm over states.

    Only recomputations cost anything, as every schedule computes each node once.

    Args:
        graph: at most some 7 nodes.
        budget: most memory at any position, in the graph's size unit.
        max_computations: most computations of each node, the first one included; one for all or one each.
    """
    rules = _Rules(graph, budget, max_computations)
    if rules.some_node_never_fits:
        return None
    tie = count()
    heap = [(0, next(tie), rules.start, ())]
    done = set()
    while heap:
        extra, _, state, sequence = heapq.heappop(heap)
        if all(state[1]):
            return Best(extra + sum(graph.durations), sequence)
        if state in done:
            continue
        done.add(state)
        for v in range(len(graph.nodes)):
            cost = graph.durations[v] if state[1][v] else 0
            for after in rules.compute(state, v):
                if after not in done:
                    heapq.heappush(heap, (extra + cost, next(tie), after, (*sequence, v)))
    return None


class _Rules:
    """Which states follow from a state."""

    def __init__(self, graph: ComputationGraph, budget: int, max_computations: int | Sequence[int] | None) -> None:
        n = len(graph.nodes)
        self.limited = max_computations is not None
        self.most = list(max_computations) if isinstance(max_computations, Sequence) else [max_computations] * n
        self.inputs = [0] * n
        for tail, head in graph.edges:
            self.inputs[head] |= 1 << tail
        self.size = [0]  # by set of nodes: memory of their outputs
        for v in range(n):
            self.size += [memory + graph.sizes[v] for memory in self.size]
        self.room = [budget] * n  # while v is computed: for outputs, beside its workspace
        if graph.workspaces is not None:
            self.room = [budget - workspace for workspace in graph.workspaces]
        self.start: State = (0, (0,) * n)
        self.overwritten = [0] * n
        if graph.runs_in_place and graph.in_place is not None:
            self.overwritten = [sum(1 << u for u in row) for row in graph.in_place]

    @property
    def some_node_never_fits(self) -> bool:
        needed = [inputs if self.overwritten[v] else inputs | 1 << v for v, inputs in enumerate(self.inputs)]
        return any(self.size[together] > self.room[v] for v, together in enumerate(needed))

    def compute(self, state: State, v: int) -> Iterator[State]:
        """The states after computing `v`, none of them with less in memory than it could have."""
        resident, counts = state
        needed, own = self.inputs[v], 1 << v
        if counts[v] == self.most[v] or resident & own or needed & ~resident:
            return
        if self.limited:
            counts = (*counts[:v], counts[v] + 1, *counts[v + 1 :])
        for kept in self._largest(needed | own, resident & ~needed, self.room[v]):
            yield kept, counts
        for u in range(len(self.inputs)):
            if self.overwritten[v] >> u & 1:
                for kept in self._largest(needed, resident & ~needed, self.room[v]):
                    yield kept & ~(1 << u) | own, counts

    def _largest(self, held: int, spare: int, room: int) -> Iterator[int]:
        """The sets that contain `held`, are in `held | spare` and fit into `room`, but with no more of `spare`."""
        chosen = spare
        while True:
            memory = self.size[held | chosen]
            if memory <= room and not any(
                spare >> u & 1 and not chosen >> u & 1 and memory + self.size[1 << u] <= room
                for u in range(len(self.inputs))
            ):
                yield held | chosen
            if chosen == 0:
                return
            chosen = (chosen - 1) & spare  # the next smaller subset of `spare`
