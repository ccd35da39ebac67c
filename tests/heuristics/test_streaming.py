"""Streaming plans: their sequences against recursion by definition, their account against the judge, what is found."""

from collections import Counter

import numpy as np
import pytest
from cases import draw_case, least_duration
from few import examples, few
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import Demand, drawn_layers

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Part, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.heuristics.compiling import generator_of
from moccasin_mzn.heuristics.streaming import generator as made_by
from moccasin_mzn.heuristics.streaming.generator import DURATION, OVER, PEAK, ROLE, SIZE, STRIP, TARGET
from moccasin_mzn.heuristics.streaming.layers import Layers, layers_of, single_layers, stream_arrays
from moccasin_mzn.heuristics.streaming.moves import change
from moccasin_mzn.heuristics.streaming.search import PlanAnnealing
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate

ANY_DURATION = np.int64(2**62)


def drawn_plans(streams, seed, count):
    """Plans as the annealing meets them, each a few changes from the one before."""
    plan = np.zeros((4, len(streams.last)), np.int64)
    plan[SIZE], plan[STRIP] = 1, streams.width
    plan[ROLE, streams.last] = TARGET
    numbers = generator_of(seed)
    for _ in range(count):
        for _ in range(3):
            change(streams, plan, numbers, False)
        yield plan.copy()


def assert_plans_are_as_defined(graph, layers, seed, most, count=12):
    instance = Instance.build(graph, "100%", order="free", max_computations=most)
    order, streams = stream_arrays(instance, layers)
    room, possible = made_by.room_for(streams), 0
    for plan in drawn_plans(streams, seed, count):
        sequence = Demand(graph, layers, plan.tolist()).made()
        simulation = simulate(graph, sequence)
        budget = simulation.peak - 3
        if not made_by.evaluate(streams, plan, room, budget, ANY_DURATION):
            assert max(Counter(sequence).values()) > most
            continue
        assert max(Counter(sequence).values()) <= most
        totals = room.totals.tolist()
        assert totals[DURATION] == simulation.duration and totals[PEAK] == simulation.peak and totals[OVER] >= 3
        assert [order[k] for k in made_by.sequence_of(streams, plan, room)] == sequence
        assert simulation.feasible
        assert made_by.evaluate(streams, plan, room, budget, np.int64(simulation.duration))
        assert not made_by.evaluate(streams, plan, room, budget, np.int64(simulation.duration - 1))
        possible += 1
    return possible


@given(st.integers(0, 2**32), st.integers(1, 9))
@settings(max_examples=examples(300), deadline=None)
def test_plans_of_layers_in_parts_are_as_defined(seed, most):
    assert_plans_are_as_defined(*drawn_layers(seed), seed, most)


def test_most_of_the_drawn_plans_compute_nodes_more_than_once_and_are_possible():
    assert sum(assert_plans_are_as_defined(*drawn_layers(seed), seed, 8) for seed in range(20)) > 150


@given(st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_plans_of_graphs_without_parts_are_as_defined(seed):
    graph = draw_case(seed, most_nodes=9, workspaces=True).graph
    assert_plans_are_as_defined(graph, single_layers(graph.input_order()), seed, 4)


# --- Layers ---------------------------------------------------------------------------------------------------


def chain(side=8, channels=(3, 5, 4, 2)):
    """A chain of 3 x 3 convolutions."""
    operators, durations = [], []
    for at, of in enumerate(channels):
        shape = (side, side, channels[at - 1] if at else 1)
        windows = (Reach(0, 1, 3, 1, 1), Reach(1, 1, 3, 1, 1), None)
        operators.append(Operator("conv", (side, side, of), (Read(at - 1 if at else None, shape, windows),)))
        durations.append(side * side * of * 9)
    return ComputationGraph(
        [f"conv{at}" for at in range(len(channels))], durations, [side * side * of for of in channels],
        [(at, at + 1) for at in range(len(channels) - 1)], operators=operators,
    )  # fmt: skip


def test_layers_of_a_tiled_graph_have_their_bands_and_columns():
    tiled = tile(chain(), rows=2, columns=4)
    layers = layers_of(tiled, tiled.input_order())
    assert layers.order() == tiled.input_order()
    first = [v for v, x in enumerate(layers.layer) if x == 0]
    assert [(layers.band[v], layers.column[v]) for v in first] == [(b, c) for b in range(4) for c in range(2)]
    assert [tiled.parts[v].box[:2] for v in first[:3]] == [((0, 2), (0, 4)), ((0, 2), (4, 8)), ((2, 4), (0, 4))]


def test_what_is_no_part_is_a_layer_of_its_own_and_so_is_all_where_layers_are_in_no_order():
    graph = ComputationGraph(range(4), (1,) * 4, (1,) * 4, [(0, 1), (1, 2), (2, 3)])
    assert layers_of(graph, (0, 1, 2, 3)) == single_layers((0, 1, 2, 3))
    parts = [Part("a", ((0, 1),)), Part("b", ((0, 1),)), Part("a", ((1, 2),)), None]
    crossed = ComputationGraph(range(4), (1,) * 4, (1,) * 4, graph.edges, parts=parts)
    assert layers_of(crossed, (0, 1, 2, 3)) == single_layers((0, 1, 2, 3))
    apart = ComputationGraph(range(4), (1,) * 4, (1,) * 4, [(0, 1), (2, 1), (1, 3)], parts=parts)
    assert layers_of(apart, (0, 2, 1, 3)) == Layers((0, 1, 0, 2), (0, 0, 1, 0), (0, 0, 0, 0))


def test_steps_of_a_sum_are_parts_of_their_layer_in_order():
    mean = Operator("mean", (4,), (Read(0, (8, 8, 4), (None, None, Reach(0))),), accumulator=4)
    conv = Operator("conv", (8, 8, 4), (Read(None, (8, 8, 1), (Reach(0, 1, 3, 1, 1), Reach(1, 1, 3, 1, 1), None)),))
    graph = ComputationGraph(("conv", "mean"), (9, 9), (256, 4), [(0, 1)], operators=(conv, mean))
    tiled = tile(graph, rows=2)
    layers = layers_of(tiled, tiled.input_order())
    assert layers.layer == (0, 0, 0, 0, 1, 1, 1, 1) and layers.band[4:] == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("of", "message"),
    [
        (((0, 0), (0,), (0, 0)), "2 layers, 1 bands and 2 columns"),
        (((0, 2), (0, 0), (0, 0)), "without a gap"),
        (((0, 1), (0, -1), (0, 0)), "below 0"),
    ],
)
def test_layers_that_are_none_are_refused(of, message):
    with pytest.raises(InputError, match=message):
        Layers(*of)


def test_layers_of_another_graph_and_in_another_order_are_refused():
    graph = ComputationGraph(range(2), (1, 1), (1, 1), [(0, 1)])
    instance = Instance.build(graph, 2)
    with pytest.raises(InputError, match="layers of 3 nodes, expected 2"):
        stream_arrays(instance, single_layers((0, 1, 2)))
    with pytest.raises(InputError, match="order is not topological"):
        stream_arrays(instance, single_layers((1, 0)))


# --- The search -----------------------------------------------------------------------------------------------


def found_by(instance, layers, seed=0, rounds=2, once=False):
    found, near = [], []
    PlanAnnealing(instance, layers, seed, once).run(found.append, lambda: False, max_rounds=rounds, on_peak=near.append)
    return found, near


@pytest.mark.parametrize("seed", few(range(24), 8))
def test_what_is_found_are_schedules_better_and_better_the_same_for_a_seed_and_never_better_than_brute_force(seed):
    case = draw_case(seed)
    instance = Instance.build(case.graph, case.budget, order="free", max_computations=case.max_computations)
    layers = single_layers(instance.order)
    found, near = found_by(instance, layers, seed)
    durations = [judge(case.graph, each, case.budget) for each in found]
    assert all(each.feasible for each in durations)
    least = least_duration(case, "general")
    lengths = [each.duration for each in durations]
    assert lengths == sorted(set(lengths), reverse=True) and (not lengths or lengths[-1] >= least)
    peaks = [simulate(case.graph, each).peak for each in near]
    assert peaks == sorted(set(peaks), reverse=True) and all(peak > case.budget for peak in peaks)
    assert (found, near) == found_by(instance, layers, seed)
    assert all(count <= case.max_computations for each in found for count in Counter(each).values())


def test_a_chain_streams_within_line_buffers_and_in_less_with_what_overlaps_computed_again():
    tiled = tile(chain(), rows=1)
    layers, least = layers_of(tiled, tiled.input_order()), tiled.largest_working_set().memory
    instance = Instance.build(tiled, least, order="free", max_computations=8)
    _, (*_, once) = found_by(instance, layers, once=True)
    assert simulate(tiled, once).peak <= 8 * (3 * 3 + 3 * 5 + 3 * 4) < chain().largest_working_set().memory
    _, (*_, again) = found_by(instance, layers)
    assert simulate(tiled, again).peak < simulate(tiled, once).peak and len(again) > len(once)


def test_once_means_once():
    graph, layers = drawn_layers(5)
    instance = Instance.build(graph, 1, order="free", max_computations=5)
    found, near = found_by(instance, layers, once=True)
    assert near and all(len(each) == len(graph.nodes) for each in found + near)
