"""What a schedule costs and which claims it can refute, from the definition alone.

Of the package only the graph is used, so that its simulator, its models and its searches are judged from outside. The
account reads a schedule backwards: the first reader met that way is the last one of a copy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add

from moccasin_mzn.graphs.graph import ComputationGraph

FREE, FIRST, STAGED = "any order", "first computations in the input order", "stages of the input order"
"""Kinds of scopes, each within the one before."""


@dataclass(frozen=True)
class Account:
    """What a sequence of positions in `graph.nodes` comes to."""

    flaw: str
    """Why it is no schedule; empty if it is one. Then the rest counts."""
    duration: int = 0
    peak: int = 0
    intervals: tuple[tuple[int, int, int], ...] = ()
    """Node, start and end of each copy, in order of start; closed, positions from 1."""


@dataclass(frozen=True)
class Scope:
    """What a proof ranges over: schedules of a kind, with limited computations of each node."""

    kind: str
    most: tuple[int, ...]

    def holds(self, order: Sequence[int], sequence: Sequence[int]) -> bool:
        """Is a schedule within the scope, where `order` is the input order?"""
        counts = Counter(sequence)
        if any(count > self.most[v] for v, count in counts.items()):
            return False
        if self.kind == FREE:
            return True
        return tuple(dict.fromkeys(sequence)) == tuple(order) and (self.kind == FIRST or in_stages(order, sequence))


def in_stages(order: Sequence[int], sequence: Sequence[int]) -> bool:
    """Do the computations up to each first one go through the input order, and does nothing follow the last first one?

    The first computations must be in the input order.
    """
    place = {v: k for k, v in enumerate(order)}
    seen: set[int] = set()
    stage: list[int] = []
    for v in sequence:
        stage.append(place[v])
        if v not in seen:
            seen.add(v)
            if stage != sorted(set(stage)):
                return False
            stage = []
    return not stage


def account(graph: ComputationGraph, sequence: Sequence[int]) -> Account:
    """Judge a sequence, which may be anything."""
    n = len(graph.nodes)
    for t, v in enumerate(sequence, 1):
        if type(v) is not int or not 0 <= v < n:
            return Account(f"position {t}: {v!r} is no node")
    missing = set(range(n)) - set(sequence)
    if missing:
        return Account(f"node {graph.nodes[min(missing)]} is never computed")
    intervals, wanted = [], {}  # node: the last position that reads the copy looked for
    for t in range(len(sequence), 0, -1):
        v = sequence[t - 1]
        intervals.append((v, t, wanted.pop(v, t)))
        for u in graph.predecessors[v]:
            wanted.setdefault(u, t)
    if wanted:
        u, t = min(wanted.items(), key=lambda pair: pair[1])
        return Account(f"position {t}: node {graph.nodes[u]} is read before it is computed")
    change = [0] * (len(sequence) + 2)
    for v, start, end in intervals:
        change[start] += graph.sizes[v]
        change[end + 1] -= graph.sizes[v]
    used = map(add, accumulate(change[1:-1]), (graph.workspace_of[v] for v in sequence))
    duration = sum(graph.durations[v] for v in sequence)
    return Account("", duration, max(used), tuple(reversed(intervals)))


def arena_flaw(
    graph: ComputationGraph, intervals: Sequence[tuple[int, int, int]], offsets: Sequence[int], alignment: int
) -> str:
    """Why offsets of copies are no arena; empty if they are one."""
    for at, ((v, start, end), offset) in enumerate(zip(intervals, offsets, strict=True)):
        if type(offset) is not int or offset < 0 or offset % alignment:
            return f"offset {offset!r} of node {graph.nodes[v]} is no multiple of {alignment}"
        for (u, first, last), other in zip(intervals[:at], offsets[:at], strict=True):
            apart = last < start or end < first
            clear = other + graph.sizes[u] <= offset or offset + graph.sizes[v] <= other
            if not (apart or clear) and graph.sizes[u] and graph.sizes[v]:
                return f"nodes {graph.nodes[u]} and {graph.nodes[v]} overlap"
    return ""
