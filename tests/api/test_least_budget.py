"""The least budget: as small as brute force goes on tiny graphs, and refused where it is no peak."""

from __future__ import annotations

import oracle
import pytest
from cases import draw_case
from few import few
from test_tiling import GRAPH as IMAGES
from test_tiling import WHOLE

import moccasin_mzn as mz
from moccasin_mzn.problem.judges.schedules import simulate


def least_feasible(graph, most: int) -> int:
    """The smallest budget with a schedule in the order of the nodes, and the duration of the shortest one."""
    order = graph.input_order()
    budgets = range(simulate(graph, order).peak + 1)
    return next(b for b in budgets if oracle.best_fixed_order(graph, order, b, most) is not None)


@pytest.mark.parametrize("seed", range(3))
def test_the_least_budget_is_that_of_brute_force(seed):
    graph = draw_case(9100 + seed, 6).graph
    found = mz.solve(graph, "least", time_limit=5, threads=1, seed=0, if_none="stop", search="only")
    budget = least_feasible(graph, 2)
    assert found.valid and found.peak == found.budget == budget
    assert found.duration == oracle.best_fixed_order(graph, graph.input_order(), budget, 2)
    assert found.notes[0].startswith("budget: ")


def test_the_least_budget_of_any_order_is_no_larger_than_that_of_one():
    graph = draw_case(9103, 6).graph
    found = mz.solve(graph, "least", order="free", max_computations=2, time_limit=3, threads=1, seed=0, search="only")
    assert found.valid and found.budget <= least_feasible(graph, 2)


@pytest.mark.parametrize("tile", few(["auto", 1], [1]))
def test_parts_need_less_than_layers(tile):
    found = mz.solve(IMAGES, "least", tile=tile, time_limit=8, threads=1, seed=0, search="only")
    assert found.valid and found.budget < WHOLE / 2 and found.graph.parts is not None
    assert found.notes[0].endswith(" by these parts") and found.notes[1].startswith("tiling: ")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "dtr"}, "budget least is for one memory and for searches: give an amount or a fraction"),
        ({"paging": {"out_time": 1}}, "budget least is for one memory and for searches: give an amount or a fraction"),
        ({"addresses": True}, "budget least is for peaks: with addresses give an amount or a fraction"),
        ({"iterations": 5}, "budget least is sought by the clock: leave out iterations"),
    ],
)
def test_where_there_is_no_least_budget(options, message):
    options = options if "strategy" in options or "paging" in options else {"search": "only", **options}
    if "iterations" in options:
        options = {"search": "only", "stop": mz.stop.Iterations(5)}
    with pytest.raises(mz.InputError) as caught:
        mz.solve(draw_case(9100, 6).graph, "least", **options)
    assert str(caught.value) == message


@pytest.mark.full
def test_a_frontier_of_parts():
    found = mz.frontier(IMAGES, tile=2, points=3, time_limit=4, threads=1, seed=0, search="only")
    assert found.graph.parts is not None and found.least_peak < WHOLE
    assert all(point.duration is not None for point in found.points)
    with pytest.raises(mz.InputError, match="^tile auto is for one budget: "):
        mz.frontier(IMAGES, tile="auto", points=2, time_limit=1)
    with pytest.raises(mz.InputError, match="^tile is for one memory"):
        mz.frontier(IMAGES, tile=2, paging={"out_time": 1})
