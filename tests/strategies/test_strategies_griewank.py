"""Revolve on training chains: recognition, the binomial optimum, brute force."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import replace
from itertools import count
from math import comb

import oracle
import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs

from moccasin_mzn.base.errors import NotApplicableError
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.network import training_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.strategies import griewank
from moccasin_mzn.strategies.griewank import GRIEWANK


def candidates(graph: ComputationGraph) -> list[tuple[int, ...]]:
    return [tuple(sequence) for sequence in GRIEWANK.schedules(Instance.build(graph, 0.8), lambda: False)]


def path(durations: list[int], sizes: list[int] | None = None) -> ComputationGraph:
    n = len(durations)
    return ComputationGraph(range(n), durations, sizes or [1000] * n, [(v, v + 1) for v in range(n - 1)])


def training_chain(durations: list[int], sizes: list[int] | None = None) -> ComputationGraph:
    return training_graph(path(durations, sizes), batch=1)


def forward_duration(graph: ComputationGraph, sequence: tuple[int, ...]) -> int:
    return sum(graph.durations[v] for v in sequence if not graph.backward[v])


# --- optimal for its number of slots -----------------------------------------------------------------------


def revolve(steps: int, checkpoints: int) -> int:
    """Forward steps to reverse a chain (Griewank and Walther, 2000): r l - C(s + r, r - 1), the least r that does."""
    r = next(r for r in count() if comb(checkpoints + r, checkpoints) >= steps)
    return r * steps - (comb(checkpoints + r, r - 1) if r else 0)


@pytest.mark.parametrize("layers", [1, 2, 3, 4, 10, 40, 80])
def test_as_few_forward_computations_as_revolve(layers):
    graph = training_chain([1] * layers)
    made = candidates(graph)
    assert len(made) == layers
    for slots, sequence in enumerate(made):
        assert forward_duration(graph, sequence) == revolve(layers + 1, slots + 1)


@pytest.mark.parametrize("work", [0, 3000])
def test_durations_are_taken_to_be_equal_in_long_chains(monkeypatch, work):
    monkeypatch.setattr(griewank, "MOST_WORK", work)
    test_as_few_forward_computations_as_revolve(30)


def test_few_numbers_of_slots_in_long_chains(monkeypatch):
    monkeypatch.setattr(griewank, "MOST_WORK", 0)
    monkeypatch.setattr(griewank, "MOST_EQUAL", 4)
    graph = training_chain([1] * 30)
    made = candidates(graph)
    assert [forward_duration(graph, sequence) for sequence in made] == [
        revolve(31, slots + 1) for slots in (0, 1, 8, 15, 22, 29)
    ]
    monkeypatch.setattr(griewank, "MOST_COMPUTATIONS", 31)
    assert candidates(graph) == [sequence for sequence in made if forward_duration(graph, sequence) <= 31]


def test_no_more_tables_when_time_is_up():
    graph = training_chain([1, 50] * 5)
    checks = count()
    made = list(GRIEWANK.schedules(Instance.build(graph, 0.8), lambda: next(checks) > 4))
    assert len(made) == 10 and made[0] == candidates(graph)[0]
    assert forward_duration(graph, made[2]) > forward_duration(graph, candidates(graph)[2])


def least_duration(durations: list[int], slots: int) -> int:
    """Of reaching all states of a chain, from the last to the first, by Dijkstra's algorithm over all that can be done.

    A state of the search: what is in a slot, the state at hand, the next one to reach.
    """
    length, tie = len(durations), count()
    heap = [(0, next(tie), frozenset(), 0, length)]
    done = set()
    while True:
        cost, _, stored, at, wanted = heapq.heappop(heap)
        if (stored, at, wanted) in done:
            continue
        done.add((stored, at, wanted))
        if wanted == 0:
            return cost
        moves = [(stored, start, wanted, 0) for start in (0, *stored)]
        moves += [(stored - {v}, at, wanted, 0) for v in stored]
        if at == wanted:
            moves.append((stored, at, wanted - 1, 0))
        if at < length:
            moves.append((stored, at + 1, wanted, durations[at]))
        if at and len(stored) < slots:
            moves.append((stored | {at}, at, wanted, 0))
        for *state, more in moves:
            heapq.heappush(heap, (cost + more, next(tie), *state))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6))
@settings(max_examples=examples(25))
def test_least_duration_for_any_durations(durations):
    graph = training_chain(durations)
    for slots, sequence in enumerate(candidates(graph)):
        assert forward_duration(graph, sequence) == least_duration(durations, slots)


@pytest.mark.parametrize(
    ("sizes", "sequence"),
    [([9000, 1000, 5000], (0, 1, 2, 3, 4, 5, 0, 6)), ([1000, 9000, 5000], (0, 1, 2, 3, 4, 1, 5, 6))],
)
def test_of_equal_durations_the_smaller_output_is_stored(sizes, sequence):
    # One slot: whether it holds 0 or 1, only the other one is computed again, for nothing.
    assert candidates(training_chain([0, 0, 5], sizes))[1] == sequence


# --- schedules ---------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), min_size=1, max_size=25), st.booleans())
@settings(max_examples=examples(30))
def test_every_candidate_is_a_schedule(durations, flagged):
    graph = training_chain(durations)
    order = graph.input_order()
    for sequence in candidates(graph if flagged else replace(graph, backward=None)):
        assert simulate(graph, sequence).feasible
        assert tuple(dict.fromkeys(sequence)) == order
        assert all(times == 1 for v, times in Counter(sequence).items() if graph.backward[v])
    assert sequence == order  # with a slot for everything nothing is dropped


@given(graphs())
def test_any_graph_is_refused_or_scheduled(graph):
    try:
        made = candidates(graph)
    except NotApplicableError:
        return
    assert made and all(simulate(graph, sequence).feasible for sequence in made)


@pytest.mark.parametrize("layers", [2, 3])
def test_revolve_is_never_shorter_than_the_optimum(layers):
    rng = random.Random(layers)
    for _ in range(20):
        durations, sizes = ([rng.randint(1, 9) for _ in range(layers)] for _ in range(2))
        graph = training_chain(durations, sizes)
        for sequence in candidates(graph):
            ran, most = simulate(graph, sequence), max(Counter(sequence).values())
            assert ran.duration >= oracle.best_fixed_order(graph, graph.input_order(), ran.peak, most)


def test_revolve_on_a_chain_by_hand():
    graph = training_chain([1] * 3)  # the loss is 3, the gradient of i is 6 - i
    assert candidates(graph) == [(0, 1, 2, 3, 4, 0, 1, 5, 0, 6), (0, 1, 2, 3, 4, 1, 5, 6), (0, 1, 2, 3, 4, 5, 6)]


# --- which graphs ------------------------------------------------------------------------------------------


def with_edges(*edges: tuple[int, int], backward: list[bool] | None = None) -> ComputationGraph:
    n = 1 + max(map(max, edges))
    names = tuple(f"n{v}" for v in range(n))
    return ComputationGraph(names, [1] * n, [1] * n, edges, backward=backward)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (with_edges((0, 1), (1, 2)), "there is no backward pass"),
        (with_edges((0, 1), (1, 2), backward=[False] * 3), "there is no backward pass"),
        (with_edges((0, 1), backward=[True] * 2), "there is no forward pass"),
        (
            with_edges((0, 1), (0, 2), (1, 2), (2, 3), backward=[False, False, False, True]),
            "node n2 reads node n0, not only node n1",
        ),
        (
            with_edges((0, 1), (0, 2), (2, 3), backward=[False, False, False, True]),
            "node n2 does not read node n1, the one before it",
        ),
        (
            with_edges((0, 1), (1, 2), (0, 3), backward=[False, False, True, False]),
            "node n3 is a forward node, but comes after node n2, a backward one",
        ),
        (
            with_edges((0, 1), (1, 2), (2, 3), (0, 3), (3, 4), backward=[False, False, False, True, True]),
            "node n3 reads node n2, which is not of its step",
        ),
        (
            with_edges((0, 1), (1, 2), (2, 3), (0, 4), (3, 4), (2, 5), backward=[False] * 3 + [True] * 3),
            "node n5 reads node n2, which is not of its step",
        ),
        (with_edges((0, 1), (0, 2), (1, 3), (2, 3)), "node n2 does not read node n1, the one before it"),
    ],
)
def test_revolve_refuses_what_is_no_training_chain(graph, message):
    with pytest.raises(NotApplicableError) as caught:
        candidates(graph)
    assert str(caught.value) == f"for training chains only: {message} (see Strategies: docs/methods.md#strategies)"


def test_steps_may_have_several_nodes():
    # Forward 0 1 2, and for each a gradient of its weights, which nothing reads, and one for the step before.
    graph = with_edges(
        *[(0, 1), (1, 2), (2, 3), (2, 4), (3, 4), (1, 5), (4, 5), (2, 6), (1, 6), (4, 6), (0, 7), (6, 7)],
        backward=[False] * 3 + [True] * 5,
    )
    assert candidates(graph)[0] == (0, 1, 2, 3, 4, 0, 1, 5, 6, 0, 7)


def test_revolve_schedules_published_graphs(shared):
    graph = read_graph(shared / "data" / "checkmate_vgg16_train.json")
    made = candidates(graph)
    assert len(made) == 22 and all(simulate(graph, sequence).feasible for sequence in made)
    with pytest.raises(
        NotApplicableError,
        match=r"node 12 \(conv2_block1_0_conv\) does not read node 11 \(conv2_block1_2_relu\), the one before it \(see",
    ):
        candidates(read_graph(shared / "data" / "checkmate_resnet50_train.json"))
