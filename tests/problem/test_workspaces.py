"""Workspaces by the definition: what brute force, presolve and bounds know of them, and what stands for them."""

from __future__ import annotations

from dataclasses import replace

import oracle
import pytest
from cases import draw_case
from few import few
from working import as_nodes

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bench.matrix import graph_digest
from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.bounds.least_budget import least_budget_bound, retained_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.stages import Stages

GRAPH = ComputationGraph(["a", "b"], [1, 1], [2, 3], [(0, 1)], labels=["in", "conv"], workspaces=[0, 5])


@pytest.mark.parametrize("first_seed", few(range(0, 200, 10), keep=2))
def test_schedules_of_brute_force_are_the_judges_and_no_bound_is_above_them(first_seed):
    for seed in range(first_seed, first_seed + 10):
        case = draw_case(seed, most_nodes=5, workspaces=True)
        graph, budget, most = case.graph, case.budget, case.max_computations
        instance = Instance.build(graph, budget, max_computations=most)
        stages = Stages.of(instance)
        staged = oracle.fixed_order_schedule(graph, instance.order, budget, most)
        free = oracle.free_order_schedule(graph, budget, most)
        for best in filter(None, (staged, free)):
            simulation = judge(graph, best.sequence, budget)
            assert simulation.feasible and simulation.duration == best.duration
        assert free is None or least_budget_bound(graph).memory <= budget
        if staged is not None:
            assert retained_bound(instance) <= budget
            assert (stages.baseline + cover_bound(stages)) * stages.duration_scale <= staged.duration


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("first_seed", few(range(0, 100, 5), keep=1))
def test_in_any_order_a_workspace_is_a_node_that_is_computed_right_before(first_seed, most):
    """In stages that is another problem: each such node is a stage more, before which recomputations may come. Budgets
    from the least working set to the peak."""
    for seed in range(first_seed, first_seed + 5):
        graph = draw_case(seed, most_nodes=4, workspaces=True).graph
        nodes, order = as_nodes(graph), graph.input_order()
        least, peak = graph.largest_working_set().memory, simulate(graph, order).peak
        assert simulate(nodes, nodes.input_order()).peak == peak
        for budget in {least - 1, least, (least + peak) // 2, peak - 1, peak}:
            assert oracle.best_free_order(graph, budget, most) == oracle.best_free_order(nodes, budget, most)
            in_stages = oracle.best_fixed_order(graph, order, budget, most)
            with_more_stages = oracle.best_fixed_order(nodes, nodes.input_order(), budget, most)
            assert in_stages is None or with_more_stages <= in_stages


def test_in_stages_a_node_for_a_workspace_would_allow_more():
    """Nothing can be held across x, so a and c must come again before v, within 8.

    ::

        p 6 -> c 1 -> v      batch before v, in the input order     p q a c     p and q are held together: 12
        q 6 -> a 1 -> v      two batches                            p c, q a    at most 8
    """
    sizes, edges = [6, 6, 1, 1, 8, 1], [(0, 3), (1, 2), (2, 5), (3, 5)]
    graph = ComputationGraph(["p", "q", "a", "c", "x", "v"], [1] * 6, sizes, edges, workspaces=[0, 0, 0, 0, 0, 1])
    nodes, order = as_nodes(graph), range(6)
    assert oracle.best_fixed_order(graph, order, 8, 3) is None
    assert oracle.best_fixed_order(nodes, nodes.input_order(), 8, 3) is not None


def test_zeros_for_all_are_no_workspaces():
    graph = ComputationGraph(["a", "b"], [1, 1], [2, 3], [(0, 1)], workspaces=[0, 0])
    assert graph.workspaces is None
    assert graph == GRAPH.without_workspaces() or graph.labels is None
    assert GRAPH.workspace_of == (0, 5) and graph.workspace_of == (0, 0)


@pytest.mark.parametrize(
    ("workspaces", "message"),
    [
        ([0, -1], "node b: workspace is -1, expected an integer >= 0"),
        ([0.5, 1], "node a: workspace is 0.5, expected an integer >= 0"),
        ([True, 1], "node a: workspace is True, expected an integer >= 0"),
        ([1], "2 nodes, but 1 workspace"),
        ([0, 2**53], "all sizes and the largest workspace sum to more than 2**53"),
        ("ab", "workspaces: expected a sequence"),
    ],
)
def test_workspaces_reject_what_is_no_amount(workspaces, message):
    with pytest.raises(InputError) as error:
        ComputationGraph(["a", "b"], [1, 1], [2, 3], [(0, 1)], workspaces=workspaces)
    assert message in str(error.value)


def test_the_largest_working_set_has_its_workspace():
    assert (GRAPH.largest_working_set().node, GRAPH.largest_working_set().memory) == (1, 10)


def test_a_digest_has_them_only_if_there_are_any():
    plain = replace(GRAPH, workspaces=None)
    assert graph_digest(plain) == graph_digest(replace(GRAPH, workspaces=(0, 0)))
    assert len({graph_digest(plain), graph_digest(GRAPH), graph_digest(replace(GRAPH, workspaces=(5, 0)))}) == 3
