"""The oracles on cases that can be solved by hand, against plain enumeration, and against the judge."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Best, best_fixed_order, best_free_order, fixed_order_schedule, free_order_schedule
from tiny_graphs import CHAIN, DIAMOND, STRAY, U_SHAPE

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import judge


@st.composite
def tiny_graphs(draw, nodes: int = 6) -> ComputationGraph:
    n = draw(st.integers(1, nodes))
    order = draw(st.permutations(range(n)))
    pairs = [(order[i], order[j]) for i, j in combinations(range(n), 2)]
    amounts = st.lists(st.integers(0, 9), min_size=n, max_size=n)
    edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    workspaces = draw(st.none() | amounts)
    return ComputationGraph(range(n), draw(amounts), draw(amounts), edges, order=order, workspaces=workspaces)


def both(graph: ComputationGraph, budget: int, most: int) -> tuple[int | None, int | None]:
    return best_fixed_order(graph, graph.input_order(), budget, most), best_free_order(graph, budget, most)


@pytest.mark.parametrize(("budget", "expected"), [(6, 9), (100, 9), (5, None), (0, None)])
def test_chain_never_needs_recomputation(budget, expected):
    assert both(CHAIN, budget, 2) == (expected, expected)


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (8, 7),  # the input and both branches
        (7, None),  # the second branch reads the input while the first branch is held, always
    ],
)
def test_diamond_is_at_its_peak_at_the_second_branch(budget, expected):
    assert both(DIAMOND, budget, 3) == (expected, expected)


@pytest.mark.parametrize(
    ("budget", "most", "expected"),
    [
        (4, 1, 6),  # 0, 1, 2 and 3 held together
        (3, 1, None),
        (3, 2, 7),  # 0 1 2 3 4, where 0 was dropped, and then 0 5
        (2, 9, None),  # 4 and 5 need three outputs each
    ],
)
def test_u_shape_trades_memory_for_duration(budget, most, expected):
    assert both(U_SHAPE, budget, most) == (expected, expected)


def test_free_order_avoids_what_the_fixed_order_cannot():
    assert both(STRAY, 7, 1) == (4, 4)  # 0 1 2 3: 0 and 1 are held while 2 is computed
    assert both(STRAY, 6, 1) == (None, 4)  # 0 2 1 3
    assert both(STRAY, 6, 2) == (5, 4)  # 0 1 2 1 3: one of them is dropped
    assert both(STRAY, 4, 2) == (6, 4)  # 0 1 0 2 1 3: they never fit together


def test_counts_may_differ_by_node():
    assert best_free_order(U_SHAPE, 3, [2, 1, 1, 1, 1, 1]) == 7
    assert best_free_order(U_SHAPE, 3, [1, 2, 2, 2, 2, 2]) is None


@given(tiny_graphs(), st.integers(0, 30), st.integers(1, 3))
@pytest.mark.full
def test_witnesses_attain_the_optimum(graph, budget, most):
    order = graph.input_order()
    for best in (fixed_order_schedule(graph, order, budget, most), free_order_schedule(graph, budget, most)):
        if best is not None:
            simulation = judge(graph, best.sequence, budget)
            assert simulation.feasible
            assert simulation.duration == best.duration
            assert max(map(best.sequence.count, best.sequence)) <= most
            assert set(best.sequence) == set(range(len(graph.nodes)))


@given(tiny_graphs(), st.integers(0, 30), st.integers(1, 2))
def test_more_freedom_is_never_worse(graph, budget, most):
    def durations(*question):
        return [math.inf if value is None else value for value in both(*question)]

    fixed, free = durations(graph, budget, most)
    assert free <= fixed
    for more_fixed, more_free in (durations(graph, budget + 1, most), durations(graph, budget, most + 1)):
        assert more_fixed <= fixed
        assert more_free <= free


@given(tiny_graphs())
def test_without_a_tight_budget_every_node_is_computed_once(graph):
    peak = judge(graph, graph.input_order(), 0).peak
    assert both(graph, peak, 3) == (graph.total_duration, graph.total_duration)
    assert both(graph, graph.largest_working_set().memory - 1, 3) == (None, None)


@settings(deadline=None)
@given(tiny_graphs(nodes=3), st.integers(4, 20), st.integers(1, 2))
def test_free_order_against_all_sequences(graph, budget, most):
    sequences = all_sequences(len(graph.nodes), most)
    assert best_free_order(graph, budget, most) == least_duration(graph, sequences, budget)


@settings(deadline=None, max_examples=examples(40))
@given(tiny_graphs(nodes=4), st.integers(4, 20), st.integers(1, 3))
def test_fixed_order_against_all_staged_sequences(graph, budget, most):
    sequences = (s for s in staged_sequences(graph.input_order()) if max(map(s.count, s)) <= most)
    assert best_fixed_order(graph, graph.input_order(), budget, most) == least_duration(graph, sequences, budget)


def least_duration(graph, sequences, budget) -> int | None:
    """By judging every sequence."""
    judged = (judge(graph, sequence, budget) for sequence in sequences)
    return min((simulation.duration for simulation in judged if simulation.feasible), default=None)


def all_sequences(nodes: int, most: int, sequence: tuple[int, ...] = ()):
    """Every sequence that continues `sequence` with each node at most so often, in any order, complete or not."""
    yield sequence
    for v in range(nodes):
        if sequence.count(v) < most:
            yield from all_sequences(nodes, most, (*sequence, v))


def staged_sequences(order):
    """Every staged sequence: before each node any subset of the earlier ones."""
    stages = []
    for k, v in enumerate(order):
        subsets = (subset for size in range(k + 1) for subset in combinations(order[:k], size))
        stages.append([(*subset, v) for subset in subsets])
    for choice in product(*stages):
        yield sum(choice, ())


def test_best_is_a_duration_and_a_sequence():
    assert fixed_order_schedule(CHAIN, [0, 1, 2], 6, 1) == Best(9, (0, 1, 2))
    assert free_order_schedule(CHAIN, 6, 1) == Best(9, (0, 1, 2))
