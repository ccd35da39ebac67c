"""Plans with offsets whose operations have workspaces, several outputs, outputs in place or read as one; found by a
random walk, which knows all of that."""

from __future__ import annotations

from dataclasses import replace

import pytest
from few import few
from flat_plans import draw_graph, draw_plan, draw_platform, misdone

from moccasin_mzn.machine.addresses.arrange_plans import plan_with_arenas
from moccasin_mzn.machine.formulation import MachineFormulation
from moccasin_mzn.machine.paging.formulation import PagingFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.verdict import verdict
from moccasin_mzn.search.options import Effort
from moccasin_mzn.search.result import Result, Seconds

FORMS = {"paging": PagingFormulation(), "devices": MachineFormulation(), "pools": MachineFormulation()}
WALKS = 30


def walked(problem, kind, seed, tight=0):
    """The least of some random walks within the budgets."""
    walks = [draw_plan(problem.platform, seed + walk, 1) for walk in range(tight, tight + WALKS)]
    fitting = [walk for walk in walks if problem.judge(walk).feasible]
    best = min(fitting, key=lambda walk: problem.value(problem.judge(walk)), default=None)
    account = None if best is None else problem.judge(best)
    return Result(
        problem, FORMS[kind], "", "unknown" if best is None else "feasible", "a walk", best, account,
        problem.least_value(), Seconds(0.0), found_by="" if best is None else "random walk",
    )  # fmt: skip


def arranged(seed, kind, grain=1, step=1):
    """A problem whose budgets are the peaks of a walk, and the best walk whose arenas are within them."""
    platform = draw_platform(draw_graph(seed, 4, grain), kind, seed)
    peaks = judge_plan(platform, draw_plan(platform, seed, 1)).peaks
    memories = [replace(one, budget=peak) for one, peak in zip(platform.memories, peaks, strict=True)]
    platform = replace(platform, memories=tuple(memories))
    problem = PlanProblem(Instance.build(platform.graph, "100%", max_computations="unlimited"), platform)

    def search(other, seconds, listener, start):
        return walked(other, kind, seed, 0 if other == problem else WALKS)

    return problem, plan_with_arenas(problem, search, step, Effort(0.5))


@pytest.mark.parametrize("kind", FORMS)
@pytest.mark.parametrize("seed", few(few(range(300), keep=60, mark=pytest.mark.slow), keep=4))
def test_plans_have_arenas_within_all_budgets(seed, kind):
    step = 1 + seed % 3
    problem, result = arranged(seed, kind, step, step)
    if not result.found:
        assert result.status == "unknown" and result.arenas is None
        assert "no schedule was found whose arenas fit" in result.reason
        return
    assert result.valid and result.simulation == problem.judge(result.plan)
    places = [(one["offset"], one.get("workspace_offset")) for one in problem.placed(result.arenas, result.simulation)]
    assert misdone(problem.platform, result.plan, places) == ""
    assert all(place % step == 0 for pair in places for place in pair if place is not None)
    rows = zip(result.arenas.arenas, result.simulation.peaks, problem.platform.memories, strict=True)
    assert all(peak <= arena.size <= place.budget for arena, peak, place in rows)
    assert verdict(problem.graph, result.as_dict()).violations == ()


@pytest.mark.parametrize("kind", FORMS)
def test_most_walks_have_arenas(kind):
    found = [arranged(seed, kind)[1].found for seed in range(6)]
    assert sum(found) >= 3
