"""Best plans on a platform by brute force, for small graphs. It shares nothing with the package but the graph.

A state is all that the past means to the future:

    resident    for each memory the outputs in it, a set of nodes as the bits of an int
    used        for each memory how many retention intervals each node has begun there so far
    computed    the nodes computed so far, anywhere

Dropping is free and can be done at any later time, so before an action only the largest sets are kept that leave room
for it. An action that makes a copy where one is already is never tried: the earlier copy could be kept for it.

That a copy is in a memory while it is copied elsewhere, and may be dropped right after, is part of the definition; so
is that the target holds the new copy at the same time, and that a computation takes the workspace of its node besides.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, product

from moccasin_mzn.graphs.graph import ComputationGraph

TOTALS = ("duration", "energy", "traffic")
Costs = tuple[int, int, int]
"""Duration, energy and traffic."""
Action = tuple[int, int, int | None]
"""Node, memory, and the memory it is copied from; None: it is computed."""


@dataclass(frozen=True)
class Places:
    """A platform in the oracle's own terms. Memories are numbered from 0."""

    graph: ComputationGraph
    budgets: Sequence[int | None]
    compute: Sequence[Sequence[tuple[int, int] | None] | None]
    """By memory and node: duration and energy; None: impossible."""
    copy: Mapping[tuple[int, int], Sequence[tuple[int, int]]]
    """By (from, to) and node: duration and energy."""
    most: Sequence[Sequence[int]]
    """By memory and node: most retention intervals."""


@dataclass(frozen=True)
class BestPlan:
    """A plan of least cost."""

    totals: Costs
    plan: tuple[Action, ...]


def places_of(platform, max_computations: int | Sequence[int]) -> Places:
    """From the package's platform: its figures, and nothing that it computes."""
    n = len(platform.graph.nodes)
    most = [max_computations] * n if isinstance(max_computations, int) else list(max_computations)

    def pairs(place):
        if place.durations is None:
            return None
        return [None if d is None else (d, e) for d, e in zip(place.durations, place.energies, strict=True)]

    return Places(
        platform.graph,
        [memory.budget for memory in platform.memories],
        [pairs(memory) for memory in platform.memories],
        {(of.source, of.target): pairs(of) for of in platform.links},
        [[1] * n if memory.durations is None else most for memory in platform.memories],
    )


def best_plan(places: Places, objective: str = "duration", limits: Mapping[str, int] | None = None) -> BestPlan | None:
    """A best plan in any order, by Dijkstra's algorithm over states; None if there is none.

    With limits on other totals a state may be worth reaching at several costs: those are kept that no other beats in
    all of them.

    Args:
        places: of a graph of at most some 5 nodes.
        limits: most of each total, by name.
    """
    rules = _Rules(places)
    goal = TOTALS.index(objective)
    caps = [(limits or {}).get(what) for what in TOTALS]
    watched = [k for k in range(3) if k == goal or caps[k] is not None]
    tie = count()
    heap = [(0, next(tie), (0, 0, 0), rules.start, ())]
    settled: dict = {}
    while heap:
        _, _, totals, state, plan = heapq.heappop(heap)
        if state[2] == rules.all:
            return BestPlan(totals, plan)
        figures = tuple(totals[k] for k in watched)
        if any(all(map(int.__le__, known, figures)) for known in settled.get(state, ())):
            continue
        settled.setdefault(state, []).append(figures)
        for action, cost in rules.actions():
            after_totals = tuple(map(int.__add__, totals, cost))
            if any(cap is not None and total > cap for cap, total in zip(caps, after_totals, strict=True)):
                continue
            for after in rules.take(state, action):
                heapq.heappush(heap, (after_totals[goal], next(tie), after_totals, after, (*plan, action)))
    return None


def best_staged_paging(
    places: Places, order: Sequence[int], objective: str = "duration", limits: Mapping[str, int] | None = None
) -> BestPlan | None:
    """A best plan of one computing memory, 0, and slow memory, 1, in stages of `order`; None if there is none.

    Stage k is any of the first k-1 nodes in that order, each computed again or copied back to memory 0, and then the
    k-th node computed. In between, anything may be written to memory 1.
    """
    rules = _Rules(places)
    goal = TOTALS.index(objective)
    caps = [(limits or {}).get(what) for what in TOTALS]
    reached = {rules.start: {(0, 0, 0): ()}}
    for stage, last in enumerate(order, start=1):
        for v in order[:stage]:
            reached = _written(rules, reached, caps)
            following: dict = {} if v == last else {state: dict(ways) for state, ways in reached.items()}
            for action in [(v, 0, None)] if v == last else [(v, 0, None), (v, 0, 1)]:
                _follow(rules, reached, following, action, caps)
            reached = following
    ends = [(totals[goal], totals, plan) for ways in reached.values() for totals, plan in ways.items()]
    return BestPlan(*min(ends)[1:]) if ends else None


def _written(rules: _Rules, reached: dict, caps: Sequence[int | None]) -> dict:
    """The states with, in all ways, any more outputs written to memory 1."""
    found = {state: dict(ways) for state, ways in reached.items()}
    fresh = found
    while fresh:
        more: dict = {}
        for v in range(len(rules.places.graph.nodes)):
            _follow(rules, fresh, more, (v, 1, 0), caps)
        fresh = {}
        for state, ways in more.items():
            for totals, plan in ways.items():
                if _keep(found.setdefault(state, {}), totals, plan):
                    fresh.setdefault(state, {})[totals] = plan
    return found


def _follow(rules: _Rules, before: dict, after: dict, action: Action, caps: Sequence[int | None]) -> None:
    cost = rules.cost(action)
    if cost is None:
        return
    for state, ways in before.items():
        for following in rules.take(state, action):
            for totals, plan in ways.items():
                added = tuple(map(int.__add__, totals, cost))
                if all(cap is None or total <= cap for cap, total in zip(caps, added, strict=True)):
                    _keep(after.setdefault(following, {}), added, (*plan, action))


def _keep(ways: dict, totals: Costs, plan: tuple) -> bool:
    """Keep a way to a state unless another one is as good in all totals; forget those it beats."""
    if any(all(map(int.__le__, known, totals)) for known in ways):
        return False
    for known in [known for known in ways if all(map(int.__le__, totals, known))]:
        del ways[known]
    ways[totals] = plan
    return True


class _Rules:
    """Which states follow from a state."""

    def __init__(self, places: Places) -> None:
        self.places = places
        n, self.count = len(places.graph.nodes), len(places.budgets)
        self.all = (1 << n) - 1
        self.inputs = [0] * n
        for tail, head in places.graph.edges:
            self.inputs[head] |= 1 << tail
        self.size = [0]  # by set of nodes
        for v in range(n):
            self.size += [memory + places.graph.sizes[v] for memory in self.size]
        self.start = ((0,) * self.count, ((0,) * n,) * self.count, 0)

    def actions(self) -> Iterator[tuple[Action, Costs]]:
        n = len(self.places.graph.nodes)
        for v, m, source in product(range(n), range(self.count), (None, *range(self.count))):
            cost = self.cost((v, m, source))
            if cost is not None:
                yield (v, m, source), cost

    def cost(self, action: Action) -> Costs | None:
        v, m, source = action
        if source is None:
            offered = self.places.compute[m]
            return None if offered is None or offered[v] is None else (*offered[v], 0)
        offered = self.places.copy.get((source, m))
        return None if offered is None else (*offered[v], self.places.graph.sizes[v])

    def take(self, state: tuple, action: Action) -> Iterator[tuple]:
        resident, used, computed = state
        v, m, source = action
        own = 1 << v
        if resident[m] & own or used[m][v] == self.places.most[m][v]:
            return
        needed, taken = [0] * self.count, [0] * self.count
        needed[m] = own
        if source is None:
            if self.inputs[v] & ~resident[m]:
                return
            needed[m] |= self.inputs[v]
            taken[m] = self.places.graph.workspace_of[v]
            computed |= own
        else:
            if not resident[source] & own:
                return
            needed[source] = own
        counts = (*used[m][:v], used[m][v] + 1, *used[m][v + 1 :])
        used = (*used[:m], counts, *used[m + 1 :])
        kept = [list(self._largest(k, needed[k], resident[k] & ~needed[k], taken[k])) for k in range(self.count)]
        for residents in product(*kept):
            yield residents, used, computed

    def _largest(self, m: int, held: int, spare: int, taken: int) -> Iterator[int]:
        """The sets that contain `held`, are in `held | spare` and fit memory m beside what is taken, but with no more
        of `spare`."""
        budget, chosen = self.places.budgets[m], spare
        budget = None if budget is None else budget - taken
        while True:
            memory = self.size[held | chosen]
            if (budget is None or memory <= budget) and not any(
                spare >> u & 1 and not chosen >> u & 1 and (budget is None or memory + self.size[1 << u] <= budget)
                for u in range(len(self.inputs))
            ):
                yield held | chosen
            if chosen == 0:
                return
            chosen = (chosen - 1) & spare  # the next smaller subset of `spare`
