"""Strategies applied: the judge decides which candidate is the answer, and no candidate is believed."""

import pytest

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.strategies.strategy import Strategy

SKIP = ComputationGraph(tuple("xabcz"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)))
KEEPING, RECOMPUTING, TWICE = (0, 1, 2, 3, 4), (0, 1, 2, 3, 0, 4), (0, 1, 2, 0, 3, 0, 4)


def outcome(budget: int, *candidates, time_limit=None):
    """What comes of these candidates: status, valid, sequence."""
    rule = Strategy("rule", "a rule", "nobody", "nothing", lambda instance, stop: iter(candidates))
    result = apply(Instance.build(SKIP, budget, max_computations="unlimited"), rule, time_limit)
    return result.status, result.valid, result.sequence


def test_the_shortest_within_the_budget_is_the_answer():
    assert outcome(9, KEEPING, TWICE, RECOMPUTING) == ("feasible", True, RECOMPUTING)
    assert outcome(10, RECOMPUTING, KEEPING) == ("optimal", True, KEEPING)


def test_strategies_over_the_budget_report_the_least_peak():
    assert outcome(7, KEEPING, TWICE, RECOMPUTING) == ("over-budget", False, RECOMPUTING)


def test_without_candidates_nothing_is_known():
    assert outcome(8) == ("unknown", False, None)


def test_the_time_limit_ends_between_candidates():
    assert outcome(10, RECOMPUTING, KEEPING, time_limit=1e-9) == ("feasible", True, RECOMPUTING)


def test_strategies_with_invalid_schedules_are_an_error():
    with pytest.raises(JudgeError, match="rule made no schedule: position 2: node c reads node b"):
        outcome(10, (0, 3, 4))


def test_strategies_keep_the_best_schedule_at_an_interrupt():
    def schedules(instance, stop):
        yield RECOMPUTING
        raise KeyboardInterrupt

    rule = Strategy("rule", "a rule", "nobody", "nothing", schedules)
    result = apply(Instance.build(SKIP, 8, max_computations="unlimited"), rule)
    assert (result.interrupted, result.valid, result.sequence) == (True, True, RECOMPUTING)
