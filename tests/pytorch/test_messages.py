"""Messages: each names module and line where there is one, none has an empty place; inference is shown a way."""

from __future__ import annotations

import logging
import random
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from step_runs import QUICK
from torch import nn
from torch.ao.quantization import FakeQuantize, get_default_qat_qconfig, prepare_qat

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import PlanError, Plans, estimate, largest_batch, plan

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))
EMPTY = re.compile(r"[:,;]\s*[;,)]|\(\s*;|\(\s+\)|: *$|\(see *\)|''|``|^[:;,]|  |[:;,]\s+\(see ")
"""What a message looks like in which something is missing."""


def checked(error):
    """The message of an error, in which nothing is missing."""
    text = str(error)
    assert not EMPTY.search(text) and "\n" not in text, text
    return text


class Inner(nn.Module):
    """A module that somebody wrote, around one of PyTorch's; methods may call their object otherwise than `self`."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(this, x):  # noqa: N805
        return this.layer(x)


class Reading(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Drawing(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        return x * self.draw()


def norm():
    return nn.BatchNorm1d(8, momentum=None)


NORM = r"module '{}' \(BatchNorm1d\), torch/nn/modules/batchnorm\.py:\d+, `"
HERE = r"\S*test_messages\.py:\d+, in module '{}', `"


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (lambda: nn.Sequential(nn.Linear(8, 8), norm()), NORM.format("1") + "[^`]+`; a number that changes"),
        (lambda: nn.Sequential(nn.Linear(8, 8), nn.Sequential(norm())), NORM.format("1.0")),
        (norm, r"ran: the network \(BatchNorm1d\), torch/nn/modules/batchnorm\.py:\d+, `"),
        (lambda: nn.Sequential(Inner(norm())), NORM.format("0.layer") + "[^`]+`, called at " + HERE.format("0")),
        (lambda: nn.Sequential(nn.Linear(8, 8), Drawing(random.random)), HERE.format("1") + "return x"),
        (lambda: nn.Sequential(nn.Linear(8, 8), Inner(Drawing(np.random.rand))), HERE.format("1.layer") + "return x"),
    ],
)
def test_what_is_not_the_same_each_time_is_named_by_module_and_line(make, place):
    for how in ({}, {"regions": "auto"}):
        with pytest.raises(PlanError, match=None if how else place) as error:
            plan(make(), (X,), budget=0.9, **how, **QUICK)
        assert "plan(make" not in checked(error.value)


class Adaptive(nn.Module):
    def __init__(self):
        super().__init__()
        self.loss = nn.AdaptiveLogSoftmaxWithLoss(8, 6, [2, 4])

    def forward(self, x, target):
        return self.loss(x, target).loss


class Counting(nn.Module):
    """Its first call makes a buffer of the shape of its input, as observers for each channel do."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        with torch.no_grad():
            if self.seen.shape != x.shape[:1]:
                self.seen.resize_(x.shape[0]).zero_()
            self.seen.add_(x.detach().amax(1))
        return self.linear(x)


class Initialised(nn.Module):
    """Its first call reads that it is the first one."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("ready", torch.zeros((), dtype=torch.bool))

    def forward(self, x):
        if not bool(self.ready):
            self.ready.fill_(True)
            return self.linear(x) * 2
        return self.linear(x)


def for_each_channel():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).train()
    model.qconfig = get_default_qat_qconfig("fbgemm")
    return prepare_qat(model)


@pytest.mark.parametrize(
    "factory", [lambda: nn.Sequential(FakeQuantize(), nn.Linear(8, 8)), for_each_channel, Counting, Initialised]
)
def test_a_network_whose_first_call_is_another_is_to_be_called_once(factory):
    torch.manual_seed(0)
    model = factory()
    with pytest.raises(PlanError, match="call the network once, then plan") as error:
        plan(model, (X,), budget=1.0, **QUICK)
    assert checked(error.value).startswith("the first call of the network changes what later ones read or take")
    model(X)
    assert plan(model, (X,), budget=1.0, **QUICK).trust.known is None


def test_a_value_that_pytorchs_own_module_reads_is_named_by_that_module():
    torch.manual_seed(0)
    model, target = nn.Sequential(FakeQuantize(), nn.Linear(8, 8)), torch.arange(16) % 6
    plan(model, (X,), budget=1.0, verify=False, **QUICK).install(verify=False)
    place = r"module '0\.activation_post_process' \(MovingAverageMinMaxObserver\), torch/ao/quantization/observer"
    with pytest.raises(PlanError, match=rf"was False when .* and is True now: {place}\.py:\d+, `") as error:
        (model(X).sum() + model(X * 3).sum()).backward()
    checked(error.value)
    step = plan(Adaptive(), (X, target), budget=1.0, **QUICK).module()
    assert step(X, target.flip(0)).requires_grad
    place = r"module 'loss' \(AdaptiveLogSoftmaxWithLoss\), torch/nn/modules/adaptive\.py:\d+, `.*`, called at "
    with pytest.raises(PlanError, match=r"was \(\d+, 1\) .* and is \(16, 1\) now: " + place) as error:
        step(X, target % 2)
    assert re.search(r"test_messages\.py:\d+, `return self\.loss\(x, target\)\.loss` \(see", checked(error.value))


@pytest.mark.parametrize("ask", [lambda m, x: plan(m, (x,), budget=0.9), lambda m, x: estimate(m, (x,), least=False)])
def test_data_dependent_control_flow_is_named_by_module_and_line(ask):
    model = nn.Sequential(nn.Linear(8, 8), Reading()).to("meta")
    with pytest.raises(PlanError, match=HERE.format("1") + "return x if") as error:
        ask(model, X.to("meta"))
    checked(error.value)


def whole(model):
    model.compile()


def part(model):
    model[1].compile()


def forward(model):
    model[1].forward = torch.compile(model[1].forward)


def wrapped(model):
    model[1] = torch.compile(model[1])


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (whole, "^the network is compiled by torch.compile: give the network itself"),
        (part, r"leave that out: module '1' \(Sequential\); to plan"),
        (forward, r"leave that out: module '1' \(Sequential\); to plan"),
        (wrapped, r"leave that out: module '1' \(OptimizedModule\); to plan"),
    ],
)
def test_parts_that_are_compiled_are_named(change, place):
    model = nn.Sequential(nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.GELU()))
    change(model)
    with pytest.raises(InputError, match=place) as error:
        plan(model, (X,), budget=0.9, **QUICK)
    checked(error.value)


# --- Gradients that are off ------------------------------------------------------------------------------------------


class NoGradients(nn.Linear):
    @torch.no_grad()
    def forward(self, x):
        return super().forward(x)


WAY = "moccasin-mzn deploy onnx MODEL.onnx --budget 0.5 --order free -o NEW.onnx, or with --tile auto in parts"
FROZEN = [
    lambda: nn.Linear(8, 8).requires_grad_(False),
    lambda: nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout()).eval().requires_grad_(False),
    lambda: NoGradients(8, 8),
    lambda: nn.Sequential(nn.GELU(), nn.Flatten()),
]
ASKED = [
    lambda m: plan(m, (X,), budget=0.9, **QUICK),
    lambda m: plan(m, (X,), budget="least", **QUICK),
    lambda m: plan(m, (X,), budget=0.9, regions="auto", **QUICK),
    lambda m: estimate(m, (X,)),
    lambda m: largest_batch(m, lambda batch: (torch.randn(batch, 8),), "1MiB", time_limit=10),
]


@pytest.mark.parametrize("make", FROZEN)
@pytest.mark.parametrize("ask", ASKED)
def test_what_has_no_backward_pass_is_refused_with_where_inference_goes(make, ask):
    with pytest.raises(PlanError, match="requires a gradient: there is no backward pass to") as error:
        ask(make())
    assert WAY in checked(error.value) and str(error.value).endswith("docs/training.md#what-is-refused)")


@pytest.mark.parametrize("ask", ASKED)
def test_under_inference_mode_nothing_is_planned(ask):
    model = nn.Linear(8, 8)
    with torch.inference_mode(), pytest.raises(PlanError, match=r"this is under torch\.inference_mode\(\)") as error:
        ask(model)
    assert WAY in checked(error.value)


def test_what_inference_mode_has_made_is_named():
    with torch.inference_mode():
        model = nn.Sequential(nn.Linear(8, 8))
    with pytest.raises(PlanError, match=r"'0\.weight' was made under torch\.inference_mode\(\)") as error:
        plan(model, (X,), budget=0.9, **QUICK)
    checked(error.value)


NOTHING_PLANNED_YET = """
import logging, sys, torch
from moccasin_mzn.pytorch import plan
logging.basicConfig(level=logging.INFO, stream=sys.stdout)
x = torch.randn(16, 8)
with torch.no_grad():
    found = plan(torch.nn.Linear(8, 8), (x,), budget=1.0, time_limit=10)
print(found.verify((x,)).equal)
"""


def test_the_first_plan_of_a_process_may_be_made_under_no_grad():
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", NOTHING_PLANNED_YET], text=True, capture_output=True)
    assert answer.returncode == 0, answer.stderr
    assert "this is under torch.no_grad(): a plan is for a training step" in answer.stdout and WAY in answer.stdout
    assert answer.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize("how", [{}, {"regions": "auto"}])
def test_plans_under_no_grad_are_those_outside(how, caplog):
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Dropout(0.2)) for _ in range(4)))
    with torch.no_grad(), caplog.at_level(logging.INFO, "moccasin_mzn"):
        found = plan(model, (X,), budget=1.0, **how, **QUICK)
    assert found.verify((X,)).equal and WAY in caplog.text
    found.install()
    outputs = []
    for mode in (torch.no_grad, torch.inference_mode):
        torch.manual_seed(1)
        with mode():
            outputs.append(model(X))
    assert torch.equal(*outputs) and not outputs[0].requires_grad


def test_plans_run_networks_as_they_are_under_inference_mode():
    model = nn.Linear(8, 8)
    plans = Plans(model, budget=1.0, **QUICK).install()
    with torch.inference_mode():
        assert not model(X).requires_grad
    assert not plans.plans and model(X).requires_grad and len(plans.plans) == 1
