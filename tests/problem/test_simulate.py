"""The judge against a naive reading of the definition, and against hand-made cases."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_sequences, graphs, valid_sequences

from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import Interval, judge, simulate

CHAIN = ComputationGraph(["a", "b", "c"], [1, 2, 4], [10, 20, 40], [(0, 1), (1, 2)])


def naive_memory(graph: ComputationGraph, sequence: tuple[int, ...]) -> list[int]:
    """Memory at each position by asking, for every pair of positions, whether one holds what the other computed."""
    inputs = {v: {u for u, head in graph.edges if head == v} for v in range(len(graph.nodes))}

    def last_read(s: int) -> int:
        end = s
        for t in range(s + 1, len(sequence)):
            if sequence[s] in inputs[sequence[t]]:
                end = t
            if sequence[t] == sequence[s]:
                break
        return end

    return [
        graph.workspace_of[sequence[t]] + sum(graph.sizes[sequence[s]] for s in range(t + 1) if s <= t <= last_read(s))
        for t in range(len(sequence))
    ]


def kinds(simulation) -> list[tuple[str, int | None]]:
    return [(violation.kind, violation.position) for violation in simulation.violations]


def test_a_workspace_is_taken_while_its_node_is_computed_and_at_no_other_time():
    """a has a workspace of 3, b one of 5; b is computed twice.

    ::

        position      1   2   3   4   5
        computed      a   b   c   b   d      sizes 2, 4, 1, 1
        a            [=============]         2   2   2   2   .
        b, first         [=====]             .   4   4   .   .
        c                    [=========]     .   .   1   1   1
        b, again                 [=====]     .   .   .   4   4
        d                            [=]     .   .   .   .   1
        workspace     a   b       b          3   5   .   5   .
                                             5  11   7  12   6
    """
    edges = [(0, 1), (1, 2), (1, 3), (2, 3)]
    graph = ComputationGraph(list("abcd"), [1] * 4, [2, 4, 1, 1], edges, workspaces=[3, 5, 0, 0])
    simulation = judge(graph, (0, 1, 2, 1, 3), 11)
    assert simulation.memory == (5, 11, 7, 12, 6)
    assert [violation.message for violation in simulation.violations] == [
        "position 4: memory 12 is 1 over the budget 11 while computing node b"
    ]
    assert simulate(graph.without_workspaces(), (0, 1, 2, 1, 3)).memory == (2, 6, 7, 7, 6)


@given(st.data())
def test_memory_is_that_of_the_definition(data):
    graph = data.draw(graphs(workspaces=True))
    sequence = data.draw(any_sequences(graph))
    simulation = simulate(graph, sequence)
    assert list(simulation.memory) == naive_memory(graph, sequence)
    assert simulation.peak == max(naive_memory(graph, sequence), default=0)


@given(st.data())
def test_valid_sequences_have_no_violation_and_hold_every_working_set(data):
    graph = data.draw(graphs(workspaces=True))
    sequence = data.draw(valid_sequences(graph))
    simulation = simulate(graph, sequence)
    assert simulation.feasible
    assert all(memory >= graph.working_set(v) for memory, v in zip(simulation.memory, sequence, strict=True))
    assert simulation.peak >= graph.largest_working_set().memory
    assert judge(graph, sequence, simulation.peak).feasible


@given(st.data())
def test_duration_is_additive(data):
    graph = data.draw(graphs(workspaces=True))
    first, second = data.draw(any_sequences(graph)), data.draw(any_sequences(graph))
    whole = simulate(graph, first + second).duration
    assert whole == simulate(graph, first).duration + simulate(graph, second).duration
    assert simulate(graph, graph.input_order()).duration == graph.total_duration


@given(st.data())
def test_missing_inputs_are_those_not_computed_before(data):
    graph = data.draw(graphs(workspaces=True))
    sequence = data.draw(any_sequences(graph))
    missing = [(t, v) for t, v in enumerate(sequence, 1) for u in graph.predecessors[v] if u not in sequence[: t - 1]]
    violations = simulate(graph, sequence).violations
    assert [(v.position, v.node) for v in violations if v.kind == "missing-input"] == missing
    assert {v.node for v in violations if v.kind == "never-computed"} == set(range(len(graph.nodes))) - set(sequence)


def test_simulate_example_of_the_docstring_is_valid():
    graph = ComputationGraph(["a", "b", "c", "d"], [1] * 4, [1, 10, 100, 1000], [(0, 1), (1, 2), (1, 3), (2, 3)])
    simulation = simulate(graph, (0, 1, 2, 1, 3))
    assert simulation.intervals == (
        Interval(0, 1, 4),
        Interval(1, 2, 3),
        Interval(2, 3, 5),
        Interval(1, 4, 5),
        Interval(3, 5, 5),
    )
    assert simulation.memory == (1, 11, 111, 111, 1110)
    assert (simulation.peak, simulation.duration, simulation.violations) == (1110, 5, ())


def test_the_working_set_of_an_overwritten_copy_ends_at_its_last_read():
    # The second a is read by nothing, so it is freed at once, and the first ended at its only read.
    assert simulate(CHAIN, (0, 1, 0, 2)).memory == (10, 30, 30, 60)


def test_simulate_reports_all_nodes_missing_from_an_empty_sequence():
    simulation = simulate(CHAIN, ())
    assert (simulation.memory, simulation.peak, simulation.duration, simulation.intervals) == ((), 0, 0, ())
    assert [v.message for v in simulation.violations] == [f"node {node} is never computed" for node in "abc"]


def test_missing_input_is_reported_and_simulated():
    simulation = simulate(CHAIN, (1, 0, 2))
    assert kinds(simulation) == [("missing-input", 1)]
    assert simulation.violations[0].message == "position 1: node b reads node a, which is not computed before"
    assert simulation.memory == (20, 30, 60)


@pytest.mark.parametrize("value", [3, -1, True, "a", 1.0, None])
def test_simulate_reports_an_unknown_node(value):
    simulation = simulate(CHAIN, (0, value, 1, 2))
    assert kinds(simulation) == [("unknown-node", 2)]
    assert simulation.violations[0].message == f"position 2: {value!r} is not a node, expected 0..2"
    assert simulation.memory == (10, 10, 30, 60)


def test_violations_are_in_order_of_position():
    simulation = judge(CHAIN, (1, 5, 1, 2), 50)
    assert kinds(simulation) == [
        ("missing-input", 1),
        ("unknown-node", 2),
        ("missing-input", 3),
        ("over-budget", 4),
        ("never-computed", None),
    ]
    assert simulation.violations[3].message == "position 4: memory 60 is 10 over the budget 50 while computing node c"


def test_numpy_sequences_give_plain_ints():
    simulation = simulate(CHAIN, np.array([0, 1, 2]))
    assert simulation == simulate(CHAIN, (0, 1, 2))
    assert type(simulation.intervals[0].node) is int


@pytest.mark.parametrize(
    ("name", "n", "m", "peak", "duration"),
    [
        ("random_layered_n100", 100, 236, 46_319, 47_769),
        ("random_layered_n250", 250, 944, 146_840, 125_569),
        ("random_layered_n500", 500, 2_461, 284_439, 255_302),
        ("random_layered_n1000", 1_000, 5_875, 608_619, 497_270),
        ("checkmate_fcn8_train", 73, 149, 13_484_795_520, 10_275_337_746_048),
        ("checkmate_resnet50_train", 353, 751, 38_059_356_160, 405_670),
        ("checkmate_vgg16_train", 45, 87, 15_825_108_992, 15_500),
        ("checkmate_resnet50_inference", 176, 191, 2_466_250_752, 81_055),
    ],
)
def test_simulated_peaks_and_durations_of_published_graphs(shared, name, n, m, peak, duration):
    graph = read_graph(shared / "data" / f"{name}.json")
    simulation = simulate(graph, graph.input_order())
    assert (len(graph.nodes), len(graph.edges)) == (n, m)
    assert (simulation.peak, simulation.duration, graph.total_duration) == (peak, duration, duration)
    assert simulation.feasible


@pytest.mark.full
def test_a_large_graph_takes_seconds(tmp_path):
    n = 100_000
    edges = [(v - step, v) for v in range(1, n) for step in (1, 7, 1000) if v >= step]
    began = time.perf_counter()
    graph = ComputationGraph(range(n), [1] * n, [2] * n, edges, order=range(n))
    write_graph(graph, tmp_path / "large.json")
    assert read_graph(tmp_path / "large.json") == graph
    assert simulate(graph, graph.input_order()).peak == 2 * 1001
    assert time.perf_counter() - began < 20
