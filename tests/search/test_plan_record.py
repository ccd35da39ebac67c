"""The record of a search for plans believes nobody but the judge."""

from __future__ import annotations

import random
import time
from dataclasses import replace

import device_cases
import paging_cases
import pools_cases
import pytest
from cases import draw_case
from platform_support import DIAMOND, PLAN, compute, platform

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, plan_of_sequence
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.searchers.along import pass_on

SHORT = plan_of_sequence(range(4))


@pytest.fixture
def record() -> Board:
    problem = PlanProblem(Instance.build(DIAMOND, 14), platform(14), Goal(max_traffic=16))
    return Board(problem, time.monotonic(), formulation=PagingFormulation())


def test_the_best_plan_is_kept(record):
    assert (record.bound, record.value, record.gap) == (10, None, None)
    record.offer(PLAN, "one")
    assert (record.value, record.found_by) == (120, "one")
    assert not record.ended.is_set()
    record.offer(SHORT, "two")
    record.offer(PLAN, "three")
    assert (record.answer, record.value, record.found_by) == (SHORT, 10, "two")
    assert record.ended.is_set()
    assert [(point.value, point.bound, point.source) for point in record.trace] == [(120, 10, "one"), (10, 10, "two")]
    assert record.news.get().answer == PLAN


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (SHORT[:3], "node d is never computed"),
        ((*PLAN, compute(0)), "node a has 3 retention intervals in local, at most 2 allowed"),
        ((*SHORT[:2], *SHORT[1::-1], *SHORT[2:]), "position 4: node a is out of place in stages of the input order"),
    ],
)
def test_what_is_no_solution_is_an_error_of_whoever_offers_it(record, plan, message):
    with pytest.raises(JudgeError, match=f"somebody returned a schedule that the simulator rejects: {message}"):
        record.offer(plan, "somebody")


def test_a_bound_above_a_plan_is_an_error(record):
    record.offer(PLAN, "one")
    record.improve_bound(120, "two")
    with pytest.raises(JudgeError, match="two claims that no schedule has less duration than 121, but the simulator"):
        record.improve_bound(121, "two")


def test_a_plan_below_a_bound_is_an_error(record):
    record.improve_bound(11, "one")
    with pytest.raises(JudgeError, match="one claims that no schedule has less duration than 11, .* accepts 10 of two"):
        record.offer(SHORT, "two")


def test_a_plan_after_a_refutation_is_an_error(record):
    record.refute("one")
    with pytest.raises(JudgeError, match="one claims that there is no schedule"):
        record.offer(SHORT, "two")


def problems(seed: int):
    """One of each kind."""
    yield Instance.build(draw_case(seed, 5).graph, "100%")
    yield from (cases.draw_problem(seed) for cases in (device_cases, paging_cases))
    yield pools_cases.draw_pools(seed)


@pytest.mark.parametrize("seed", range(20))
def test_bounds_before_any_schedule_stay_inside_a_search(seed):
    """Along one order they prove nothing of others, and their figures have no peak."""
    rng = random.Random(seed)
    for problem in problems(seed):
        inner, outer = Board(problem, time.monotonic()), Board(problem, time.monotonic())
        bound = outer.bound
        for _ in range(rng.randint(1, 3)):
            inner.improve_bound(inner.bound + rng.randint(1, 5), "somebody")
        while not inner.news.empty():
            pass_on(inner.news.get(), outer, "along")
        assert (outer.bound, outer.least_peak, outer.news.empty()) == (bound, None, True)


@pytest.mark.parametrize("seed", range(20))
def test_peaks_over_the_budget_are_reported_where_there_is_one_memory(seed):
    instance = replace(Instance.build(draw_case(seed, 5).graph, "100%"), budget=0)
    inner, outer = Board(instance, time.monotonic()), Board(instance, time.monotonic())
    inner.offer(instance.order, "somebody", "peak")
    if instance.baseline.peak:
        pass_on(inner.news.get(), outer, "along")
        assert (outer.least_peak, outer.news.get().source) == (instance.baseline.peak, "along, somebody")
