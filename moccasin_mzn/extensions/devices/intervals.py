"""Retention intervals in several memories as arrays of the models, from and to plans."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from moccasin_mzn.extensions.devices.data import DevicesData
from moccasin_mzn.extensions.devices.stages import event, stages_of_plan
from moccasin_mzn.problem.judges.plans import PlacedInterval, judge_plan
from moccasin_mzn.problem.plan import Action, Plan
from moccasin_mzn.problem.pruning import pruned_plan

COMPUTED = 0
"""Source of what is computed; memories are numbered from 1 in the models."""


@dataclass(frozen=True)
class PlacedIntervals:
    """Values of the models' arrays, one entry for each of `DevicesData.intervals`; intervals of events are closed."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    source: tuple[int, ...] = ()
    """`COMPUTED`, or the memory, from 1, that it is copied from."""


def decode(data: DevicesData, intervals: PlacedIntervals) -> Plan:
    """The plan a solution stands for: its active intervals by start."""
    rows = zip(intervals.active, intervals.start, data.intervals, intervals.source, strict=True)
    actions = sorted((start, v, m, source) for active, start, (v, m, _), source in rows if active)
    return tuple(
        Action(data.order[v - 1], m, None if source == COMPUTED else source - 1) for _, v, m, source in actions
    )


def encode(data: DevicesData, plan: Plan) -> PlacedIntervals | None:
    """The solution that stands for a plan which the judge accepts; inverse of `decode`. None: there is no such one.

    A plan with actions of no use, which the data has no place for, is encoded without them.
    """
    platform = data.problem.platform
    plan = pruned_plan(platform, plan)
    while True:
        stages = stages_of_plan(data.order, len(platform.memories), plan) if data.staged else [1] * len(plan)
        if len(stages) < len(plan):
            return None
        copies, needless = _copies(data, plan, stages)
        if needless is None:
            return _arrays(data, plan, stages, copies)
        shorter = (*plan[: needless - 1], *plan[needless:])
        if judge_plan(platform, shorter, data.problem.goal).violations:
            return None
        plan = pruned_plan(platform, shorter)


def arrays_of_plan(data: DevicesData, plan: Plan) -> PlacedIntervals:
    """The solution with free events that stands for a plan as it is; the data has room for all of it."""
    stages = [1] * len(plan)
    return _arrays(data, plan, stages, _copies(data, plan, stages)[0])


Copies = dict[tuple[int, int], list[PlacedInterval]]


def _copies(data: DevicesData, plan: Plan, stages: Sequence[int]) -> tuple[Copies, int | None]:
    """Intervals by node, from 1, and memory; and the position of the first one that the data has no place for."""
    number = {v: k for k, v in enumerate(data.order, 1)}
    copies: Copies = defaultdict(list)
    for interval in judge_plan(data.problem.platform, plan).intervals:
        v, m = number[interval.node], interval.memory
        copies[v, m].append(interval)
        rank, stage = len(copies[v, m]), stages[interval.start - 1]
        known = rank <= data.most[v - 1][m]
        if not known or (data.staged and not data.earliest(v, m, rank) <= stage <= data.latest[v - 1]):
            return copies, interval.start
    return copies, None


def _arrays(data: DevicesData, plan: Plan, stages: Sequence[int], copies: Copies) -> PlacedIntervals:
    number = {v: k for k, v in enumerate(data.order, 1)}
    n, memories = len(data.order), len(data.problem.platform.memories)
    events: Sequence[int] = range(1, len(plan) + 1)
    if data.staged:
        events = [
            event(n, memories, stage, number[action.node], action.memory, action.source is not None)
            for stage, action in zip(stages, plan, strict=True)
        ]
    rows = []
    unused = len(plan)  # free events: inactive intervals take the events after the last
    for v, m, rank in data.intervals:
        if rank <= len(copies[v, m]):
            found = copies[v, m][rank - 1]
            source = COMPUTED if found.source is None else found.source + 1
            rows.append((True, events[found.start - 1], events[found.end - 1], source))
            continue
        unused += 1
        place = event(n, memories, data.earliest(v, m, rank), v, m, True) if data.staged else unused
        rows.append((False, place, place, COMPUTED))
    return PlacedIntervals(*zip(*rows, strict=True))
