"""What can be said of all plans on a platform without a search: least totals, and what never fits."""

from __future__ import annotations

from moccasin_mzn.formulations.plan_formulation import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Platform
from moccasin_mzn.words import memory_text, node_text, over_text, total_text


def least_total(platform: Platform, objective: str) -> int:
    """Every node computed once, each where it costs least, and nothing copied: no plan has less."""
    if objective == "traffic":
        return 0
    costs = [memory.durations if objective == "duration" else memory.energies for memory in platform.memories]
    return sum(
        min(of[v] for of in costs if of is not None and of[v] is not None) for v in range(len(platform.graph.nodes))
    )


def why_impossible(problem: PlanProblem) -> str | None:
    """Why no plan exists, in one line, where that is seen at once; None: a plan may exist."""
    platform, goal = problem.platform, problem.goal
    graph = platform.graph
    for v in range(len(graph.nodes)):
        need = graph.sizes[v] + sum(graph.sizes[u] for u in graph.predecessors[v])
        rooms = [memory.budget for memory in platform.memories if memory.computes(v)]
        if all(budget is not None and budget < need for budget in rooms):
            return (
                f"node {node_text(graph, v)} alone needs {memory_text(need, graph.size_unit)} for its inputs and its "
                f"output, {over_text(need, max(rooms), graph.size_unit, 'the largest budget')} of a memory that "
                "computes it"
            )
    for what in OBJECTIVES:
        limit, least = goal.limit(what), least_total(platform, what)
        if limit is not None and limit < least:
            total, over, most = (total_text(graph, what, amount) for amount in (least, least - limit, limit))
            return f"every node computed once has {what} {total}, {over} over the limit {most}"
    return None
