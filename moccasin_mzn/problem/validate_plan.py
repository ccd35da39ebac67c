"""Validation of a plan from a file: the judge's verdict, and the plan's own claims against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.problem.arena_claims import arena_text
from moccasin_mzn.problem.files.plans import ClaimedInterval, ClaimedPlan
from moccasin_mzn.problem.judges.arenas import flaws
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.judges.schedules import Violation
from moccasin_mzn.words import duration_text, exact_memory_text, memory_text, over_text


def validate_plan(claimed: ClaimedPlan) -> PlanSimulation:
    """The judge's account, with further violations for claims that are not so.

    They are "wrong-..." for totals, peaks and arenas; and, for a plan with offsets, "wrong-interval" for a copy that
    is not held as the plan holds it, "misaligned-offset" and "overlap", and "arena-over-budget".
    """
    graph, simulation = claimed.platform.graph, judge_plan(claimed.platform, claimed.plan, claimed.goal)
    wrong = []
    for what, value in claimed.totals:
        if value != simulation.total(what):
            exact = exact_memory_text if what == "traffic" else duration_text
            unit = {"duration": graph.duration_unit, "traffic": graph.size_unit}.get(what, "unit")
            claim, true = exact(value, unit), exact(simulation.total(what), unit)
            message = f"{what} claimed is {claim}, but the plan has {what} {true}"
            wrong.append(Violation(f"wrong-{what}", None, None, message))
    for m, value in claimed.peaks:
        if value != simulation.peaks[m]:
            name = claimed.platform.memories[m].name
            claim, true = (exact_memory_text(amount, graph.size_unit) for amount in (value, simulation.peaks[m]))
            message = f"peak in {name} claimed is {claim}, but the plan has {true}"
            wrong.append(Violation("wrong-peak", None, None, message))
    if claimed.placed is not None:
        wrong += _wrong_intervals(claimed, simulation)
        for m in range(len(claimed.platform.memories)):
            wrong += _wrong_arena(claimed, m)
    return replace(simulation, violations=(*simulation.violations, *wrong))


def _wrong_intervals(claimed: ClaimedPlan, simulation: PlanSimulation) -> Iterator[Violation]:
    """Copies that the plan holds otherwise than claimed, or that have no offset; in order of their start."""
    true = {(of.node, of.memory, of.start): of.end for of in simulation.intervals}
    told: dict[tuple[int, int, int], int] = {}
    for of in claimed.placed or ():
        key, text = (of.node, of.memory, of.start), None
        if key not in true:
            text = "begins where there is none"
        elif key in told:
            text = "is given twice"
        elif of.end != true[key]:
            text = f"ends at {of.end}, but its last read is at {true[key]}"
        told[key] = of.end
        if text is not None:
            yield _violation(claimed, "wrong-interval", key, text)
    for key in sorted(true.keys() - told.keys(), key=lambda key: key[2]):
        yield _violation(claimed, "wrong-interval", key, "has no offset")


def _violation(claimed: ClaimedPlan, kind: str, key: tuple[int, int, int], text: str) -> Violation:
    node, memory, start = key
    graph, place = claimed.platform.graph, claimed.platform.memories[memory]
    message = f"position {start}: the copy of node {node_text(graph, node)} in {place.name} {text}"
    return Violation(kind, start, node, message)


def judged_arenas(claimed: ClaimedPlan) -> list[str]:
    """What was judged of each arena of a plan, and how, one line for each memory."""
    if claimed.placed is None:
        return ["no arena to judge: the plan has no offsets"]
    graph, lines = claimed.platform.graph, []
    for m, place in enumerate(claimed.platform.memories):
        count, size = len(_placed_in(claimed, m)), _top(claimed, m)
        text = arena_text(count, size, claimed.alignment, place.budget, graph, _wrong_arena(claimed, m))
        lines.append(f"arena in {place.name} {text}")
    return lines


def _placed_in(claimed: ClaimedPlan, m: int) -> list[ClaimedInterval]:
    return [of for of in claimed.placed or () if of.memory == m and of.start <= of.end]


def _top(claimed: ClaimedPlan, m: int) -> int:
    """Where the topmost copy in a memory ends."""
    sizes = claimed.platform.graph.sizes
    return max((of.offset + sizes[of.node] for of in _placed_in(claimed, m) if sizes[of.node]), default=0)


def _wrong_arena(claimed: ClaimedPlan, m: int) -> Iterator[Violation]:
    """What is wrong with the offsets in one memory."""
    graph, place = claimed.platform.graph, claimed.platform.memories[m]
    placed = _placed_in(claimed, m)
    boxes = [(of.start, of.end + 1, graph.sizes[of.node], max(1, claimed.alignment)) for of in placed]
    for flaw in flaws(boxes, [of.offset for of in placed]):
        of = placed[flaw.buffer]
        if flaw.other is not None and flaw.time is not None:
            other = node_text(graph, placed[flaw.other].node)
            text = f"overlaps that of node {other}: addresses {flaw.detail}"
            yield _violation(claimed, "overlap", (of.node, m, flaw.time), text)
        else:
            yield _violation(claimed, f"{flaw.kind}-offset", (of.node, m, of.start), f"is misplaced: {flaw.detail}")
    top = _top(claimed, m)
    size = dict(claimed.arenas).get(m, top)
    if size != top:
        claim, true = (exact_memory_text(amount, graph.size_unit) for amount in (size, top))
        message = f"arena in {place.name} claimed is {claim}, but its copies end at {true}"
        yield Violation("wrong-arena", None, None, message)
    if place.budget is not None and top > place.budget:
        over = over_text(top, place.budget, graph.size_unit)
        message = f"arena {memory_text(top, graph.size_unit)} in {place.name} is {over}"
        yield Violation("arena-over-budget", None, None, message)
