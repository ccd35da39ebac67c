"""Instances: orders, budgets and counts of computations."""

from dataclasses import replace

import pytest
from solving import solve

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance

#     a -> b -> d
#     a -> c -> d
DIAMOND = ComputationGraph(
    ("a", "b", "c", "d"), (1, 2, 3, 4), (5, 6, 7, 8), ((0, 1), (0, 2), (1, 3), (2, 3)), (0, 2, 1, 3)
)


def test_build_uses_the_order_of_the_file():
    instance = Instance.build(DIAMOND, 1.0)
    assert instance.order == (0, 2, 1, 3)
    assert instance.budget == instance.baseline.peak == 21
    assert instance.max_computations == (2, 2, 2, 2)


def test_topological_order_ignores_the_file():
    assert Instance.build(DIAMOND, 1.0, order="topological").order == (0, 1, 2, 3)


def test_order_from_a_file(tmp_path):
    path = tmp_path / "order.txt"
    path.write_text("a\nb\nc\nd\n")
    assert Instance.build(DIAMOND, 1.0, order=str(path)).order == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"order": (0, 1, 2)}, "order: node d is missing"),
        ({"order": (3, 0, 1, 2)}, "order is not topological: edge b -> d"),
        ({"max_computations": 0}, "max_computations of node a: 0 is not an integer from 1 to 1000"),
        ({"max_computations": [2, 2, 0.5, 2]}, "max_computations of node c: 0.5 is not an integer from 1 to 1000"),
        ({"max_computations": [2]}, "max_computations: 1 value for 4 nodes"),
    ],
)
def test_instance_rejects_wrong_arguments_by_name(arguments, message):
    with pytest.raises(InputError, match=message):
        Instance.build(DIAMOND, 20, **arguments)


def test_a_budget_may_be_for_fixed_memory_too():
    graph = replace(DIAMOND, fixed_memory={"parameters": 9, "optimizer": 10})
    assert Instance.build(graph, 30).budget == 30
    counted = Instance.build(graph, 30, count_fixed=True)
    assert (counted.budget, counted.fixed) == (11, 19)
    assert Instance.build(graph, 0.5, count_fixed=True).budget == 1  # half of 21 + 19


def test_fixed_memory_alone_over_the_budget_is_an_answer():
    graph = replace(DIAMOND, fixed_memory={"parameters": 9})
    result = solve(graph, 8, count_fixed=True)
    assert result.status == "infeasible"
    assert result.reason == (
        "node d alone needs 21 for its inputs and its output, 22 over the budget -1, which fixed memory of 9 leaves"
    )
