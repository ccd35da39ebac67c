"""Platforms, goals and options reject nonsense at birth, and what is known of all plans without a search."""

from __future__ import annotations

from fractions import Fraction

import pytest
from platform_support import DIAMOND, PLAN, A, compute, platform, read, write

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.instance import Instance, pruned_plan
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem, least_total, why_impossible
from moccasin_mzn.problem.platform import Goal, Link, Memory, Platform, scaled
from moccasin_mzn.search.options import SearchOptions

COSTS = (1, 1, 1, 1)
LOCAL = Memory("local", 10, COSTS)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Memory("", 1), "memory '': expected a printable name"),
        (lambda: Memory("m", -1), "memory m: budget -1 is not an amount of memory"),
        (lambda: Memory("m", 1, (1, -2)), r"memory m: durations\[1\]: -2 is not an integer of 0 or more"),
        (lambda: Memory("m", 1, (1, None), (1, 1)), "memory m: energies and durations must be there for the same"),
        (lambda: Link(0, 1, (1, 0.5), (0, 0)), r"copies durations\[1\]: 0.5 is not an integer of 0 or more"),
        (lambda: Link(0, 1, (2**52, 2**52 + 1), (0, 0)), r"copies durations sum to \d+, over the limit 2\*\*53"),
        (lambda: Link(0, 1, (0, 0), 5), "copies energies: expected a sequence, got 5"),
        (lambda: Memory("m", 1, (2**53, None, 1)), r"memory m: durations sum to \d+, over the limit 2\*\*53"),
        (lambda: Memory("m", 1, (1, 1), (1, 2**53)), r"memory m: energies sum to \d+, over the limit 2\*\*53"),
        (lambda: Memory(5, 1), "memory 5: expected a printable name"),
        (lambda: Platform(DIAMOND, ()), "memories none: expected at least one"),
        (lambda: Platform(DIAMOND, (LOCAL, LOCAL)), "memories local, local: expected at least one, each with its own"),
        (lambda: Platform(DIAMOND, (Memory("m", 1, (1,)),)), "memory m: 1 durations for 4 nodes"),
        (lambda: Platform(DIAMOND, (Memory("m", 1, (1, 1, None, 1)),)), "node c cannot be computed in any of m"),
        (lambda: Platform(DIAMOND, (LOCAL,), (Link(0, 1, COSTS, COSTS),)), "link 0 -> 1: expected two of 1 memories"),
        (lambda: Platform(DIAMOND, (LOCAL, Memory("s", 1)), (Link(0, 1, COSTS, COSTS),) * 2), "link local -> s twice"),
        (lambda: Platform(DIAMOND, (LOCAL, Memory("s", 1)), (Link(0, 1, (1,), (1,)),)), "expected 4 durations"),
        (lambda: Goal("speed"), "unknown objective 'speed', expected one of duration, energy, traffic"),
        (lambda: Goal(max_energy=-1), "max energy -1 is not an integer of 0 or more"),
        (lambda: SearchOptions(solver="a,a"), "solver 'a,a': a is named twice"),
        (lambda: SearchOptions(search="some"), "unknown search 'some'"),
        (lambda: SearchOptions(time_limit=0), "time limit 0 is not a positive number of seconds"),
    ],
)
def test_platforms_and_goals_reject_wrong_values(make, message):
    with pytest.raises(InputError, match=message):
        make()


def test_costs_are_rounded_up():
    assert scaled([0, 1, 2, 3], Fraction(1, 2), 10) == (10, 11, 11, 12)


def problem(budget: int, **goal) -> PlanProblem:
    return PlanProblem(Instance.build(DIAMOND, budget), platform(budget), Goal(**goal))


def test_platform_has_least_totals():
    assert [least_total(platform(), what) for what in ("duration", "energy", "traffic")] == [10, 26, 0]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (problem(11), "node b alone needs 12 for its inputs and its output, 1 over the largest budget 11"),
        (problem(12, max_duration=9), "every node computed once has duration 10, 1 over the limit 9"),
        (problem(12, max_energy=25), "every node computed once has energy 26, 1 over the limit 25"),
    ],
)
def test_what_is_impossible_at_once(asked, reason):
    assert why_impossible(asked).startswith(reason)


def test_what_may_be_possible_is_not_called_impossible():
    assert why_impossible(problem(12, max_duration=10, max_energy=26, max_traffic=0)) is None


def test_intervals_are_counted_by_memory():
    asked = problem(12)
    assert asked.out_of_scope(PLAN) is None
    assert asked.out_of_scope((*PLAN, read(A))) == "node a has 3 retention intervals in local, at most 2 allowed"
    assert asked.out_of_scope((*PLAN, write(A))) == "node a has 2 retention intervals in slow, at most 1 allowed"


def test_what_nothing_reads_is_pruned():
    with_waste = (compute(A), write(A), compute(A), *PLAN[2:4], compute(A), *PLAN[4:], read(A))
    pruned = pruned_plan(platform(), with_waste)
    assert pruned == (compute(A), write(A), compute(A), *PLAN[2:])
    assert judge_plan(platform(), pruned).feasible
    assert pruned_plan(platform(), PLAN) == PLAN
