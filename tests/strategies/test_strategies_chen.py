"""The simple strategies and checkpoints between segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import isqrt

import oracle
import pytest
from cases import draw_case
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.network import training_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.strategies.chen import (
    MOST_THRESHOLDS,
    STRATEGIES,
    articulation_points,
    every_root,
    greedy,
    keep_often,
    keep_once,
)
from moccasin_mzn.strategies.simple import KEEP_ALL, RECOMPUTE_ALL
from moccasin_mzn.strategies.strategy import Passes, Strategy, schedule

ALL = (KEEP_ALL, RECOMPUTE_ALL, *STRATEGIES)
BATCH = 1


def instance_of(graph: ComputationGraph) -> Instance:
    """With any budget: these strategies do not look at it."""
    return Instance.build(graph, 0.8)


def candidates(strategy: Strategy, graph: ComputationGraph) -> list[tuple[int, ...]]:
    return [tuple(sequence) for sequence in strategy.schedules(instance_of(graph), lambda: False)]


def training_chain(layers: int, duration: int = 1, size: int = 1000) -> ComputationGraph:
    """Checkmate's training graph of a chain of equal layers."""
    edges = [(v, v + 1) for v in range(layers - 1)]
    return training_graph(ComputationGraph(range(layers), [duration] * layers, [size] * layers, edges), BATCH)


@st.composite
def training_graphs(draw: st.DrawFn) -> ComputationGraph:
    """Checkmate's training graph of a chain with skip connections."""
    layers = draw(st.integers(1, 12))
    amounts = st.lists(st.integers(0, 9), min_size=layers, max_size=layers)
    chain = [(v, v + 1) for v in range(layers - 1)]
    pairs = [(u, v) for v in range(layers) for u in range(v - 1)]
    skips = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=6)) if pairs else []
    return training_graph(ComputationGraph(range(layers), draw(amounts), draw(amounts), chain + skips), BATCH)


def text(graph: ComputationGraph, sequence: Sequence[int]) -> str:
    return " ".join(str(graph.nodes[v]) for v in sequence)


# --- every candidate is a schedule -------------------------------------------------------------------------


def check_candidates(graph: ComputationGraph) -> None:
    order = graph.input_order()
    for strategy in ALL:
        made = candidates(strategy, graph)
        assert made and len(set(made)) == len(made)
        for sequence in made:
            assert simulate(graph, sequence).feasible
            assert tuple(dict.fromkeys(sequence)) == order  # first computations in the input order


@given(graphs())
@settings(max_examples=examples(50))
def test_chen_makes_valid_schedules_of_any_graph(graph):
    check_candidates(graph)


@given(training_graphs(), st.booleans())
@settings(max_examples=examples(50))
def test_chen_keeps_checkpoints_of_training_graphs(graph, flagged):
    check_candidates(graph if flagged else replace(graph, backward=None))


@pytest.mark.parametrize("strategy", ALL, ids=lambda strategy: strategy.name)
def test_chen_is_never_shorter_than_the_optimum(strategy):
    compared = 0
    for seed in range(25):
        graph = draw_case(seed).graph
        if seed % 2:
            graph = replace(graph, backward=[k >= 3 for k in range(len(graph.nodes))])
        for sequence in candidates(strategy, graph)[:4]:
            ran, most = simulate(graph, sequence), max(Counter(sequence).values())
            if most <= 3:  # the oracle takes too long for more
                assert ran.duration >= oracle.best_fixed_order(graph, graph.input_order(), ran.peak, most)
                compared += 1
    assert compared >= 10


# --- the extremes ------------------------------------------------------------------------------------------


def test_keep_all_is_the_input_order():
    graph = replace(training_chain(3), order=None)
    assert candidates(KEEP_ALL, graph) == [graph.input_order()]


@pytest.mark.parametrize("layers", [1, 2, 3, 10, 40])
def test_recompute_all_on_a_training_chain(layers):
    # The gradient of the last layer reads its output, and the others also that of the layer after: i + 2 outputs.
    graph = training_chain(layers)
    again = layers + sum(i + 2 for i in range(layers - 1))
    (sequence,) = candidates(RECOMPUTE_ALL, graph)
    assert simulate(graph, sequence).duration == 3 * layers + again
    assert max(Counter(sequence).values()) <= layers + 1


def test_recompute_all_drops_what_is_not_the_latest():
    graph = ComputationGraph(["a", "b", "c", "d"], [1] * 4, [1] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    (sequence,) = candidates(RECOMPUTE_ALL, graph)
    assert text(graph, sequence) == "a b c a d"


# --- checkpoints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [2, 3, 5, 8, 12])
@pytest.mark.parametrize("name", ["chen-sqrtn-ap", "chen-sqrtn-linearized"])
def test_root_rule_on_a_square_chain(k, name):
    # k checkpoints, the k - 1 other outputs of the last segment, one gradient and the next: the peak. All other
    # segments are computed again but for their checkpoints.
    graph = training_chain(k * k)
    strategy = next(strategy for strategy in STRATEGIES if strategy.name == name)
    (sequence,) = candidates(strategy, graph)
    ran = simulate(graph, sequence)
    assert ran.peak == 1000 * (2 * k + 1)
    assert ran.duration == 3 * k * k + (k - 1) ** 2


def test_root_rule_by_hand():
    graph = training_chain(4)  # checkpoints 1 and 3; the loss is 4, the gradient of i is 8 - i
    (sequence,) = candidates(STRATEGIES[0], graph)
    assert text(graph, sequence) == "0 1 2 3 4 5 6 7 0 8"
    assert simulate(graph, sequence).memory == (1000, 2000, 2000, 3000, 3004, 4004, 5000, 4000, 3000, 4000)


@pytest.mark.full
def test_root_rule_takes_memory_of_the_root():
    for layers in range(1, 150):
        graph = training_chain(layers, size=1)
        (sequence,) = candidates(STRATEGIES[0], graph)
        # A checkpoint in k, and 2 more if layers is not a square; another segment; gradients; the loss takes 4.
        assert simulate(graph, sequence).peak <= 2 * isqrt(layers) + 8


@given(training_graphs() | graphs().filter(lambda graph: graph.backward is not None))
@settings(max_examples=examples(50))
def test_once_means_at_most_one_more_forward_pass(graph):
    passes = Passes.of(instance_of(graph))
    for checkpoints in [*every_root(passes, passes.forward), *greedy(passes, passes.forward)]:
        sequence = schedule(graph, passes.order, keep_once(passes, checkpoints))
        again = {k for k, v in enumerate(passes.order) if sequence.count(v) > 1}
        assert again <= set(passes.forward).difference(checkpoints)
        assert len(sequence) == len(passes.order) + len(again)


@given(st.integers(1, 12), st.sets(st.integers(0, 11)))
def test_both_ways_are_one_on_chains(layers, checkpoints):
    graph = training_chain(layers)
    passes = Passes.of(instance_of(graph))
    checkpoints = {v for v in checkpoints if v < layers}
    order = graph.input_order()
    assert schedule(graph, order, keep_once(passes, checkpoints)) == schedule(
        graph, order, keep_often(passes, checkpoints)
    )


SKIP = training_graph(ComputationGraph(range(6), [1] * 6, [1000] * 6, [(v, v + 1) for v in range(5)] + [(0, 4)]), BATCH)
"""0 -> 1 -> ... -> 5, and 4 also reads 0; the loss is 6, the gradient of i is 12 - i."""


@pytest.mark.parametrize(
    ("keep", "sequence"),
    [
        # Nodes 3 to 5 are still there when the backward pass begins. Gradient 11 reads 1, and 0 comes back with it.
        (keep_once, "0 1 2 3 4 5 6 7 8 9 10 0 1 11 12"),
        # Node 4 reads 0, which went out of use with node 3; gradient 12 reads 4, which went with gradient 11.
        (keep_often, "0 1 2 3 0 4 5 6 7 8 9 10 0 1 11 3 4 12"),
    ],
)
def test_a_skip_connection_around_a_checkpoint(keep, sequence):
    passes = Passes.of(instance_of(SKIP))
    assert text(SKIP, schedule(SKIP, SKIP.input_order(), keep(passes, {2}))) == sequence


def test_segments_without_a_backward_pass():
    graph = ComputationGraph(range(5), [1] * 5, [1] * 5, [(0, 1), (1, 2), (2, 3), (0, 4), (3, 4)])
    keep = keep_often(Passes.of(instance_of(graph)), {2})
    assert text(graph, schedule(graph, graph.input_order(), keep)) == "0 1 2 3 0 4"


# --- which checkpoints -------------------------------------------------------------------------------------


@given(graphs())
def test_articulation_points_are_on_every_path(graph):
    passes = Passes.of(instance_of(graph))
    forward = set(passes.forward)
    inputs = {v: forward.intersection(passes.inputs[v]) for v in forward}
    outputs = forward.difference(*inputs.values())

    def avoidable(node: int) -> bool:
        reached: set[int] = set()
        for v in sorted(forward - {node}):
            if not inputs[v] or inputs[v] & reached:
                reached.add(v)
        return bool(reached & outputs)

    assert articulation_points(passes) == [v for v in sorted(forward) if not avoidable(v)]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_greedy_tries_every_threshold_that_makes_a_difference(sizes, data):
    n = len(sizes)
    graph = ComputationGraph(range(n), [1] * n, sizes, [(v, v + 1) for v in range(n - 1)])
    passes = Passes.of(instance_of(graph))
    points = sorted(data.draw(st.sets(st.integers(0, n - 1))))
    expected = set()
    for threshold in range(sum(sizes) + 1):
        chosen, memory = [], 0
        for v, size in enumerate(sizes):
            memory += size
            if v in points and memory > threshold:
                chosen.append(v)
                memory = 0
        expected.add(tuple(chosen))
    assert set(map(tuple, greedy(passes, points))) == expected


def test_greedy_tries_not_too_many():
    n = 400
    graph = ComputationGraph(range(n), [1] * n, [1 + 7919 * v % 1000 for v in range(n)], [])
    passes = Passes.of(instance_of(graph))
    tried = list(map(tuple, greedy(passes, passes.forward)))
    assert MOST_THRESHOLDS // 2 < len(tried) <= MOST_THRESHOLDS
    assert tried[-1] == () and max(map(len, tried)) > n // 2


def test_backward_pass_is_inferred_from_the_mirror_image():
    graph = training_chain(5)
    assert Passes.of(instance_of(replace(graph, backward=None))).backward == graph.backward
    path = ComputationGraph(range(5), [1] * 5, [1] * 5, [(v, v + 1) for v in range(4)])
    assert Passes.of(instance_of(path)).backward is None


def test_no_further_checkpoints_when_time_is_up():
    graph = training_chain(9)
    made = list(STRATEGIES[1].schedules(instance_of(graph), lambda: True))
    assert made == candidates(STRATEGIES[1], graph)[:1]


@pytest.mark.full
def test_published_training_graphs(shared):
    graph = read_graph(shared / "data" / "checkmate_resnet50_train.json")
    peak = simulate(graph, graph.input_order()).peak
    for strategy in STRATEGIES:
        ran = [simulate(graph, sequence) for sequence in candidates(strategy, graph)]
        assert all(r.feasible for r in ran)
        best = min((r for r in ran if r.peak <= 0.8 * peak), key=lambda r: r.duration)
        assert best.duration < 1.2 * graph.total_duration  # the forward pass is a fifth
