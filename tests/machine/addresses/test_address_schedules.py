"""Schedules with offsets: the joint models against brute force, and the chain around them."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
from address_cases import draw_instance
from arena_oracle import shortest_in_arena
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import graphs, valid_sequences

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.addresses.arrange import carried_over, solve_with_addresses
from moccasin_mzn.machine.addresses.joint import solve_jointly
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena
from moccasin_mzn.problem.files.schedules import ClaimedSchedule
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.validate import arena_of_schedule, judged_arenas, validate_schedule
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.options import Effort, Options
from moccasin_mzn.solvers.minizinc.run import Limits
from moccasin_mzn.strategies import find_strategy

needs_minizinc = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


def brute_force(instance: Instance, alignment: int, staged: bool) -> int | None:
    return shortest_in_arena(instance.graph, instance.budget, alignment, instance.max_computations[0], staged)


@pytest.mark.few(1)
@needs_minizinc
@pytest.mark.parametrize("staged", [True, False], ids=["staged", "general"])
@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 200))])
def test_joint_models_against_brute_force(seed, staged):
    instance, alignment = draw_instance(seed)
    least = brute_force(instance, alignment, staged)
    answer = solve_jointly(instance, alignment, staged=staged, solver="gecode", limits=Limits(30))
    if answer.status == "unknown":  # Gecode does not prove all of them in any time to speak of
        answer = solve_jointly(instance, alignment, staged=staged, limits=Limits(120, 1))
    assert answer.status == ("infeasible" if least is None else "optimal")
    if least is not None:
        judged = judge(instance.graph, answer.sequence, instance.budget)
        assert judged.feasible and judged.duration == least
        assert answer.arena.size <= instance.budget
        assert answer.arena.buffers == placing_of(instance.graph, judged).buffers


@pytest.mark.slow
@needs_minizinc
@pytest.mark.parametrize("staged", [True, False], ids=["staged", "general"])
@pytest.mark.parametrize("seed", range(200, 300))
def test_joint_models_by_cp_sat(seed, staged):
    instance, alignment = draw_instance(seed)
    answer = solve_jointly(instance, alignment, staged=staged, limits=Limits(120, 1))
    least = brute_force(instance, alignment, staged)
    assert answer.status == ("infeasible" if least is None else "optimal")
    if least is not None:
        assert simulate(instance.graph, answer.sequence).duration == least


def test_brute_force_knows_that_an_arena_costs_more_than_memory():
    # a and c live at the same times as b, one after the other; what each leaves is no room for d
    graph = ComputationGraph(tuple("abcd"), [1] * 4, [1, 2, 1, 3], [(0, 1), (1, 2), (2, 3)], range(4))
    assert simulate(graph, range(4)).peak == 4
    assert shortest_in_arena(graph, 4, 1, 1, True) == 4
    assert shortest_in_arena(graph, 3, 1, 1, True) is None


@settings(max_examples=examples(40))
@given(graphs().flatmap(lambda graph: st.tuples(st.just(graph), valid_sequences(graph))), st.sampled_from([1, 4, 64]))
def test_any_sequence_has_an_arena(case, alignment):
    graph, sequence = case
    simulation = simulate(graph, sequence)
    buffers = placing_of(graph, simulation).buffers
    arena = search_arena(buffers, alignment, time_limit=0.001)
    assert arena.peak == simulation.peak
    assert len({buffer.name for buffer in buffers}) == len(buffers)
    claimed = ClaimedSchedule(
        sequence, simulation.intervals, offsets=arena.offsets, arena=arena.size, alignment=alignment
    )
    assert validate_schedule(graph, claimed, max(arena.size, simulation.peak)) == ()


GRAPH = ComputationGraph(tuple("abc"), [1, 1, 1], [2, 2, 4], [(0, 1), (0, 2), (1, 2)])
CLAIM = ClaimedSchedule((0, 1, 2), simulate(GRAPH, (0, 1, 2)).intervals, offsets=(0, 2, 4), arena=8, alignment=2)


@pytest.mark.parametrize(
    ("change", "budget", "kind", "message"),
    [
        ({"offsets": (0, 0, 4)}, None, "overlap", "position 2: the outputs of nodes a and b overlap at addresses 0..1"),
        ({"offsets": (0, 3, 4), "alignment": 1}, None, "overlap", "the outputs of nodes b and c overlap"),
        ({"offsets": (0, 3, 6), "arena": 10}, None, "misaligned-offset", "node b: offset 3 is not a multiple of 2"),
        ({"offsets": (-2, 2, 4)}, None, "negative-offset", "node a: offset -2 is negative"),
        ({"arena": 9}, None, "wrong-arena", "arena claimed is 9, but the intervals end at 8"),
        ({"offsets": (0, 2, 6), "arena": 10}, 8, "arena-over-budget", "arena 10 is 2 over the budget 8"),
    ],
)
def test_damaged_offsets_are_rejected_for_the_right_reason(change, budget, kind, message):
    violation = validate_schedule(GRAPH, replace(CLAIM, **change), budget)[0]
    assert violation.kind == kind and message in violation.message


def test_undamaged_offsets_are_accepted():
    assert validate_schedule(GRAPH, CLAIM, 8) == ()


@pytest.mark.parametrize(
    ("change", "budget", "verdict"),
    [
        ({}, 8, "arena 8 for 3 intervals, no overlap, offsets are multiples of 2, within the budget 8"),
        ({}, None, "arena 8 for 3 intervals, no overlap, offsets are multiples of 2, no budget"),
        (
            {"alignment": None},
            9,
            "arena 8 for 3 intervals, no overlap, offsets are multiples of 1, within the budget 9",
        ),
        ({}, 7, "arena 8 for 3 intervals, no overlap, offsets are multiples of 2, over the budget 7"),
        ({"offsets": (0, 0, 4)}, 8, "arena 8 for 3 intervals, 1 overlap found, offsets are multiples of 2, within"),
        ({"offsets": (0, 3, 7)}, 11, "arena 11 for 3 intervals, no overlap, 2 offsets not a multiple of 2, within"),
        ({"offsets": None}, 8, "no arena to judge: the schedule has no offsets"),
        ({"intervals": None, "offsets": None, "arena": 8}, 8, "no arena to judge: the schedule has no offsets"),
    ],
)
def test_validate_reports_what_was_judged_of_an_arena(change, budget, verdict):
    claimed = replace(CLAIM, **change)
    assert judged_arenas("schedule", arena_of_schedule(GRAPH, claimed, budget))[0].startswith(verdict)


def u_shape(half: int, sizes) -> ComputationGraph:
    """A chain in which node v of the second half also reads its mirror image in the first half."""
    n = 2 * half
    chain = [(v, v + 1) for v in range(n - 1)] + [(v, n - 1 - v) for v in range(half - 1)]
    return ComputationGraph(range(n), [1] * n, sizes, chain, range(n))


def searched(instance, seconds):
    return solve_instance(instance, Options(search="only", time_limit=seconds or 20))


def test_the_chain_keeps_a_proof_where_the_arena_fits():
    instance = Instance.build(u_shape(4, [4] * 8), "0.8")
    result = solve_with_addresses(instance, searched, 4)
    assert (result.status, result.valid, result.arenas.size) == ("optimal", True, result.peak)
    assert result.as_dict()["fragmentation_percent"] == 0
    assert [interval["offset"] for interval in result.as_dict()["intervals"]] == list(result.arenas.offsets)


@needs_minizinc
@pytest.mark.parametrize("seed", [3, pytest.param(7, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)])
def test_the_chain_is_exact_on_small_graphs(seed):
    instance, alignment = draw_instance(seed)
    least = brute_force(instance, alignment, staged=True)
    result = solve_with_addresses(instance, searched, alignment, Effort(60, 1))
    if least is None:
        assert result.status == "infeasible" and not result.found
    else:
        assert (result.status, result.duration, result.valid) == ("optimal", least, True)


@pytest.mark.few(2)
@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize(("alignment", "status"), [(4, "feasible"), (16, "unknown")])
def test_a_lower_budget_is_searched_where_the_arena_does_not_fit(alignment, status, staged):
    budgets = []
    instance = Instance.build(u_shape(6, [5, 3, 7, 4, 6, 2, 5, 3, 6, 4, 7, 3]), "0.8", max_computations=20)

    def search(asked, seconds):
        budgets.append(asked.budget)
        result = searched(asked, 0.5)
        return result if staged else replace(result, formulation=None)

    result = solve_with_addresses(instance, search, alignment, Effort(4))
    assert budgets[0] == instance.budget and all(budget < instance.budget for budget in budgets[1:])
    assert staged or len(budgets) > 1
    assert result.status == status and result.valid == (result.arenas.size <= instance.budget) == (status == "feasible")
    if not result.valid:
        assert f"over the budget {instance.budget}" in result.reason and "\n" not in result.reason


@pytest.mark.full
def test_reserved_memory_is_released_where_the_arena_has_room():
    instance = Instance.build(random_layered(60, seed=2), 0.85, max_computations=2)
    result = solve_with_addresses(instance, searched, 64, Effort(6))
    assert result.valid and judge(instance.graph, result.sequence, instance.budget).feasible
    assert result.peak <= result.arenas.size <= instance.budget


@pytest.mark.full
def test_addresses_in_a_free_order():
    graph = u_shape(5, [6, 1, 5, 2, 4, 3, 2, 5, 1, 4])
    instance = Instance.build(graph, "0.9", order="free")
    result = solve_with_addresses(instance, searched, 2, Effort(20))
    assert result.valid and result.arenas.size <= instance.budget
    assert judge(graph, result.sequence, instance.budget).feasible
    assert result.arenas.buffers == placing_of(graph, result.simulation).buffers


def test_offsets_carried_over_keep_the_order_and_are_an_arena():
    graph = u_shape(5, [6, 1, 5, 2, 4, 3, 2, 5, 1, 4])
    before, after = simulate(graph, range(10)), simulate(graph, (0, 1, 2, 3, 4, 0, 5, 6, 1, 7, 8, 9))
    arena = search_arena(placing_of(graph, before).buffers, 2)
    buffers = placing_of(graph, after).buffers
    offsets = carried_over(arena, before, buffers, after, 2)
    assert Arena(buffers, offsets, 2).size >= after.peak
    again = carried_over(arena, before, arena.buffers, before, 2)
    assert all(new <= old for new, old in zip(again, arena.offsets, strict=True))  # pushed down, if anything


def test_a_copy_is_carried_over_from_the_one_of_its_stage():
    """Of three copies the second one goes: the third keeps its place, and is not taken for the second."""
    graph = ComputationGraph(range(5), [1] * 5, [2, 3, 3, 3, 1], [(0, 1), (0, 2), (0, 3), (0, 4), (3, 4)])
    before, after = simulate(graph, (0, 1, 0, 2, 0, 3, 4)), simulate(graph, (0, 1, 2, 0, 3, 4))
    arena = Arena(placing_of(graph, before).buffers, (0, 2, 0, 2, 3, 0, 5))
    offsets = carried_over(arena, before, placing_of(graph, after).buffers, after, 1)
    assert [(i.node, at) for i, at in zip(after.intervals, offsets, strict=True)] == [
        (0, 0), (1, 2), (2, 2), (0, 3), (3, 0), (4, 5)
    ]  # fmt: skip


def test_a_strategy_gets_offsets_too():
    instance = Instance.build(u_shape(5, [4] * 10), "1.0", max_computations="unlimited")
    rule = find_strategy("chen-sqrtn-ap")
    result = solve_with_addresses(instance, lambda other, seconds: apply(other, rule, seconds))
    assert isinstance(result.arenas, Arena) and result.strategy == "chen-sqrtn-ap"
    assert result.valid == (result.peak <= instance.budget and result.arenas.size <= instance.budget)
