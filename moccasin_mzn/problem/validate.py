"""Validation of any schedule, wherever it was made: the judge's verdict, and the schedule's own claims against it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.arena_claims import check_offsets
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.judges.schedules import Interval, Simulation, Violation, in_order, judge, simulate
from moccasin_mzn.words import duration_text, exact_memory_text


def validate_schedule(
    graph: ComputationGraph, schedule: ClaimedSchedule | Sequence[int], budget: int | None
) -> tuple[Violation, ...]:
    """All that is wrong with a schedule, the first violation first; empty for a correct one.

    Args:
        schedule: what a file said, or a bare sequence of positions in `graph.nodes`.
        budget: in the graph's size unit; None takes the one the schedule claims, and no budget if it claims none. It is
            for the arena too, if the schedule has offsets.

    Returns:
        The judge's violations, and "wrong-interval", "wrong-peak" or "wrong-duration" for every claim that is not
        what the simulation says. An interval must end exactly at the last read of its copy: ending earlier drops
        what is still read, ending later holds memory the schedule does not account for.
    """
    if not isinstance(schedule, ClaimedSchedule):
        schedule = ClaimedSchedule(tuple(schedule))
    if budget is None:
        budget = schedule.budget
    sequence = schedule.sequence
    simulation = simulate(graph, sequence) if budget is None else judge(graph, sequence, budget)
    violations = list(simulation.violations)
    if schedule.intervals is not None:
        violations += _check_intervals(graph, schedule.intervals, simulation)
        violations += check_offsets(graph, schedule, budget)
    for what, claimed, true, text in (
        ("peak", schedule.peak, simulation.peak, partial(exact_memory_text, unit=graph.size_unit)),
        ("duration", schedule.duration, simulation.duration, partial(duration_text, unit=graph.duration_unit)),
    ):
        if claimed is not None and claimed != true:
            message = f"{what} claimed is {text(claimed)}, but the sequence has {what} {text(true)}"
            violations.append(Violation(f"wrong-{what}", None, None, message))
    return in_order(violations)


def _check_intervals(graph: ComputationGraph, claimed: Sequence[Interval], simulation: Simulation) -> list[Violation]:
    def wrong(interval: Interval, text: str) -> Violation:
        message = f"position {interval.start}: the interval of node {node_text(graph, interval.node)} {text}"
        return Violation("wrong-interval", interval.start, interval.node, message)

    true_end = {(interval.node, interval.start): interval.end for interval in simulation.intervals}
    violations, seen = [], set()
    for interval in claimed:
        key = (interval.node, interval.start)
        end = true_end.get(key)
        if end is None:
            violations.append(wrong(interval, "starts where the node is not computed"))
        elif key in seen:
            violations.append(wrong(interval, "is given twice"))
        elif interval.end < end:
            violations.append(wrong(interval, f"ends at {interval.end}, before its last read at {end}"))
        elif interval.end > end:
            violations.append(wrong(interval, f"ends at {interval.end}, after its last read at {end}"))
        seen.add(key)
    missing = [interval for interval in simulation.intervals if (interval.node, interval.start) not in seen]
    violations += [wrong(interval, f"(to {interval.end}) is missing") for interval in missing]
    return violations
