"""Searches and bounds on shapes and sizes of all kinds, against dynamic programming over all sets of computed nodes."""

import random

import pytest
from order_oracle import SHAPES, SIZES, all_orders, graph_of_kind, least_over_sets, memory_of, random_graph

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.orders.beam import Beam, Taste
from moccasin_mzn.heuristics.orders.cut_bound import CutBound, Forced, PrecedenceBound, promising
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order, peak_bound
from moccasin_mzn.problem.judges.schedules import simulate


def never():
    return False


def check(graph, seed):
    start, rng = graph.input_order(), random.Random(seed)
    optimum, least = least_over_sets(graph)
    arrays, memory = graph_arrays(graph, start), simulate(graph, start).memory
    cuts = CutBound(arrays)
    assert [cuts.at(k) for k in range(len(start))] == [least[v] for v in start]
    assert peak_bound(graph, start) == max(least)
    forced = []
    claims = PrecedenceBound(cuts, promising(cuts, memory, len(start), never), forced)
    for limit in (optimum + 1, optimum):
        assert not claims.refutes(limit, never)
    assert claims.refutes(max(least) - 1, never)
    taste = Taste(rng.random() < 0.5, rng.choice([0, 0.3, 1]), rng.choice([0, 0.3]), rng.choice([0, 0.5]))
    for width in (2, 5000):
        for limit in (optimum - 1, optimum, optimum + 1):
            found = Beam(arrays, width, seed).run(limit, taste, never)
            if found.order is not None:
                assert simulate(graph, [start[k] for k in found.order]).peak <= limit
            else:
                assert not found.proven or limit < found.needed <= optimum
                assert width == 2 or (found.proven and limit < optimum)
    found = least_peak_order(graph, seed=seed)
    assert (found.peak, found.bound, found.status) == (optimum, optimum, "optimal")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_minimum_cuts_of_all_kinds_agree_with_enumeration(shape, size):
    for seed in range(3):
        check(graph_of_kind(shape, size, seed), seed)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES)
def test_minimum_cuts_of_all_kinds_agree_with_enumeration_on_many_graphs(shape, size):
    for seed in range(3, 53):
        check(graph_of_kind(shape, size, seed, most_nodes=13), seed)


def test_the_oracle_agrees_with_all_orders():
    for seed in range(5000, 5030):
        graph = random_graph(seed, most_nodes=6)
        each = [memory_of(graph, order) for order in all_orders(graph)]
        least = [min(memory[v] for memory in each) for v in range(len(graph.nodes))]
        assert least_over_sets(graph) == (min(max(memory.values()) for memory in each), least)


def test_what_must_not_be_cut_is_dearer_than_any_sum():
    """Computing w before v frees the inputs of a, but takes x first and so the inputs of x, which y keeps. ::

    a1 a2 a3 ---> a ---> v ---> y        at v: 6 for a1 a2 a3, or 6 for z1 z2 z3, beside a and v
    a1 a2 a3 ---> w
    z1 z2 z3 ---> x ---> w
    z1 z2 z3 ------------------> y
    """
    names = ("a1", "a2", "a3", "z1", "z2", "z3", "a", "x", "w", "v", "y")
    place = {name: k for k, name in enumerate(names)}
    arcs = [(f"a{k}", head) for k in (1, 2, 3) for head in ("a", "w")]
    arcs += [(f"z{k}", head) for k in (1, 2, 3) for head in ("x", "y")]
    arcs += [("a", "v"), ("x", "w"), ("v", "y")]
    graph = ComputationGraph(
        nodes=names,
        durations=[1] * 11,
        sizes=[2] * 6 + [1, 0, 0, 1, 0],
        edges=[(place[tail], place[head]) for tail, head in arcs],
    )
    order = graph.topological_order()
    least = least_over_sets(graph)[1][place["v"]]
    assert CutBound(graph_arrays(graph, order)).at(order.index(place["v"])) == least == 8


def test_precedences_of_a_limit_serve_smaller_ones_and_are_true():
    gained = 0
    for seed in range(4000, 4060):
        graph = random_graph(seed)
        start = graph.input_order()
        peaks = [(max(memory_of(graph, order).values()), order) for order in all_orders(graph)]
        arrays = graph_arrays(graph, start)
        cuts = CutBound(arrays)
        forced = []
        claims = PrecedenceBound(cuts, range(len(start)), forced)
        optimum = min(peaks)[0]
        for limit in range(optimum + 4, optimum - 1, -1):
            assert not claims.refutes(limit, never)
        for one in forced:
            for peak, order in peaks:
                if peak <= one.limit:
                    assert order.index(start[one.first]) < order.index(start[one.second])
        gained += len({(one.first, one.second) for one in forced})
        assert len({(one.first, one.second) for one in forced}) == len(forced)  # none is found a second time
        for one in [one for one in forced if one.limit >= optimum]:
            wrong = [Forced(optimum - 1, one.second, one.first)]  # about smaller limits, not about this one
            assert not PrecedenceBound(cuts, range(len(start)), wrong).refutes(optimum, never)
    assert gained > 10


def test_kept_sets_answer_as_new_cuts_do():
    for seed in range(20):
        graph = graph_of_kind("layers", "mixed", seed)
        arrays, rng = graph_arrays(graph, graph.input_order()), random.Random(seed)
        kept = CutBound(arrays)
        for _ in range(60):
            v = rng.randrange(arrays.node_count)
            before, after = kept.reach(v)
            for u in range(arrays.node_count):
                ancestors, descendants = kept.reach(u)
                if u != v and not (before | after) >> u & 1 and rng.random() < 0.3:
                    if rng.random() < 0.5 and not (ancestors | 1 << u) & after:
                        before |= ancestors | 1 << u
                    elif not (descendants | 1 << u) & before:
                        after |= descendants | 1 << u
            least = CutBound(arrays).between(before, after, v)
            room = least + rng.randint(-2, 2)
            assert kept.possible(before, after, v, room) == (least <= room)
