"""Random layered graphs against the published ones and against their laws."""

from __future__ import annotations

import hashlib
from itertools import pairwise, product

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from script_loading import load_script

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.formats.node_link import graph_text
from moccasin_mzn.graphs.generators.random_layered import random_layered, width_of_layers
from moccasin_mzn.graphs.graph import ComputationGraph

SEEDS = 100


@pytest.fixture(scope="module")
def statistics():
    """The script that compares with the published graphs, as a module."""
    return load_script("layered_statistics")


@pytest.mark.full
def test_generated_graphs_fit_the_published_ones(shared, statistics):
    lines = list(statistics.lines(shared / "data", SEEDS))
    named = [line for line in lines if line.statistic in statistics.NAMED]
    for part in (named, lines):
        assert 10 * sum(line.fits for line in part) >= 9 * len(part), [line for line in part if not line.fits]


def test_statistics_of_a_small_layered_graph(statistics):
    graph = ComputationGraph([0, 1, 2, 3], [0, 2, 2, 0], [2, 4, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 2)])
    found = statistics.statistics_of(graph)
    assert (found["edges"], found["layers"], found["skip fraction"]) == (4, 4, 0.25)
    assert found["peak / total size"] == 8 / 10
    assert found["mean skip, in layers"] == 2


@settings(max_examples=examples(60), deadline=None)
@given(
    n=st.integers(2, 60),
    seed=st.integers(0, 2**40),
    width=st.floats(0.001, 0.999),
    spread=st.floats(0, 1),
    density=st.floats(0, 1),
    skips=st.floats(0, 0.9),
)
def test_any_parameters_give_a_graph(n, seed, width, spread, density, skips):
    graph = random_layered(n, seed, width=width, width_spread=spread, density=density, skips=skips)
    assert graph.nodes == tuple(range(n))
    assert graph.durations[:2] == (0, 0)
    assert all(1 <= duration <= 999 for duration in graph.durations[2:])
    assert graph.order is not None  # checked at birth
    assert all(inputs or v == 0 for v, inputs in enumerate(graph.predecessors))
    assert all(readers or v == 1 for v, readers in enumerate(graph.successors))


def test_the_same_seed_gives_the_same_graph_everywhere():
    text = graph_text(random_layered(300, 7))
    assert text == graph_text(random_layered(300, 7))
    assert text != graph_text(random_layered(300, 8))
    assert (
        hashlib.sha256(text.encode()).hexdigest() == "4858f8290d8c398443b7abb359fc0f4185d5c6f2d21406e9ceb80d53aa2cc484"
    )


def test_full_density_without_skips_joins_neighbouring_layers_completely():
    graph = random_layered(20, 0, density=1, skips=0, width_spread=0)
    layers = [[0], *([v, v + 1, v + 2] for v in range(2, 20, 3)), [1]]  # of 20 / ceil(sqrt(20 (1 / 0.31 - 1))) nodes
    assert set(graph.edges) == {pair for above, below in pairwise(layers) for pair in product(above, below)}


def test_layers_of_constant_width_keep_edges_proportional_to_nodes():
    per_node = [len(random_layered(n, 0, width=width_of_layers(n, 21.2)).edges) / n for n in (2_000, 20_000)]
    assert all(5.5 < ratio < 6.5 for ratio in per_node)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "n is 1, expected an integer of 2 or more"),
        ({"n": 10.0}, "n is 10.0, expected an integer of 2 or more"),
        ({"seed": -1}, "seed is -1, expected an integer of 0 or more"),
        ({"width": 0}, "width is 0, expected a number from 1e-09 to below 1"),
        ({"width": 1.0}, "width is 1.0, expected a number from 1e-09 to below 1"),
        ({"width": float("nan")}, "width is nan, expected a number from 0 to 1"),
        ({"density": 1.5}, "density is 1.5, expected a number from 0 to 1"),
        ({"width_spread": "1"}, "width_spread is '1', expected a number from 0 to 1"),
        ({"skips": 1}, "skips is 1, expected a number between 0 and 1"),
    ],
)
def test_parameters_out_of_range_are_refused(arguments, message):
    with pytest.raises(InputError) as caught:
        random_layered(**{"n": 10, "seed": 0, **arguments})
    assert str(caught.value) == message


def test_width_of_layers():
    assert width_of_layers(1000, 21.2) == pytest.approx(0.31, abs=0.001)
    with pytest.raises(InputError, match="nodes of a layer are 0, expected a number over 0"):
        width_of_layers(1000, 0)
