"""The second judge of plans on several devices: the solution checker, run by MiniZinc."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import Any

from moccasin_mzn.extensions.devices.data import DevicesData
from moccasin_mzn.extensions.devices.intervals import COMPUTED, arrays_of_plan
from moccasin_mzn.formulations.solution_checkers import CheckError, run_checker
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.words import memory_text

VERDICT = re.compile(r"CORRECT: duration (\d+), energy (\d+), traffic (\d+), peaks ([\d ]+)")


def with_room_for(data: DevicesData, plan: Plan) -> DevicesData:
    """Data of free events that has exactly the intervals of a plan."""
    opened = Counter((action.node, action.memory) for action in plan)
    memories = range(len(data.budgets))
    return replace(data, staged=False, most=tuple(tuple(opened[v, m] for m in memories) for v in data.order))


def plan_solution(data: DevicesData, plan: Plan, simulation: PlanSimulation) -> dict[str, Any]:
    """A plan as the arrays of a solution; `data` is that of `with_room_for`."""
    intervals = arrays_of_plan(data, plan)
    links = data.problem.platform.links
    rows = zip(intervals.active, intervals.source, data.intervals, strict=True)
    return {
        "active": intervals.active,
        "start": intervals.start,
        "end": intervals.end,
        "computed": [a and s == COMPUTED for a, s in zip(intervals.active, intervals.source, strict=True)],
        "copied": [
            [active and (source, m) == (link.source + 1, link.target) for link in links]
            for active, source, (_, m, _) in rows
        ],
        **{f"total_{what}": simulation.total(what) // s for what, s in zip(OBJECTIVES, data.scales, strict=True)},
    }


def check_plan(checker: str, data: DevicesData, items: dict[str, Any], simulation: PlanSimulation) -> str:
    """Have the checker judge a plan; the verdict in one line, in the problem's units.

    Args:
        items: data and arrays.

    Raises:
        CheckError: it is rejected, or has other figures than the judge's.
        InputError: MiniZinc is missing or failed.
    """
    verdict = run_checker(checker, items)
    found = VERDICT.fullmatch(verdict)
    if found is None:
        raise CheckError(f"{checker} rejects the plan: {verdict}")
    totals = [int(amount) * scale for amount, scale in zip(found.groups()[:3], data.scales, strict=True)]
    peaks = [int(peak) * data.scales[2] for peak in found[4].split()]
    judged = [simulation.total(what) for what in OBJECTIVES]
    if totals != judged or peaks != list(simulation.peaks):
        raise CheckError(
            f"{checker} finds totals {totals} and peaks {peaks}, the judge {judged} and {simulation.peaks}"
        )
    graph = data.problem.platform.graph
    figures = [f"{what} {total_text(graph, what, total)}" for what, total in zip(OBJECTIVES, totals, strict=True)]
    figures.append("peaks " + " and ".join(memory_text(peak, graph.size_unit) for peak in peaks))
    return f"{checker}: CORRECT: {', '.join(figures)}"
