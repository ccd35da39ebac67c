"""The record of a search for plans believes nobody but the judge."""

from __future__ import annotations

import time

import pytest
from platform_support import DIAMOND, PLAN, compute, platform

from moccasin_mzn.errors import JudgeError
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Goal, plan_of_sequence
from moccasin_mzn.search.board import Board

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
