"""Orders of least peak: brute force over all orders, properties of random graphs, and endings."""

import itertools
import random

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from order_oracle import all_orders, memory_of, random_graph
from strategies import graphs

from moccasin_mzn.base.errors import InputError, JudgeError
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.orders.beam import Beam, Taste
from moccasin_mzn.heuristics.orders.cut_bound import CutBound, PrecedenceBound, promising
from moccasin_mzn.heuristics.orders.least_peak import Ordering, good_orders, least_peak_order
from moccasin_mzn.heuristics.orders.order_search import OrderSearch, improve_order
from moccasin_mzn.problem.judges.schedules import simulate


def never():
    return False


# brute force


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_the_search_proves_the_optimum_of_all_orders(first_seed):
    for seed in range(first_seed, first_seed + 50):
        graph = random_graph(seed)
        optimum = min(max(memory_of(graph, order).values()) for order in all_orders(graph))
        found = least_peak_order(graph, seed=seed)
        assert (found.status, found.peak, found.bound) == ("optimal", optimum, optimum), seed
        assert max(memory_of(graph, found.order).values()) == optimum


@pytest.mark.parametrize("backward", [False, True])
def test_a_wide_beam_decides_every_limit(backward):
    for seed in range(1000, 1060):
        graph = random_graph(seed, most_nodes=6)
        optimum = min(max(memory_of(graph, order).values()) for order in all_orders(graph))
        beam = Beam(graph_arrays(graph, graph.input_order()), 64, seed)
        for limit in range(max(0, optimum - 3), optimum + 2):
            found = beam.run(limit, Taste(backward, random.Random(seed).choice([0.0, 0.3])), never)
            assert (found.order is not None) == (limit >= optimum), (seed, limit)
            if limit < optimum:
                assert found.proven and limit < found.needed <= optimum
            else:
                order = tuple(graph.input_order()[k] for k in found.order)
                assert max(memory_of(graph, order).values()) <= limit


def test_a_cut_is_the_least_memory_at_a_node_over_all_orders():
    for seed in range(2000, 2060):
        graph = random_graph(seed, most_nodes=6)
        start = graph.input_order()
        at_each = [memory_of(graph, order) for order in all_orders(graph)]
        cuts = CutBound(graph_arrays(graph, start))
        for k, v in enumerate(start):
            assert cuts.at(k) == min(memory[v] for memory in at_each), (seed, v)
        best = cuts.improve(0, simulate(graph, start).memory, never)
        assert best == max(min(memory[v] for memory in at_each) for v in start)
        assert best >= graph.largest_working_set().memory


def test_precedences_refute_no_limit_that_an_order_keeps():
    raised = 0
    for seed in range(4000, 4100):
        graph = random_graph(seed)
        start = graph.input_order()
        optimum = min(max(memory_of(graph, order).values()) for order in all_orders(graph))
        arrays = graph_arrays(graph, start)
        cuts = CutBound(arrays)
        memory = simulate(graph, start).memory
        plain = cuts.improve(0, memory, never)
        claims = PrecedenceBound(cuts, promising(cuts, memory, len(start), never), [])
        assert not claims.refutes(optimum, never) and not claims.refutes(optimum + 1, never), seed
        if plain < optimum:
            raised += claims.refutes(plain, never)
        elif plain > 0:
            assert claims.refutes(plain - 1, never), seed
    assert raised > 0


@pytest.mark.parametrize("backward", [False, True])
def test_a_window_is_solved_among_the_orders_that_keep_the_rest(backward):
    for seed in range(3000, 3040):
        graph = random_graph(seed)
        start, rng = graph.input_order(), random.Random(seed)
        first, last = sorted(rng.sample(range(len(start) + 1), 2))
        kept = [order for order in all_orders(graph) if order[:first] == start[:first] and order[last:] == start[last:]]
        least = min(max([0, *(memory_of(graph, order)[v] for v in start[first:last])]) for order in kept)
        beam = Beam(graph_arrays(graph, start), 64)
        for limit in (least, least - 1):
            found = beam.run(limit, Taste(backward), never, range(first), range(first, last))
            assert (found.order is not None) == (limit == least), (seed, limit)
        order = beam.run(least, Taste(backward), never, range(first), range(first, last)).order
        assert sorted(order) == list(range(first, last))
        whole = (*start[:first], *(start[k] for k in order), *start[last:])
        assert max([0, *(memory_of(graph, whole)[v] for v in start[first:last])]) == least


# properties


@settings(max_examples=examples(60))
@given(graphs(), st.integers(0, 5))
def test_the_answer_is_an_order_no_worse_than_the_start(graph, seed):
    start = graph.topological_order()
    found = least_peak_order(graph, seed=seed, start=start)
    graph.check_order(found.order)
    assert found.peak == simulate(graph, found.order).peak <= simulate(graph, start).peak
    assert graph.largest_working_set().memory <= found.bound == found.peak
    assert found.status == "optimal"


@pytest.mark.few(1)
@pytest.mark.parametrize(("width", "backward"), [(1, False), (1, True), (3, False), (3, True)])
def test_narrow_beams_keep_the_limit_and_never_prove_too_much(width, backward):
    proven = 0
    for seed in range(30):
        graph = random_layered(30, seed=seed)
        arrays = graph_arrays(graph, graph.input_order())
        optimum = least_peak_order(graph).peak
        for limit in (optimum - 1, optimum, optimum * 5 // 4):
            found = Beam(arrays, width).run(limit, Taste(backward), never)
            proven += found.proven
            if found.order is None:
                assert not found.proven or found.needed <= optimum
            else:
                order = tuple(graph.input_order()[k] for k in found.order)
                assert simulate(graph, order).feasible and simulate(graph, order).peak <= limit
                assert limit >= optimum
    assert proven or not backward  # forwards there is more to keep


def test_order_floor_is_needed_by_every_order():
    for seed in range(10):
        graph = random_layered(40, seed=seed)
        beam = Beam(graph_arrays(graph, graph.input_order()), 8)
        limit = graph.largest_working_set().memory
        found = beam.run(limit, Taste(), never)
        if found.order is None and found.needed - 1 > limit:
            assert beam.run(found.needed - 1, Taste(), never).order is None


def test_windows_only_improve():
    graph = random_layered(100, seed=1)
    start = graph.input_order()
    peaks = [simulate(graph, start).peak]
    beam = Beam(graph_arrays(graph, start), 16)
    for order in improve_order(graph, start, start, beam, random.Random(0), never, rounds=60):
        assert simulate(graph, order).feasible
        peaks.append(simulate(graph, order).peak)
    assert len(peaks) > 2 and peaks == sorted(set(peaks), reverse=True)


def test_good_orders_are_orders_all_different_and_the_same_for_a_seed():
    graph = random_layered(60, seed=2)
    most = simulate(graph, graph.input_order()).peak
    orders = list(itertools.islice(good_orders(graph, seed=4, windows=20), 6))
    assert orders == list(itertools.islice(good_orders(graph, seed=4, windows=20), 6))
    assert len(set(orders)) == 6
    assert all(simulate(graph, order).feasible and simulate(graph, order).peak <= most for order in orders)
    assert min(simulate(graph, order).peak for order in orders) == least_peak_order(graph).peak < most


# endings


def test_a_stopped_search_answers_with_the_start():
    graph = random_layered(60, seed=3)
    found = least_peak_order(graph, stop=lambda: True)
    assert (found.order, found.source, found.status) == (graph.input_order(), "start", "feasible")
    assert list(good_orders(graph, stop=lambda: True)) == []


def test_an_interrupt_keeps_the_best_order():
    graph = random_layered(60, seed=3)
    heard = []

    def listen(progress):
        heard.append(progress)
        if progress.order is not None:
            raise KeyboardInterrupt

    found = least_peak_order(graph, on_progress=listen)
    assert found.order == heard[-1].order and found.peak == heard[-1].peak < simulate(graph, graph.input_order()).peak


def test_progress_leads_to_the_answer():
    graph, heard = random_layered(60, seed=5), []
    found = least_peak_order(graph, on_progress=heard.append)
    assert (heard[-1].peak, heard[-1].bound) == (found.peak, found.bound)
    for before, after in itertools.pairwise(heard):
        assert after.seconds >= before.seconds
        assert after.peak < before.peak or after.bound > before.bound


def test_a_graph_without_memory_and_one_of_one_node():
    nothing = ComputationGraph(nodes=("a", "b"), durations=(1, 1), sizes=(0, 0), edges=((0, 1),))
    assert least_peak_order(nothing).peak == 0
    assert least_peak_order(nothing).gap_percent == 0
    one = ComputationGraph(nodes=("a",), durations=(1,), sizes=(7,), edges=())
    assert least_peak_order(one).peak == least_peak_order(one).bound == 7


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_bad_seeds_are_refused(seed):
    graph = random_graph(1)
    with pytest.raises(InputError, match="seed"):
        least_peak_order(graph, seed=seed)
    with pytest.raises(InputError, match="seed"):
        good_orders(graph, seed=seed)


def test_bad_limits_and_starts_are_refused():
    graph = ComputationGraph(nodes=("a", "b"), durations=(1, 1), sizes=(1, 1), edges=((0, 1),))
    with pytest.raises(InputError, match="time limit"):
        least_peak_order(graph, time_limit=0)
    with pytest.raises(InputError, match="not topological: edge a -> b"):
        least_peak_order(graph, start=(1, 0))


# claims that are wrong


def test_wrong_claims_about_orders_are_refuted():
    graph = random_layered(30, seed=0)
    search = OrderSearch(graph, graph.input_order(), seed=0)
    with pytest.raises(JudgeError, match="returned what is no order"):
        search.offer(tuple(reversed(graph.input_order())), "nobody")
    with pytest.raises(JudgeError, match="returned what is no order"):
        search.offer((*graph.input_order(), graph.input_order()[0]), "nobody")
    with pytest.raises(JudgeError, match="nobody claims that no order has a peak below .* but the simulator"):
        search._prove(search.peak + 1, "nobody")
    with pytest.raises(InputError, match="bound 2 is above the peak 1"):
        Ordering(order=(0,), peak=1, bound=2, seconds=0.0, source="")


# published graphs


@pytest.mark.parametrize(
    ("name", "percent"),
    [("random_layered_n250", 71.622), ("checkmate_fcn8_train", 100.0), ("checkmate_resnet50_train", 100.0),
     pytest.param("random_layered_n500", 87.175, marks=pytest.mark.slow),
     pytest.param("random_layered_n100", 79.427, marks=pytest.mark.slow)],
)  # fmt: skip
def test_published_graphs_are_solved(shared, name, percent):
    graph = read_graph(shared / "data" / f"{name}.json")
    found = least_peak_order(graph, time_limit=120)
    assert found.status == "optimal"
    assert 100 * found.peak / simulate(graph, graph.input_order()).peak == pytest.approx(percent, abs=0.001)


@pytest.mark.slow
def test_brute_force_on_many_more_graphs():
    for seed in range(10_000, 11_000):
        graph = random_graph(seed)
        optimum = min(max(memory_of(graph, order).values()) for order in all_orders(graph))
        found = least_peak_order(graph, seed=seed)
        assert found.peak == found.bound == optimum, seed
