"""The soak's judge and oracle against the simulator and against the oracles of the tests: none shares code."""

from __future__ import annotations

import random
from fractions import Fraction

import oracle
import pytest
from cases import draw_case
from few import few
from hypothesis import given
from hypothesis import strategies as st
from machine_cases import machine_of
from soaking.graphs import draw_graph, random_order
from soaking.judging import FIRST, FREE, STAGED, Scope, account, arena_flaw, in_stages
from soaking.oracle import best_schedule, least_peak
from soaking.plans import machine_of_options
from soaking.witnesses import useless_too, without_useless
from strategies import any_sequences, graphs, valid_sequences

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import CopyCosts, PagingCosts, device_platform, paging_platform, parse_device
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.stages import first_out_of_stage

CASES = few(range(1000), keep=range(60), mark=pytest.mark.slow)


@given(st.data())
def test_soak_judge_agrees_with_the_simulator(data):
    graph = data.draw(graphs(workspaces=True))
    sequence = data.draw(valid_sequences(graph) | any_sequences(graph))
    simulation, judged = simulate(graph, sequence), account(graph, sequence)
    assert (judged.flaw == "") is simulation.feasible
    if simulation.feasible:
        intervals = tuple((of.node, of.start, of.end) for of in simulation.intervals)
        assert (judged.duration, judged.peak, judged.intervals) == (simulation.duration, simulation.peak, intervals)


@given(st.data())
def test_stages_are_those_of_warm_starts(data):
    graph = data.draw(graphs())
    order, sequence = graph.input_order(), data.draw(valid_sequences(graph))
    sequence = sequence[: sequence.index(order[-1]) + 1]  # what follows is of no stage
    staged = tuple(dict.fromkeys(sequence)) == order and in_stages(order, sequence)
    assert staged is (first_out_of_stage(order, sequence) is None)


@pytest.mark.parametrize("seed", CASES)
def test_both_oracles_find_the_same(seed):
    case = draw_case(seed, workspaces=seed % 3 == 0)
    graph, order = case.graph, case.graph.input_order()
    rng = random.Random(seed)
    for most in ((case.max_computations,) * len(order), tuple(rng.randint(1, 3) for _ in order)):
        found = {}
        for kind in (FREE, FIRST, STAGED):
            scope = Scope(kind, most)
            answer = best_schedule(graph, order, case.budget, scope)
            assert answer.complete
            found[kind] = None
            if answer.sequence is not None:
                judged = account(graph, answer.sequence)
                assert judged.flaw == "" and judged.peak <= case.budget and scope.holds(order, answer.sequence)
                found[kind] = judged.duration
        assert found[STAGED] == oracle.best_fixed_order(graph, order, case.budget, most)
        assert found[FREE] == oracle.best_free_order(graph, case.budget, most)
        known = [float("inf") if found[kind] is None else found[kind] for kind in (FREE, FIRST, STAGED)]
        assert known == sorted(known)


def test_an_oracle_that_gives_up_knows_nothing():
    case = draw_case(2)
    most = (case.max_computations,) * len(case.graph.nodes)
    answer = best_schedule(case.graph, case.graph.input_order(), case.budget, Scope(STAGED, most), effort=1)
    assert answer.sequence is None and not answer.complete


@pytest.mark.parametrize("seed", range(40))
def test_the_least_peak_is_that_of_the_best_of_all_orders(seed):
    graph = draw_case(seed, 5).graph
    least = min(simulate(graph, order).peak for order in _orders(graph, ()))
    assert least_peak(graph) == least


def _orders(graph, begun):
    if len(begun) == len(graph.nodes):
        yield begun
    for v in range(len(graph.nodes)):
        if v not in begun and set(graph.predecessors[v]) <= set(begun):
            yield from _orders(graph, (*begun, v))


@pytest.mark.parametrize("seed", range(12))
def test_options_of_a_command_line_mean_these_memories(seed):
    case = draw_case(seed, 4)
    graph, slower = case.graph, ("2", "1.5", "inf")[seed % 3]
    options = {"paging": True, "page-out-time": "0.25", "page-in-time": "1", "budget": str(case.budget)}
    half = graph.total_size // 2
    platform = paging_platform(graph, case.budget, PagingCosts(Fraction(1, 4), Fraction(1)), half)
    assert_alike(machine_of_options(graph, {**options, "slow-memory": str(half)}), platform)
    told = (f"gpu={case.budget}", f"cpu={graph.total_size}:{slower}")
    platform = device_platform(graph, dict(map(parse_device, told)), CopyCosts(Fraction(1, 2), 1), 1)
    options = {"copy-time": "0.5", "copy-latency": "1", "device": " ".join(told)}
    assert_alike(machine_of_options(graph, options), platform)


def assert_alike(found, platform):
    names, machine = found
    expected = machine_of(platform)
    assert names == tuple(memory.name for memory in platform.memories)
    assert machine.budgets == expected.budgets and [*map(times, machine.compute)] == [*map(times, expected.compute)]
    assert {ends: times(costs) for ends, costs in machine.links.items()} == {
        ends: times(costs) for ends, costs in expected.links.items()
    }


def times(costs):
    """Durations, where there are any."""
    return [each and each[0] for each in costs or [] if each is not None]


@pytest.mark.parametrize("seed", range(200))
def test_graphs_and_useless_computations_are_what_they_should_be(seed):
    rng = random.Random(seed)
    _, graph = draw_graph(rng, rng.choice([1, 3, 7, 30]))
    order = random_order(rng, graph)
    assert account(graph, order).flaw == ""
    for kind in (FREE, FIRST, STAGED):
        scope = Scope(kind, (3,) * len(order))
        peak = account(graph, order).peak
        sequence = useless_too(rng, graph, order, peak, scope, order)
        judged = account(graph, sequence)
        assert judged.flaw == "" and judged.peak <= peak and scope.holds(order, sequence)
        shorter = without_useless(graph, order, peak, scope, sequence)
        judged = account(graph, shorter)
        assert judged.flaw == "" and judged.peak <= peak and scope.holds(order, shorter)
        assert len(shorter) <= len(sequence)


@pytest.mark.parametrize(
    ("offsets", "flaw"),
    [
        ((0, 4), ""),
        ((8, 0), ""),
        ((0, 2), "overlap"),
        ((2, 2), "no multiple"),
        ((-4, 4), "no multiple"),
        ((0, 4.0), "no"),
    ],
)
def test_arenas_are_judged(offsets, flaw):
    graph = ComputationGraph(("a", "b"), (1, 1), (3, 4), ((0, 1),))
    found = arena_flaw(graph, [(0, 1, 2), (1, 2, 2)], offsets, 2 if flaw == "overlap" else 4)
    assert (flaw in found) if flaw else found == ""
