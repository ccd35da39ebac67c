"""Strategies applied: the judge decides which candidate is the answer, and no candidate is believed."""

import pytest
from few import few
from tight_graphs import drawn

import moccasin_mzn as mz
from moccasin_mzn.api.question import Question
from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.graphs.generators.catalogue import generate_network
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.orders.least_peak import good_orders
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.strategies import find_strategy
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


@pytest.mark.parametrize("seed", few(range(40), keep=4))
@pytest.mark.parametrize("strategy", ["dtr", "chen-greedy-ap", "keep-all"])
def test_in_any_order_a_strategy_is_applied_along_several(seed, strategy):
    """The best of all of them, each of which is what it makes in that order by itself."""
    graph = drawn(f"along {seed}", 7)
    budget = max(graph.working_sets) + seed % 3
    found = mz.solve(graph, budget, order="free", strategy=strategy)
    along = [graph.input_order(), *good_orders(graph, seed=0, start=graph.input_order(), windows=20, tries=3)]
    alone = [mz.solve(graph, budget, order=list(order), strategy=strategy) for order in along]
    within = [one.duration for one in alone if one.valid]
    assert found.valid == bool(within) and (not within or found.duration == min(within))
    assert found.valid or found.peak == min((one.peak for one in alone if one.peak is not None), default=None)


@pytest.mark.parametrize("seed", few(range(20), keep=3))
def test_iterations_of_a_strategy_are_schedules_that_it_makes(seed):
    graph = drawn(f"count {seed}", 8)
    budget, rule = max(graph.working_sets) + seed % 3, find_strategy("chen-greedy-ap")
    instance = Instance.build(graph, budget, max_computations="unlimited")
    made = list(rule.schedules(instance, lambda: False))
    for count in (1, 2, len(made) + 1):
        found = mz.solve(graph, budget, strategy=rule.name, stop=mz.stop.Iterations(count))
        judged = [judge(graph, sequence, budget) for sequence in made[:count]]
        within = [one.duration for one in judged if one.feasible]
        assert found.valid == bool(within) and (not within or found.duration == min(within))


def test_parts_of_a_strategy_keep_the_order_or_not_as_asked():
    images = generate_network("mobilenet", batch=1)
    for order, free in (("input", False), ("free", True)):
        request = Question.of({"budget": 0.5, "tile": 56, "strategy": "dtr", "order": order}).request(images)
        assert request.problem.free_order == free
