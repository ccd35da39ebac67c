"""Plans on two memories: what they cost, and the best ones of tiny graphs.

A step is (node, memory, source): a copy of the node's output comes to be in the memory, computed there if the source is
None, otherwise copied from the memory `source`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, count
from math import ceil
from typing import Any

from moccasin_mzn.graphs.graph import ComputationGraph

Step = tuple[int, int, int | None]
MOST_EXPANSIONS = 60_000


@dataclass(frozen=True)
class Places:
    """Two memories and what happens in them, as a command line has them."""

    graph: ComputationGraph
    names: tuple[str, str]
    budgets: tuple[int, int]
    durations: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    """The cost of computing each node in each memory; None: nothing is computed there."""
    copies: dict[tuple[int, int], tuple[int, ...]]
    """By source and target, of copying each output."""
    most: tuple[int, int]
    """Copies of a node in each memory, over all the plan."""
    paging: bool

    def cost(self, step: Step) -> int | None:
        """The cost of a step; None: it is not possible."""
        v, m, source = step
        costs = self.durations[m] if source is None else self.copies.get((source, m))
        return None if costs is None else costs[v]


def places_of(graph: ComputationGraph, options: dict[str, Any], most: int) -> Places:
    """The places that the options of a command line mean."""
    endless = sum(graph.sizes)
    if "paging" in options:
        out, back = (_scaled(graph.sizes, options[f"page-{way}-time"]) for way in ("out", "in"))
        capacity = int(options.get("slow-memory", endless))
        budgets, durations = (int(options["budget"]), capacity), (graph.durations, None)
        return Places(graph, ("local", "slow"), budgets, durations, {(0, 1): out, (1, 0): back}, (most, 1), True)
    reported = [part.partition("=")[2].partition(":") for part in options["device"].split(" ")]
    budgets = tuple(int(amount) for amount, _, _ in reported)
    durations = tuple(None if slow == "inf" else _scaled(graph.durations, slow or "1") for _, _, slow in reported)
    latency = int(options.get("copy-latency", 0))
    copies = tuple(latency + cost for cost in _scaled(graph.sizes, options["copy-time"]))
    return Places(graph, ("gpu", "cpu"), budgets, durations, {(0, 1): copies, (1, 0): copies}, (most, most), False)


def _scaled(amounts: Sequence[int], factor: str) -> tuple[int, ...]:
    return tuple(ceil(amount * Fraction(factor)) for amount in amounts)


def plan_flaw(places: Places, plan: Sequence[Step]) -> tuple[str, int, tuple[int, int]]:
    """Why a sequence of steps is no plan, or "" if it is one; its duration, and the peak of each memory."""
    graph, duration = places.graph, 0
    latest: dict[tuple[int, int], int] = {}
    ends: dict[int, int] = {}
    for t, step in enumerate(plan):
        v, m, source = step
        cost = places.cost(step)
        if cost is None:
            return f"step {t + 1} is not possible", 0, (0, 0)
        duration += cost
        for u, where in [(v, source)] if source is not None else [(u, m) for u in graph.predecessors[v]]:
            if (u, where) not in latest:
                return f"step {t + 1} reads node {graph.nodes[u]}, which is not there", 0, (0, 0)
            ends[latest[u, where]] = t
        latest[v, m] = t
        ends[t] = t
        if sum(place[:2] == (v, m) for place in plan) > places.most[m]:
            return f"node {graph.nodes[v]} has too many copies in {places.names[m]}", 0, (0, 0)
    if {v for v, _, source in plan if source is None} != set(range(len(graph.nodes))):
        return "a node is never computed", 0, (0, 0)
    change = [[0] * (len(plan) + 1) for _ in places.names]
    for t, (v, m, _) in enumerate(plan):
        change[m][t] += graph.sizes[v]
        change[m][ends[t] + 1] -= graph.sizes[v]
    peaks = tuple(max(accumulate(of)) for of in change)
    over = [name for name, peak, budget in zip(places.names, peaks, places.budgets, strict=True) if peak > budget]
    return f"over the budget of {over[0]}" if over else "", duration, peaks


def best_plan(places: Places, order: Sequence[int], staged: bool) -> tuple[tuple[Step, ...] | None, bool]:
    """A plan of least duration, by A* over what is where; and whether that, or that there is none, is certain."""
    rules = _Rules(places, order, staged)
    tie = count()
    start = ((0, 0), (0, 0), 0, (1, False, (-1, -1), 0))
    heap = [(rules.estimate(0), next(tie), 0, start, ())]
    settled = set()
    for _ in range(MOST_EXPANSIONS):
        if not heap:
            return None, True
        _, _, spent, state, plan = heapq.heappop(heap)
        if state[2] == rules.all:
            return plan, True
        if state in settled:
            continue
        settled.add(state)
        for cost, step, after in rules.after(state):
            if after not in settled:
                further = plan if step is None else (*plan, step)
                item = (spent + cost + rules.estimate(after[2]), next(tie), spent + cost, after, further)
                heapq.heappush(heap, item)
    return None, False


class _Rules:
    def __init__(self, places: Places, order: Sequence[int], staged: bool) -> None:
        self.places, self.staged = places, staged
        self.order = list(order)
        n = len(order)
        self.all = (1 << n) - 1
        place = {v: k for k, v in enumerate(order)}
        self.inputs = [sum(1 << place[u] for u in places.graph.predecessors[v]) for v in order]
        self.size = [places.graph.sizes[v] for v in order]
        self.least = [min(of[v] for of in places.durations if of is not None) for v in order]

    def estimate(self, computed: int) -> int:
        """Every node that was not computed yet will be."""
        return sum(least for k, least in enumerate(self.least) if not computed >> k & 1)

    def after(self, state: tuple) -> Iterator[tuple[int, Step | None, tuple]]:
        """Cost, step or None for a drop, and the state after each move."""
        resident, used, computed, stage = state
        for m, contents in enumerate(resident):
            memory = sum(size for k, size in enumerate(self.size) if contents >> k & 1)
            for k, size in enumerate(self.size):
                bit = 1 << k
                if contents & bit:
                    yield 0, None, (_put(resident, m, contents ^ bit), used, computed, stage)
                    continue
                if memory + size > self.places.budgets[m] or used[m] >> 4 * k & 15 == self.places.most[m]:
                    continue
                for source in (None, 1 - m):
                    there = not self.inputs[k] & ~contents if source is None else resident[source] & bit
                    step = (self.order[k], m, source)
                    cost = self.places.cost(step)
                    if not there or cost is None:
                        continue
                    further = self.stage_after(stage, k, m, source) if self.staged else stage
                    if further is not None:
                        done = computed | bit if source is None else computed
                        counts = _put(used, m, used[m] + (1 << 4 * k))
                        yield cost, step, (_put(resident, m, contents | bit), counts, done, further)

    def stage_after(self, stage: tuple, k: int, m: int, source: int | None) -> tuple | None:
        """Where a step leaves the stages; None: it is out of place.

        A stage is its number from 1, whether its own node was computed, the latest node and kind of step, and the
        memories that this node has come to.
        """
        if self.places.paging and m == 1:
            return stage  # anything may be written at any time
        number, ended, latest, brought = stage
        if latest[0] != k:
            brought = 0
        key = (k, 0 if self.places.paging else m + 2 * (source is not None))
        if k >= number or key <= latest or brought >> m & 1:
            if not ended or k > number:
                return None
            number, ended, brought = number + 1, False, 0
        return number, ended or (k == number - 1 and source is None), key, brought | 1 << m


def _put(pair: tuple[int, int], at: int, value: int) -> tuple[int, int]:
    return (value, pair[1]) if at == 0 else (pair[0], value)
