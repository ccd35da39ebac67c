"""The bound that is known at once, against brute force."""

from __future__ import annotations

from dataclasses import replace

import pytest
from paging_cases import best, draw_problem

from moccasin_mzn.api.solve import solve_problem
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.instant import cover_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.paging.formulation import PagingFormulation, instant_bound
from moccasin_mzn.machine.platforms import PagingCosts, paging_platform
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES, Link, Platform
from moccasin_mzn.problem.stages import Stages
from moccasin_mzn.search.options import SearchOptions


def dearer(problem: PlanProblem, factor: int) -> PlanProblem:
    """The same with dearer copies, without limits: then bounds are not 0 but now and then."""
    platform = problem.platform
    links = [
        replace(link, durations=[factor * d for d in link.durations], energies=[1 + factor * e for e in link.energies])
        for link in platform.links
    ]
    goal = replace(problem.goal, max_duration=None, max_energy=None, max_traffic=None)
    return replace(problem, platform=replace(platform, links=links), goal=goal)


@pytest.mark.parametrize(
    "seeds", [range(3, 9), *(pytest.param(range(k, k + 30), marks=pytest.mark.slow) for k in range(0, 300, 30))]
)
def test_paging_bound_is_never_above_a_plan_in_stages(seeds):
    positive = 0
    for seed in seeds:
        problem = dearer(draw_problem(seed, workspaces=seed % 2 == 0), seed % 4)
        found, bound = best(problem, "staged"), instant_bound(problem)
        if found is not None:
            assert bound <= found.totals[OBJECTIVES.index(problem.goal.objective)]
            positive += bound > sum(problem.platform.memories[0].durations)
    assert positive > 0


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_paging_bound_without_links_is_that_of_recomputation(seed):
    problem = draw_problem(seed)
    problem = replace(
        problem, platform=replace(problem.platform, links=()), goal=replace(problem.goal, objective="duration")
    )
    stages = Stages.of(problem.instance)
    extra = cover_bound(stages)
    expected = 0 if extra is None else (stages.baseline + extra) * stages.duration_scale
    assert instant_bound(problem) == expected


def u_of_six(cost: int) -> PlanProblem:
    """A U of six nodes; to drop one output of size 2 suffices, which takes 5 to compute again."""
    graph = ComputationGraph(range(6), [5] * 6, [2] * 6, [*((v, v + 1) for v in range(5)), (0, 5), (1, 4)])
    platform = paging_platform(graph, 6, PagingCosts(0, 0))
    links = [Link(link.source, link.target, [cost] * 6, [0] * 6) for link in platform.links]
    return PlanProblem(Instance.build(graph, 6), replace(platform, links=tuple(links)))


@pytest.mark.parametrize(("cost", "expected"), [(0, 30), (1, 32), (2, 34), (3, 35), (100, 35)])
def test_paging_bound_counts_the_cheaper_way(cost, expected):
    assert instant_bound(u_of_six(cost)) == expected


def test_paging_bound_proves_what_the_search_finds():
    result = solve_problem(u_of_six(1), PagingFormulation(), SearchOptions(search="only", seed=0, time_limit=20))
    assert (result.status, result.value, result.bound) == ("optimal", 32, 32)
    assert "in stages of the input order" in result.reason


def test_paging_bound_is_for_stages_alone():
    assert PagingFormulation(staged=False).instant_bound(u_of_six(1)) == 0


def test_paging_bound_refuses_other_platforms():
    problem = u_of_six(1)
    alone = Platform(problem.platform.graph, problem.platform.memories[:1])
    with pytest.raises(InputError, match="several devices: no search and no model handles that"):
        solve_problem(replace(problem, platform=alone), PagingFormulation(), SearchOptions(search="only", seed=0))
