"""`solve --order free` of tiled graphs: layers stream through memory; it is no worse than `order` at the same limit."""

import pytest
from solving import solve

from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.operators import Operator, Reach, Read
from moccasin_mzn.graphs.tiling.cutting import tile
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate


def branched(side=12, channels=(4, 12, 6, 12, 4)):
    """A chain of 3 x 3 convolutions in rows, the last of which is added to the first."""
    window = Reach(0, 1, 3, 1, 1), Reach(1, 1, 3, 1, 1), None
    operators = [
        Operator("conv", (side, side, of), (Read(at - 1 if at else None, (side, side, before), window),))
        for at, (before, of) in enumerate(zip((1, *channels), channels, strict=False))
    ]
    count, shape, own = len(channels), (side, side, channels[-1]), (Reach(0), Reach(1), Reach(2))
    operators.append(Operator("add", shape, (Read(count - 1, shape, own), Read(0, shape, own))))
    sizes = [each.elements for each in operators]
    edges = [*((at, at + 1) for at in range(count)), (0, count)]
    graph = ComputationGraph(range(count + 1), [9 * size for size in sizes], sizes, edges, operators=operators)
    return tile(graph, rows=1)


def test_the_order_search_has_streaming_orders():
    tiled = branched()
    found = least_peak_order(tiled, seed=0, turns=4)
    assert found.order == least_peak_order(tiled, seed=0, turns=4).order
    assert found.source == "streaming" and simulate(tiled, found.order).peak == found.peak
    assert found.peak < simulate(tiled, tiled.input_order()).peak / 2


def test_what_order_finds_solve_finds_in_the_same_time_and_computes_nothing_twice():
    tiled = branched()
    ordering = least_peak_order(tiled, time_limit=3, seed=1)
    result = solve(tiled, ordering.peak, order="free", max_computations="auto", time_limit=3, seed=1)
    assert result.duration == tiled.total_duration
    assert judge(tiled, result.sequence, ordering.peak).feasible


@pytest.mark.full
def test_within_less_than_every_order_needs_parts_are_computed_again():
    tiled = branched()
    ordering = least_peak_order(tiled, time_limit=5, seed=1)
    budget = ordering.peak - tiled.sizes[0]
    result = solve(tiled, budget, order="free", max_computations="auto", time_limit=20, seed=1)
    assert judge(tiled, result.sequence, budget).feasible
    assert result.duration > tiled.total_duration or ordering.gap_percent > 0


def test_more_computations_than_are_allowed_are_not_offered():
    tiled = branched()
    budget = least_peak_order(tiled, time_limit=2, seed=1).peak
    result = solve(tiled, budget, order="free", max_computations=1, time_limit=3, seed=1)
    assert result.sequence is not None and sorted(result.sequence) == list(range(len(tiled.nodes)))
    assert Instance.build(tiled, budget).baseline.peak > budget
