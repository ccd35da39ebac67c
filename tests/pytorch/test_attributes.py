"""What a network reads of its attributes is compared before each step; what a plan would not do is refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from moccasin_mzn.pytorch import PlanError, plan

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}


class Network(nn.Module):
    def __init__(self, act=lambda self, y: y):
        super().__init__()
        self.line, self.drop, self.act = nn.Linear(6, 6), nn.Dropout(0.5), act
        self.scale, self.sizes, self.count, self.cached, self.unread = 2.0, [1, 2], 0, None, 5
        self.config = SimpleNamespace(bias=1.0, other="a")
        self.names, self.function = {"a": 1}, torch.tanh

    def forward(self, x):
        y = self.function(self.drop(self.line(x))) * self.scale * len(self.sizes) + self.config.bias + self.names["a"]
        return self.act(self, y)


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(64, 6)


def changed(name, value):
    def change(model):
        place = model
        *path, last = name.split(".")
        for part in path:
            place = getattr(place, part)
        setattr(place, last, value)

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed("scale", 3.0), "planned with 'scale' = 2.0, it is 3.0 now: make a new plan"),
        (changed("drop.p", 0.1), "planned with 'drop.p' = 0.5, it is 0.1 now"),
        (changed("config.bias", 2.0), "planned with 'config.bias' = 1.0, it is 2.0 now"),
        (changed("config", SimpleNamespace(bias=1.0)), "planned with 'config' = "),
        (changed("function", torch.sigmoid), "planned with 'function' = "),
        (lambda model: model.sizes.append(3), r"planned with 'sizes' = \[1, 2\], it is \[1, 2, 3\] now"),
        (lambda model: model.names.update(a=2), r"planned with 'names\['a'\]' = 1, it is 2 now"),
        (lambda model: delattr(model, "scale"), "planned with 'scale' = 2.0, it is missing now"),
        (changed("drop", nn.Dropout(0.5)), "the network has other submodules than when the plan was made"),
        (changed("line.forward", torch.tanh), "planned with 'line.forward' = missing, it is "),
        (lambda model: model.line.register_forward_hook(print), "another number of hooks than when the plan was made"),
    ],
)
def test_another_value_is_refused(change, message, x):
    model = Network()
    step = plan(model, (x,), budget=1.0, **CHEAP).module()
    step(x).sum().backward()
    model.unread = 6  # nothing reads it
    step(x).sum().backward()
    change(model)
    with pytest.raises(PlanError, match=message):
        step(x)


def counts(self, y):
    self.count += 1
    return y * self.count


def keeps(self, y):
    self.latest = y
    return y


def appends(self, y):
    self.sizes.append(y)
    return y


def caches(self, y):
    if self.cached is None or self.cached < len(y):
        self.cached = len(y)
    return y * (self.cached / len(y))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (counts, "the network changes its attribute 'inner.count', which a plan would not do"),
        (keeps, "the network keeps a tensor in its attribute 'inner.latest', which a plan would not do"),
        (appends, "the network changes its attribute 'inner.sizes', which a plan would not do"),
    ],
)
@pytest.mark.parametrize("budget", [1.0, "1TiB"])
def test_what_is_written_is_refused_and_put_back(act, message, budget, x):
    model = nn.Sequential()
    model.add_module("inner", Network(act))
    with pytest.raises(PlanError, match=message):
        plan(model, (x,), budget=budget, **CHEAP)
    assert model.inner.count == 0 and not hasattr(model.inner, "latest") and model.inner.sizes == [1, 2]


def within(self, y):
    self.latest = [y * 2]
    return self.latest[0]


def carried(self, y):
    y = y if self.cached is None else y + self.cached
    self.cached = y.detach()
    return y


def moved(self, y):
    self.cached = self.cached.to(y.dtype) + 0
    return y + self.cached


def test_tensors_that_are_kept_for_the_same_step_are_followed_but_none_from_step_to_step(x):
    model = Network(within)
    found = plan(model, (x,), budget=1.0, **CHEAP)
    assert found.verify((x,)).equal
    model = Network(moved)
    model.cached = torch.ones(6)
    assert plan(model, (x,), budget=1.0, **CHEAP).verify((x,)).equal
    model = Network(carried)
    model.cached = torch.zeros(64, 6)
    with pytest.raises(PlanError, match="the network keeps a tensor in its attribute 'cached'"):
        plan(model, (x,), budget=1.0, **CHEAP)


def test_what_is_found_once_may_stay(x):
    model = Network(caches)
    step = plan(model, (x,), budget=1.0, **CHEAP).module()
    step(x).sum().backward()
    assert model.cached == 64


def doubled(module, inputs, output):
    return torch.mul(output, 2)


class Recorder:
    def __init__(self):
        self.count = 0

    def hook(self, module, inputs, output):
        self.count += 1


def test_hooks_that_print_or_keep_something_are_refused_others_are_traced(x):
    model = Network()
    seen = []
    handle = model.line.register_forward_hook(lambda *called: seen.append(called))
    with pytest.raises(PlanError, match=r"module 'line' has a hook \(.*test_attributes\) that keeps something"):
        plan(model, (x,), budget=1.0, **CHEAP)
    handle.remove()
    handle = model.line.register_forward_hook(Recorder().hook)
    with pytest.raises(PlanError, match="a hook .* that keeps something"):
        plan(model, (x,), budget=1.0, **CHEAP)
    handle.remove()
    handle = model.line.register_forward_hook(print)
    with pytest.raises(PlanError, match="has a hook"):
        plan(model, (x,), budget=1.0, **CHEAP)
    handle.remove()
    factor = 2.0
    model.line.register_forward_hook(lambda module, inputs, output: output * factor)
    model.line.register_forward_hook(doubled)
    assert plan(model, (x,), budget=1.0, **CHEAP).verify((x,)).equal
    nn.utils.spectral_norm(model.line)
    with torch.no_grad():
        model(x)
    assert plan(model, (x,), budget=1.0, **CHEAP).verify((x,)).equal


class Configuration:
    """As those of transformers: some attributes have other names too."""

    attribute_map = {"width": "hidden"}

    def __init__(self):
        self.hidden, self.architectures, self.dropout = 6, None, 0.5

    def __getattribute__(self, name):
        mapped = object.__getattribute__(self, "attribute_map").get(name, name)
        return object.__getattribute__(self, mapped)


def test_of_an_object_only_what_is_read_is_compared(x):
    class Configured(nn.Module):
        def __init__(self):
            super().__init__()
            self.line, self.config = nn.Linear(6, 6), Configuration()

        def forward(self, x):
            return self.line(x).tanh() * self.config.width * getattr(self.config, "scale", 1.0)

    model = Configured()
    step = plan(model, (x,), budget=1.0, **CHEAP).module()
    model.config.architectures = ["Configured"]  # as when a checkpoint is saved
    assert step(x).requires_grad
    model.config.hidden = 7
    with pytest.raises(PlanError, match="planned with 'config.hidden' = 6, it is 7 now"):
        step(x)
    model.config.hidden, model.config.scale = 6, 2.0
    with pytest.raises(PlanError, match="planned with 'config.scale' = missing, it is 2.0 now"):
        step(x)
