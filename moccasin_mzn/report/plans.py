"""What a person sees of a plan in the table of the answer, and what is computed again or copied."""

from __future__ import annotations

from collections.abc import Iterator

from moccasin_mzn.formatting import memory_text
from moccasin_mzn.graphs.wording import total_text
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.search.result import Result


def plan_rows(result: Result) -> Iterator[tuple[str, str, str]]:
    """What it is, of the input order, and of the plan."""
    graph, baseline = result.problem.graph, result.problem.instance.baseline
    assert isinstance(result.problem, PlanProblem)
    for m, memory in enumerate(result.problem.platform.memories):
        budget = "no budget" if memory.budget is None else memory_text(memory.budget, graph.size_unit)
        yield f"budget, {memory.name}", "", budget
        if result.found:
            before = memory_text(baseline.peak, graph.size_unit) if m == 0 else ""
            yield f"peak, {memory.name}", before, memory_text(result.simulation.peaks[m], graph.size_unit)
    if result.found:
        yield from _totals(result, result.problem)
        yield from _arenas(result)
        yield "judged by the simulator", "", "valid"


def _totals(result: Result, problem: PlanProblem) -> Iterator[tuple[str, str, str]]:
    graph, goal, simulation = problem.graph, problem.goal, result.simulation
    for what in OBJECTIVES:
        before = total_text(graph, what, problem.instance.baseline.duration) if what == "duration" else ""
        yield what, before, total_text(graph, what, simulation.total(what))
        if what == "duration":
            yield "duration increase (TDI)", "", f"{result.tdi_percent:.3f} %"
    yield "recomputations", "", f"{problem.recomputations(simulation):,}"
    for name, count in problem.copies(simulation).items():
        yield f"copies {name}", "", f"{count:,}"
    yield f"bound on the {goal.objective}", "", total_text(graph, goal.objective, result.bound)
    yield "gap", "", f"{result.gap_percent:.3f} %"
    for what in OBJECTIVES:
        if (limit := goal.limit(what)) is not None:
            yield f"limit on the {what}", "", total_text(graph, what, limit)


def _arenas(result: Result) -> Iterator[tuple[str, str, str]]:
    arenas = () if result.arenas is None else result.arenas.arenas
    for place, arena in zip(result.problem.platform.memories, arenas, strict=False):
        yield f"arena, {place.name}", "", memory_text(arena.size, result.problem.graph.size_unit)
        least = ", proven least" if arena.is_least else ""
        yield f"fragmentation, {place.name}", "", f"{arena.fragmentation_percent:.3f} %{least}"


def events(result: Result) -> dict[int, list[str]]:
    """What happens to each node beside its first computation."""
    memories = result.problem.platform.memories
    found: dict[int, list[str]] = {}
    computed = set()
    for t, action in enumerate(result.plan, 1):
        v, name = action.node, memories[action.memory].name
        if action.source is not None:
            found.setdefault(v, []).append(f"{memories[action.source].name} -> {name} at {t}")
        elif v in computed:
            found.setdefault(v, []).append(f"again in {name} at {t}")
        else:
            computed.add(v)
    return found
