"""Offsets that a schedule file claims: do its intervals share memory, and is the arena within the budget?"""

from __future__ import annotations

from moccasin_mzn.addresses.check import flaws
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.readers.schedule import ClaimedSchedule
from moccasin_mzn.simulate import Violation


def check_offsets(graph: ComputationGraph, schedule: ClaimedSchedule, budget: int | None) -> list[Violation]:
    """All that is wrong with the offsets of a schedule, in the order found; empty if it has none.

    The kinds are "negative-offset", "misaligned-offset", "overlap", "wrong-arena" for an arena that is not as large as
    claimed, and "arena-over-budget".
    """
    if schedule.offsets is None or schedule.intervals is None:
        return []
    intervals, offsets, step = schedule.intervals, schedule.offsets, max(1, schedule.alignment or 1)
    boxes = [(i.start, i.end + 1, graph.sizes[i.node], step) for i in intervals]
    violations = []
    for flaw in flaws([box if box[0] < box[1] else (0, 1, 0, step) for box in boxes], offsets):
        node, at = intervals[flaw.buffer].node, flaw.time or intervals[flaw.buffer].start
        if flaw.kind == "overlap":
            other = graph.nodes[intervals[flaw.other].node]
            text = f"the outputs of nodes {other} and {graph.nodes[node]} overlap at addresses {flaw.detail}"
            violations.append(Violation("overlap", at, node, f"position {at}: {text}"))
        else:
            message = f"position {at}: the interval of node {graph.nodes[node]}: {flaw.detail}"
            violations.append(Violation(f"{flaw.kind}-offset", at, node, message))
    top = max((offset + size for offset, (_, _, size, _) in zip(offsets, boxes, strict=True) if size), default=0)
    if schedule.arena is not None and schedule.arena != top:
        message = f"arena claimed is {schedule.arena}, but the intervals end at {top}"
        violations.append(Violation("wrong-arena", None, None, message))
    if budget is not None and top > budget:
        message = f"arena {top} is {top - budget} over the budget {budget}"
        violations.append(Violation("arena-over-budget", None, None, message))
    return violations
