"""What is to be planned on a platform of several memories, and what can be said of all plans at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import refuse_in_place
from moccasin_mzn.graphs.wording import node_text, total_text
from moccasin_mzn.problem.files.plans import (
    goal_document,
    intervals_document,
    plan_document,
    plan_of,
    platform_document,
)
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan import Action, Plan
from moccasin_mzn.problem.plan_arenas import PlanArenas
from moccasin_mzn.problem.platform import OBJECTIVES, Goal, Platform
from moccasin_mzn.problem.pruning import pruned_plan
from moccasin_mzn.words import count_text, memory_text, over_text


@dataclass(frozen=True)
class PlanProblem:
    """What is to be planned; a `Problem` whose answers are plans.

    Raises:
        InputError: the graph runs in place.
    """

    instance: Instance
    """Graph, input order and C_v: how many retention intervals each node may have in a memory that computes."""
    platform: Platform
    goal: Goal = Goal()

    noun: ClassVar[str] = "plan"
    seeks_peak: ClassVar[bool] = False
    within: ClassVar[str] = "keeps within budgets and limits"
    counted: ClassVar[tuple[str, str]] = ("retention interval", "of a node in a memory")

    def __post_init__(self) -> None:
        refuse_in_place(self.platform.graph, "plans for several memories")

    # As a `Problem`

    @property
    def graph(self) -> ComputationGraph:
        return self.platform.graph

    @property
    def objective(self) -> str:
        return self.goal.objective

    @property
    def better(self) -> str:
        return f"has less {self.objective}"

    def judge(self, answer: Sequence[Action]) -> PlanSimulation:
        return judge_plan(self.platform, answer, self.goal)

    def value(self, simulation: PlanSimulation) -> int:
        return simulation.total(self.objective)

    def least_value(self) -> int:
        return least_total(self.platform, self.objective)

    def useful(self, answer: Sequence[Action]) -> Plan:
        return tuple(answer)

    def pruned(self, answer: Sequence[Action]) -> Plan:
        return pruned_plan(self.platform, tuple(answer))

    def recomputations(self, simulation: PlanSimulation) -> int:
        return sum(interval.source is None for interval in simulation.intervals) - len(self.graph.nodes)

    def fits(self, arenas: PlanArenas) -> bool:
        return arenas.fit(self.platform)

    def figures(self, simulation: PlanSimulation | None) -> dict[str, Any]:
        if simulation is None:
            return {"peaks": None, **dict.fromkeys(OBJECTIVES)}
        names = [memory.name for memory in self.platform.memories]
        totals = {what: simulation.total(what) for what in OBJECTIVES}
        return {"peaks": dict(zip(names, simulation.peaks, strict=True)), **totals}

    def named(self, answer: Sequence[Action]) -> dict[str, Any]:
        return {"plan": plan_document(self.platform, tuple(answer))}

    def answer_in(self, document: dict[str, Any]) -> Plan | None:
        return None if document.get("plan") is None else plan_of(self.platform, document["plan"])

    def by_position(self) -> PlanProblem:
        instance = self.instance.by_position()
        return replace(self, instance=instance, platform=replace(self.platform, graph=instance.graph))

    def document(self, answer: Plan | None, simulation: PlanSimulation | None, arenas: PlanArenas | None) -> dict:
        told = {**self.figures(simulation), **dict.fromkeys(("recomputations", "copies", "plan", "intervals"))}
        if answer is not None and simulation is not None:
            offsets = None if arenas is None else arenas.offsets(simulation.intervals)
            told |= {"recomputations": self.recomputations(simulation), "copies": self.copies(simulation)}
            told |= {
                **self.named(answer),
                "intervals": intervals_document(self.platform, simulation.intervals, offsets),
            }
        told |= {} if arenas is None else arenas.as_dict(self.platform)
        return {**told, "goal": goal_document(self.goal), "platform": platform_document(self.platform)}

    # Of plans alone

    def copies(self, simulation: PlanSimulation) -> dict[str, int]:
        """Number of copies over each link that a plan uses, by "source -> target"."""
        counts = Counter((interval.source, interval.memory) for interval in simulation.intervals)
        names = [memory.name for memory in self.platform.memories]
        links = ((a, b) for a, b in self.platform.link_between if counts[a, b])
        return {f"{names[a]} -> {names[b]}": counts[a, b] for a, b in links}

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
        need = graph.working_set(v)
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
