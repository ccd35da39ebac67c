"""Problems on platforms of several memories, and what is known of all their plans at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text, over_text
from moccasin_mzn.graphs.checks import TOTAL_LIMIT
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import node_text, total_text
from moccasin_mzn.graphs.zero_copy import changes_of
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.features import JUDGES, MODES, OF_PLANS, Ability, Feature, Features, refuse_unsolved
from moccasin_mzn.problem.files.plans import (
    goal_document,
    plan_document,
    plan_of,
    platform_document,
)
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.placing import places_in, placings_of
from moccasin_mzn.problem.platform import (
    OBJECTIVES,
    Action,
    Goal,
    Plan,
    Platform,
    plan_of_sequence,
    plan_together,
    reads_of_output,
)


@dataclass(frozen=True)
class PlanProblem:
    """A problem on several memories; a `Problem` whose answers are plans.

    Raises:
        InputError: with memories of one device, another goal than the least duration, or accesses that take too much.
    """

    instance: Instance
    """Graph, input order and C_v: how many retention intervals each node may have in a memory that computes."""
    platform: Platform
    goal: Goal = Goal()

    budget: ClassVar[None] = None
    within: ClassVar[str] = "keeps within budgets and limits"
    counted: ClassVar[tuple[str, str]] = ("retention interval", "of a node in a memory")

    def __post_init__(self) -> None:
        refuse_unsolved(self.features, JUDGES)
        if self.platform.has_accesses:
            self._check_accesses()

    def _check_accesses(self) -> None:
        if self.objective != "duration" or (self.goal.max_energy, self.goal.max_traffic) != (None, None):
            raise InputError("goal: with memories of one device it is the least duration, with no limit but on that")
        if self.baseline_duration > TOTAL_LIMIT:
            names = " and ".join(f"memory {memory.name}" for memory in self.platform.memories)
            total = f"with what accesses take, every node computed once has duration {self.baseline_duration}"
            raise InputError(f"{names}: {total}, over the limit 2**53; use a larger unit")

    # As a `Problem`

    @cached_property
    def features(self) -> Features:
        platform, place = self.platform, self.platform.memories
        computing = {device for device in platform.devices if place[device].durations is not None}
        alone = len(place) == len(computing) == 1
        kinds = {
            Feature.POOLS: platform.has_accesses,
            Feature.PAGING: any(memory.durations is None for memory in place),
            Feature.DEVICES: len(computing) > 1 or (alone and not platform.has_accesses),
            Feature.GOALS: self.goal != Goal(max_duration=self.goal.max_duration),
        }
        return self.instance.features.union(feature for feature, present in kinds.items() if present)

    @property
    def graph(self) -> ComputationGraph:
        return self.platform.graph

    @property
    def budgets(self) -> dict[str, int | None]:
        return {memory.name: memory.budget for memory in self.platform.memories}

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

    @property
    def baseline_duration(self) -> int:
        accessed = self.platform.has_accesses
        return least_total(self.platform, "duration") if accessed else self.instance.baseline.duration

    def together(self, answer: Sequence[Action]) -> Plan:
        return plan_together(self.graph, tuple(answer))

    def useful(self, answer: Sequence[Action]) -> Plan:
        return tuple(answer)

    def pruned(self, answer: Sequence[Action]) -> Plan:
        return pruned_plan(self.platform, tuple(answer))

    def recomputations(self, simulation: PlanSimulation) -> int:
        return sum(interval.source is None for interval in simulation.intervals) - len(self.graph.nodes)

    def as_plan(self, answer: Sequence[Action]) -> Plan:
        return tuple(answer)

    def positions(self, answer: Sequence[Action]) -> None:
        return None

    def actions(self, answer: Sequence[Action]) -> Plan:
        return tuple(answer)

    def peaks(self, simulation: PlanSimulation) -> dict[str, int]:
        return dict(zip(self.budgets, simulation.peaks, strict=True))

    def along(self, order: tuple[int, ...]) -> PlanProblem:
        return replace(self, instance=self.instance.along(order))

    def order_of(self, answer: Sequence[Action]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(action.node for action in answer if action.source is None))

    def in_one_memory(self, sequence: Sequence[int]) -> Iterator[Plan]:
        plans = (plan_of_sequence(sequence, m) for m in range(len(self.platform.memories)))
        return (plan for plan in plans if self.judge(plan).feasible)

    def fits(self, arenas: PlanArenas) -> bool:
        return arenas.fit(self.platform)

    def arenas_with_limits(self, arenas: PlanArenas) -> list[tuple[Arena, int, str]]:
        places = zip(arenas.arenas, self.platform.memories, strict=True)
        return [(one, one.size if at.budget is None else at.budget, f", in {at.name}") for one, at in places]

    def arenas_document(self, arenas: PlanArenas) -> JsonObject:
        return arenas.as_dict(self.platform)

    def offsets(self, arenas: PlanArenas, simulation: PlanSimulation) -> tuple[int, ...]:
        return tuple(one["offset"] for one in self.placed(arenas, simulation))

    def placed(self, arenas: PlanArenas, simulation: PlanSimulation) -> list[JsonObject]:
        offsets = [arena.offsets for arena in arenas.arenas]
        return places_in(placings_of(self.platform, simulation), offsets, simulation.intervals)

    def figures(self, simulation: PlanSimulation | None) -> JsonObject:
        if simulation is None:
            return {"peaks": None, **dict.fromkeys(OBJECTIVES), "recomputations": None}
        totals: dict[str, int] = {what: simulation.total(what) for what in OBJECTIVES}
        return {"peaks": self.peaks(simulation), **totals, "recomputations": self.recomputations(simulation)}

    def summary(self, simulation: PlanSimulation | None) -> JsonObject:
        return {**self.figures(simulation), "copies": None if simulation is None else self.copies(simulation)}

    def named(self, answer: Sequence[Action] | None) -> JsonObject:
        return {"plan": None if answer is None else plan_document(self.platform, tuple(answer))}

    def intervals(self, simulation: PlanSimulation) -> list[JsonObject]:
        nodes, names = self.graph.nodes, [memory.name for memory in self.platform.memories]
        return [
            {"node": nodes[one.node], "memory": names[one.memory], "start": one.start, "end": one.end}
            for one in simulation.intervals
        ]

    def settings(self) -> JsonObject:
        goal, platform = goal_document(self.goal), platform_document(self.platform)
        return {"goal": goal, "platform": platform, **changes_of(self.graph)}

    def answer_in(self, document: JsonObject) -> Plan | None:
        return None if document.get("plan") is None else plan_of(self.platform, document["plan"])

    def by_position(self) -> PlanProblem:
        instance = self.instance.by_position()
        return replace(self, instance=instance, platform=replace(self.platform, graph=instance.graph))

    # Copies and intervals

    def copies(self, simulation: PlanSimulation) -> dict[str, int]:
        """Number of copies over each link that a plan uses, by "source -> target"."""
        counts = Counter((interval.source, interval.memory) for interval in simulation.intervals)
        names = [memory.name for memory in self.platform.memories]
        links = ((a, b) for a, b in self.platform.link_between if counts[a, b])
        return {f"{names[a]} -> {names[b]}": counts[a, b] for a, b in links}

    def most_intervals(self, node: int, memory: int) -> int:
        """Return how many retention intervals a node may have in a memory: one where nothing computes."""
        return 1 if self.platform.memories[memory].durations is None else self.instance.max_computations[node]

    def out_of_scope(self, plan: Plan) -> str | None:
        """The first node with too many retention intervals in a memory, or recomputed although the graph has it
        computed once, in one line; None if absent."""
        platform = self.platform
        computed = Counter(action.node for action in plan if action.source is None) if self.graph.computed_once else {}
        for v in self.graph.computed_once:
            if computed[v] > 1:
                return (
                    f"node {node_text(platform.graph, v)} is computed {computed[v]} times, the graph has it once only"
                )
        of = Counter((action.node, platform.devices[action.memory]) for action in plan)
        for (v, m), count in of.items():
            most = self.most_intervals(v, m)
            if count > most:
                intervals = count_text(count, "retention interval")
                where = f" in {platform.memories[m].name}" if platform.devices.count(m) == 1 else ""
                return f"node {node_text(platform.graph, v)} has {intervals}{where}, at most {most} allowed"
        return None


def least_total(platform: Platform, objective: str) -> int:
    """Every node computed once, each where it costs least, nothing copied, and each output accessed where that takes
    least: no plan has less."""
    if objective == "traffic":
        return 0
    which, graph = 0 if objective == "duration" else 1, platform.graph
    least = sum(
        min(memory.cost(v)[which] for memory in platform.memories if memory.computes(v))
        for v in range(len(graph.nodes))
    )
    if objective == "duration":
        least += sum(
            min(memory.access(v) for memory in platform.memories) * (1 + reads_of_output(graph, v))
            for v in range(len(graph.nodes))
        )
    return least


def why_impossible(problem: PlanProblem) -> str | None:
    """Why no plan exists, in one line, where that is seen at once; None: a plan may exist."""
    platform, goal = problem.platform, problem.goal
    graph = platform.graph
    for v in range(len(graph.nodes)):
        need = graph.working_set(v)
        rooms: dict[int, list[int]] = {}  # by device that computes it
        for memory, device in zip(platform.memories, platform.devices, strict=True):
            if memory.computes(v):
                rooms.setdefault(device, []).append(need if memory.budget is None else memory.budget)
        if any(sum(some) >= need and max(some) >= graph.sizes[v] for some in rooms.values()):
            continue
        node, largest, together = node_text(graph, v), max(map(max, rooms.values())), max(map(sum, rooms.values()))
        amount, several = graph.sizes[v], platform.has_accesses
        if several and amount > largest:
            over = over_text(amount, largest, graph.size_unit, "the largest memory")
            return f"the output of node {node} is {memory_text(amount, graph.size_unit)}, {over}"
        over = over_text(need, together, graph.size_unit, "all memories together" if several else "the largest budget")
        where = "" if several else " of a memory that computes it"
        needed = memory_text(need, graph.size_unit)
        return f"node {node} alone needs {needed} for its inputs and its output, {over}{where}"
    for what in OBJECTIVES:
        limit, least = goal.limit(what), least_total(platform, what)
        if limit is not None and limit < least:
            total, over, most = (total_text(graph, what, amount) for amount in (least, least - limit, limit))
            return f"every node computed once has {what} {total}, {over} over the limit {most}"
    return None


# --- Arenas of schedules and plans ----------------------------------------------------------------------------

# The copies in a memory are the buffers of its arena, see `placings_of`; those elsewhere are in arenas of their own::
#
#     plan      1 a   2 a -> slow   3 b   4 slow -> a   ...
#     local     [ a ..............]       [ a .........      buffers a, a#2
#     slow            [ a ................]                  buffer a


PLAN_ARENAS = Ability(
    "arenas in several memories",
    OF_PLANS | MODES - {Feature.OWN_MODEL, Feature.STRATEGY, Feature.CERTIFICATE}, of=Feature.OFFSETS,
)  # fmt: skip


@dataclass(frozen=True)
class PlanArenas:
    """An arena for each memory of a platform, of the copies that a plan has there."""

    arenas: tuple[Arena, ...]
    """The arenas by position in `Platform.memories`; their buffers are those of `placings_of`."""

    @property
    def alignment(self) -> int:
        """Every offset is a multiple of it."""
        return self.arenas[0].alignment

    def over(self, platform: Platform) -> tuple[int, ...]:
        """Return by how much each arena exceeds the budget of its memory; 0 where it does not."""
        pairs = zip(self.arenas, platform.memories, strict=True)
        return tuple(0 if place.budget is None else max(0, arena.size - place.budget) for arena, place in pairs)

    def fit(self, platform: Platform) -> bool:
        """True if every arena is within the budget of its memory."""
        return not any(self.over(platform))

    def as_dict(self, platform: Platform) -> JsonObject:
        """Return the arenas' part of a plan's JSON object, by memory; the offsets are in its intervals.

        Interval t of "intervals" belongs to action t of "plan", which writes there; it reads each input, or the copy's
        source, at the offset of the latest interval of that node in the memory read from. Nothing is moved or freed.
        """
        by_memory = {}
        for place, arena in zip(platform.memories, self.arenas, strict=True):
            by_memory[place.name] = arena.as_dict()
            del by_memory[place.name]["alignment"]
        return {"alignment": self.alignment, "arenas": by_memory}
