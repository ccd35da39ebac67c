"""The verdict on a schedule or a plan, from any source: what the command `validate` prints, and `validate` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import Json
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.zero_copy import difference
from moccasin_mzn.problem.files.plan_format import runtime_plan
from moccasin_mzn.problem.files.plans import claimed_plan, is_plan
from moccasin_mzn.problem.files.schedules import ClaimedSchedule, claimed_schedule, is_versioned
from moccasin_mzn.problem.judges.certificates import graph_digest
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.judges.schedules import Simulation, Violation, simulate
from moccasin_mzn.problem.platform import Plan, Platform, plan_of_sequence
from moccasin_mzn.problem.validate import (
    ClaimedArena,
    arena_of_schedule,
    arenas_of_plan,
    kept_by_outputs,
    repeats,
    validate_plan,
    validate_schedule,
)

Place: TypeAlias = tuple[int, int, int]
"""A copy: the position of its node in `graph.nodes`, that of its memory, and the step that makes it."""


@dataclass(frozen=True)
class Verdict:
    """The judge's account of a schedule or a plan, and all that is wrong with it and with what its file claims."""

    graph: ComputationGraph
    plan: Plan
    """Computations and copies; those of a schedule are in memory 0."""
    account: Simulation | PlanSimulation
    violations: tuple[Violation, ...]
    """The most basic one first."""
    arenas: tuple[ClaimedArena, ...]
    """What is claimed of arenas; empty without offsets."""
    offsets: Mapping[Place, int]
    budget: int | None = None
    """The budget of a schedule, in the graph's size unit; None if absent, or it is a plan."""
    platform: Platform | None = None
    """The memories of a plan; None: it is a schedule."""
    notes: tuple[str, ...] = field(default=())


def verdict(graph: ComputationGraph, document: Json, budget: int | None = None) -> Verdict:
    """Judge the content of the file of a schedule or a plan.

    Args:
        document: see `files.schedules` and `files.plans`.
        budget: for a schedule, in the graph's size unit; None: the one that it claims.

    Raises:
        InputError: the document is broken; or a budget is given for a plan.
    """
    if not is_plan(document):
        return _of_schedule(graph, document, claimed_schedule(document, graph), budget)
    if budget is not None:
        raise InputError("budget: a plan is judged by the budgets of its memories, which its file has")
    claimed = claimed_plan(document, graph)
    account = validate_plan(claimed)
    violations = account.violations or _of_format(document, graph)
    offsets = {(of.node, of.memory, of.start): of.offset for of in claimed.placed or ()}
    arenas = arenas_of_plan(claimed)
    notes = _of_another(document, claimed.platform.graph) if violations else []
    platform = claimed.platform
    return Verdict(graph, claimed.plan, account, violations, arenas, offsets, platform=platform, notes=tuple(notes))


def _of_schedule(graph: ComputationGraph, document: Json, claimed: ClaimedSchedule, budget: int | None) -> Verdict:
    amount = claimed.budget if budget is None else budget
    violations = validate_schedule(graph, claimed, amount) or _of_format(document, graph)
    found = (*repeats(graph, claimed.sequence), *kept_by_outputs(graph, claimed.sequence))
    notes = [f"note: {note}" for note in found]
    if violations and not graph.runs_in_place:
        notes += _of_another(document, graph)
    places = [(of.node, 0, of.start) for of in claimed.intervals or ()]
    return Verdict(
        graph, plan_of_sequence(claimed.sequence), simulate(graph, claimed.sequence), violations,
        arena_of_schedule(graph, claimed, amount), dict(zip(places, claimed.offsets or (), strict=False)),
        amount, notes=tuple(notes),
    )  # fmt: skip


def _of_format(document: Json, graph: ComputationGraph) -> tuple[Violation, ...]:
    """Check the parts of a plan for runtimes that the judge does not know."""
    try:
        if is_versioned(document):
            runtime_plan(document, graph)
    except InputError as error:
        return (Violation("wrong-plan", None, None, str(error)),)
    return ()


def _of_another(document: Json, graph: ComputationGraph) -> list[str]:
    """Return a note if the file is for another graph, by its digest."""
    digest = document.get("graph_digest") if isinstance(document, dict) else None
    if digest in (None, graph_digest(graph)):
        return []
    if text := difference(document, graph):
        return [f"note: the schedule was {text}"]
    if document.get("graph") == graph.name:
        return [f"note: the schedule is of another graph than this one, although both are called {shown(graph.name)}"]
    return [f"note: the schedule is of another graph, {shown(document.get('graph'))}; this is {shown(graph.name)}"]
