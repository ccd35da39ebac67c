"""The loops that people write: whatever they do with a loss and with gradients, a plan gives what eager gives."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from step_networks import Block, mlp
from step_runs import made, planned, same, twin
from torch import nn

from moccasin_mzn.pytorch import PlanError


@pytest.fixture
def model():
    return made(mlp)[0]


@pytest.fixture
def x():
    return made(mlp)[1][0]


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


def both(model, call, loop):
    """The gradients that a loop leaves with a plan, and without."""
    other, _ = twin(model, [])
    found = []
    for network, step in ((model, call), (other, other)):
        torch.manual_seed(1)
        loop(step)
        found.append([*gradients(network), torch.get_rng_state()])
    return found


def accumulated(x):
    def loop(step):
        for part in range(3):
            (step(x + part).pow(2).mean() / 3).backward()

    return loop


def scaled(x):
    def loop(step):
        (step(x).pow(2).sum() * 1024).backward()

    return loop


def two_steps_then_backward(x):
    def loop(step):
        first, second = step(x), step(x * 2)
        (first.sum() + second.pow(2).sum()).backward()

    return loop


def grad_of_some(x):
    def loop(step):
        weight = next(iter(step.parameters()))
        weight.grad = torch.autograd.grad(step(x).pow(2).sum(), weight)[0]

    return loop


@pytest.mark.parametrize("loop", [accumulated, scaled, two_steps_then_backward, grad_of_some])
def test_training_loops_have_the_gradients_of_eager(model, x, loop):
    found = planned(model, [x], 0.7)
    assert same(*both(model, found.module(), loop(x)))


def test_a_gradient_that_is_expanded_is_right_up_to_its_layout(model, x):
    step = planned(model, [x], 0.8).module()
    torch.testing.assert_close(*both(model, step, lambda step: step(x).sum().backward()), rtol=1e-5, atol=1e-6)


def test_the_loss_as_a_part_of_the_plan(model, x):
    target = torch.randn(len(x), 5, generator=torch.Generator().manual_seed(2))
    found = planned(model, [x, target], 0.7, loss=nn.functional.mse_loss)
    step = found.module()
    one, other = both(
        model,
        lambda x, y=None: step(x, target),
        lambda step: (step(x) if getattr(step, "parameters", None) is None
                      else nn.functional.mse_loss(step(x), target)).backward(),
    )  # fmt: skip
    assert same(one, other)
    with pytest.raises(PlanError, match="the loss is part of the plan"):
        found.install()


def test_an_output_that_nothing_reads_has_no_part_in_the_gradients(x):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.both, self.one, self.two = nn.Linear(24, 24), nn.Linear(24, 4), nn.Linear(24, 4)

        def forward(self, x):
            y = self.both(x).relu_()
            return self.one(y), y.detach(), self.two(y)

    torch.manual_seed(0)
    model = Two()
    step = planned(model, [x], "1TiB").module()
    other, _ = twin(model, [])
    step(x)[0].pow(2).sum().backward()
    other(x)[0].pow(2).sum().backward()
    gradients = zip(model.parameters(), other.parameters(), strict=True)
    assert [mine.grad is None for mine, _ in gradients] == [False] * 4 + [True] * 2  # an optimizer leaves it alone
    assert torch.equal(model.one.weight.grad, other.one.weight.grad)
    assert torch.equal(model.both.weight.grad, other.both.weight.grad)
    assert other.two.weight.grad is None
    step(x)[2].pow(2).sum().backward()
    other(x)[2].pow(2).sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_layers_before_and_after_the_plan(x):
    torch.manual_seed(0)
    before, after, middle = nn.Linear(24, 24), nn.Linear(5, 2), made(mlp)[0]
    step = planned(middle, [before(x)], 0.7).module()
    found = []
    for call in (step, middle):
        for module in (before, after, middle):
            module.zero_grad()
        torch.manual_seed(1)
        after(call(before(x))).pow(2).sum().backward()
        parameters = [parameter for module in (before, middle, after) for parameter in module.parameters()]
        found.append([parameter.grad.clone() for parameter in parameters])
    assert same(*found)


def test_installed_and_removed(model, x):
    other, _ = twin(model, [])
    found = planned(model, [x], 0.7)
    found.install(model)
    torch.manual_seed(1)
    model(x).pow(2).sum().backward()
    torch.manual_seed(1)
    other(x).pow(2).sum().backward()
    assert same(gradients(model), gradients(other))
    with pytest.raises(PlanError, match="planned for input 0"):
        model(x[:2])
    with torch.no_grad():
        assert model(x[:2]).shape == (2, 5)
    with pytest.raises(PlanError, match="has a plan already"):
        found.install()
    with pytest.raises(PlanError, match="has a plan already"):
        planned(model, [x], 0.9)
    with pytest.raises(PlanError, match="this is not the network"):
        found.install(other)
    found.remove()
    assert model(x[:2]).shape == (2, 5) and "forward" not in model.__dict__
    with pytest.raises(PlanError, match="no plan is installed"):
        found.remove()


def test_the_module_has_the_state_of_the_network(model, x):
    step = planned(model, [x], 1.0).module()
    assert list(step.state_dict()) == list(model.state_dict())
    assert [name for name, _ in step.named_parameters()] == [name for name, _ in model.named_parameters()]
    step.eval()
    assert not model.training and not model[2].training
    with pytest.raises(PlanError, match="planned in training mode"):
        step(x)
    step.train()
    step.load_state_dict({name: torch.zeros_like(value) for name, value in model.state_dict().items()})
    assert not any(parameter.any() for parameter in model.parameters())
    assert step(x).requires_grad


def test_a_plan_made_for_evaluation_mode(x):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Unflatten(1, (1, 4, 6)), Block(1, 3), nn.Dropout(0.5)).eval()
    step = planned(model, [x], 0.9).module()
    assert same(*both(model, step, lambda step: step(x).pow(2).sum().backward()))


def test_pytorch_is_imported_when_it_is_needed():
    code = "import sys; from moccasin_mzn.pytorch import Plan, PlanError, plan; print('torch' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.split()[0] == "False"


def test_a_network_on_the_meta_device_is_planned_before_it_has_values(x):
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(24, 24), nn.Tanh(), nn.Dropout(0.5)) for _ in range(4)))
    found = planned(model, [x.to("meta")], 0.9)
    with pytest.raises(PlanError, match="planned for parameter '0.0.weight' with device cpu, called with meta"):
        found.module()(x)
    model.to_empty(device="cpu")
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    assert same(*both(model, found.module(), accumulated(x)))
