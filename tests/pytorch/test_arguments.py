"""Arguments of the functions for PyTorch: numbers of numpy, misspelt keywords; the status of a plan."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import moccasin_mzn as mz
from moccasin_mzn.pytorch import Plan, backend, knapsack, plan

NETWORK = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
INPUTS = (torch.ones(1, 2),)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plan(NETWORK, INPUTS, budgt=0.5),
         "plan() got an unexpected keyword argument 'budgt', did you mean 'budget'?"),
        (lambda: plan(NETWORK, INPUTS, budget=0.5, untilgap="1%"),
         "plan() got an unexpected keyword argument 'untilgap', did you mean 'until_gap'?"),
        (lambda: backend(0.5, timelimit=3),
         "backend() got an unexpected keyword argument 'timelimit', did you mean 'time_limit'?"),
        (lambda: knapsack(budge=0.5), "knapsack() got an unexpected keyword argument 'budge', did you mean 'budget'?"),
    ],
)  # fmt: skip
def test_a_misspelt_keyword_is_a_type_error_with_the_nearest(call, message):
    with pytest.raises(TypeError) as refused:
        call()
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"budget": True}, "budget True: expected a fraction of the peak"),
        ({"budget": np.float64("nan")}, "budget nan: expected a fraction of the peak"),
        ({"budget": 1.0, "durations": "flops"}, "durations 'flops': expected one of measured, flop"),
        ({"budget": 1.0, "gradients": np.zeros(2)}, "gradients: expected text, got array([0., 0.])"),
        ({"budget": 1.0, "search": "offf"}, "unknown search 'offf', expected one of on, off, only"),
    ],
)
def test_nonsense_is_refused_in_one_line(how, message):
    with pytest.raises(mz.InputError) as refused:
        plan(NETWORK, INPUTS, **how)
    assert str(refused.value).startswith(message) and "\n" not in str(refused.value)
    with pytest.raises(mz.InputError, match="the inputs are a tensor, expected a sequence"):
        plan(NETWORK, torch.tensor(3), budget=1.0)


def test_a_plan_has_the_status_of_the_enum_when_it_is_read_again_too(tmp_path):
    found = plan(
        NETWORK, INPUTS, budget=np.float64(1.0), time_limit=np.int64(5), seed=np.int32(1), threads=np.int64(1),
        durations="flop", workspaces="none",
    )  # fmt: skip
    found.save(tmp_path / "plan.json")
    for one in (found, Plan.load(tmp_path / "plan.json", NETWORK)):
        assert one.status is mz.Status.OPTIMAL and one.status == "optimal" and len(repr(one)) < 500
