"""Dropping what a schedule or a plan does not need."""

from __future__ import annotations

import time
from collections.abc import Sequence

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.platform import Platform


def without_tail(sequence: Sequence[int]) -> tuple[int, ...]:
    """A schedule up to the last first computation of a node: what comes after that is of no use.

    Nothing is held longer for it, so that memory is nowhere more.
    """
    first = {v: t for t, v in reversed(list(enumerate(sequence, start=1)))}
    return tuple(sequence[: max(first.values(), default=0)])


def pruned(graph: ComputationGraph, sequence: Sequence[int], budget: int, seconds: float = 0.5) -> tuple[int, ...]:
    """A schedule within the budget from which no single recomputation can be taken away.

    Solvers leave useless recomputations where they cost nothing, and phase 1 (paper, 2.4) where it does not count them.

    Args:
        sequence: a schedule within the budget, positions in `graph.nodes`.
        budget: in the graph's size unit.
        seconds: to spend on it; recomputations not looked at by then stay.
    """
    deadline = time.monotonic() + seconds
    kept: list[int | None] = list(sequence)
    first = {v: t for t, v in reversed(list(enumerate(sequence)))}
    again = [t for t, v in enumerate(sequence) if first[v] != t]  # first computations stay: they keep the input order
    for t in sorted(again, key=lambda t: -graph.durations[sequence[t]]):  # the costliest first
        if time.monotonic() > deadline:
            break
        kept[t] = None
        if not judge(graph, [v for v in kept if v is not None], budget).feasible:
            kept[t] = sequence[t]
    return tuple(v for v in kept if v is not None)


def pruned_plan(platform: Platform, plan: Plan) -> Plan:
    """The plan without copies and repeated computations that nothing reads; it must be one the judge accepts.

    To leave out what is not read holds nothing longer, so that the plan stays within budgets and limits.
    """
    while True:
        computed: set[int] = set()
        kept = []
        for action, interval in zip(plan, judge_plan(platform, plan).intervals, strict=True):
            needed = interval.end > interval.start or (action.source is None and action.node not in computed)
            if needed:
                kept.append(action)
                if action.source is None:
                    computed.add(action.node)
        if len(kept) == len(plan):
            return tuple(plan)
        plan = tuple(kept)
