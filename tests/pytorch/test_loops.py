"""A plan in the place of a network: calls that mean the same, what the network has besides, copies, other shapes."""

from __future__ import annotations

import copy
import inspect
import io
import logging
import pickle
from types import SimpleNamespace

import pytest
import torch
from step_runs import QUICK, planned, same
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, PlanError, Plans, plan


class Network(nn.Module):
    """Called as networks of transformers are: many arguments with defaults, further ones by name."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(24, 24), nn.GELU(), nn.Dropout(0.1)) for _ in range(4)))
        self.config, self.level = SimpleNamespace(return_dict=True), 1

    def forward(self, x, mask=None, scale=1.0, *, flag=False, **kwargs):
        y = self.layers(x) if mask is None else self.layers(x) * mask
        loss = (y * scale).pow(2).sum()
        return loss / kwargs["num_items_in_batch"] if "num_items_in_batch" in kwargs else loss

    def generate(self):
        return self.config


X, MASK, COUNT = torch.randn(64, 24, generator=torch.Generator().manual_seed(1)), torch.ones(24), torch.tensor(7)


@pytest.fixture
def model():
    return Network()


def output(call):
    torch.manual_seed(3)
    return call()


@pytest.mark.parametrize(
    "call",
    [
        lambda step: step(num_items_in_batch=COUNT, x=X, mask=MASK),
        lambda step: step(X, MASK, num_items_in_batch=COUNT),
        lambda step: step(X, MASK, 1.0, num_items_in_batch=COUNT, flag=False),
        lambda step: step(X, mask=MASK, num_items_in_batch=COUNT, return_dict=True),
        lambda step: step(X, mask=MASK, num_items_in_batch=COUNT, return_dict=None),
    ],
)
def test_calls_that_mean_the_same(model, call):
    found = planned(model, [X], 0.8, kwargs={"mask": MASK, "num_items_in_batch": COUNT})
    step = found.module()
    expected = output(lambda: model(X, MASK, num_items_in_batch=COUNT))
    assert torch.equal(output(lambda: call(step)), expected)
    found.install()
    assert torch.equal(output(lambda: call(model)), expected)
    assert type(model(X, MASK, num_items_in_batch=COUNT).grad_fn).__name__ == "PlannedBackward"


def test_an_input_by_name_has_its_values_in_each_step(model):
    step = planned(model, [X], 0.8, kwargs={"num_items_in_batch": COUNT}).module()
    found = [output(lambda: step(X, num_items_in_batch=torch.tensor(count))) for count in (7, 14)]  # noqa: B023
    assert torch.equal(found[0], found[1] * 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda step: step(X), "'mask' was a tensor and is None; 'num_items_in_batch' was a tensor and is left out"),
        (lambda step: step(X, MASK, 2.0, num_items_in_batch=COUNT), "'scale' was 1.0 and is 2.0: make a plan"),
        (lambda step: step(X, MASK, num_items_in_batch=7), "'num_items_in_batch' was a tensor and is 7"),
        (lambda step: step(X, MASK, num_items_in_batch=COUNT, more=[X]), r"'more' was left out and is \[a tensor\]"),
        (lambda step: step(X, MASK, num_items_in_batch=COUNT, return_dict=False), "'return_dict' was True and is Fal"),
        (lambda step: step(mask=MASK), "the network cannot be called with these inputs, missing a required argument"),
        (lambda step: step(X, MASK, x=X), "the network cannot be called with these inputs, multiple values for arg"),
    ],
)
def test_arguments_that_differ_are_named_with_both_values(model, call, message):
    step = planned(model, [X], 1.0, kwargs={"mask": MASK, "num_items_in_batch": COUNT}).module()
    with pytest.raises(PlanError, match=message):
        call(step)


def test_a_target_is_the_last_whatever_else_is_passed(model):
    class Line(nn.Linear):
        def forward(self, x, scale=1.0):
            return super().forward(x) * scale

    line, target = Line(24, 2), torch.zeros(64, 2)
    step = planned(line, [X, 1.0, target], 1.0, loss=nn.functional.mse_loss).module()
    expected = nn.functional.mse_loss(line(X), target)
    assert torch.equal(step(X, target), expected) and torch.equal(step(X, target, scale=1.0), expected)
    with pytest.raises(PlanError, match="'scale' was 1.0 and is 2.0"):
        step(X, target, scale=2.0)
    with pytest.raises(PlanError, match="the target was a tensor and is 0"):
        step(X, 1.0, 0)


def test_the_signature_stays(model):
    expected = inspect.signature(model.forward)
    found = planned(model, [X], 1.0)
    found.install()
    assert inspect.signature(model.forward) == inspect.signature(found.module().forward) == expected


def test_a_planned_module_has_what_the_network_has(model):
    step = planned(model, [X], 1.0).module()
    assert step.config is model.config and step.generate() is model.config and step.layers is model.layers
    step.level, step.own = 2, 3
    assert (model.level, step.level, step.own) == (2, 2, 3) and not hasattr(model, "own")
    assert [*dict(step.named_parameters())] == [*dict(model.named_parameters())]
    with pytest.raises(AttributeError, match="'Network' object has no attribute 'nothing'"):
        step.nothing  # noqa: B018
    model.eval()
    assert not step.training and not step.layers.training
    step.train()
    assert model.training


def through_file(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)), through_file])
@pytest.mark.parametrize("is_installed", [True, False])
def test_copies_are_the_network_without_the_plan(model, copied, is_installed, caplog):
    found = planned(model, [X], 0.8)
    if is_installed:
        found.install()
    with caplog.at_level(logging.INFO, "moccasin_mzn"):
        twin = copied(model if is_installed else found.module())
    assert "a copy of a network with a plan, also in a file, is the network without it" in caplog.text
    assert type(twin) is Network and same([*twin.parameters()], [*model.parameters()])
    with torch.no_grad():
        twin.layers[0][0].weight.zero_()
    loss = twin(X[:5])  # of any shape
    assert type(loss.grad_fn).__name__ != "PlannedBackward"
    loss.backward()
    assert model.layers[0][0].weight.any() and model.layers[0][0].weight.grad is None
    again = planned(twin, [X], 0.8)
    again.install()
    twin(X).backward()
    again.remove()
    assert copied(twin)(X[:5]).requires_grad


def test_a_forward_that_another_library_puts_around_an_installed_one_stays(model):
    plans = Plans(model, budget=0.8, **QUICK).install()
    inner = model.forward
    model.forward = lambda *args: inner(*args) * 2
    other = Network()
    expected = output(lambda: other(X)) * 2
    assert torch.equal(output(lambda: model(X)), expected) and len(plans.plans) == 1
    plans.remove()
    assert torch.equal(output(lambda: model(X)), expected)
    with pytest.raises(PlanError, match="no plan is installed"):
        plans.remove()


def trained(model, step, sizes):
    torch.manual_seed(5)
    optimizer = torch.optim.Adam(model.parameters())
    for size in sizes:
        optimizer.zero_grad()
        step(X[:size]).backward()
        optimizer.step()
    return [*model.parameters()]


@pytest.mark.parametrize("gradients", ["returned", "accumulated"])
def test_each_shape_is_planned_when_it_comes_or_runs_as_it_is(gradients):
    sizes = (64, 60, 5, 64, 60, 5)
    model, other, made = Network(), Network(), []
    options = {**QUICK, "gradients": gradients, "on_progress": lambda progress: made.append(progress) and None}
    found = plan(model, (X,), budget="46KiB", shapes="each", **options)
    step = found.module()
    assert found.repeats and same(trained(model, step, sizes), trained(other, other, sizes))
    before = len(made)
    step(X)
    names = [type(step(x).grad_fn).__name__ for x in (X, X[:60], X[:5])]
    assert names == ["PlannedBackward", "PlannedBackward", "SumBackward0"]
    assert len(made) == before  # nothing is planned twice
    found.install()
    assert same(trained(model, model, sizes), trained(other, other, sizes))
    found.remove()


def test_a_shape_that_no_plan_is_within_is_named(model):
    step = plan(model, (X,), budget=0.8, shapes="each", **QUICK).module()
    with pytest.raises(NoPlanError, match=r"for input 0 of float32\[6400, 24\]: budget .*: no plan is within it"):
        step(X.repeat(100, 1))
    assert step(X).requires_grad


def test_by_default_another_shape_is_refused_with_the_option_that_plans_it(model):
    step = planned(model, [X], 1.0).module()
    with pytest.raises(PlanError, match='planned for input 0 of .*, called with .*; shapes="each" plans each shape'):
        step(X[:5])
    with pytest.raises(InputError, match="shapes 'all': expected one of one, each"):
        plan(model, (X,), budget=1.0, shapes="all")


class Reading(nn.Module):
    """Random numbers are drawn before a value is read, as in networks that look whether a mask is all true."""

    def __init__(self, norm=nn.Identity):
        super().__init__()
        torch.manual_seed(0)
        self.drop, self.norm = nn.Dropout(0.2), norm()
        self.layers = nn.Sequential(*(nn.Sequential(nn.Linear(24, 24), nn.GELU()) for _ in range(4)))

    def forward(self, x, mask):
        y = self.layers(self.norm(self.drop(x)))
        return (y if mask.all() else y * mask).pow(2).mean() * int(mask.sum() < 23)


def test_each_value_that_is_read_has_its_plan():
    model, other = Reading(), Reading()
    some = MASK.clone()
    some[:3] = 0
    plans = Plans(model, budget=0.8, **QUICK).install()
    losses = []
    for network in (model, other):
        torch.manual_seed(2)
        losses.append([network(X, mask) for mask in (MASK, some, MASK, some, some)])
        sum(losses[-1]).backward()
    assert same(*losses) and same(*([each.grad for each in network.parameters()] for network in (model, other)))
    assert len(plans.plans) == 2


def test_values_of_too_many_kinds_are_refused():
    class Counting(Reading):
        def forward(self, x, mask):
            return self.layers(x).pow(2).mean() * int(mask.sum())

    step = Plans(Counting(), budget="100KiB", **QUICK).module()
    for count in range(4):
        assert step(X, torch.full((24,), float(count))).requires_grad
    with pytest.raises(PlanError, match="a value is read, which was .* when the plan was made and is 96.0 now"):
        step(X, torch.full((24,), 4.0))


def test_a_buffer_that_is_changed_before_another_value_is_read_is_changed_once():
    model, other = (Reading(lambda: nn.BatchNorm1d(24)) for _ in range(2))
    step = Plans(model, budget=0.8, **QUICK).module()
    for call in (step, other):
        torch.manual_seed(2)
        for mask in (MASK, torch.zeros(24), MASK):
            call(X, mask)
    assert same(*([*network.state_dict().values()] for network in (model, other)))


@pytest.mark.parametrize("rows", [lambda x: x.repeat(2, 1)[::2], lambda x: x[:1].expand(64, 24)])
def test_inputs_that_are_rows_of_others_are_planned_with_their_layout(model, rows):
    x = rows(X)
    step = planned(model, [x], 0.8).module()
    assert torch.equal(output(lambda: step(x)), output(lambda: model(x)))
