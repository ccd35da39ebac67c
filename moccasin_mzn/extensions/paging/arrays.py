"""Plans of paging as arrays of the models (see `models/lib/paging.mzn`), and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from moccasin_mzn.extensions.paging.build import LOCAL, SLOW
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.formulations.retention import staged_events
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan import Action, Plan
from moccasin_mzn.problem.platform import Platform


@dataclass(frozen=True)
class PagedIntervals:
    """Values of the models' arrays, one entry per possible interval in local memory; events are closed and from 1."""

    active: tuple[bool, ...] = ()
    start: tuple[int, ...] = ()
    end: tuple[int, ...] = ()
    paged: tuple[bool, ...] = ()
    """Is it read back, not computed?"""


def decode_plan(data: ModelData, intervals: PagedIntervals) -> Plan:
    """The plan a solution stands for."""
    columns = (intervals.active, intervals.start, intervals.end, intervals.paged, data.computation_nodes)
    rows = zip(*columns, strict=True)
    return plan_with_writes(
        (start, end, data.order[node - 1], back) for active, start, end, back, node in rows if active
    )


def plan_with_writes(local: Iterable[tuple[int, int, int, bool]]) -> Plan:
    """The plan of intervals in local memory: an output is written right after the one before the first one read back.

    Args:
        local: start, end, node, and whether it is read back; those of a node by start.
    """
    steps: list[tuple[int, int, Action]] = []
    latest_end, written = dict[int, int](), set[int]()
    for start, end, v, back in local:
        if back and v not in written:
            written.add(v)
            steps.append((latest_end[v], 1, Action(v, SLOW, LOCAL)))
        steps.append((start, 0, Action(v, LOCAL, SLOW if back else None)))
        latest_end[v] = end
    return tuple(action for _, _, action in sorted(steps, key=itemgetter(0, 1)))


def encode_plan(platform: Platform, data: ModelData, plan: Plan, staged: bool) -> PagedIntervals:
    """The solution that stands for a plan, with every interval ending at its last read; inverse of `decode_plan`.

    What `data` has no room for is left out: then the result is no solution, and still worth starting from.
    """
    local = [action for action in plan if action.memory == LOCAL]
    count, before = 0, []  # local actions at or before each position of the plan
    for action in plan:
        count += action.memory == LOCAL
        before.append(count)
    events: Sequence[int] = range(1, len(local) + 1)
    if staged:
        events = staged_events(data, [action.node for action in local])
    copies: list[list[tuple[int, int, bool]]] = [[] for _ in platform.graph.nodes]
    for of in judge_plan(platform, plan).intervals:
        if of.memory == LOCAL:
            first, last = events[before[of.start - 1] - 1], events[before[of.end - 1] - 1]
            copies[of.node].append((first, last, of.source is not None))
    rows, unused = [], len(local)
    for number, (v, most) in enumerate(zip(data.order, data.max_computations, strict=True), 1):
        for i in range(most):
            if i < len(copies[v]):
                rows.append((True, *copies[v][i]))
                continue
            unused += 1  # free events: inactive intervals take the events after the last
            event = len(data.order) * (data.earliest_stage[number - 1] - 1) + number if staged else unused
            rows.append((False, event, event, False))
    return PagedIntervals(*map(tuple, zip(*rows, strict=True)))
