"""Points and fronts reject what cannot be, and say who is dominated."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stairs import GRAPH

from moccasin_mzn.api.frontier.points import Frontier, FrontierPoint
from moccasin_mzn.base.errors import InputError

SMALL = FrontierPoint(10, 50, 45, 9, (0, 1, 0), "feasible")
MIDDLE = FrontierPoint(15, 50, 45, 9, (0, 1, 0), "feasible")
LARGE = FrontierPoint(20, 40, 40, 18, (0, 1), "optimal")
NONE = FrontierPoint(5, None, 50, None, None, "infeasible")


def front(*points, **options):
    return Frontier(GRAPH, points, 20, 40, **{"least_bound": 6, "least_found": 9, **options})


def test_the_dominated_are_dropped():
    whole = front(NONE, SMALL, MIDDLE, LARGE)
    assert whole.pareto() == (SMALL, LARGE)
    assert (whole.proven, whole.found) == (2, (SMALL, MIDDLE, LARGE))
    assert (whole.budget_percent(10), whole.increase_percent(50)) == (50, 25)
    assert [point.gap_percent for point in whole.points] == [None, 10, 10, 0]


def test_zero_memory_and_zero_duration():
    point = FrontierPoint(0, 0, 0, 0, (0, 1), "optimal")
    empty = Frontier(GRAPH, (point,), 0, 0, 0, 0)
    assert (empty.budget_percent(0), empty.increase_percent(0), point.gap_percent) == (100, 0, 0)


@pytest.mark.parametrize(
    ("point", "change", "message"),
    [
        (SMALL, {"peak": 11}, "budget 10: the schedule has a peak of 11"),
        (SMALL, {"bound": 51}, "budget 10: duration 50 is below the bound 51"),
        (SMALL, {"bound": 50}, "budget 10: feasible with 50, bound 50"),
        (LARGE, {"bound": 39}, "budget 20: optimal with 40, bound 39"),
        (SMALL, {"status": "good"}, "budget 10: unknown status 'good'"),
        (SMALL, {"status": "unknown"}, "budget 10: unknown, but the schedule does not go with that"),
        (SMALL, {"sequence": None}, "budget 10: feasible, but the schedule does not go with that"),
        (NONE, {"status": "optimal"}, "budget 5: optimal, but the schedule does not go with that"),
    ],
)
def test_damaged_points(point, change, message):
    with pytest.raises(InputError, match=message):
        replace(point, **change)


@pytest.mark.parametrize(
    ("points", "options", "message"),
    [
        ((LARGE, SMALL), {}, "budgets 20 and 10: not in ascending order"),
        ((SMALL, SMALL), {}, "budgets 10 and 10: not in ascending order"),
        (
            (SMALL, replace(LARGE, duration=51, bound=51)),
            {},
            "budgets 10 and 20: with more memory the schedule is longer",
        ),
        ((replace(SMALL, bound=39), LARGE), {}, "budgets 10 and 20: with more memory the bound is higher"),
        ((SMALL, replace(NONE, budget=12)), {}, "budgets 10 and 12: with more memory the schedule is longer"),
        (
            (FrontierPoint(4, None, 50, None, None, "unknown"), NONE),
            {},
            "budgets 4 and 5: with more memory nothing fits",
        ),
        ((SMALL,), {"least_bound": 10}, "a peak of 9 is below the least budget 10"),
    ],
)
def test_damaged_frontiers(points, options, message):
    with pytest.raises(InputError, match=message):
        front(*points, **options)
