"""What a time limit covers: signs of life at once, operators timed as far as there is time, steps timed at the end."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import time
from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from step_networks import NETWORKS
from step_runs import made, planned

from moccasin_mzn.clock import Deadline
from moccasin_mzn.pytorch import Plan, planning, tracing
from moccasin_mzn.pytorch.measuring import peak_and_end, peaks_and_ends
from moccasin_mzn.pytorch.operator_costs import OperatorCosts


@pytest.fixture
def resnet():
    return made(NETWORKS["resnet"])


def test_the_first_sign_of_life_comes_before_the_network_is_traced(resnet):
    model, inputs = resnet
    heard = []
    began = time.monotonic()
    planned(model, inputs, 0.9, on_progress=lambda progress: heard.append((time.monotonic() - began, progress)))
    seconds, first = heard[0]
    assert seconds < 2.0 and first.source == "tracing the network" and first.value is None
    assert any(progress.value is not None for _, progress in heard)


def test_what_is_not_timed_is_estimated_and_its_memory_is_known(resnet, monkeypatch):
    monkeypatch.setattr(planning, "MEASURED_COSTS", OperatorCosts())
    monkeypatch.setattr(tracing, "MEASURING_SHARE", 0.0)
    model, inputs = resnet
    found = planned(model, inputs, 0.9)
    assert found.estimated and not found.traced.costs.estimated
    assert f"the time of {len(found.estimated)} operators: the time limit is too short" in found.report()
    assert max(found.graph.workspaces) > 0 and min(found.graph.durations) >= 0
    check = found.verify(inputs)
    assert check.equal and check.peak <= check.predicted_peak <= found.budget


def test_a_later_plan_times_what_was_not(resnet):
    model, inputs = resnet
    step = planned(model, inputs, 1.0).traced
    nodes = [node for node in step.joint.nodes if "convolution" in str(node.target)]
    costs = OperatorCosts()
    timed = [costs.of(node) for node in nodes]
    untimed = OperatorCosts({key: replace(cost, measured=False) for key, cost in costs.known.items()})
    untimed.forget_failures()
    assert not untimed.known and all(cost.measured and cost.nanoseconds > 1 for cost in timed)


def test_memory_of_many_calls_is_that_of_each():
    x = torch.rand(64, 64)

    def fail():
        raise ValueError("mine")

    calls = [lambda: x @ x, fail, lambda: (x + 1).sum(), lambda: [x + at for at in range(3)], lambda: None]
    expected = [None if call is fail else peak_and_end(call) for call in calls]
    assert peaks_and_ends(iter(calls)) == expected
    assert expected[0] == (64 * 64 * 4, 64 * 64 * 4) and expected[2][0] > expected[2][1] and expected[4] == (0, 0)


def test_the_increase_is_measured_where_the_step_is_run_and_said_where_it_differs(resnet, tmp_path):
    model, inputs = resnet
    found = planned(model, inputs, 0.8)
    assert found.measured_increase is not None
    far, near = (replace(found, measured_increase=found.predicted_increase + more) for more in (0.2, 0.01))
    assert f"but measured {100 * far.measured_increase:+.2f} %" in far.report() and "but measured" not in near.report()
    far.save(tmp_path / "plan.json")
    assert Plan.load(tmp_path / "plan.json", model).measured_increase == far.measured_increase


def test_the_search_has_its_share_when_time_is_over():
    now = time.monotonic()
    late = planning._search_begin(Deadline(20.0, now - 30.0))
    assert 9.9 < late + 18.0 - time.monotonic() < 10.1  # half is left
    assert planning._search_begin(Deadline(20.0, now)) == now
    assert 1.7 < planning._search_begin(Deadline(2.0, now - 9.0)) + 1.8 - time.monotonic() < 1.9
