"""Networks that do something else each time they are called, by numbers that are no tensors and no attributes."""

from __future__ import annotations

import cProfile
import re
import time
from functools import cache

import pytest
import torch
from step_runs import planned, same, steps, twin
from torch import nn

from moccasin_mzn.pytorch import PlanError, plan

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}
STATE = {"step": 0, "weight": 0.5}


class Calls(nn.Module):
    """A function of what a deep network gives."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.lines = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))

    def forward(self, x):
        return self.function(self.lines(x)).sum()


def counting(y):
    STATE["step"] += 1
    return y * STATE["step"]


def weighted(y):
    return y * STATE["weight"]


class Options:
    weight = 1.0  # of the class

    def __init__(self):
        self.weight = 0.5


OPTIONS, SCALE = Options(), 2.0


def by_options(y):
    return y * OPTIONS.weight


def scaled(y):
    return y * SCALE


def by_the_clock(y):
    return y * torch.tensor(time.perf_counter())


def growing(y):
    STATE["step"] += 1
    for _ in range(STATE["step"]):
        y = y.tanh()
    return y


@cache
def mask(size):
    return torch.ones(size, size).tril()


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(64, 6)


@pytest.mark.parametrize("budget", [0.9, "1GiB"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("function", [counting, by_the_clock, growing])
def test_other_operators_or_numbers_in_each_run_are_refused_with_the_line(function, budget, device, x):
    STATE["step"] = 0
    with pytest.raises(PlanError, match=r"does not do the same each time.*test_repetition.py:\d+, `") as refusal:
        plan(Calls(function), (x.to(device),), budget=budget, **CHEAP)
    assert ("aten.tanh()" if function is growing else "aten.") in str(refusal.value)


def test_what_is_made_once_and_kept_may_stay(x):
    mask.cache_clear()
    model = Calls(lambda y: y @ mask(6))
    other, fresh = twin(model, [x])
    step = planned(model, [x], 0.9).module()
    assert same(steps(model, step, [x]), steps(other, other, fresh))


def test_random_numbers_of_pytorch_are_the_same_in_each_run(x):
    model = Calls(lambda y: y * torch.rand(6))
    other, fresh = twin(model, [x])
    step = planned(model, [x], 0.9).module()
    assert same(steps(model, step, [x]), steps(other, other, fresh))


def test_modules_of_torchscript_train_as_without_a_plan(x):
    model, other = (Calls(torch.jit.script(nn.Sequential(nn.Linear(6, 6), nn.GELU()))) for _ in range(2))
    other.load_state_dict(model.state_dict())
    step = planned(model, [x], 0.9).module()
    assert same(steps(model, step, [x]), steps(other, other, [x.clone()]))


def test_a_part_that_is_compiled_is_refused_with_its_line(x):
    model = Calls(torch.compile(nn.Linear(6, 6), backend="eager"))
    with pytest.raises(PlanError, match=r"compiled by torch.compile, leave that out: .*test_repetition.py:\d+, `"):
        plan(model, (x,), budget=0.9, **CHEAP)


def test_a_variable_outside_of_modules_that_has_another_value_is_refused(x):
    schedule = {"weight": 0.5, "calls": 0}

    def by_schedule(y):
        return y * schedule["weight"]

    changes = {
        weighted: ("STATE['weight']", lambda: STATE.update(weight=0.7), lambda: STATE.update(weight=0.5)),
        by_options: ("OPTIONS.weight", lambda: setattr(OPTIONS, "weight", 0.7), None),
        scaled: ("SCALE", lambda: globals().update(SCALE=3.0), lambda: globals().update(SCALE=2.0)),
        by_schedule: ("schedule['weight']", lambda: schedule.update(weight=0.7), None),
    }
    for function, (called, change, restore) in changes.items():
        step = plan(Calls(function), (x,), budget=1.0, **CHEAP).module()
        STATE["step"] += 1  # which none of them reads
        step(x).backward()
        change()
        with pytest.raises(PlanError, match=re.escape(f"planned with '{called}' = ") + r".*, it is [\d.]+ now"):
            step(x)
        if restore:
            restore()


def test_under_a_profiler_a_plan_is_made_all_the_same(x, caplog):
    caplog.set_level("INFO")
    with cProfile.Profile() as profile:
        found = plan(Calls(weighted), (x,), budget=1.0, **CHEAP)
    assert found.module()(x).isfinite() and profile.getstats()
    assert "variables outside of modules are not compared: a profiler is on" in caplog.text
