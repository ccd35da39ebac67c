"""Schedules with computations at their end that are of no use: dropped, and never a place for a search to begin."""

import random
from collections import Counter
from pathlib import Path

import pytest
from few import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from script_loading import load_script
from strategies import graphs, valid_sequences

from moccasin_mzn.api.solve import solve_instance
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.windows import Incumbent
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.heuristics.staged.state import NONE, problem_of, sequence_of, stages_of
from moccasin_mzn.machine.data import StageSlots, stages_of_plan
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.machine.paging.search import problem_of as paging_problem_of
from moccasin_mzn.machine.paging.search import set_of
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance, without_tail
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.options import Options

fuzz = load_script("fuzz_compiled")
DATA = Path(__file__).resolve().parents[2] / "data"

# x is read by a and again by z, across the wide b.
SKIP = ComputationGraph(
    tuple("xabcz"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)), order=tuple(range(5))
)
AGAIN = (0, 1, 2, 3, 0, 4)
TAIL = (*AGAIN, 0, 1, 2, 3)
UNET = [*range(39), 23, 39, 40, 41, 42, 19, 43, 44, 45, 46, 15, 47, 48, 49, 50, 11, 51, 52, 53, 8, 54, 55, 56, 5, 57,
        58, 59, 2, 60, 61, 0, 62]  # fmt: skip
"""A schedule of the U-Net at 80 % of its peak."""
USELESS = [1, 3, 4, 6, 7, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 27]


def unet():
    return Instance.build(read_graph(DATA / "unet_training.json"), 0.8)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("instance", "start", "useful"),
    [(Instance.build(SKIP, 8, max_computations=3), TAIL, AGAIN), (unet(), [*UNET, *USELESS], tuple(UNET))],
)
def test_a_warm_start_with_useless_computations_at_its_end_is_gone_on_from(instance, start, useful):
    find_formulation("staged").check_start(instance, start)
    problem = problem_of(instance)
    stages = stages_of(instance, problem, start)
    assert max(stages) < len(instance.order)
    assert sequence_of(instance, problem, stages) == useful
    longest = simulate(instance.graph, useful).duration
    looks = iter(range(3))
    search = LocalSearch(instance)
    search.run(lambda sequence: None, lambda: next(looks, None) is None, lambda duration: start)
    assert search.duration <= longest
    for free in (False, True):
        asked = Instance(instance.graph, instance.order, instance.budget, instance.max_computations, free_order=free)
        result = solve_instance(asked, Options(search="only", time_limit=0.2), warm_start=start)
        assert result.valid and result.duration <= longest
        assert result.sequence == without_tail(result.sequence)


def test_computations_at_the_end_count_as_computations():
    with pytest.raises(InputError, match="warm start: node x is computed 3 times, at most 2 allowed"):
        find_formulation("staged").check_start(Instance.build(SKIP, 8), TAIL)


@settings(max_examples=examples(100))
@given(st.data())
def test_a_record_keeps_the_schedule_without_its_tail(data):
    graph = data.draw(graphs(workspaces=True))
    sequence = data.draw(valid_sequences(graph))
    tail = tuple(data.draw(st.lists(st.integers(0, len(graph.nodes) - 1), max_size=5)))
    budget = max(1, simulate(graph, sequence + tail).peak)
    record = Board(Instance.build(graph, budget, max_computations=20), 0.0)
    told = record.offer(sequence + tail, "somebody")
    assert told.duration == simulate(graph, sequence + tail).duration
    assert record.answer == without_tail(sequence) == without_tail(sequence + tail)
    assert record.simulation == judge(graph, record.answer, budget)
    assert record.simulation.feasible and record.value <= told.duration
    assert set(record.answer) == set(range(len(graph.nodes)))
    assert record.answer[-1] not in record.answer[:-1]


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32))
def test_the_stages_of_a_schedule_with_useless_computations_are_stages(seed):
    question = fuzz.draw_question(random.Random(seed), staged=True)
    instance, start = question.instance, question.start
    if start is None:
        return
    problem, n = problem_of(instance), len(instance.order)
    stages = stages_of(instance, problem, start)
    used = stages != NONE
    assert ((problem.slot_node < stages) & (stages < n))[used].all()
    sequence = sequence_of(instance, problem, stages)
    assert first_out_of_stage(instance.order, sequence) is None
    paging = PlanProblem(instance, paging_platform(instance.graph, instance.budget, PagingCosts()))
    again, back = set_of(instance, paging_problem_of(paging), plan_of_sequence(start))
    assert again.tolist() == stages.tolist() and not back.any()
    least = judge(instance.graph, sequence, instance.budget)
    assert least.feasible and least.duration <= simulate(instance.graph, start).duration


@settings(max_examples=examples(25))
@given(st.integers(0, 2**32), st.booleans())
def test_a_search_is_never_worse_than_its_warm_start(seed, staged):
    question = fuzz.draw_question(random.Random(seed), staged)
    if question.start is None:
        return
    result = solve_instance(question.instance, Options(search="only", time_limit=0.05), warm_start=question.start)
    assert result.valid and result.duration <= simulate(question.instance.graph, question.start).duration
    assert judge(question.instance.graph, result.sequence, question.instance.budget).feasible
    counts = Counter(result.sequence)
    assert all(count <= question.instance.max_computations[v] for v, count in counts.items())


def test_after_the_last_stage_there_is_nothing():
    order = tuple(range(5))
    assert first_out_of_stage(order, AGAIN) is None
    assert first_out_of_stage(order, TAIL) == 7
    instance = Instance.build(SKIP, 8, max_computations=3)
    alone = StageSlots.of(PlanProblem(instance, instance.platform))
    assert len(stages_of_plan(alone, plan_of_sequence(AGAIN))) == 6
    assert len(stages_of_plan(alone, plan_of_sequence(TAIL))) == 6
    assert Incumbent(instance, AGAIN).duration == 14
    with pytest.raises(InputError, match="not in stages"):
        Incumbent(instance, TAIL)


def test_a_plan_to_start_from_is_taken_without_its_tail():
    instance = Instance.build(SKIP, 8, max_computations=3)
    problem = PlanProblem(instance, paging_platform(SKIP, 8, PagingCosts()))
    assert PagingFormulation().check_start(problem, plan_of_sequence(TAIL)) == plan_of_sequence(AGAIN)
    with pytest.raises(InputError, match="^warm start: position 6: node x is out of place in stages"):
        PagingFormulation().check_start(problem, plan_of_sequence((0, 1, 2, 3, 3, 0, 4)))
    with pytest.raises(InputError, match="^warm start: node x has 4 retention intervals in local, at most 3 allowed"):
        PagingFormulation().check_start(problem, plan_of_sequence((*TAIL, 0)))
