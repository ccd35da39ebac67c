"""Plans of six kinds of networks: three steps of training equal those without a plan, bit for bit and byte for byte."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from step_networks import NETWORKS
from step_runs import excess, made, planned, same, steps, twin


@pytest.fixture(autouse=True)
def one_thread_and_plain_recurrent_layers():
    torch.set_num_threads(1)
    with torch.backends.mkldnn.flags(enabled=False):
        yield


BUDGETS = {"mlp": (0.9, 0.7, 0.5), "resnet": (0.9, 0.7, 0.5), "gpt": (0.9, 0.7, 0.5), "unet": (0.9, 0.7, 0.6),
           "llama": (0.9, 0.7, 0.6), "lstm": (0.9, 0.8, 0.7)}  # fmt: skip
"""The least are near what is possible for these."""


@pytest.mark.parametrize(("name", "budget"), [(name, budget) for name in NETWORKS for budget in BUDGETS[name]])
def test_three_steps_are_those_without_a_plan(name, budget):
    model, inputs = made(NETWORKS[name])
    other, fresh = twin(model, inputs)
    found = planned(model, inputs, budget)
    assert found.predicted_peak <= found.budget
    assert found.recomputations > 0
    step = found.module()
    assert same(steps(model, step, inputs), steps(other, other, fresh))
    assert excess(found, step, inputs) == 0
