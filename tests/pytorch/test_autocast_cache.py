"""Autocast casts a weight that is read twice once, and what is computed each time: a plan does the same, or refuses."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest
import torch
from step_runs import QUICK
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.pytorch import PlanError, plan

cast = partial(torch.autocast, "cpu", torch.bfloat16)
uncached = partial(cast, cache_enabled=False)


class Reads(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.one, self.two = how, nn.Linear(16, 16), nn.Linear(16, 16)
        self.made = cast()
        if how == "computed":
            nn.utils.parametrizations.weight_norm(self.one)
        self.one.weight.requires_grad_(how != "frozen")

    def twice(self, x):
        return self.one(self.one(x.float()).tanh()).sin()

    def forward(self, x):
        match self.how:
            case "no gradient before":
                with torch.no_grad():
                    x = x + self.one(x)
                x = self.twice(x)
            case "no gradient between":
                x = self.one(x).tanh()
                with torch.no_grad():
                    x = x + self.one(x)
                x = self.one(x)
            case "cast by the step":
                with cast():
                    x = self.twice(x)
            case "cast by the step in turn":
                with cast():
                    x = self.one(x).tanh()
                with cast():
                    x = self.one(x).sin()
            case "cast by the network's own":
                with self.made:
                    x = self.twice(x)
            case "kept and not":
                x = self.one(x).tanh()
                with uncached():
                    x = self.one(x).sin()
                x = self.one(x.float()).cos()
            case "switched off between":
                x = self.one(x).tanh()
                with torch.autocast("cpu", enabled=False):
                    x = self.one(x.float()).sin()
                x = self.one(x.float()).cos()
            case "another type between":
                x = self.one(x).tanh()
                with torch.autocast("cpu", torch.float16):
                    x = self.two(x.float()).sin()
                x = self.one(x.float()) + self.one(x.float() * 2)
            case "a type and another":
                x = self.one(x).tanh()
                with torch.autocast("cpu", torch.float16):
                    x = self.one(x.float())
            case "not cast, too":
                x = self.twice(x).float().mean() + (self.one.weight**2).sum() + (self.one.weight * 3).cos().sum()
            case "a view":
                weight = self.one.weight.t()
                x = (x @ weight).tanh() @ self.one.weight.t() + x @ weight
            case "checkpoints" | "reentrant checkpoints":
                x = self.two(x)
                for _ in range(2):
                    x = checkpoint(self.twice, x, use_reentrant=self.how == "reentrant checkpoints")
            case "changed in place":
                x = self.one(x).tanh()
                with torch.no_grad():
                    self.one.weight.mul_(0.5)
                x = self.one(x)
            case "other memory":
                x = self.one(x).tanh()
                self.one.weight.data = self.one.weight.data * 0.5
                x = self.one(x)
            case "an input":
                x = (self.one(x).tanh() + self.two(x)).sin()
            case _:
                x = self.twice(x)
        return x.float().square().mean()


EQUAL = (
    "weights", "computed", "frozen", "no gradient before", "no gradient between", "cast by the step",
    "cast by the step in turn", "cast by the network's own", "kept and not", "switched off between",
    "another type between", "not cast, too", "a view", "checkpoints", "reentrant checkpoints",
)  # fmt: skip
CHEAP = {**QUICK, "durations": "flop"}


def stepped(model, call, x, mode):
    """The loss and the gradients of a step as a loop makes it, its backward pass outside of autocast."""
    model.zero_grad()
    with mode():
        loss = call(x)
    loss.backward()
    return [loss.detach(), *(each.grad for each in model.parameters() if each.grad is not None)]


def same(one, other):
    return len(one) == len(other) and all(map(torch.equal, one, other))


def model_and_input(how):
    torch.manual_seed(0)
    return Reads(how), torch.randn(32, 16)


@pytest.mark.few(12)
@pytest.mark.parametrize("how", EQUAL)
@pytest.mark.parametrize("budget", [1.0, 0.9])
@pytest.mark.parametrize("mode", [cast, uncached, nullcontext], ids=["around", "uncached around", "none"])
def test_a_step_is_equal_in_a_loop(how, budget, mode):
    if (how, budget) == ("frozen", 0.9) or (how, mode) == ("reentrant checkpoints", nullcontext):
        pytest.skip("no plan is within it, or checkpoints themselves add up gradients in another order")
    model, x = model_and_input(how)
    wanted = [each.clone() for each in stepped(model, model, x, mode)]
    with mode():
        found = plan(model, (x,), budget=budget, **CHEAP)
    assert found.trust.known is None
    assert same(wanted, stepped(model, found.module(), x, mode))


@pytest.mark.parametrize("how", ["changed in place", "other memory"])
def test_a_weight_that_the_step_changes_between_two_reads_is_refused(how):
    model, x = model_and_input(how)
    with cast(), pytest.raises(PlanError, match="parameter 'one.weight' is "):
        plan(model, (x,), budget=1.0, **CHEAP)


def test_a_weight_that_is_cast_to_two_types_fails_as_it_does_without_a_plan():
    model, x = model_and_input("a type and another")
    with cast(), pytest.raises(RuntimeError, match="same dtype"):
        model(x)
    with cast(), pytest.raises(RuntimeError, match="same dtype"):
        plan(model, (x,), budget=1.0, **CHEAP)


@pytest.mark.parametrize(("planned", "called"), [(cast, uncached), (uncached, cast)])
def test_a_call_with_another_cache_is_refused(planned, called):
    model, x = model_and_input("weights")
    with planned():
        found = plan(model, (x,), budget=1.0, **CHEAP)
    with pytest.raises(PlanError, match="autocast's cache_enabled=(True, called with False|False, called with True)"):
        stepped(model, found.module(), x, called)


@pytest.mark.parametrize(("planned", "called"), [(cast, uncached), (uncached, cast)])
def test_a_call_with_another_cache_is_equal_where_each_weight_is_read_once(planned, called):
    model, x = model_and_input("an input")
    wanted = [each.clone() for each in stepped(model, model, x, called)]
    with planned():
        found = plan(model, (x,), budget=1.0, **CHEAP)
    assert same(wanted, stepped(model, found.module(), x, called))


@pytest.mark.parametrize("budget", [1.0, 16384])
@pytest.mark.parametrize("mode", [cast, uncached], ids=["kept", "not kept"])
def test_an_input_is_cast_as_often_as_autocast_does_or_refused(budget, mode):
    """Autocast keeps the cast of a leaf, not of what another network has computed."""
    model, x = model_and_input("an input")
    leaf = x.clone().requires_grad_()
    results = []
    with mode():
        found = plan(model, (leaf * 1,), budget=budget, **CHEAP)
    for call in (model, found.module()):
        leaf.grad = None
        results.append([*(each.clone() for each in stepped(model, call, leaf * 1, mode)), leaf.grad.clone()])
    assert found.trust.known is None and same(*results)
    if mode is uncached:
        leaf.grad = None
        wanted = [*(each.clone() for each in stepped(model, model, leaf, mode)), leaf.grad.clone()]
        leaf.grad = None
        assert same(wanted, [*stepped(model, found.module(), leaf, mode), leaf.grad])
        return
    message = "input 0 requires a gradient and is computed from nothing"
    with pytest.raises(PlanError, match=message):
        stepped(model, found.module(), leaf, mode)
    with mode(), pytest.raises(PlanError, match=message):
        plan(model, (leaf,), budget=budget, **CHEAP)
