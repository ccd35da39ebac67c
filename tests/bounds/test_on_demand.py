"""Schedules by construction: within the budget wherever that is enough, and never with more than is allowed."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from cases import draw_case

from moccasin_mzn.bounds.least_budget import enough_budget
from moccasin_mzn.bounds.on_demand import on_demand, with_any_computations
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge


@pytest.mark.parametrize("seed", range(20))
def test_what_is_enough_is_enough(seed):
    graph = draw_case(5000 + seed, 9).graph
    instance = Instance.build(graph, max(1, enough_budget(graph)))
    sequence = on_demand(with_any_computations(instance))
    assert sequence is not None and judge(graph, sequence, instance.budget).feasible
    few = on_demand(instance)
    assert few is None or (judge(graph, few, instance.budget).feasible and max(Counter(few).values()) <= 2)
    assert on_demand(replace(instance, budget=graph.largest_working_set().memory - 1)) is None


def test_what_may_be_computed_once_is_not_recomputed():
    """x(4) -> a(1) -> A(8) -> b(1) with x -> b fits 10 if x is recomputed, 13 if it stays."""
    graph = ComputationGraph(("x", "a", "A", "b"), (1,) * 4, (4, 1, 8, 1), ((0, 1), (1, 2), (2, 3), (0, 3)))
    budget = graph.largest_working_set().memory
    wide = ComputationGraph(
        ("x", "a", "A", "p", "b"), (1,) * 5, (4, 1, 8, 1, 1), ((0, 1), (1, 2), (2, 3), (3, 4), (0, 4))
    )
    assert budget == 13 and on_demand(Instance.build(graph, 12)) is None
    assert on_demand(Instance.build(wide, 10)) == (0, 1, 2, 3, 0, 4)
    once = replace(wide, computed_once=("x",))
    assert on_demand(with_any_computations(Instance.build(once, 10))) is None
    assert on_demand(Instance.build(once, 13)) == (0, 1, 2, 3, 4)
