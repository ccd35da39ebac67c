"""Schedules from tree decompositions: by hand, within the bounds, and with outputs held."""

from __future__ import annotations

import random
from collections import Counter
from math import floor, log2

import networkx as nx
import oracle
import pytest
from few import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from least_oracle import draw_any, draw_schedule
from strategies import graphs, valid_sequences

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.network import training_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.strategies import kumar
from moccasin_mzn.strategies import kumar as separators
from moccasin_mzn.strategies.kumar import (
    KUMAR,
    KUMAR_RETAINED,
    Component,
    decompositions,
    separated,
    separator_schedule,
)
from moccasin_mzn.strategies.retention import retained


def never() -> bool:
    return False


def unit_graph(n: int, edges) -> ComputationGraph:
    return ComputationGraph(range(n), [1] * n, [1] * n, sorted(set(edges)))


def lettered(names: str, edges: str, sizes: list[int] | None = None) -> ComputationGraph:
    """Edges such as "ab bc"."""
    pairs = tuple((names.index(edge[0]), names.index(edge[1])) for edge in edges.split())
    return ComputationGraph(tuple(names), (1,) * len(names), sizes or (1,) * len(names), pairs)


def bag_path(graph: ComputationGraph, bags: str) -> nx.Graph:
    """A decomposition of which the bags, such as "abc bcd", are a path."""
    decomposition = nx.Graph()
    nx.add_path(decomposition, [frozenset(graph.nodes.index(letter) for letter in bag) for bag in bags.split()])
    return decomposition


def text(graph: ComputationGraph, sequence) -> str:
    return "".join(graph.nodes[v] for v in sequence)


# --- by hand -----------------------------------------------------------------------------------------------

# The pictures in the docstrings of `kumar` and of `separators`.
TRAINING = lettered("abcdDCBA", "ab bc cd dD DC CB BA cC bB aA")
TRAINING_BAGS = "dDC cdC cCB bcB bBA abA"
PATH = lettered("abcdefg", "ab bc cd de ef fg")


def test_tree_decomposition_recomputes_inputs():
    (component,) = separated(bag_path(TRAINING, TRAINING_BAGS), range(8))
    assert text(TRAINING, sorted(component.separator)) == "cCB"
    assert [text(TRAINING, sorted(part.nodes)) for part in component.parts] == ["abA", "dD"]
    sequence = separator_schedule(TRAINING, range(8), [component], never)
    assert text(TRAINING, sequence) == "abcdDCabBaA"
    assert simulate(TRAINING, sequence).peak == 3
    assert simulate(TRAINING, range(8)).peak == 5


def test_recursion_may_end_early():
    components = separated(bag_path(TRAINING, TRAINING_BAGS), range(8))
    assert separator_schedule(TRAINING, range(8), components, never, levels=0) == list(range(8))
    assert text(TRAINING, separator_schedule(TRAINING, range(8), components, never, levels=1)) == "abcdDCabBaA"


def test_separators_of_a_path():
    (whole,) = separated(bag_path(PATH, "ab bc cd de ef fg"), range(7))
    first, second = whole.parts
    (last,) = second.parts
    assert [text(PATH, sorted(c.nodes)) for c in (whole, first, second, last)] == ["abcdefg", "ab", "efg", "g"]
    assert [text(PATH, sorted(c.separator)) for c in (whole, first, second, last)] == ["cd", "ab", "ef", "g"]
    assert (first.parts, last.parts, whole.levels) == ((), (), 3)


# The picture in the docstring of `held`. While c is computed 3 is in use, and then a only serves the second b.
def test_tree_decomposition_retains_outputs_where_there_is_room():
    graph = lettered("abcd", "ab bc bd cd", sizes=[1, 2, 1, 1])
    twice = [0, 1, 2, 0, 1, 3]
    assert simulate(graph, twice).memory == (1, 3, 3, 2, 4, 4)
    assert retained(graph, twice, 3, never) == (0, 1, 2, 3)
    assert retained(graph, twice, 2, never) == tuple(twice)
    assert retained(graph, twice, 3, lambda: True) == tuple(twice)


# There is room for one of x and y while b is computed, and for y even in 5.
def test_tree_decomposition_retains_what_saves_most_for_its_memory():
    edges = ((0, 2), (1, 2), (2, 3), (3, 4), (0, 4), (1, 4))
    graph = ComputationGraph(tuple("xyabz"), (18, 4, 1, 1, 1), (2, 1, 1, 3, 1), edges)
    twice = [0, 1, 2, 3, 1, 0, 4]
    assert simulate(graph, twice).memory == (2, 3, 4, 4, 4, 6, 7)
    assert text(graph, retained(graph, twice, 6, never)) == "xyabyz"  # x 18 / (2 * 2), y 4 / (1 * 1)
    assert text(graph, retained(graph, twice, 5, never)) == "xyabxz"


# --- decompositions ----------------------------------------------------------------------------------------


def components_inside(component: Component) -> list[Component]:
    return [component, *(inner for part in component.parts for inner in components_inside(part))]


@given(graphs(max_nodes=14))
@settings(max_examples=examples(100), deadline=None)
def test_separators_separate(graph):
    neighbours = [{*graph.predecessors[v], *graph.successors[v]} for v in range(len(graph.nodes))]
    for decomposition in decompositions(graph):
        tops = separated(decomposition, graph.input_order())
        assert sorted(v for top in tops for v in top.nodes) == list(range(len(graph.nodes)))
        for component in (inner for top in tops for inner in components_inside(top)):
            assert any(component.separator <= bag for bag in decomposition)
            pieces = [component.separator, *(part.nodes for part in component.parts)]
            assert sorted(v for piece in pieces for v in piece) == sorted(component.nodes)
            for part in component.parts:
                for v in part.nodes:
                    assert neighbours[v] & component.nodes <= part.nodes | component.separator


def test_large_graphs_are_decomposed_by_least_degree_only(monkeypatch):
    assert len(list(decompositions(PATH))) == 2
    monkeypatch.setattr(separators, "MIN_FILL_NODES", 7)
    assert len(list(decompositions(PATH))) == 1


# --- bounds ------------------------------------------------------------------------------------------------


def assert_within_bounds(graph: ComputationGraph) -> list[tuple[int, int]]:
    """Peak and length, for each decomposition and order of parts."""
    made = []
    inputs = max(sum(graph.sizes[u] for u in graph.predecessors[v]) for v in range(len(graph.nodes)))
    for decomposition in decompositions(graph):
        components = separated(decomposition, graph.input_order())
        levels = max(component.levels for component in components)
        assert levels <= floor(log2(len(decomposition))) + 1
        heaviest = max(sum(graph.sizes[v] for v in bag) for bag in decomposition)
        largest = max(map(len, decomposition))
        for backwards in (False, True):
            sequence = separator_schedule(graph, graph.input_order(), components, never, backwards)
            simulation = simulate(graph, sequence)
            assert simulation.violations == ()
            assert simulation.peak <= heaviest * levels + inputs * (levels - 1)
            assert len(sequence) <= largest * len(decomposition) * (largest + 1) ** (levels - 1)
            made.append((simulation.peak, len(sequence)))
    return made


@given(graphs(max_nodes=12))
@settings(max_examples=examples(100), deadline=None)
def test_bounds_on_any_graph(graph):
    assert_within_bounds(graph)


@pytest.mark.parametrize("n", [1, 2, 3, 64, 200])
def test_paths_need_no_recomputation(n):
    for peak, length in assert_within_bounds(unit_graph(n, [(v, v + 1) for v in range(n - 1)])):
        assert (peak, length) == (min(n, 2), n)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_on_trees(seed):
    rng = random.Random(seed)
    pairs = [(rng.randrange(max(0, v - 5), v), v) for v in range(1, 120)]
    assert_within_bounds(unit_graph(120, [rng.choice([(u, v), (119 - v, 119 - u)]) for u, v in pairs]))
    assert_within_bounds(unit_graph(120, pairs))
    assert_within_bounds(unit_graph(120, [(119 - v, 119 - u) for u, v in pairs]))


@pytest.mark.parametrize(("rows", "columns"), [(2, 40), (3, 20), (5, 5)])
def test_bounds_on_grids(rows, columns):
    right = [(r * columns + c, r * columns + c + 1) for r in range(rows) for c in range(columns - 1)]
    down = [(r * columns + c, (r + 1) * columns + c) for r in range(rows - 1) for c in range(columns)]
    assert_within_bounds(unit_graph(rows * columns, right + down))


@pytest.mark.parametrize("seed", range(6))
def test_bounds_on_partial_k_trees(seed):
    rng = random.Random(seed)
    n, k = 60, 1 + seed % 3
    cliques, edges = [tuple(range(k))], set()
    for v in range(k, n):
        clique = rng.choice(cliques)
        edges |= {(u, v) for u in clique if rng.random() < 0.8}
        cliques += [(*clique[:at], *clique[at + 1 :], v) for at in range(k)]
    assert_within_bounds(unit_graph(n, edges))


def test_the_peak_of_deep_training_graphs_grows_with_their_logarithm():
    peaks = []
    for layers in (16, 64, 256):
        chain = ComputationGraph(range(layers), [1] * layers, [1] * layers, [(v, v + 1) for v in range(layers - 1)])
        graph = training_graph(chain, batch=1)
        unit = unit_graph(len(graph.nodes), graph.edges)
        peaks.append(min(peak for peak, _ in assert_within_bounds(unit)))
    assert peaks[2] < 256 / 8 and peaks[2] - peaks[1] <= 6 and peaks[1] - peaks[0] <= 6  # twice 4 times as deep


# --- strategies --------------------------------------------------------------------------------------------


@given(graphs(max_nodes=10), st.sampled_from([KUMAR, KUMAR_RETAINED]), st.integers(1, 100))
@settings(max_examples=examples(100), deadline=None)
def test_candidates_are_schedules(graph, strategy, percent):
    budget = max(1, simulate(graph, graph.input_order()).peak * percent // 100)
    made = list(strategy.schedules(Instance.build(graph, budget), never))
    assert made
    for sequence in made:
        assert simulate(graph, sequence).violations == ()


@given(graphs(max_nodes=5), st.sampled_from([KUMAR, KUMAR_RETAINED]))
@settings(max_examples=examples(60), deadline=None)
def test_tree_decomposition_is_never_shorter_than_the_optimum(graph, strategy):
    for sequence in strategy.schedules(Instance.build(graph, 0.8), never):
        simulation, most = simulate(graph, sequence), max(Counter(sequence).values())
        if most <= 3:  # brute force takes too long for more
            assert simulation.duration >= oracle.best_free_order(graph, simulation.peak, most)


@given(graphs(max_nodes=10), st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_more_levels_make_longer_schedules(graph, backwards):
    order = graph.input_order()
    for decomposition in decompositions(graph):
        components = separated(decomposition, order)
        deepest = max(component.levels for component in components)
        made = [separator_schedule(graph, order, components, never, backwards, k) for k in range(deepest + 1)]
        assert sorted(made, key=len) == made
        assert made[-1] == separator_schedule(graph, order, components, never, backwards)


@pytest.mark.parametrize("strategy", [KUMAR, KUMAR_RETAINED])
def test_tree_decomposition_gives_up_when_stopped(strategy, monkeypatch):
    instance = Instance.build(TRAINING, 4)
    assert list(strategy.schedules(instance, lambda: True)) == []
    monkeypatch.setattr(kumar, "most_computations", lambda graph: len(graph.nodes))
    made = list(strategy.schedules(instance, never))
    assert all(len(sequence) <= 8 for sequence in made)
    components = separated(bag_path(TRAINING, TRAINING_BAGS), range(8))
    assert separator_schedule(TRAINING, range(8), components, never) is None


@given(st.data(), graphs(workspaces=True), st.integers(0, 120))
@settings(max_examples=examples(300), deadline=None)
def test_retention_shortens_schedules_within_the_limit(data, graph, percent):
    sequence = data.draw(valid_sequences(graph))
    before = simulate(graph, sequence)
    limit = before.peak * percent // 100
    shorter = retained(graph, sequence, limit, never)
    after = simulate(graph, shorter)
    assert after.violations == ()
    assert after.peak <= max(limit, before.peak)
    assert after.duration <= before.duration and len(shorter) <= len(sequence)
    assert retained(graph, shorter, limit, never) == shorter


@pytest.mark.parametrize("block", few(range(20), keep=2))
def test_retention_knows_further_outputs_and_overwriting(block):
    for seed in range(500 * block, 500 * (block + 1)):  # a few of each block were wrong when it did not
        graph, rng = draw_any(seed, 6), random.Random(seed)
        sequence = draw_schedule(graph, rng, 10)
        before = simulate(graph, sequence)
        assert before.feasible
        limit = rng.randint(0, before.peak * 5 // 4 + 1)
        shorter = retained(graph, sequence, limit, never)
        after = simulate(graph, shorter)
        assert after.violations == () and after.peak <= max(limit, before.peak) and after.duration <= before.duration
        assert retained(graph, shorter, limit, never) == shorter
        room = graph.total_size + max(graph.workspace_of)
        assert len(retained(graph, sequence, room, never)) == len(graph.nodes)


@given(st.data(), graphs())
@settings(max_examples=examples(100), deadline=None)
def test_with_room_for_everything_nothing_is_computed_twice(data, graph):
    sequence = data.draw(valid_sequences(graph))
    assert len(retained(graph, sequence, graph.total_size, never)) == len(graph.nodes)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "budget", "strategy", "most"),
    [
        ("checkmate_fcn8_train", 0.8, KUMAR, 119),
        ("checkmate_fcn8_train", 0.8, KUMAR_RETAINED, 0.14),
        ("checkmate_resnet50_train", 0.9, KUMAR, 97),
        ("checkmate_resnet50_train", 0.9, KUMAR_RETAINED, 0.2),
        ("random_layered_n100", 0.9, KUMAR_RETAINED, 1),
        ("random_layered_n100", 0.8, KUMAR_RETAINED, 4),
    ],
)
def test_tree_decomposition_schedules_published_graphs(shared, name, budget, strategy, most):
    graph = read_graph(shared / "data" / f"{name}.json")
    instance = Instance.build(graph, budget)
    made = [simulate(graph, sequence) for sequence in strategy.schedules(instance, never)]
    fits = [simulation.duration for simulation in made if simulation.peak <= instance.budget]
    assert 100 * (min(fits) / graph.total_duration - 1) <= most
