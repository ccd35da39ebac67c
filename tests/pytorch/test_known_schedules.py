"""Answers to several budgets from what searches of any quality have found."""

from __future__ import annotations

import random

import pytest

from moccasin_mzn.pytorch.compiling import KnownSchedule, KnownSchedules


def schedule(duration, peak, **proven):
    return KnownSchedule((duration, peak), duration, peak, **proven)


@pytest.mark.parametrize("seed", range(200))
def test_no_peak_rises_where_the_budget_falls(seed):
    chance, known, last = random.Random(seed), KnownSchedules(), {}
    for _ in range(30):
        budget = chance.randrange(1, 20)
        limit = known.limit(budget)
        assert limit <= budget
        for _ in range(chance.randrange(3)):  # a search finds something within the limit, now and then too much
            known.found.append(schedule(chance.randrange(1, 50), chance.randrange(1, limit + 2)))
        answer = known.answer(budget)
        assert (answer is None) == (not any(each.peak <= limit for each in known.found))
        if answer is not None:
            last[budget] = answer.peak
            assert answer.peak <= budget
        peaks = [last[each] for each in sorted(last)]
        assert peaks == sorted(peaks)


def test_the_least_duration_answers_then_the_least_peak():
    known = KnownSchedules([schedule(10, 90), schedule(12, 50), schedule(12, 40), schedule(20, 30)])
    assert [known.answer(budget).sequence for budget in (100, 60, 39)] == [(10, 90), (12, 40), (20, 30)]
    assert known.answer(29) is None


def test_what_a_smaller_budget_found_answers_a_larger_one_too():
    known = KnownSchedules([schedule(12, 55)])
    assert known.answer(50) is None
    known.found.append(schedule(10, 48))
    assert known.answer(50).peak == known.answer(60).peak == 48


def test_a_larger_budget_that_was_answered_with_little_binds_the_smaller_ones():
    known = KnownSchedules([schedule(10, 45)])
    assert known.answer(60).peak == 45
    assert known.limit(50) == 45
    known.found.append(schedule(9, 49))
    assert known.answer(50).peak == 45


def test_what_is_proven_is_not_sought_again():
    known = KnownSchedules([schedule(5, 100), schedule(10, 45, bound=10, within=60)])
    assert known.settled(60) and known.settled(45)
    assert not known.settled(44)  # nothing fits
    assert not known.settled(70)
    known.found.append(schedule(12, 30, bound=11, within=44))
    assert not known.settled(44)
