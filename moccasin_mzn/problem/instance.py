"""A rematerialization problem: a graph, its input order, a budget, and how often each node may be computed."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from os import PathLike
from typing import ClassVar

from moccasin_mzn.base.checks import plain
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, memory_text
from moccasin_mzn.graphs.checks import as_tuple
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.memory_model import relaxed
from moccasin_mzn.graphs.zero_copy import changes_of
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.features import Feature, Features, graph_features
from moccasin_mzn.problem.files.schedules import read_order
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.judges.schedules import Simulation, judge, simulate
from moccasin_mzn.problem.placing import places_in, placing_of
from moccasin_mzn.problem.platform import Memory, Plan, Platform, plan_of_sequence

AUTO_COMPUTATIONS = 8
"""The most computations of a node where "auto" is given: more are rarely of use."""
MOST_COMPUTATIONS = 1000
FREE = "free"
"""In place of an order: it is to be chosen."""
ONLY = "memory"
"""Name of the memory where there is one."""


@dataclass(frozen=True)
class Instance:
    """A problem with one memory (paper, section 2); a `Problem` whose answers are schedules.

    Raises:
        InputError: an order that is not topological; a negative budget; a count of computations below 1, named by node.
    """

    graph: ComputationGraph
    order: tuple[int, ...]
    """Input order: positions in `graph.nodes`; outputs of an operation are neighbors in it."""
    budget: int
    """M, in the graph's size unit; negative if fixed memory alone takes more."""
    max_computations: tuple[int, ...]
    """C_v: how often each node may be computed, by position in `graph.nodes`; 1 or more. Outputs of one operation have
    the least of what is given for them."""
    fixed: int = 0
    """Fixed memory that the budget as given included, in the graph's size unit; `budget` is what it left."""
    free_order: bool = False
    """Is the order to be chosen too? Then `order` is only what the solution is compared with."""

    objective: ClassVar[str] = "duration"
    better: ClassVar[str] = "is shorter"
    counted: ClassVar[tuple[str, str]] = ("computation", "per node")

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", as_tuple("order", self.order))
        self.graph.check_order(self.order)
        if self.budget < 0 and not self.fixed:
            raise InputError(f"budget {self.budget} is negative")
        object.__setattr__(self, "order", self.graph.together(self.order))
        object.__setattr__(self, "max_computations", _counts_of_operations(self.graph, self.max_computations))

    def __repr__(self) -> str:
        counts = self.counts if isinstance(self.counts, int) else "of each node"
        order = ", order free" if self.free_order else ""
        return f"Instance({self.graph}, budget {self.budget:,}, max_computations {counts}{order})"

    @cached_property
    def baseline(self) -> Simulation:
        """The input order with every node computed once: least duration, but perhaps too much memory."""
        return simulate(self.graph, self.order)

    @cached_property
    def relaxed(self) -> Instance:
        """An instance that does not run in place, and whose bounds are bounds on this one; itself if it does not."""
        graph, amount = relaxed(self.graph)
        return self if graph is self.graph else replace(self, graph=graph, budget=self.budget + amount)

    # As a `Problem`

    @cached_property
    def features(self) -> Features:
        chosen = {Feature.ANY_ORDER: self.free_order, Feature.COUNTS: not isinstance(self.counts, int)}
        return graph_features(self.graph).union(feature for feature, present in chosen.items() if present)

    @property
    def instance(self) -> Instance:
        return self

    @cached_property
    def platform(self) -> Platform:
        return Platform(self.graph, (Memory(ONLY, max(0, self.budget), self.graph.durations),))

    @property
    def budgets(self) -> dict[str, int | None]:
        return {ONLY: self.budget}

    @property
    def within(self) -> str:
        return f"fits the budget {memory_text(self.budget, self.graph.size_unit)}"

    def judge(self, answer: Sequence[int]) -> Simulation:
        return judge(self.graph, answer, self.budget)

    def value(self, simulation: Simulation) -> int:
        return simulation.duration

    def least_value(self) -> int:
        return self.baseline.duration

    @property
    def baseline_duration(self) -> int:
        return self.baseline.duration

    def together(self, answer: Sequence[int]) -> tuple[int, ...]:
        return self.graph.together(answer)

    def useful(self, answer: Sequence[int]) -> tuple[int, ...]:
        return without_tail(answer)

    def pruned(self, answer: Sequence[int]) -> tuple[int, ...]:
        return pruned(self.graph, answer, self.budget)

    def recomputations(self, simulation: Simulation) -> int:
        return len(simulation.memory) - len(self.graph.nodes)

    def as_plan(self, answer: Sequence[int]) -> Plan:
        return plan_of_sequence(answer)

    def positions(self, answer: Sequence[int]) -> tuple[int, ...]:
        return tuple(answer)

    def actions(self, answer: Sequence[int]) -> None:
        return None

    def peaks(self, simulation: Simulation) -> dict[str, int]:
        return {ONLY: simulation.peak}

    def along(self, order: tuple[int, ...]) -> Instance:
        return replace(self, order=order, free_order=False)

    def order_of(self, answer: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(answer))

    def in_one_memory(self, sequence: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if self.judge(sequence).feasible:
            yield tuple(sequence)

    def fits(self, arenas: Arena) -> bool:
        return arenas.size <= self.budget

    def arenas_with_limits(self, arenas: Arena) -> list[tuple[Arena, int, str]]:
        return [(arenas, self.budget, "")]

    def arenas_document(self, arenas: Arena) -> JsonObject:
        return arenas.as_dict()

    def offsets(self, arenas: Arena, simulation: Simulation) -> tuple[int, ...]:
        return tuple(one["offset"] for one in self.placed(arenas, simulation))

    def placed(self, arenas: Arena, simulation: Simulation) -> list[JsonObject]:
        return places_in([placing_of(self.graph, simulation)], [arenas.offsets], simulation.intervals)

    def figures(self, simulation: Simulation | None) -> JsonObject | None:
        return None if simulation is None else self.summary(simulation)

    def summary(self, simulation: Simulation | None) -> JsonObject:
        if simulation is None:
            return dict.fromkeys(("peak", "duration", "recomputations"))
        again = self.recomputations(simulation)
        return {"peak": simulation.peak, "duration": simulation.duration, "recomputations": again}

    def named(self, answer: Sequence[int] | None) -> JsonObject:
        return {"sequence": None if answer is None else [self.graph.nodes[v] for v in answer]}

    def intervals(self, simulation: Simulation) -> list[JsonObject]:
        nodes = self.graph.nodes
        return [{"node": nodes[one.node], "start": one.start, "end": one.end} for one in simulation.intervals]

    def settings(self) -> JsonObject:
        return {"budget": self.budget, "fixed_memory": self.fixed, **changes_of(self.graph)}

    def answer_in(self, document: JsonObject) -> tuple[int, ...] | None:
        found = document.get("sequence")
        return None if found is None else tuple(self.graph.position_of(node) for node in found)

    def by_position(self) -> Instance:
        nodes = tuple(range(len(self.graph.nodes)))
        graph = replace(
            self.graph, nodes=nodes, order=self.order, labels=None, attributes={}, fixed_memory={}, name=""
        )  # fmt: skip
        return replace(self, graph=graph)

    # Counts C_v

    @property
    def one_for_all(self) -> bool:
        """True if C_v is the same for all nodes, except those that the graph marks as computed once."""
        once = frozenset(self.graph.computed_once)
        return len({count for v, count in enumerate(self.max_computations) if v not in once}) <= 1

    @property
    def counts(self) -> int | list[int]:
        """C_v, as a single number where that is the same for all."""
        same = len(set(self.max_computations)) == 1
        return self.max_computations[0] if same else list(self.max_computations)

    def with_more_computations(self) -> Instance | None:
        """Return the problem with `AUTO_COMPUTATIONS` of each node.

        If each node has a count of its own, only those that may be recomputed get more.
        What the graph marks as computed once gets no more.

        None: no node gets more.
        """
        most = tuple(max(c, AUTO_COMPUTATIONS) if c > 1 or self.one_for_all else c for c in self.max_computations)
        most = with_computed_once(self.graph, most)
        return None if most == self.max_computations else replace(self, max_computations=most)

    @classmethod
    def build(
        cls,
        graph: ComputationGraph,
        budget: Budget | int | float | Fraction | str,
        *,
        order: str | PathLike[str] | Iterable[int | str] = "input",
        max_computations: int | Sequence[int] | str = 2,
        count_fixed: bool = False,
    ) -> Instance:
        """Build an instance from the arguments of `moccasin_mzn.solve`.

        Args:
            graph: the computation graph.
            budget: see `Budget.of`; a fraction refers to the peak of the order chosen here.
            order: "input" (the file's, or else a topological one), "topological", a file of ids, or positions; "free":
                it is to be chosen, from the input order on.
            max_computations: C_v, one for all nodes or one for each; "auto": `AUTO_COMPUTATIONS`; "unlimited": the
                number of nodes, more than any staged schedule can use. Always 1 for what the graph marks as computed
                once.
            count_fixed: the budget is for the graph's fixed memory too: what that leaves is for outputs. A fraction
                then refers to the peak and the fixed memory together.

        Raises:
            InputError: nonsense in any of them.
        """
        max_computations = plain(max_computations)
        free = isinstance(order, str) and order == FREE
        positions = chosen_order(graph, "input" if free else order)
        named = {"auto": AUTO_COMPUTATIONS, "unlimited": min(len(graph.nodes), MOST_COMPUTATIONS)}
        if isinstance(max_computations, str):
            if max_computations not in named:
                raise InputError(f"max computations {shown(max_computations)}: expected {' or '.join(named)}")
            max_computations = named[max_computations]
        if isinstance(max_computations, int):
            max_computations = (max_computations,) * len(graph.nodes)
        max_computations = as_tuple("max_computations", max_computations, "an integer, or one for each node")
        if graph.computed_once and len(max_computations) == len(graph.nodes):
            max_computations = with_computed_once(graph, max_computations)
        baseline = simulate(graph, positions)
        fixed = graph.total_fixed_memory if count_fixed else 0
        amount = Budget.of(budget).resolve(baseline.peak + fixed) - fixed
        instance = cls(graph, positions, amount, max_computations, fixed, free)
        instance.__dict__["baseline"] = baseline  # the same once more would cost seconds on the largest graphs
        return instance


def _counts_of_operations(graph: ComputationGraph, counts: Sequence[int]) -> tuple[int, ...]:
    """Counts C_v, for all outputs of an operation the least that one has.

    Raises:
        InputError: not one integer for each node, from 1 to `MOST_COMPUTATIONS`.
    """
    counts = as_tuple("max_computations", counts, "an integer, or one for each node")
    if len(counts) != len(graph.nodes):
        nodes = count_text(len(graph.nodes), "node")
        raise InputError(f"max_computations: {count_text(len(counts), 'value')} for {nodes}")
    for node, count in zip(graph.nodes, counts, strict=True):
        check_count(count, f"max_computations of node {node}")
    if graph.output_of is None:
        return counts
    least = graph.least_of_operations(dict(enumerate(counts)))
    return tuple(least[first] for first in graph.operation_of)


def check_count(count: object, what: str) -> None:
    """Check how often something may be computed.

    Args:
        what: what has this count, for the message.

    Raises:
        InputError: it is not an integer from 1 to `MOST_COMPUTATIONS`.
    """
    if type(count) is not int or not 1 <= count <= MOST_COMPUTATIONS:
        raise InputError(f"{what}: {shown(count)} is not an integer from 1 to {MOST_COMPUTATIONS}")


def with_computed_once(graph: ComputationGraph, counts: Sequence[int]) -> tuple[int, ...]:
    """Return counts C_v with 1 for the nodes that the graph marks as computed once."""
    once = frozenset(graph.computed_once)
    return tuple(1 if v in once else count for v, count in enumerate(counts))


def chosen_order(graph: ComputationGraph, order: str | PathLike[str] | Iterable[int | str]) -> tuple[int, ...]:
    """The order meant by "input", "topological", a file of node ids, or a sequence of positions.

    Raises:
        InputError: the file cannot be read, or is no topological order of the graph.
    """
    if isinstance(order, str) and order == "input":
        return graph.input_order()
    if isinstance(order, str) and order == "topological":
        return graph.topological_order()
    if isinstance(order, str | PathLike):
        return read_order(order, graph)
    given = as_tuple("order", order, "input, topological, a file or a sequence of positions or ids")
    return graph.positions_of(given, "order")


# --- Dropping what a schedule or a plan does not need ---------------------------------------------------------


def without_tail(sequence: Sequence[int]) -> tuple[int, ...]:
    """A schedule up to the last first computation of a node: what comes after that is of no use.

    Nothing is retained longer for it, so that memory is nowhere more.
    """
    first = {v: t for t, v in reversed(list(enumerate(sequence, start=1)))}
    return tuple(sequence[: max(first.values(), default=0)])


def pruned(graph: ComputationGraph, sequence: Sequence[int], budget: int, seconds: float = 0.5) -> tuple[int, ...]:
    """A schedule within the budget from which no single recomputation can be taken away.

    Solvers leave useless recomputations where they cost nothing, and phase 1 (paper, 2.4) where it does not count them.

    Args:
        sequence: a schedule within the budget, positions in `graph.nodes`.
        budget: in the graph's size unit.
        seconds: to spend on it; recomputations not looked at by then stay.
    """
    deadline = time.monotonic() + seconds
    kept: list[int | None] = list(sequence)
    first = {v: t for t, v in reversed(list(enumerate(sequence)))}
    again = [t for t, v in enumerate(sequence) if first[v] != t]  # first computations stay: they keep the input order
    for t in sorted(again, key=lambda t: -graph.durations[sequence[t]]):  # the costliest first
        if time.monotonic() > deadline:
            break
        kept[t] = None
        if not judge(graph, [v for v in kept if v is not None], budget).feasible:
            kept[t] = sequence[t]
    return tuple(v for v in kept if v is not None)


def pruned_plan(platform: Platform, plan: Plan) -> Plan:
    """The plan without copies and repeated computations that nothing reads; it must be one the judge accepts.

    To leave out what is not read retains nothing longer, so that the plan stays within budgets and limits.
    """
    while True:
        computed: set[int] = set()
        kept = []
        for action, interval in zip(plan, judge_plan(platform, plan).intervals, strict=True):
            needed = interval.end > interval.start or (action.source is None and action.node not in computed)
            if needed:
                kept.append(action)
                if action.source is None:
                    computed.add(action.node)
        if len(kept) == len(plan):
            return tuple(plan)
        plan = tuple(kept)
