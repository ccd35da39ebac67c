"""Best schedules of small graphs, by a search of its own.

A state is what is in memory, what has been computed so far and, in stages, from where in the input order a stage may go
on. There are two moves: to compute a node in addition to all that is there, and to drop something, which costs nothing.
How often nodes were computed is left out at first: so there are few states, and what each still costs at least follows
for all of them by going backwards from the ends. With that as the estimate, A* finds the best schedule with that many
computations of each node; where no limit matters, it walks straight to the end.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from moccasin_mzn.graphs.graph import ComputationGraph
from soaking.judging import FREE, STAGED, Scope

MOST_EXPANSIONS = 150_000
FIELD = 8
"""Bits for the number of computations of a node, the highest of them free."""

State = tuple[int, int, int]
"""Resident and computed nodes as bits by place in the input order, and the first place that the stage may compute."""


@dataclass(frozen=True)
class Answer:
    """What the oracle knows."""

    sequence: tuple[int, ...] | None
    """A best schedule, positions in `graph.nodes`; None: none was found."""
    complete: bool = True
    """False: it gave up, and knows nothing."""


def best_schedule(
    graph: ComputationGraph, order: Sequence[int], budget: int, scope: Scope, effort: int = MOST_EXPANSIONS
) -> Answer:
    """A shortest schedule of a scope within a budget; `order` is the input order, of at most some 9 nodes."""
    moves = _Moves(graph, order, budget, scope.kind)
    remaining = _costs_to_go(moves)
    start: State = (0, 0, 0)
    if start not in remaining:
        return Answer(None)
    high = sum(1 << FIELD * v + FIELD - 1 for v in range(len(order)))
    most = sum(min(scope.most[v], 2 ** (FIELD - 1) - 1) << FIELD * k for k, v in enumerate(order))
    tie = count()
    heap = [(remaining[start], 0, next(tie), 0, start, 0, None)]
    settled: dict[State, list[int]] = {}
    for _ in range(effort):
        if not heap:
            return Answer(None)
        _, steps, _, spent, state, used, trail = heapq.heappop(heap)
        if state[1] == moves.all:
            return Answer(tuple(order[k] for k in _unrolled(trail)))
        known = settled.setdefault(state, [])
        if any(((used | high) - other) & high == high for other in known):  # other <= used, node by node
            continue
        known.append(used)
        for cost, k, after in moves.after(state):
            now = used if k is None else used + (1 << FIELD * k)
            if after in remaining and ((most | high) - now) & high == high:
                further = trail if k is None else (k, trail)
                item = (spent + cost + remaining[after], steps - 1, next(tie), spent + cost, after, now, further)
                heapq.heappush(heap, item)
    return Answer(None, complete=False)


def least_peak(graph: ComputationGraph) -> int:
    """The least peak of all orders that compute every node once, over sets of computed nodes."""
    n = len(graph.nodes)
    inputs, readers = _bits(n, graph.edges, 1, 0), _bits(n, graph.edges, 0, 1)
    best: list[int | None] = [None] * (1 << n)
    best[0] = 0
    for done in range(1 << n):
        if best[done] is None:
            continue
        retained = sum(graph.sizes[u] for u in range(n) if done >> u & 1 and readers[u] & ~done)
        for v in range(n):
            if done >> v & 1 or inputs[v] & ~done:
                continue
            used, after = retained + graph.sizes[v] + graph.workspace_of[v], done | 1 << v
            peak = max(best[done], used)
            best[after] = peak if best[after] is None else min(best[after], peak)
    return best[-1]


def _bits(n: int, edges: Sequence[tuple[int, int]], of: int, what: int) -> list[int]:
    """For each node the nodes at the other end of its edges, as bits."""
    found = [0] * n
    for edge in edges:
        found[edge[of]] |= 1 << edge[what]
    return found


def _unrolled(trail: tuple | None) -> list[int]:
    places = []
    while trail is not None:
        place, trail = trail
        places.append(place)
    return places[::-1]


def _costs_to_go(moves: _Moves) -> dict[State, int]:
    """The least duration of recomputations from each reachable state to an end; states without an end are left out."""
    start: State = (0, 0, 0)
    before: dict[State, list[tuple[int, State]]] = {start: []}
    found = [start]
    for state in found:  # which grows
        for cost, _, after in moves.after(state):
            if after not in before:
                before[after] = []
                found.append(after)
            before[after].append((cost, state))
    heap = [(0, state) for state in found if state[1] == moves.all]
    known: dict[State, int] = {}
    while heap:
        cost, state = heapq.heappop(heap)
        if state in known:
            continue
        known[state] = cost
        for more, earlier in before[state]:
            if earlier not in known:
                heapq.heappush(heap, (cost + more, earlier))
    return known


class _Moves:
    """What may follow a state."""

    def __init__(self, graph: ComputationGraph, order: Sequence[int], budget: int, kind: str) -> None:
        n = len(order)
        place = {v: k for k, v in enumerate(order)}
        self.n, self.budget, self.kind, self.all = n, budget, kind, (1 << n) - 1
        self.inputs = _bits(n, [(place[tail], place[head]) for tail, head in graph.edges], 1, 0)
        self.duration = [graph.durations[v] for v in order]
        self.own = [graph.sizes[v] + graph.workspace_of[v] for v in order]
        self.memory = [0]
        for size in (graph.sizes[v] for v in order):
            self.memory += [memory + size for memory in self.memory]

    def after(self, state: State) -> Iterator[tuple[int, int | None, State]]:
        """Cost, place of the node computed or None, and the state after each move."""
        resident, computed, cursor = state
        if computed == self.all:
            return
        room = self.budget - self.memory[resident]
        for k in range(self.n):
            bit = 1 << k
            if resident & bit:
                yield 0, None, (resident ^ bit, computed, cursor)
                continue
            if self.inputs[k] & ~resident or self.own[k] > room:
                continue
            new = not computed & bit
            if self.kind == FREE:
                further = 0
            elif new and computed != bit - 1:
                continue  # not the next one of the input order
            else:
                further = 0 if new or self.kind != STAGED else k + 1
                if not new and k < cursor:
                    continue
            yield 0 if new else self.duration[k], k, (resident | bit, computed | bit, further)
