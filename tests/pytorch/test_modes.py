"""Networks whose parameters are frozen in turns, or whose modes change: there is a plan for each, and all is equal."""

from __future__ import annotations

import copy
import logging

import pytest
import torch
from step_runs import QUICK, planned, same
from torch import nn

from moccasin_mzn.pytorch import NoPlanError, PlanError, Plans, plan
from moccasin_mzn.pytorch.loops import _MOST_MODES


def layers(*widths):
    parts = []
    for one, other in zip(widths, widths[1:], strict=False):
        parts += [nn.Linear(one, other), nn.BatchNorm1d(other), nn.GELU(), nn.Dropout(0.1)]
    return nn.Sequential(*parts, nn.Linear(widths[-1], 1))


def networks():
    torch.manual_seed(0)
    generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 8))
    return generator, layers(8, 24, 24)


def adversarial(generator, discriminator, batch=32, rounds=2):
    """Turns of a GAN, each with the other network frozen; the discriminator is looked at in evaluation mode, too."""
    torch.manual_seed(5)
    optimizers = [torch.optim.Adam(each.parameters(), 0.01) for each in (generator, discriminator)]
    found = []
    for _ in range(rounds):
        for network, optimizer in zip((discriminator, generator), reversed(optimizers), strict=True):
            for each in (generator, discriminator):
                each.requires_grad_(each is network)
            optimizer.zero_grad()
            real, fake = torch.randn(batch, 8), generator(torch.randn(batch, 4))
            loss = discriminator(fake).mean() - (discriminator(real).mean() if network is discriminator else 0)
            loss.backward()
            optimizer.step()
            found.append(loss.detach())
        looked = fake.detach().requires_grad_()
        found += torch.autograd.grad(discriminator.eval()(looked).pow(2).mean(), looked)
        discriminator.train()
    state = [*generator.state_dict().values(), *discriminator.state_dict().values()]
    grads = [each.grad for network in (generator, discriminator) for each in network.parameters()]
    return [*found, *state, *grads, torch.get_rng_state()]


@pytest.mark.parametrize("each", [pytest.param(Plans, marks=pytest.mark.full), plan])
def test_networks_that_are_frozen_in_turns_are_equal_bit_for_bit(each):
    generator, model = networks()
    eager = adversarial(*copy.deepcopy((generator, model)))
    if each is plan:
        found = plan(model, (torch.randn(32, 8),), budget=0.8, shapes="each", **QUICK)
    else:
        found = Plans(model, budget=0.8, **QUICK)
    found.install()
    assert same(eager, adversarial(generator, model))
    if each is Plans:
        assert 3 <= len(found.plans) <= _MOST_MODES and any(one.repeats for one in found.plans)


def modes(model):
    """The modes that a network has in turns."""
    yield lambda: model.train().requires_grad_(True)
    yield lambda: model.train().requires_grad_(False) and model[-1].requires_grad_(True)
    yield lambda: model.eval().requires_grad_(True)
    yield lambda: model.requires_grad_(False)
    yield lambda: model[0].requires_grad_(True)
    yield lambda: model.train()[1].eval()


def in_turns(model, x, rounds=2):
    torch.manual_seed(3)
    found = []
    for _ in range(rounds):
        for change in modes(model):
            change()
            model.zero_grad()
            output = model(x).pow(2).mean()
            if output.requires_grad:
                output.backward()
            found += [output.detach(), *(each.grad for each in model.parameters())]
    return [*found, *model.state_dict().values(), torch.get_rng_state()]


@pytest.mark.parametrize(
    ("batch", "budget", "needs"),
    [
        (2, "4KiB", False),
        pytest.param(2, "4KiB", True, marks=pytest.mark.full),
        pytest.param(32, "20KiB", False, marks=pytest.mark.full),
        pytest.param(32, "20KiB", True, marks=pytest.mark.full),
    ],
)
def test_each_mode_has_its_plan_and_that_without_a_gradient_runs_as_it_is(batch, budget, needs):
    torch.manual_seed(0)
    model, x = layers(8, 24, 24), torch.randn(batch, 8).requires_grad_(needs)
    eager = in_turns(copy.deepcopy(model), x)
    plans = Plans(model, budget=budget, **QUICK).install()
    assert same(eager, in_turns(model, x))
    assert len(plans.plans) == len([*modes(model)]) - (not needs)


def test_what_requires_no_gradient_at_first_runs_as_it_is():
    torch.manual_seed(0)
    model, x = layers(8, 24).requires_grad_(False), torch.randn(16, 8)
    plans = Plans(model, budget=0.9, **QUICK).install()
    assert not model(x).requires_grad and not plans.plans
    model.requires_grad_(True)
    model(x).sum().backward()
    assert len(plans.plans) == 1


def test_autocast_is_a_mode():
    torch.manual_seed(0)
    model, x = layers(8, 24, 24), torch.randn(16, 8)
    other = copy.deepcopy(model)
    Plans(model, budget="100KiB", **QUICK).install()
    for on in (False, True, False):
        for network in (model, other):
            torch.manual_seed(1)
            with torch.autocast("cpu", enabled=on):
                output = network(x)
            output.sum().backward()
        assert same(*([each.grad for each in network.parameters()] for network in (model, other)))


@pytest.mark.full
def test_of_many_modes_the_one_that_was_not_run_for_longest_is_forgotten(caplog):
    torch.manual_seed(0)
    model, x = nn.Sequential(*(nn.Linear(6, 6) for _ in range(_MOST_MODES + 1))), torch.randn(4, 6)
    other = copy.deepcopy(model)
    plans = Plans(model, budget="1MiB", **QUICK).install()
    with caplog.at_level(logging.INFO, "moccasin_mzn"):
        for at in [*range(len(model)), 0, len(model) - 1]:  # layer by layer, as in gradual unfreezing
            for network in (model, other):
                network.requires_grad_(False)[at:].requires_grad_(True)
                network.zero_grad()
                network(x).sum().backward()
            assert same(*([each.grad for each in network.parameters()] for network in (model, other)))
            assert len(plans.plans) <= _MOST_MODES
    assert caplog.text.count("a plan is forgotten") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda model: model[0].requires_grad_(True),
            r"for parameter '0\.weight' that requires a gradient, parameter '0\.",
        ),
        (
            lambda model: model.eval().requires_grad_(True),
            r"for parameter '0.weight' .*, parameter '0.bias' .* and \d+ more",
        ),
        (lambda model: model.requires_grad_(True), r"that requires a gradient and \d+ more: budget"),
    ],
)
def test_a_mode_that_no_plan_is_within_is_named(change, message):
    model, x = layers(8, 600, 24).requires_grad_(False), torch.randn(16, 8)
    model[-1].requires_grad_(True)
    plans = Plans(model, budget="120KiB", **QUICK).install()
    model(x)
    change(model)
    with pytest.raises(NoPlanError, match=message) as error:
        model(x)
    assert "for :" not in str(error.value) and len(plans.plans) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda model: model.eval(), 'the network is in evaluation mode; Plans, or shapes="each", plan each mode'),
        (lambda model: model[0].requires_grad_(False), "'0.weight' with requires grad True, called with False; Plans"),
    ],
)
def test_one_plan_refuses_another_mode_with_what_plans_each(change, message):
    model, x = layers(8, 24), torch.randn(16, 8)
    step = planned(model, [x], 1.0).module()
    change(model)
    with pytest.raises(PlanError, match=message):
        step(x)
