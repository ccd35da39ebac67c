"""Reduced graphs against brute force: no schedule is lost, and what is left can run in place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import best_free_order, fixed_order_schedule

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.reduction import reduce_graph
from moccasin_mzn.problem.judges.schedules import simulate

KINDS = ("Conv", "Relu", "Add", "Transpose")


@st.composite
def labelled_graphs(draw: st.DrawFn, max_nodes: int = 6) -> ComputationGraph:
    """Graphs with chains, few sizes and operators that run in place."""
    n = draw(st.integers(2, max_nodes))
    pairs = [(v - 1, v) for v in range(1, n)]
    more = [(u, v) for v in range(n) for u in range(v - 1)]
    edges = [pair for pair in pairs if draw(st.integers(0, 3))]
    edges += draw(st.lists(st.sampled_from(more), unique=True, max_size=3)) if more else []
    return ComputationGraph(
        nodes=tuple(f"v{v}" for v in range(n)),
        durations=tuple(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))),
        sizes=tuple(draw(st.lists(st.integers(1, 2), min_size=n, max_size=n))),
        edges=tuple(edges),
        order=tuple(range(n)),
        labels=tuple(draw(st.lists(st.sampled_from(KINDS), min_size=n, max_size=n))),
        workspaces=draw(st.none() | st.lists(st.integers(0, 2), min_size=n, max_size=n)),
    )


def peak_in_place(graph: ComputationGraph, members: tuple[tuple[int, ...], ...], sequence: tuple[int, ...]) -> int:
    """Peak of a schedule of the reduced graph when its members really run one after the other in one buffer."""
    head = {v: group[0] for group in members for v in group}
    steps = [(group, v) for group in (members[node] for node in sequence) for v in group]
    size = {group[0]: graph.sizes[group[0]] for group in members}
    last = [0] * len(steps)  # last position that reads or writes the buffer filled by each step's first member
    filled: dict[int, int] = {}
    for at, (group, v) in enumerate(steps):
        if v == group[0]:
            filled[v] = at
        for buffer in {head[u] for u in graph.predecessors[v]} | {group[0]}:
            last[filled[buffer]] = at
    # An input from outside that a later member reads must have been there since the first one.
    starts = {at: group[0] for at, (group, v) in enumerate(steps) if v == group[0]}
    return max(
        graph.workspace_of[v] + sum(size[node] for at, node in starts.items() if at <= now <= last[at])
        for now, (_, v) in enumerate(steps)
    )


@settings(max_examples=examples(300))
@given(labelled_graphs(), st.integers(2, 3), st.data())
def test_reduction_loses_no_schedule(graph, most, data):
    reduction = reduce_graph(graph)
    budget = data.draw(st.integers(1, simulate(graph, graph.input_order()).peak))
    original = best_free_order(graph, budget, most)
    if original is not None:
        assert best_free_order(reduction.graph, budget, most) <= original


@settings(max_examples=examples(150))
@given(labelled_graphs(), st.booleans(), st.data())
def test_reduction_leaves_what_can_run_in_place(graph, fuse, data):
    reduction = reduce_graph(graph, fuse=fuse)
    budget = data.draw(st.integers(1, simulate(graph, graph.input_order()).peak))
    best = fixed_order_schedule(reduction.graph, reduction.graph.order, budget, 2)
    if best is not None:
        expanded = reduction.expand(best.sequence)
        simulation = simulate(graph, expanded)
        assert not simulation.violations
        assert simulation.duration == best.duration
        assert peak_in_place(graph, reduction.members, best.sequence) <= budget


@given(labelled_graphs(), st.booleans())
def test_durations_sizes_and_members_add_up(graph, fuse):
    reduction = reduce_graph(graph, fuse=fuse)
    assert reduction.graph.total_duration == graph.total_duration
    assert sorted(v for group in reduction.members for v in group) == list(range(len(graph.nodes)))
    again = reduce_graph(reduction.graph, fuse=fuse)
    assert len(again.graph.nodes) <= len(reduction.graph.nodes)


CHAIN = ComputationGraph(
    ["c1", "b1", "r1", "c2", "add", "r2"], [9, 1, 1, 9, 1, 1], [4] * 6,
    [(0, 1), (1, 2), (2, 3), (3, 4), (2, 4), (4, 5)],
    labels=["Conv", "BatchNormalization", "aten.relu.default", "Conv", "Sum", "layer1.relu aten.relu.default"],
)  # fmt: skip


def test_a_residual_block():
    reduced = reduce_graph(CHAIN).graph
    assert reduced.nodes == ("c1", "c2", "add")
    assert reduced.durations == (11, 9, 2)
    assert set(reduced.edges) == {(0, 1), (1, 2), (0, 2)}
    assert reduced.labels == (
        "Conv + BatchNormalization + aten.relu.default", "Conv", "Sum + layer1.relu aten.relu.default",
    )  # fmt: skip
    assert reduced.attributes["merged"] == {"c1": ["c1", "b1", "r1"], "add": ["add", "r2"]}


def test_fusing_takes_the_addition_as_well():
    reduced = reduce_graph(CHAIN, fuse=True).graph
    assert reduced.nodes == ("c1", "c2")
    assert reduced.edges == ((0, 1),)


@pytest.mark.parametrize(
    ("change", "nodes"),
    [
        ({"sizes": [4, 4, 2]}, 2),  # r is smaller than b
        ({"edges": [(0, 1), (1, 2), (0, 2)]}, 3),  # c is read twice
        ({"labels": ["Conv", "Conv", "Transpose"], "durations": [1, 1, 0]}, 3),  # moves elements
        ({"labels": ["Conv", "Conv", "Reshape"], "durations": [1, 1, 0]}, 2),
        ({"labels": None}, 3),  # nothing tells that it is elementwise
        ({"labels": ["conv1", "conv1_bn", "conv1_relu"]}, 1),
        ({"labels": ["Conv", "Conv + BatchNormalization", "Relu"]}, 2),  # not all of the second node is elementwise
        ({"labels": ["Conv", "aten.native_batch_norm + aten.relu_", "Relu"]}, 2),
        ({"labels": ["a", "features.dropout.conv", "log.softmax"]}, 3),  # paths of modules
        ({"labels": ["a", "aten.permute_copy.default", "scatter_add"], "durations": [1, 0, 0]}, 3),
        ({"order": [0, 1, 2]}, 1),
        ({"backward": [False, True, True]}, 2),
        ({}, 1),
    ],
)
def test_reduction_merges_direct_followers_in_place(change, nodes):
    parts = {
        "durations": [9, 1, 1], "sizes": [4, 4, 4], "edges": [(0, 1), (1, 2)],
        "labels": ["Conv", "BatchNormalization", "Relu"], **change,
    }  # fmt: skip
    assert len(reduce_graph(ComputationGraph(["c", "b", "r"], **parts)).graph.nodes) == nodes


def test_only_direct_followers_are_merged_unless_fused():
    graph = ComputationGraph(
        ["c", "x", "r", "z"], [1, 1, 1, 1], [4, 4, 4, 4], [(0, 2), (2, 3), (1, 3)], order=[0, 1, 2, 3],
        labels=["Conv", "Conv", "Relu", "Sum"],
    )  # fmt: skip
    assert reduce_graph(graph).graph.nodes == ("c", "x", "r", "z")
    reduced = reduce_graph(graph, fuse=True).graph
    assert reduced.nodes == ("c", "x")  # Sum runs in the place of r, which runs in that of c


def test_a_second_reduction_keeps_what_the_first_merged():
    first = reduce_graph(CHAIN).graph
    again = reduce_graph(first, elementwise=["Sum *"], fuse=True).graph
    assert again.attributes["merged"] == {"c1": ["c1", "b1", "r1"], "c2": ["c2", "add", "r2"]}


def test_patterns_name_more_elementwise_operators():
    graph = ComputationGraph(["conv1", "conv1_mine"], [9, 1], [4, 4], [(0, 1)])
    assert len(reduce_graph(graph).graph.nodes) == 2
    assert len(reduce_graph(graph, elementwise=["*_mine"]).graph.nodes) == 1


@settings(max_examples=examples(150))
@given(labelled_graphs(), st.booleans())
def test_merged_nodes_overwrite_no_more_than_their_members_could(graph, fuse):
    rows = [[u for u in inputs if graph.sizes[u] >= graph.sizes[v]] for v, inputs in enumerate(graph.predecessors)]
    graph = replace(graph, in_place=rows, runs_in_place=True)
    reduction = reduce_graph(graph, fuse=fuse)
    reduced = simulate(reduction.graph, reduction.graph.order)
    expanded = simulate(graph, reduction.expand(reduction.graph.order))
    assert not reduced.violations and not expanded.violations
    assert expanded.peak <= reduced.peak
    assert reduction.graph.runs_in_place


def test_what_has_a_workspace_stays_a_node_of_its_own():
    graph = ComputationGraph(
        range(4), [1] * 4, [2] * 4, [(0, 1), (1, 2), (2, 3)], labels=["Conv", "Relu", "Relu", "Conv"],
        workspaces=[5, 0, 3, 0],
    )  # fmt: skip
    reduction = reduce_graph(graph)
    assert reduction.members == ((0, 1), (2,), (3,))
    assert reduction.graph.workspaces == (5, 3, 0)
