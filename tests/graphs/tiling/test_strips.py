"""Tilings for strips: parts hold what a strip needs, place by place, and no more; strips take less than whole lines."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from few import examples, few
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.generators.catalogue import generate_network
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read, aligned
from moccasin_mzn.graphs.tiling.cutting import Cuts, cut, tile
from moccasin_mzn.graphs.tiling.strips import LEAST_WIDTH, strips, strips_within
from moccasin_mzn.heuristics.streaming.layers import layers_of
from moccasin_mzn.heuristics.streaming.search import PlanAnnealing
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge

Layer = tuple[int, int, int, int]
"""Channels, window, stride and padding."""


def images(side: int, *layers: Layer, added: bool = False) -> ComputationGraph:
    """A chain of square images of a byte a place; `added`: a sum of its first layer and its last one of the same shape
    follows."""
    operators, shape = list[Operator](), (side, side, 1)
    for channels, kernel, stride, before in layers:
        at = len(operators)
        if kernel > shape[0] + 2 * before:
            continue
        extent = (shape[0] + 2 * before - kernel) // stride + 1
        windows = [Reach(axis, stride, kernel, 1, before) for axis in (0, 1)]
        out = extent, extent, channels
        operators.append(Operator("conv", out, (Read(at - 1 if at else None, shape, (*windows, None)),)))
        shape = out
    same = [at for at, each in enumerate(operators) if each.shape == operators[0].shape]
    if added and len(same) > 1 and same[-1] == len(operators) - 1:
        first, last, shape = 0, same[-1], operators[0].shape
        reads = tuple(Read(source, shape, aligned(shape, shape)) for source in (first, last))
        operators.append(Operator("add", shape, reads))
    pairs = [(read.source, v) for v, each in enumerate(operators) for read in each.reads if read.source is not None]
    return ComputationGraph(
        [f"layer{at}" for at in range(len(operators))], [10 * each.elements for each in operators],
        [each.elements for each in operators], pairs, operators=operators,
    )  # fmt: skip


def drawn(seed: int) -> ComputationGraph:
    draw = random.Random(seed)
    layers = [(1, 1, 1, 0)] + [
        (draw.choice((1, 2, 4, 8)), *draw.choice(((1, 1, 0), (3, 1, 1), (3, 2, 1), (5, 1, 2), (2, 2, 0), (3, 1, 0))))
        for _ in range(draw.randint(1, 5))
    ]
    return images(draw.choice((1, 4, 9, 16, 31)), *layers, added=draw.random() < 0.3)


def columns_of(graph: ComputationGraph, cuts: dict[int, Cuts], v: int) -> tuple[int, ...]:
    assert graph.operators is not None
    operator = graph.operators[v]
    assert operator is not None
    return cuts.get(v, {}).get(1, (0, operator.shape[1]))


def keeps(graph: ComputationGraph, v: int) -> bool:
    return graph.sizes[v] <= sum(graph.sizes[u] for u in graph.predecessors[v])


def needed(graph: ComputationGraph, begin: int, end: int, kept: dict[int, set[int]]) -> dict[int, set[int]]:
    """By layer the columns that are read for columns begin..end - 1 of the last one, place by place; of layers that
    keep what overlaps, what is `kept` is not computed again."""
    assert graph.operators is not None
    count = len(graph.nodes)
    found: dict[int, set[int]] = {v: set() for v in range(count)}
    found[count - 1] = set(range(begin, end))
    for v in reversed(range(count)):
        operator = graph.operators[v]
        assert operator is not None
        computed = found[v] - kept[v] if v in kept and keeps(graph, v) else found[v]
        for read in operator.reads:
            if read.source is not None:
                reach = read.axes[1]
                assert reach is not None
                for column in computed:
                    found[read.source].update(reach.places(column, column + 1, read.shape[1]).tolist())
    return found


@given(st.integers(0, 2**32), st.integers(2, 4))
@settings(max_examples=examples(200), deadline=None)
def test_of_each_layer_a_strip_needs_whole_parts(seed, count):
    graph = drawn(seed)
    cuts = strips(graph, count, 0, 2**40)  # nothing is small: all strips are those of the last layer
    last = columns_of(graph, cuts, len(graph.nodes) - 1)
    assume(last[-1] >= 2 * LEAST_WIDTH)
    ever, kept = needed(graph, 0, last[-1], {}), dict[int, set[int]]()
    for begin, end in pairwise(last):
        read = needed(graph, begin, end, kept)
        for v, columns in read.items():
            parts = [ever[v].intersection(range(*each)) for each in pairwise(columns_of(graph, cuts, v))]
            assert all(part <= columns or not part & columns for part in parts)
            kept[v] = kept.get(v, set()) | columns


def test_two_strips_of_a_window_are_cut_where_they_overlap():
    graph = images(9, (1, 1, 1, 0), (2, 3, 1, 1))
    cuts = strips(graph, 2, 0, 2**40)
    assert (cuts[0][1], cuts[1][1]) == ((0, 3, 5, 9), (0, 4, 9)) and cuts[0][0] == tuple(range(10))


def test_what_is_larger_than_its_input_passes_its_overlap_on_and_what_is_small_begins_strips_anew():
    graph = images(16, (2, 1, 1, 0), (8, 1, 1, 0), (8, 3, 1, 1), (2, 1, 1, 0), (8, 1, 1, 0), (8, 3, 1, 1))
    cuts = strips(graph, 2, 0, 2**40)
    assert cuts[0][1] == cuts[1][1] == (0, 7, 9, 16) and cuts[2][1] == (0, 8, 16) and cuts[3][1] == (0, 6, 8, 16)
    assert strips(graph, 2, 2 * 16 * 16, 2**40)[3][1] == (0, 7, 16)


@pytest.mark.parametrize("name", few(("unet", "mobilenet", "resnet50", "vgg16", "transformer"), 2))
def test_networks_can_be_cut_for_strips(name):
    graph = generate_network(name, batch=1)
    cuts = strips_within(graph, 3, graph.largest_working_set().memory)
    assert any(len(own) == 2 for own in cuts.values()) or name == "transformer"
    for v, own in cuts.items():
        assert all(at[0] == 0 and at[-1] == graph.operators[v].shape[axis] for axis, at in own.items())
        assert all(before < after for at in own.values() for before, after in pairwise(at))


@pytest.mark.parametrize("side", [1, 2, 3, 4, 5])
def test_images_of_a_few_columns_are_cut_into_parts_that_are_the_layers(side):
    graph = images(side, (2, 1, 1, 0), (4, 3, 1, 1), (1, 1, 1, 0))
    tiled = cut(graph, strips(graph, 3, 0, 2**40)) if side > 1 else graph
    assert (tiled.total_duration, tiled.total_size) == (graph.total_duration, graph.total_size)
    assert {part.box[1] for part in tiled.parts or () if part and part.layer == "layer2"} == {
        1: set(), 2: {(0, 2)}, 3: {(0, 3)}, 4: {(0, 2), (2, 4)}, 5: {(0, 2), (2, 5)}
    }[side]  # fmt: skip


def test_a_graph_of_parts_is_refused():
    with pytest.raises(InputError, match="the graph is tiled"):
        strips(tile(images(9, (1, 3, 1, 1), (2, 3, 1, 1)), rows=1), 2, 100, 10)


def test_within_a_budget_strips_compute_less_again_than_rows():
    block = ((8, 1, 1, 0), (8, 3, 1, 1), (2, 1, 1, 0))
    graph, budget = images(16, (2, 3, 1, 1), *block, *block, (4, 3, 3, 0)), 650
    shares = []
    for tiled in (tile(graph, rows=1), cut(graph, strips_within(graph, 2, budget))):
        instance, found = Instance.build(tiled, budget, order="free", max_computations=8), []
        search = PlanAnnealing(instance, layers_of(tiled, instance.order), first_round=1_000)
        search.run(found.append, lambda search=search: search.moves >= 3_000)
        simulation = judge(tiled, found[-1], budget)
        assert simulation.feasible
        shares.append(simulation.duration / tiled.total_duration)
    assert 1.0 <= shares[1] < shares[0]
