"""Dynamic Tensor Rematerialization: by hand, against a naive executor, and within the simulator's account."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import oracle
import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.strategies import dtr
from moccasin_mzn.strategies.dtr import RULES, STRATEGIES, ClassesCost, RelativesCost, run_dtr, thresholds

BY_NAME = {strategy.name: strategy for strategy in STRATEGIES}


def never() -> bool:
    return False


def named(graph: ComputationGraph, sequence) -> str:
    return " ".join(graph.nodes[v] for v in sequence)


# --- by hand -----------------------------------------------------------------------------------------------

# x -> a -> b -> c -> d -> z, x -> z, a -> z. While c is computed, b is locked, and x, a, b, c need 8 of the budget 6.
SKIPS = ComputationGraph(
    nodes=("x", "a", "b", "c", "d", "z"),
    durations=(9, 1, 1, 1, 1, 1),
    sizes=(2, 2, 1, 3, 1, 1),
    edges=((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 5)),
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dtr-lru", "x a b c d x z"),  # x was read before a was
        ("dtr-size", "x a b c d x z"),  # equal sizes: the first
        ("dtr", "x a b c d a z"),  # x: 9 / (2 * 2), read at 9 of 11; a: 1 / (2 * 1), read at 10
        ("dtr-eq", "x a b c d a z"),
        ("dtr-local", "x a b c d a z"),
        ("dtr-msps", "x a b c d a z"),  # x: 9 / 2; a: 1 / 2
    ],
)
def test_dtr_recomputes_what_is_evicted(name, expected):
    first = next(iter(BY_NAME[name].schedules(Instance.build(SKIPS, 6), never)))
    assert named(SKIPS, first) == expected
    assert simulate(SKIPS, first).peak == 6


# The picture in `RelativesCost`: a b c d e x y are 0..6.
def test_the_evicted_neighbourhood_ends_at_resident_outputs():
    edges = ((0, 1), (1, 2), (2, 3), (3, 4), (1, 6), (5, 6), (6, 4))
    graph = ComputationGraph(tuple("abcdexy"), (1, 2, 4, 8, 16, 32, 64), (1,) * 7, edges)
    order = graph.topological_order()
    assert order == (0, 1, 2, 3, 5, 6, 4)
    place = {graph.nodes[v]: at for at, v in enumerate(order)}
    for descendants, expected in ((True, 4 + 1 + 2 + 8 + 16), (False, 4 + 1 + 2)):
        cost = RelativesCost(graph_arrays(graph, order), descendants)
        for at in range(7):
            cost.computed(at)
        for name in "abdex":
            cost.evicted(place[name])
        assert cost.costs(np.array([place["c"]])).tolist() == [expected]


def test_classes_are_not_split():
    graph = ComputationGraph(tuple("abcd"), (1, 2, 4, 8), (1,) * 4, ((0, 1), (1, 2), (2, 3)))
    exact, classes = RelativesCost(graph_arrays(graph, range(4))), ClassesCost(graph_arrays(graph, range(4)))
    for cost in (exact, classes):
        for v in range(4):
            cost.computed(v)
        for v in (0, 2, 1):
            cost.evicted(v)
        assert cost.costs(np.array([3])).tolist() == [8 + 1 + 2 + 4]
        cost.computed(1)
    assert exact.costs(np.array([3])).tolist() == [8 + 4]
    assert classes.costs(np.array([3])).tolist() == [8 + 1 + 4]


# --- against a naive executor ------------------------------------------------------------------------------


class Naive:
    """DTR straight from its definition, by recursion; along the input order of the graph."""

    def __init__(self, instance: Instance, name: str, threshold: int) -> None:
        self.graph, self.order, self.name, self.threshold = instance.graph, instance.order, name, threshold
        self.place = {v: at for at, v in enumerate(self.order)}
        self.resident, self.seen, self.locks, self.accessed, self.computed = set(), set(), Counter(), {}, []
        self.classes: list[set[int]] = []
        self.clock = 0

    def relatives(self, v: int, near) -> set[int]:
        found, waiting = set(), [v]
        while waiting:
            new = {u for u in near[waiting.pop()] if u in self.seen - self.resident} - found
            found |= new
            waiting += new
        return found

    def h(self, v: int) -> float:
        graph = self.graph
        near = set(graph.predecessors[v]) | set(graph.successors[v])
        others = {
            "dtr": lambda: self.relatives(v, graph.predecessors) | self.relatives(v, graph.successors),
            "dtr-eq": lambda: set().union(*(members for members in self.classes if members & near)),
            "dtr-local": set,
            "dtr-msps": lambda: self.relatives(v, graph.predecessors),
        }
        cost = graph.durations[v] + sum(graph.durations[u] for u in others[self.name]()) if self.name in others else 1
        size = graph.sizes[v] if self.name != "dtr-lru" else 1
        staleness = self.clock - self.accessed[v] if self.name not in ("dtr-msps", "dtr-size") else 1
        return cost / (size * staleness) if size * staleness else math.inf

    def evict(self, v: int) -> None:
        self.resident.remove(v)
        near = set(self.graph.predecessors[v]) | set(self.graph.successors[v])
        joined = [members for members in self.classes if members & near]
        self.classes = [members for members in self.classes if not members & near] + [{v}.union(*joined)]

    def materialize(self, v: int) -> None:
        mine = [u for u in self.graph.predecessors[v] if u in self.resident]
        self.lock(mine)
        for u in sorted(self.graph.predecessors[v], key=self.place.__getitem__):
            if u not in self.resident:
                self.materialize(u)
            if u not in mine:
                found = [w for w in self.graph.predecessors[v] if w in self.resident and w not in mine]
                self.lock(found)
                mine += found
        own = self.graph.workspace_of[v]
        while own + sum(self.graph.sizes[u] for u in {*self.resident, v}) > self.threshold:
            free = [u for u in self.resident if not self.locks[u] and self.graph.sizes[u]]
            if not free:
                raise MemoryError
            self.evict(min(free, key=lambda u: (self.h(u), self.place[u])))
        self.clock += self.graph.durations[v]
        self.resident.add(v)
        self.seen.add(v)
        self.accessed[v] = self.clock
        self.computed.append(v)
        for members in self.classes:
            members.discard(v)
        self.locks.subtract(mine)

    def lock(self, nodes: list[int]) -> None:
        self.locks.update(nodes)
        self.accessed.update(dict.fromkeys(nodes, self.clock))

    def run(self) -> list[int] | None:
        try:
            for at, v in enumerate(self.order):
                self.materialize(v)
                for u in (*self.graph.predecessors[v], v):
                    if all(self.place[x] <= at for x in self.graph.successors[u]):
                        self.evict(u)
        except MemoryError:
            return None
        return self.computed


@st.composite
def tight_instances(draw: st.DrawFn, max_nodes: int) -> Instance:
    graph = draw(graphs(max_nodes=max_nodes, workspaces=True))
    peak, least = simulate(graph, graph.input_order()).peak, graph.largest_working_set().memory
    return Instance.build(graph, draw(st.integers(max(1, least - 1), max(1, peak))))


@given(tight_instances(max_nodes=9), st.sampled_from(sorted(RULES)))
@settings(max_examples=examples(400), deadline=None)
def test_the_executor_does_what_the_definition_says(instance, name):
    assert run_dtr(instance, RULES[name], instance.budget, never)[0] == Naive(instance, name, instance.budget).run()


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("name", sorted(RULES))
def test_the_executor_does_what_the_definition_says_in_long_runs(seed, name):
    rng = np.random.default_rng(seed)
    n = 24
    edges = {(v - 1, v) for v in range(1, n)} | {tuple(sorted(rng.choice(n, 2, False).tolist())) for _ in range(n)}
    graph = ComputationGraph(range(n), rng.integers(0, 9, n).tolist(), rng.integers(0, 9, n).tolist(), sorted(edges))
    instance = Instance.build(graph, 0.8)
    expected = Naive(instance, name, instance.budget).run()
    assert run_dtr(instance, RULES[name], instance.budget, never)[0] == expected


@pytest.mark.parametrize("seed", range(5))
def test_evicted_relatives_of_many_nodes(seed):
    rng = np.random.default_rng(seed)
    n, computed = 200, 170
    edges = {tuple(sorted(rng.choice(n, 2, False).tolist())) for _ in range(400)}
    graph = ComputationGraph(range(n), rng.integers(0, 99, n).tolist(), [1] * n, sorted(edges))
    arrays = graph_arrays(graph, range(n))
    naive = Naive(Instance.build(graph, 1, order=range(n)), "dtr", 1)
    naive.seen = set(range(computed))
    naive.resident = {v for v in range(computed) if rng.random() < 0.4}
    asked = np.array(sorted(naive.resident))
    for descendants in (True, False):
        cost = RelativesCost(arrays, descendants)
        for v in range(computed):
            cost.computed(v)
        for v in naive.seen - naive.resident:
            cost.evicted(v)
        expected = []
        for v in asked.tolist():
            below = naive.relatives(v, graph.successors) if descendants else set()
            relatives = naive.relatives(v, graph.predecessors) | below
            expected.append(graph.durations[v] + sum(graph.durations[u] for u in relatives))
        assert cost.costs(asked).tolist() == expected


# --- always ------------------------------------------------------------------------------------------------


@given(tight_instances(max_nodes=8), st.sampled_from(STRATEGIES))
@settings(max_examples=examples(200), deadline=None)
def test_candidates_are_schedules_and_the_executor_counts_no_less_than_the_simulator(instance, strategy):
    made = []
    for threshold in thresholds(instance):
        computed, peak = run_dtr(instance, RULES[strategy.name], threshold, never)
        if computed is not None:
            simulation = simulate(instance.graph, computed)
            assert simulation.violations == () and simulation.peak <= peak <= threshold
            made.append(computed)
    assert made == list(strategy.schedules(instance, never))


@given(tight_instances(max_nodes=5), st.sampled_from(STRATEGIES))
@settings(max_examples=examples(60), deadline=None)
def test_dtr_is_never_shorter_than_the_optimum(instance, strategy):
    for computed in strategy.schedules(instance, never):
        simulation, most = simulate(instance.graph, computed), max(Counter(computed).values())
        if most <= 3:  # brute force takes too long for more
            assert simulation.duration >= oracle.best_free_order(instance.graph, simulation.peak, most)


@given(graphs(workspaces=True), st.sampled_from(STRATEGIES))
@settings(max_examples=examples(50), deadline=None)
def test_with_memory_for_the_input_order_nothing_is_computed_twice(graph, strategy):
    instance = Instance.build(graph, max(1, simulate(graph, graph.input_order()).peak))
    assert [tuple(computed) for computed in strategy.schedules(instance, never)] == [instance.order]


@given(tight_instances(max_nodes=8))
def test_thresholds_go_from_the_budget_to_below_the_peak(instance):
    made = thresholds(instance)
    assert made[0] == instance.budget and len(made) <= dtr.THRESHOLDS
    assert all(a < b for a, b in pairwise(made))
    assert made == [instance.budget] or made[-1] < instance.baseline.peak


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: strategy.name)
def test_dtr_gives_up_below_the_floor_or_when_stopped(strategy, monkeypatch):
    too_small = Instance.build(SKIPS, SKIPS.largest_working_set().memory - 1)
    assert run_dtr(too_small, RULES[strategy.name], too_small.budget, never)[0] is None
    instance = Instance.build(SKIPS, 6)
    assert list(strategy.schedules(instance, lambda: True)) == []
    monkeypatch.setattr(dtr, "THRASHING", 1)
    assert run_dtr(instance, RULES[strategy.name], 6, never)[0] is None


# --- published graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "budget", "strategy", "most"),
    [
        ("checkmate_resnet50_train", 0.9, "dtr", 0.12),
        ("checkmate_resnet50_train", 0.8, "dtr", 0.37),
        ("checkmate_resnet50_train", 0.8, "dtr-lru", 0.92),
        ("checkmate_fcn8_train", 0.8, "dtr-eq", 0.14),
        ("random_layered_n100", 0.9, "dtr-eq", 54),
    ],
)
def test_dtr_schedules_published_graphs(shared, name, budget, strategy, most):
    graph = read_graph(shared / "data" / f"{name}.json")
    instance = Instance.build(graph, budget)
    made = [simulate(graph, computed) for computed in BY_NAME[strategy].schedules(instance, never)]
    fits = [simulation.duration for simulation in made if simulation.peak <= instance.budget]
    assert 100 * (min(fits) / graph.total_duration - 1) <= most
