"""What a network decides by numbers while it runs: traced as it is run, and compared in each step of a plan."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from step_runs import excess, planned, same, steps, twin
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from moccasin_mzn.pytorch import PlanError, plan

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}


class Reads(nn.Module):
    """A function of what a linear layer gives, on the way of a deep network."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.lines = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))

    def forward(self, x):
        return self.function(self, self.lines(x)).sum()


def asserting(self, y):
    assert not y.isnan().any()
    return y


def branching(self, y):
    return y * 2 if y.mean() > 100 else y + 1


def counting(self, y):
    return y * int((y > 100).sum() + 3)


def choosing(self, y):
    return y[y[:, 0] > -100]


def listing(self, y):
    return y * sum(1 for each in (y.detach() > 100).any(1).tolist() if not each)


def numbering(self, y):
    return y + torch.from_numpy(y.detach().numpy() > 100)


def counting_kinds(self, y):
    kinds, places = (y[:, 0] > y[:, 0].mean()).unique(return_inverse=True)
    return y * len(kinds) + places[:, None]


def looking(self, y):
    """As libraries do that leave something out where nobody traces."""
    return (y * torch.ones(6)).relu() if isinstance(y, FakeTensor) else y.relu()


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(64, 6)


@pytest.mark.parametrize("function", [asserting, branching, counting, choosing, counting_kinds, listing, looking])
def test_a_network_that_reads_values_trains_as_without_a_plan(function, x):
    model = Reads(function)
    other, fresh = twin(model, [x])
    found = planned(model, [x], 0.9)
    step = found.module()
    assert same(steps(model, step, [x]), steps(other, other, fresh))
    storages, allocator = excess(found, step, [x])
    assert storages == 0 and (allocator == 0 or function is choosing)  # what a mask takes inside depends on its values
    if function is looking:
        assert found.eager_peak >= found.unplanned.whole  # nothing of what only a trace has


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (asserting, r"was False when the plan was made and is True now: .*test_values.py:\d+, `assert"),
        (branching, "which was False when the plan was made and is True now: .*`return y . 2 if y.mean"),
        (listing, "all values of a tensor are read, others than when the plan was made: .*`return y . sum.1 for each"),
        (numbering, "all values of a tensor are read, others than when the plan was made: .*`return y . torch.from_nu"),
        (counting, "which was 3 when the plan was made and is [0-9]+ now: .*`return y . int"),
        (
            counting_kinds,
            r"a shape depends on values, and was \(2,\) and \(64,\).* when the plan was made and is \(1,\)",
        ),
        (choosing, r"a shape depends on values, and was \(64, 6\) when the plan was made and is \(\d+, 6\) now"),
    ],
)
def test_another_value_is_refused_in_that_step(function, message, x):
    model = Reads(function)
    found = plan(model, (x,), budget=1.0, **CHEAP)
    step = found.module()
    step(x).backward()
    with torch.no_grad():
        model.lines[4].weight.fill_(float("nan") if function is asserting else 100.0)
        model.lines[2].bias.fill_(30.0)
        if function is choosing:
            model.lines[4].weight[0] = -1000.0
    with pytest.raises(PlanError, match=message):
        step(x)


def test_a_value_of_a_parameter_is_compared_too(x):
    model = Reads(lambda self, y: y * (2 if self.lines[0].weight.sum() > 100 else 3))
    found = plan(model, (x,), budget=1.0, **CHEAP)
    with torch.no_grad():
        model.lines[0].weight.fill_(50.0)
    with pytest.raises(PlanError, match="was False when the plan was made and is True now"):
        found.module()(x)


def test_without_a_run_a_value_that_is_read_is_refused_with_its_line(x):
    with pytest.raises(PlanError, match=r"data-dependent control flow.*, in module 'inner', `return y \* 2"):
        plan(Outer(), (x.to("meta"),), budget=0.9, **CHEAP)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x)


class Inner(nn.Linear):
    def __init__(self):
        super().__init__(6, 6)

    def forward(self, x):
        y = super().forward(x)
        return y * 2 if y.mean() > 100 else y


@pytest.mark.parametrize("draw", [random.random, lambda: np.random.rand(1).item(), lambda: random.choice([1, 2])])
def test_numbers_of_pythons_and_numpys_generators_are_refused_by_their_line_and_left_as_they_were(draw, x):
    def dropping(self, y):
        return y * draw()

    before = random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]
    with pytest.raises(PlanError, match="draws numbers by Python's random or by numpy's.*test_values.py:") as refusal:
        plan(Reads(dropping), (x,), budget=0.9, **CHEAP)
    assert "`return y * draw()`" in str(refusal.value) or "lambda" in str(refusal.value)
    assert (random.getstate(), np.random.get_state()[1].tolist(), np.random.get_state()[2]) == before


class Casting(nn.Module):
    """Its backward pass has matrix products of its own, which autocast would compute in another type."""

    def __init__(self):
        super().__init__()
        self.lines = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))

    def forward(self, x):
        return Product.apply(self.lines(x).float()).square().mean()


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x @ x.T).float()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return ((gradient + gradient.T) @ x).float()


def test_the_backward_pass_of_a_plan_under_autocast_is_that_of_a_loop_that_calls_it_outside():
    torch.manual_seed(0)
    model, x = Casting(), torch.rand(16, 64)
    with torch.autocast("cpu"):
        found = planned(model, [x], 0.9)
        step, verified = found.module(), found.verify([x])
    gradients = []
    for call in (model, step):
        model.zero_grad(set_to_none=True)
        with torch.autocast("cpu"):
            loss = call(x)
        loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    assert verified.equal and all(map(torch.equal, *gradients))


class Clipped(torch.autograd.Function):
    """Its backward pass reads a value of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (2 if x.mean() < 100 else 0)


def test_a_value_that_a_backward_pass_reads_is_compared(x):
    model = Reads(lambda self, y: Clipped.apply(y))
    other, fresh = twin(model, [x])
    found = planned(model, [x], 0.9)
    step = found.module()
    assert same(steps(model, step, [x]), steps(other, other, fresh))
    with torch.no_grad():
        model.lines[4].bias.fill_(1000.0)
    loss = step(x)
    message = r"was True when the plan was made and is False now: .*test_values.py:\d+, `return gradient"
    with pytest.raises(PlanError, match=message):
        loss.backward()
