"""Searches and bounds of graphs that run in place, against brute force; and what they refuse."""

from __future__ import annotations

import oracle
import pytest
from cases import Case, draw_case, least_duration
from few import few
from solving import solve

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.input_order import duration_bound
from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.bounds.least_budget import enough_budget, least_budget_bound, retained_bound
from moccasin_mzn.formulations.windows import Incumbent
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order, peak_bound
from moccasin_mzn.heuristics.staged.search import LocalSearch
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge, simulate
from moccasin_mzn.problem.stages import Stages

RUN = ComputationGraph(
    ["a", "b", "c", "d"], [1] * 4, [3, 3, 2, 2], [(0, 1), (1, 2), (0, 3), (2, 3)], in_place=[[], [0], [1], [0, 2]],
    runs_in_place=True,
)  # fmt: skip


def drawn(seed: int, most_nodes: int = 6) -> Case:
    return draw_case(seed, most_nodes, workspaces=seed % 4 == 3, in_place=True)


@pytest.mark.parametrize(
    ("formulation", "order", "solver"),
    [
        ("staged", "input", "cp-sat"),
        pytest.param("general", "input", "cp-sat", marks=pytest.mark.full),
        pytest.param("staged", "free", "cp-sat", marks=pytest.mark.full),
        pytest.param("staged", "input", "cp-sat,gecode", marks=pytest.mark.full),
    ],
)
@pytest.mark.parametrize(
    "seed", few(few(range(100), keep={2, 7, *range(0, 100, 4)}, mark=pytest.mark.slow), keep={2, 7})
)
def test_searches_in_place_agree_with_brute_force(seed, formulation, order, solver):
    case = drawn(seed, most_nodes=5)
    if "," in solver and seed % 20:
        return
    result = solve(
        case.graph, case.budget, formulation=formulation, order=order, solver=solver, time_limit=60, threads=2,
        max_computations=case.max_computations,
    )  # fmt: skip
    expected = least_duration(case, "general" if order == "free" else formulation)
    assert (result.status, result.duration) == ("infeasible" if expected is None else "optimal", expected)
    if expected is not None:
        assert judge(case.graph, result.sequence, case.budget).feasible


@pytest.mark.parametrize("first_seed", few(range(0, 300, 10), keep=1))
def test_in_place_bounds_are_never_above_brute_force(first_seed):
    for seed in range(first_seed, first_seed + 10):
        case = drawn(seed)
        graph, budget, most = case.graph, case.budget, case.max_computations
        instance = Instance.build(graph, budget, max_computations=most)
        staged = oracle.best_fixed_order(graph, instance.order, budget, most)
        free = oracle.best_free_order(graph, budget, most)
        proven = duration_bound(instance, time_limit=5)
        if staged is not None:
            assert retained_bound(instance) <= budget
            assert not proven.infeasible and proven.value <= staged
            stages = Stages.of(instance.relaxed)
            assert (stages.baseline + cover_bound(stages)) * stages.duration_scale <= staged
        if proven.sequence is not None:
            assert judge(graph, proven.sequence, budget).feasible
        if free is not None:
            assert least_budget_bound(graph).memory <= budget
            assert FreeOrderBound.of(graph).improve(budget, time_limit=1, most=instance.max_computations) <= free
        assert oracle.best_free_order(graph, enough_budget(graph), len(graph.nodes)) is not None


@pytest.mark.parametrize("first_seed", few(range(0, 100, 10), keep=1))
def test_bounds_on_the_peak_of_orders_are_below_all_orders(first_seed):
    for seed in range(first_seed, first_seed + 10):
        graph = drawn(seed).graph
        least = next(budget for budget in range(200) if oracle.best_free_order(graph, budget, 1) is not None)
        found = least_peak_order(graph, time_limit=5)
        assert peak_bound(graph, graph.input_order()) <= least and found.bound <= least <= found.peak
        assert found.peak == simulate(graph, found.order).peak <= simulate(graph, graph.input_order()).peak


@pytest.mark.full
@pytest.mark.parametrize("seed", few(range(20), keep=1))
def test_local_search_finds_schedules_that_only_fit_in_place(seed):
    case = drawn(seed)
    instance = Instance.build(case.graph, case.budget, max_computations=case.max_computations)
    found = []
    search = LocalSearch(instance)
    search.run(found.append, lambda: False, max_rounds=3)
    expected = least_duration(case, "staged")
    for sequence in found:
        simulation = judge(case.graph, sequence, case.budget)
        assert simulation.feasible and simulation.duration >= expected
    if expected is not None and instance.baseline.peak > case.budget:
        assert found and simulate(case.graph, found[-1]).duration == expected


def test_windows_refuse_any_order():
    with pytest.raises(InputError, match=r"^any order: no window handles that: leave out --order.* \(see Features"):
        Incumbent(Instance.build(RUN, 9, order="free"), (0, 1, 2, 3))
