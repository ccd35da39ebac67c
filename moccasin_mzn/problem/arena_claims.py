"""Offsets that a schedule file claims: do its intervals share memory, and is the arena within the budget?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.problem.judges.schedules import Violation
from moccasin_mzn.words import count_text, exact_memory_text, memory_text, over_text


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
        if flaw.other is not None:
            other = node_text(graph, intervals[flaw.other].node)
            text = f"the outputs of nodes {other} and {node_text(graph, node)} overlap at addresses {flaw.detail}"
            violations.append(Violation("overlap", at, node, f"position {at}: {text}"))
        else:
            message = f"position {at}: the interval of node {node_text(graph, node)}: {flaw.detail}"
            violations.append(Violation(f"{flaw.kind}-offset", at, node, message))
    top = _top(graph, schedule)
    if schedule.arena is not None and schedule.arena != top:
        claimed, found = (exact_memory_text(amount, graph.size_unit) for amount in (schedule.arena, top))
        message = f"arena claimed is {claimed}, but the intervals end at {found}"
        violations.append(Violation("wrong-arena", None, None, message))
    if budget is not None and top > budget:
        message = f"arena {memory_text(top, graph.size_unit)} is {over_text(top, budget, graph.size_unit)}"
        violations.append(Violation("arena-over-budget", None, None, message))
    return violations


def judged_arena(
    graph: ComputationGraph, schedule: ClaimedSchedule, budget: int | None, violations: Iterable[Violation]
) -> str:
    """What was judged of the arena of a schedule, and how, in one line.

    Args:
        violations: all of the schedule.
    """
    if schedule.offsets is None or schedule.intervals is None:
        return "no arena to judge: the schedule has no offsets"
    found = arena_text(len(schedule.offsets), _top(graph, schedule), schedule.alignment or 1, budget, graph, violations)
    return f"arena {found}"


def arena_text(
    count: int, size: int, alignment: int, budget: int | None, graph: ComputationGraph, violations: Iterable[Violation]
) -> str:
    """The verdict on an arena of so many intervals: its size, overlaps, alignment, and the size against the budget."""
    kinds = Counter(violation.kind for violation in violations)
    odd, step = kinds["misaligned-offset"] + kinds["negative-offset"], memory_text(max(1, alignment), "unit")
    verdicts = [
        f"{memory_text(size, graph.size_unit)} for {count_text(count, 'interval')}",
        f"{count_text(kinds['overlap'], 'overlap')} found" if kinds["overlap"] else "no overlap",
        f"{count_text(odd, 'offset')} not a multiple of {step}" if odd else f"offsets are multiples of {step}",
    ]
    if budget is None:
        return ", ".join([*verdicts, "no budget"])
    side = "over" if kinds["arena-over-budget"] else "within"
    return ", ".join([*verdicts, f"{side} the budget {memory_text(budget, graph.size_unit)}"])


def _top(graph: ComputationGraph, schedule: ClaimedSchedule) -> int:
    """Where the topmost interval ends."""
    pairs = zip(schedule.intervals or (), schedule.offsets or (), strict=True)
    return max((offset + graph.sizes[of.node] for of, offset in pairs if graph.sizes[of.node]), default=0)
