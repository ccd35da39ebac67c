"""Features of instances, for algorithm selection: all are cheap, and each is defined in one place."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import fmean, pstdev

from moccasin_mzn.formulations.catalogue import find_formulation
from moccasin_mzn.formulations.complexity import reads_by_copies
from moccasin_mzn.formulations.presolve import ModelData
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import highest_maxima

FORMULATION = "staged"
"""The formulation whose presolve and sums some features describe."""


@dataclass(frozen=True)
class Feature:
    """One number of an instance."""

    name: str
    meaning: str
    of: Callable[[Facts], float]


@dataclass(frozen=True)
class Facts:
    """Quantities of an instance that features are made of, each computed at its first use."""

    instance: Instance

    @property
    def graph(self) -> ComputationGraph:
        """The graph of the instance."""
        return self.instance.graph

    @property
    def peak(self) -> int:
        """The peak of the input order, in the graph's size unit."""
        return self.instance.baseline.peak

    @cached_property
    def spans(self) -> list[int]:
        """The positions in the input order from the tail to the head of each edge."""
        place = {v: k for k, v in enumerate(self.instance.order)}
        return [place[head] - place[tail] for tail, head in self.graph.edges]

    @cached_property
    def levels(self) -> list[int]:
        """The number of nodes on the longest path that ends at each node."""
        level = [1] * len(self.graph.nodes)
        for v in self.instance.order:
            level[v] = 1 + max((level[u] for u in self.graph.predecessors[v]), default=0)
        return level

    @cached_property
    def data(self) -> ModelData:
        """The data of the model, after presolve."""
        return find_formulation(FORMULATION).data(self.instance)

    @property
    def memory(self) -> tuple[int, ...]:
        """The memory of the input order, by stage, in the graph's size unit."""
        return self.instance.baseline.memory

    @cached_property
    def excess(self) -> list[int]:
        """The memory over the budget, by stage of the input order, in the graph's size unit."""
        return [max(0, memory - self.instance.budget) for memory in self.memory]


def _ratio(amount: float, base: float) -> float:
    """Divide; 0 if the base is 0."""
    return amount / base if base else 0.0


def _variation(amounts: tuple[int, ...] | list[int]) -> float:
    """Return the standard deviation over the mean."""
    return _ratio(pstdev(amounts), fmean(amounts)) if amounts else 0.0


def _correlation(graph: ComputationGraph) -> float:
    """Return Pearson's correlation of durations and sizes; 0 if one of them is the same for all nodes."""
    pairs = list(zip(graph.durations, graph.sizes, strict=True))
    middle, center = fmean(graph.durations), fmean(graph.sizes)
    both = fmean((duration - middle) * (size - center) for duration, size in pairs)
    return _ratio(both, pstdev(graph.durations) * pstdev(graph.sizes))


def _bits(facts: Facts) -> int:
    sums = find_formulation(FORMULATION).sums(facts.data)
    return max(sum(one.terms).bit_length() for one in sums)


GRAPH_FEATURES = (
    Feature("nodes", "n, nodes", lambda of: len(of.graph.nodes)),
    Feature("edges", "m, edges", lambda of: len(of.graph.edges)),
    Feature("density", "m over n (n - 1) / 2",
            lambda of: _ratio(len(of.graph.edges), len(of.graph.nodes) * (len(of.graph.nodes) - 1) / 2)),
    Feature("depth", "nodes on a longest path", lambda of: max(of.levels)),
    Feature("width", "most nodes on one level, which is the length of the longest path to a node; at most the "
            "size of the largest antichain, which it approximates", lambda of: max(Counter(of.levels).values())),
    Feature("sources", "share of nodes that read nothing",
            lambda of: fmean(not tails for tails in of.graph.predecessors)),
    Feature("sinks", "share of nodes that nothing reads", lambda of: fmean(not heads for heads in of.graph.successors)),
    Feature("inputs_max", "most inputs of a node", lambda of: max(map(len, of.graph.predecessors))),
    Feature("readers_max", "most readers of an output", lambda of: max(map(len, of.graph.successors))),
    Feature("readers_variation", "standard deviation over mean of readers of an output",
            lambda of: _variation(list(map(len, of.graph.successors)))),
    Feature("span_mean", "mean positions of the input order from an edge's tail to its head, over n",
            lambda of: _ratio(fmean(of.spans or [0]), len(of.graph.nodes))),
    Feature("span_max", "most of them, over n", lambda of: _ratio(max(of.spans, default=0), len(of.graph.nodes))),
    Feature("size_variation", "standard deviation over mean of sizes", lambda of: _variation(of.graph.sizes)),
    Feature("size_max", "largest size over the sum", lambda of: _ratio(max(of.graph.sizes), of.graph.total_size)),
    Feature("duration_variation", "standard deviation over mean of durations",
            lambda of: _variation(of.graph.durations)),
    Feature("duration_max", "longest duration over the sum",
            lambda of: _ratio(max(of.graph.durations), of.graph.total_duration)),
    Feature("instant", "share of nodes of duration 0", lambda of: fmean(not one for one in of.graph.durations)),
    Feature("duration_size", "correlation of durations and sizes", lambda of: _correlation(of.graph)),
    Feature("floor_ratio", "largest working set, below which no budget is feasible, over the peak of the input order",
            lambda of: _ratio(of.graph.largest_working_set().memory, of.peak)),
    Feature("memory_mean", "mean memory of the input order over its peak",
            lambda of: _ratio(fmean(of.memory), of.peak)),
)  # fmt: skip
"""The features of a graph with its input order."""

BUDGET_FEATURES = (
    Feature("computations", "C, most computations of a node", lambda of: max(of.instance.max_computations)),
    Feature("budget_ratio", "budget over the peak of the input order", lambda of: _ratio(of.instance.budget, of.peak)),
    Feature("slack", "budget over the largest working set",
            lambda of: _ratio(of.instance.budget, of.graph.largest_working_set().memory)),
    Feature("excess", "peak of the input order less the budget, over the budget",
            lambda of: _ratio(max(of.excess), of.instance.budget)),
    Feature("excess_mean", "mean over stages of what the input order has over the budget, over the budget",
            lambda of: _ratio(fmean(of.excess), of.instance.budget)),
    Feature("overloaded", "share of stages over the budget in the input order",
            lambda of: fmean(over > 0 for over in of.excess)),
    Feature("overloaded_runs", "runs of successive stages over the budget",
            lambda of: sum(over for over, _ in groupby(of.excess, key=bool))),
    Feature("critical_stages", "local maxima over the budget of the input order's memory",
            lambda of: len(highest_maxima(of.memory, of.instance.budget, len(of.memory)))),
    Feature("recomputable", "share of nodes of which presolve leaves a recomputation",
            lambda of: fmean(count > 1 for count in of.data.max_computations)),
    Feature("reads_by_copies", "pairs of copies over all edges, to which the size of the model is proportional",
            lambda of: reads_by_copies(of.instance)),
    Feature("bits", "of the largest sum in the model; more than 31 are too many for solvers of 32 bits", _bits),
)  # fmt: skip
"""The features of a graph within a budget."""

STEPS: Mapping[str, tuple[Feature, ...]] = {"graph": GRAPH_FEATURES, "budget": BUDGET_FEATURES}
"""The features by step: those of a step are computed together."""


def features(instance: Instance, steps: Collection[str] = tuple(STEPS)) -> tuple[dict[str, float], dict[str, float]]:
    """Compute the features of some steps.

    Returns:
        The features by name, in the order of the tables above, and the seconds that each step took.
    """
    facts = Facts(instance)
    found: dict[str, float] = {}
    seconds: dict[str, float] = {}
    for step in steps:
        begin = time.perf_counter()
        found |= {feature.name: feature.of(facts) for feature in STEPS[step]}
        seconds[step] = time.perf_counter() - begin
    return found, seconds
