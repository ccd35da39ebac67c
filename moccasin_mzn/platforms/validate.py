"""Validation of a plan from a file: the judge's verdict, and the plan's own claims against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from moccasin_mzn.addresses.check import flaws
from moccasin_mzn.platforms.documents import ClaimedInterval, ClaimedPlan
from moccasin_mzn.platforms.judge import PlanSimulation, judge_plan
from moccasin_mzn.simulate import Violation


def validate_plan(claimed: ClaimedPlan) -> PlanSimulation:
    """The judge's account, with further violations for claims that are not so.

    They are "wrong-..." for totals, peaks and arenas; and, for a plan with offsets, "wrong-interval" for a copy that
    is not held as the plan holds it, "misaligned-offset" and "overlap", and "arena-over-budget".
    """
    simulation = judge_plan(claimed.platform, claimed.plan, claimed.goal)
    wrong = []
    for what, value in claimed.totals:
        if value != simulation.total(what):
            message = f"{what} claimed is {value}, but the plan has {what} {simulation.total(what)}"
            wrong.append(Violation(f"wrong-{what}", None, None, message))
    for m, value in claimed.peaks:
        if value != simulation.peaks[m]:
            name = claimed.platform.memories[m].name
            message = f"peak in {name} claimed is {value}, but the plan has {simulation.peaks[m]}"
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
    for of in claimed.placed:
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
    message = f"position {start}: the copy of node {graph.nodes[node]} in {place.name} {text}"
    return Violation(kind, start, node, message)


def _wrong_arena(claimed: ClaimedPlan, m: int) -> Iterator[Violation]:
    """What is wrong with the offsets in one memory."""
    graph, place = claimed.platform.graph, claimed.platform.memories[m]
    placed: list[ClaimedInterval] = [of for of in claimed.placed if of.memory == m and of.start <= of.end]
    boxes = [(of.start, of.end + 1, graph.sizes[of.node], max(1, claimed.alignment)) for of in placed]
    for flaw in flaws(boxes, [of.offset for of in placed]):
        of = placed[flaw.buffer]
        if flaw.kind == "overlap":
            other = graph.nodes[placed[flaw.other].node]
            text = f"overlaps that of node {other}: addresses {flaw.detail}"
            yield _violation(claimed, "overlap", (of.node, m, flaw.time), text)
        else:
            yield _violation(claimed, f"{flaw.kind}-offset", (of.node, m, of.start), f"is misplaced: {flaw.detail}")
    top = max((of.offset + graph.sizes[of.node] for of in placed if graph.sizes[of.node]), default=0)
    size = dict(claimed.arenas).get(m, top)
    if size != top:
        message = f"arena in {place.name} claimed is {size}, but its copies end at {top}"
        yield Violation("wrong-arena", None, None, message)
    if place.budget is not None and top > place.budget:
        message = f"arena {top} in {place.name} is {top - place.budget} over the budget {place.budget}"
        yield Violation("arena-over-budget", None, None, message)
