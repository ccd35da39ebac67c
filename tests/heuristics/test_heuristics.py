"""Local search: its own account of memory against the simulator's, its schedules against brute force."""

import random

import numpy as np
import pytest
from cases import draw_case, least_duration
from few import few
from overwriting import overwriting
from working import working

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.annealing import Round
from moccasin_mzn.heuristics.staged.search import HOT, INCUMBENT, LocalSearch
from moccasin_mzn.heuristics.staged.state import (
    EXCESS,
    EXTRA,
    NONE,
    add,
    empty_state,
    load,
    problem_of,
    remove,
    sequence_of,
    stages_of,
)
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate


def instance_of(seed, nodes=9, most=3, in_place=False):
    draw = random.Random(seed)
    edges = [(u, v) for v in range(nodes) for u in range(v) if draw.random() < (0.8 if u == v - 1 else 0.3)]
    amounts = [[draw.randint(0, 9) for _ in range(nodes)] for _ in range(2)]
    graph = ComputationGraph(range(nodes), amounts[0], amounts[1], edges)
    graph = working(graph, seed) if seed % 2 else graph
    graph = overwriting(graph, seed) if in_place else graph
    return Instance.build(graph, draw.choice([0.6, 0.7, 0.8, 0.9]), max_computations=most)


def account(instance, sequence):
    """Extra duration, and the sum over stages of the peak over the budget, from the simulator."""
    simulation = simulate(instance.graph, sequence)
    assert {v.kind for v in simulation.violations} == set()
    place = {v: k for k, v in enumerate(instance.order)}
    peaks, stage = [0] * len(instance.order), 0
    for v, memory in zip(sequence, simulation.memory, strict=True):
        peaks[stage] = max(peaks[stage], memory)
        stage += place[v] == stage
    excess = sum(max(0, peak - instance.budget) for peak in peaks)
    return simulation.duration - instance.baseline.duration, excess, peaks


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_the_account_of_a_state_is_the_simulators_after_every_move(seed, in_place):
    instance = instance_of(seed, in_place=in_place)
    problem, draw = problem_of(instance), random.Random(seed)
    state = empty_state(problem)
    for _ in range(60):
        slots = range(len(problem.slot_node))
        if not slots:
            return
        slot = draw.choice(slots)
        v = problem.slot_node[slot]
        taken = set(state.stage[problem.slot_ptr[v] : problem.slot_ptr[v + 1]].tolist())
        free = [k for k in range(v + 1, len(instance.order)) if k not in taken]
        if state.stage[slot] != NONE:
            remove(problem, state, slot)
        elif free:
            add(problem, state, slot, draw.choice(free))
        extra, excess, peaks = account(instance, sequence_of(instance, problem, state.stage))
        assert (state.totals[EXTRA], state.totals[EXCESS]) == (extra, excess)
        assert state.peak.tolist() == peaks


@pytest.mark.parametrize("seed", range(20))
def test_stages_and_sequences_are_each_others_inverse(seed):
    instance = instance_of(seed)
    problem, draw = problem_of(instance), random.Random(seed)
    stages = np.full(len(problem.slot_node), NONE, np.int64)
    for v in range(len(instance.order)):
        slots = range(problem.slot_ptr[v], problem.slot_ptr[v + 1])
        later = range(v + 1, len(instance.order))
        count = min(len(slots), len(later), draw.randint(0, 2))
        for slot, k in zip(slots, sorted(draw.sample(later, count)), strict=False):
            stages[slot] = k
    sequence = sequence_of(instance, problem, stages)
    assert stages_of(instance, problem, sequence).tolist() == stages.tolist()
    state = empty_state(problem)
    load(problem, state, stages)
    load(problem, state, np.full_like(stages, NONE))
    assert state.peak.tolist() == list(instance.baseline.memory)


def test_recomputations_without_a_slot_are_left_out():
    graph = ComputationGraph(range(4), [1] * 4, [2, 0, 2, 2], [(0, 1), (1, 2), (2, 3), (0, 3)])
    instance = Instance.build(graph, 4, max_computations=2)
    problem = problem_of(instance)
    assert problem.slot_node.tolist() == [0, 2]
    stages = stages_of(instance, problem, (0, 1, 0, 1, 2, 0, 1, 2, 2, 3))  # 1 has no memory, 0 and 2 may come once more
    assert stages.tolist() == [2, 3]


def incumbents(instance, seed, rounds=3):
    found = []
    LocalSearch(instance, seed).run(found.append, lambda: False, max_rounds=rounds)
    return found


@pytest.mark.full
@pytest.mark.parametrize("seed", few(range(3), keep=1))
def test_incumbents_are_valid_better_and_better_and_the_same_for_a_seed(seed):
    instance = instance_of(seed, nodes=30, most=4)
    found = incumbents(instance, seed)
    durations = [judge(instance.graph, sequence, instance.budget).duration for sequence in found]
    assert all(judge(instance.graph, sequence, instance.budget).feasible for sequence in found)
    assert durations == sorted(durations, reverse=True)
    assert found == incumbents(instance, seed)


@pytest.mark.full
@pytest.mark.parametrize("cases", few([60, 12], keep={12}, mark=pytest.mark.slow))
def test_staged_annealing_finds_the_optimum_of_small_cases_and_never_beats_it(cases):
    reached = feasible = 0
    for seed in range(cases):
        case = draw_case(seed)
        instance = Instance.build(case.graph, case.budget, max_computations=case.max_computations)
        if instance.baseline.peak <= case.budget:
            continue
        least = least_duration(case, "staged")
        durations = [judge(case.graph, found, case.budget).duration for found in incumbents(instance, seed, 2)]
        feasible += least is not None
        if durations:
            assert least is not None and durations[-1] >= least
            reached += durations[-1] == least
    assert reached == feasible > cases // 6


def test_staged_annealing_continues_from_better_schedules_and_ends_when_asked():
    instance = next(i for i in map(instance_of, range(100)) if incumbents(i, 0, rounds=2))
    (*_, best) = incumbents(instance, 0, rounds=2)
    offered = [best]
    found = []
    search = LocalSearch(instance, 1)
    search.run(found.append, lambda: False, lambda duration: offered.pop() if offered else None, max_rounds=1)
    assert search.duration == simulate(instance.graph, best).duration
    assert not found
    asked = []
    LocalSearch(instance, 1).run(found.append, lambda: asked.append(1) or len(asked) > 2)
    assert len(asked) < 6


def test_within_stages_nothing_is_done_without_a_schedule_to_begin_with():
    found = []
    LocalSearch(instance_of(0), 1, within=(2, 4)).run(found.append, lambda: False)
    assert not found


@pytest.mark.full
@pytest.mark.parametrize(("name", "fraction", "tdi_percent"), few([("n100", 0.8, 2.296), ("n250", 0.9, 0.904)], keep=1))
def test_published_graphs_to_the_known_optimum(shared, name, fraction, tdi_percent):
    graph = read_graph(shared / "data" / f"random_layered_{name}.json")
    instance = Instance.build(graph, fraction)
    (*_, best) = incumbents(instance, 1, rounds=6)
    duration = judge(graph, best, instance.budget).duration
    assert round(100 * (duration / instance.baseline.duration - 1), 3) == tdi_percent


def test_staged_annealing_moves_keep_to_the_size_of_the_undo_log():
    """A chain of 400 recomputations in one stage, of which each but the last is read by the next only."""
    n = 402
    edges = [*((v, v + 1) for v in range(n - 2)), (0, n - 1), (n - 3, n - 1), (n - 2, n - 1)]
    graph = ComputationGraph(range(n), [1] * n, [1] * n, edges)
    search = LocalSearch(Instance.build(graph, 2))
    rows = len(search._trail)
    search._trail = np.full((8 * rows, 2), -7, np.int64)[:rows]
    sentinel = search._trail.base
    chain = stages_of(search.instance, search._problem, (*range(n - 1), *range(n - 2), n - 1))
    search._round(Round(INCUMBENT, HOT, 20_000), chain, lambda sequence: None, lambda: False)
    assert (sentinel[rows:] == -7).all()


def test_staged_annealing_keeps_the_price_of_memory_finite_where_nothing_fits():
    graph = ComputationGraph(range(4), [1] * 4, [5] * 4, [(0, 3), (1, 3), (2, 3)])
    search = LocalSearch(Instance.build(graph, 19))
    asked = []
    search.run(lambda sequence: None, lambda: asked.append(1) or len(asked) > 300)
    assert np.isfinite(search._control[:2]).all()
