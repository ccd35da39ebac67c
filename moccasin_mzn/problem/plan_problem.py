"""What is to be planned on a platform of several memories, and what can be said of all plans at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from moccasin_mzn.graphs.wording import node_text, total_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.platform import OBJECTIVES, Goal, Platform
from moccasin_mzn.words import count_text, memory_text, over_text


@dataclass(frozen=True)
class PlanProblem:
    """What is to be planned."""

    instance: Instance
    """Graph, input order and C_v: how many retention intervals each node may have in a memory that computes."""
    platform: Platform
    goal: Goal = Goal()

    def value(self, simulation: PlanSimulation) -> int:
        """What is to be least, of a plan."""
        return simulation.total(self.goal.objective)

    def most_intervals(self, node: int, memory: int) -> int:
        """How many retention intervals a node may have in a memory: one where nothing computes."""
        return 1 if self.platform.memories[memory].durations is None else self.instance.max_computations[node]

    def out_of_scope(self, plan: Plan) -> str | None:
        """The first node with too many retention intervals in a memory, in one line; None: there is none."""
        graph, memories = self.platform.graph, self.platform.memories
        for (v, m), count in Counter((action.node, action.memory) for action in plan).items():
            most = self.most_intervals(v, m)
            if count > most:
                held = count_text(count, "retention interval")
                return f"node {node_text(graph, v)} has {held} in {memories[m].name}, at most {most} allowed"
        return None


def least_total(platform: Platform, objective: str) -> int:
    """Every node computed once, each where it costs least, and nothing copied: no plan has less."""
    if objective == "traffic":
        return 0
    which = 0 if objective == "duration" else 1
    return sum(
        min(memory.cost(v)[which] for memory in platform.memories if memory.computes(v))
        for v in range(len(platform.graph.nodes))
    )


def why_impossible(problem: PlanProblem) -> str | None:
    """Why no plan exists, in one line, where that is seen at once; None: a plan may exist."""
    platform, goal = problem.platform, problem.goal
    graph = platform.graph
    for v in range(len(graph.nodes)):
        need = graph.sizes[v] + sum(graph.sizes[u] for u in graph.predecessors[v])
        rooms = [need if memory.budget is None else memory.budget for memory in platform.memories if memory.computes(v)]
        if all(budget < need for budget in rooms):
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
