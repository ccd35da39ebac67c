"""The plan of least peak: as low as brute force goes on tiny graphs, and never below what is proven."""

from __future__ import annotations

import oracle
import pytest
from cases import draw_case
from step_networks import NETWORKS
from step_runs import excess, made, planned, same, steps, twin

from moccasin_mzn.api.frontier.least import least_schedules
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import Plan, PlanError, plan
from moccasin_mzn.search.board import WARM_START
from moccasin_mzn.search.options import Options

PHASES = (
    "tracing the network", "measuring operators", "searching for a plan", "comparing a planned step", "timing steps",
)  # fmt: skip
OPTIONS = Options(search="only", threads=1, seed=0, if_none="stop")


@pytest.mark.parametrize("seed", range(6))
def test_the_least_peak_is_that_of_brute_force(seed):
    graph = draw_case(9100 + seed, 6).graph
    instance = Instance.build(graph, "100%", max_computations=2)
    peak = simulate(graph, instance.order).peak
    least = next(b for b in range(peak + 1) if oracle.best_fixed_order(graph, instance.order, b, 2) is not None)
    found = least_schedules(instance, OPTIONS, Deadline(20.0))
    assert found.proven <= least == simulate(graph, found.sequences[0]).peak
    assert found.instance.max_computations == instance.max_computations and not found.interrupted


def test_without_time_the_input_order_is_what_is_found():
    instance = Instance.build(draw_case(9100, 6).graph, "100%")
    found = least_schedules(instance, OPTIONS, Deadline(0.0))
    assert found.sequences == (instance.order,) and found.proven <= instance.baseline.peak


def test_an_interrupt_keeps_what_was_found(monkeypatch):
    from moccasin_mzn.api.frontier import least

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(least, "fitting_schedule", interrupted)
    graph = next(graph for graph in (draw_case(seed, 6).graph for seed in range(9100, 9200)) if len(graph.edges) > 6)
    instance = Instance.build(graph, "100%", max_computations=2)
    found = least_schedules(instance, OPTIONS, Deadline(20.0))
    assert found.interrupted and found.sequences == (instance.order,)


def test_an_interrupt_keeps_the_plan_of_least_peak_and_no_other_is_sought(monkeypatch):
    from moccasin_mzn.api.frontier import least

    sources = []

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(least, "fitting_schedule", interrupted)
    model, inputs = made(NETWORKS["mlp"])
    kept = planned(
        model, inputs, "least", until_gap=0.0, on_progress=lambda progress: sources.append(progress.source)
    )  # fmt: skip
    assert set(sources) <= {*PHASES, WARM_START}
    assert kept.predicted_peak == kept.budget < kept.unplanned.whole
    step = kept.module()
    assert excess(kept, step, inputs) == (0, 0)


def test_with_slow_memory_it_is_not_sought():
    model, inputs = made(NETWORKS["mlp"])
    with pytest.raises(
        InputError, match="budget least is for recomputation alone, it does not go with offloading to host memory"
    ):
        plan(model, inputs, budget="least", paging=True)


def test_the_least_plan_runs_and_a_budget_below_what_is_proven_does_not(tmp_path):
    model, inputs = made(NETWORKS["resnet"])
    other, fresh = twin(model, inputs)
    found = planned(model, inputs, "least", time_limit=8.0)
    assert found.least_proven <= found.predicted_peak <= found.budget < 0.8 * found.unplanned.whole
    assert "is proven to be needed" in found.report()
    step = found.module()
    assert same(steps(model, step, inputs), steps(other, other, fresh))
    assert excess(found, step, inputs) == (0, 0)
    with pytest.raises(PlanError, match="no plan is within it"):
        planned(model, inputs, found.least_proven - 1, time_limit=20.0)
    found.save(tmp_path / "least.json")
    assert Plan.load(tmp_path / "least.json", model).least_proven == found.least_proven
