"""Random states, settings, hooks, and tensors that change between forward and backward pass: equal, or refused."""

from __future__ import annotations

import contextlib
import functools
import importlib.util

import pytest
import torch
from documents import ROOT
from step_runs import same, steps, twin
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.pytorch import PlanError, outside_state, plan, watching

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}
bound_early = torch.manual_seed


@pytest.fixture
def x():
    torch.manual_seed(0)
    return torch.rand(64, 6)


class Net(nn.Module):
    def __init__(self, act, drop=0.5):
        super().__init__()
        self.first, self.act, self.last = nn.Linear(6, 6), act, nn.Linear(6, 6)
        self.drop, self.t, self.generator = nn.Dropout(drop), torch.full((6,), 0.5), torch.Generator()

    def forward(self, x):
        return self.last(self.act(self, self.first(x)))


def forked(self, y):
    with torch.random.fork_rng(devices=[]):
        return self.drop(y)


def restored(self, y):
    state = torch.get_rng_state()
    y = self.drop(y)
    torch.set_rng_state(state)
    return y


class Again(torch.autograd.Function):
    """A checkpoint of one's own, which restores the random state rightly."""

    @staticmethod
    def forward(ctx, run, put_back, x):
        ctx.run, ctx.put_back, ctx.x, ctx.state = run, put_back, x, torch.get_rng_state()
        with torch.no_grad():
            return run(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.x.detach().requires_grad_()
        with torch.enable_grad(), torch.random.fork_rng(devices=[]):
            ctx.put_back(ctx.state)
            out = ctx.run(x)
        return None, None, *torch.autograd.grad(out, x, gradient)


def again(self, y, put_back=torch.set_rng_state):
    return Again.apply(lambda y: self.drop(y).tanh(), put_back, y)


def after(do):
    def act(self, y):
        do(self)
        return self.drop(y)

    return act


SETTING = {
    "manual_seed": after(lambda self: torch.manual_seed(3)),
    "another name": after(lambda self: bound_early(3)),
    "seed": after(lambda self: torch.seed()),
    "of the generator": after(lambda self: torch.default_generator.manual_seed(3)),
    "state of the generator": after(lambda self: torch.default_generator.set_state(torch.Generator().get_state())),
    "of its own": after(lambda self: self.generator.manual_seed(3)),
    "fork_rng": forked,
    "set_rng_state": restored,
    "after what draws": lambda self, y: (self.drop(y), torch.manual_seed(3))[0],
    "own checkpoint": again,
    "own checkpoint by the generator": functools.partial(again, put_back=torch.default_generator.set_state),
}  # fmt: skip


@pytest.mark.parametrize("budget", ["1TiB", 1.0])
@pytest.mark.parametrize("kind", SETTING)
def test_a_step_that_sets_the_random_state_is_refused_with_its_line(kind, budget, x):
    model, before = Net(SETTING[kind]), torch.get_rng_state()
    with pytest.raises(PlanError, match=r"sets the random state.*test_outside_state.py:\d+") as refusal:
        plan(model, (x,), budget=budget, **CHEAP)
    assert "\n" not in str(refusal.value) and torch.equal(torch.get_rng_state(), before)
    assert torch.random.default_generator is torch.default_generator


def test_a_seed_is_refused_where_nothing_draws_for_what_comes_after_the_step_draws(x):
    with pytest.raises(PlanError, match="sets the random state"):
        plan(Net(SETTING["manual_seed"], drop=0.0), (x,), budget="1TiB", **CHEAP)


def by_seed(self, y):
    return y * (1 + torch.initial_seed() % 7)


@pytest.mark.parametrize(
    "net",
    [
        lambda: Net(forked, drop=0.0),
        lambda: Net(again, drop=0.0),
        lambda: Net(lambda self, y: checkpoint(self.drop, y, use_reentrant=False)),
        lambda: Net(lambda self, y: checkpoint(self.drop, y, use_reentrant=True)),
        lambda: Net(after(lambda self: torch.get_rng_state())),
        lambda: Net(by_seed),
    ],
    ids=["fork without draws", "own without draws", "checkpoint", "reentrant", "reads", "seed"],
)
def test_states_that_are_read_or_put_back_without_effect_are_accepted(net, x):
    model = net()
    other, fresh = twin(model, [x])
    torch.manual_seed(7)
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    assert same(steps(model, step, [x]), steps(other, other, fresh))


def test_a_seed_that_is_read_is_compared_and_a_state_in_a_computation_refused(x):
    torch.manual_seed(7)
    step = plan(Net(by_seed), (x,), budget="1TiB", **CHEAP).module()
    torch.manual_seed(8)
    with pytest.raises(PlanError, match="planned with the initial seed of PyTorch = 7, it is 8 now"):
        step(x)
    with pytest.raises(PlanError, match="computes with the random state"):
        plan(Net(lambda self, y: y * torch.get_rng_state()[0]), (x,), budget="1TiB", **CHEAP)


def test_the_page_has_the_list():
    rows = outside_state.table()
    assert rows in (ROOT / "docs/training.md").read_text(encoding="utf-8")
    assert f"; {watching._MOST:,} values in total" in rows and f"more than {watching._MOST_ENTRIES:,} entries" in rows
    modules = {each.code for each in outside_state.STATES if each.code}
    assert all(importlib.util.find_spec(f"moccasin_mzn.pytorch.{name}") for name in modules)


# --- between forward and backward pass ------------------------------------------------------------------------

HIDDEN = torch.full((6,), 0.5)


def added(of):
    return lambda self, y: (y + of(self)).sin().tanh()


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (lambda self: self.t, "tensor 't'"),
        (lambda self: self.__dict__.setdefault("d", {"a": torch.ones(6)})["a"], "tensor 'd"),
        (lambda self: HIDDEN, "tensor 'HIDDEN'"),
        (lambda self, row=[HIDDEN]: row[0], "tensor '.*"),  # noqa: B006
    ],
)
def test_a_tensor_that_is_no_buffer_is_refused_where_it_changes_before_the_backward_pass(of, name, x):
    model = Net(added(of))
    of(model)
    step = plan(model, (x,), budget="least", **CHEAP | {"time_limit": 8.0}).module()
    other, fresh = twin(model, [x])
    assert same(steps(model, step, [x]), steps(other, other, fresh))
    loss = step(x).sum()
    of(model).mul_(1.0)
    with pytest.raises(PlanError, match=f"{name}.* was changed in place between forward and backward"):
        loss.backward()
    step(x).sum().backward()  # a change between steps is followed


@pytest.mark.parametrize("what", ["weight", "input", "attribute"])
def test_memory_that_is_replaced_before_the_backward_pass_is_refused(what, x):
    model = Net(added(lambda self: self.t))
    step = plan(model, (x.requires_grad_(),), budget="least", **CHEAP | {"time_limit": 8.0}).module()
    loss = step(x).sum()
    tensor = {"weight": model.last.weight, "input": x, "attribute": model.t}[what]
    tensor.data = tensor.detach() * 2
    with pytest.raises(PlanError, match="was changed in place between forward and backward"):
        loss.backward()


def test_memory_that_is_replaced_between_steps_is_followed(x):
    model = Net(added(lambda self: self.t))
    other, fresh = twin(model, [x])
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    for each in (model, other):
        each.last.weight.data = each.last.weight.detach() * 2
        each.t.data = torch.full((6,), 2.5)
    assert same(steps(model, step, [x]), steps(other, other, fresh))


# --- settings and hooks ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def default_dtype():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic():
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def all_modules(register):
    handle = register(lambda module, *_: None)
    try:
        yield
    finally:
        handle.remove()


OF_ALL = "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        (default_dtype, "planned with default dtype float32, called with float64"),
        (lambda: torch.device("meta"), "planned with default device 'cpu', called with 'meta'"),
        (deterministic, "planned with deterministic algorithms False, called with True"),
        (
            lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t),
            r"hooks for saved tensors are on \(test_outside_state.*lambda.*test_outside_state.py:\d+\), which a plan",
        ),
        (lambda: sdpa_kernel(SDPBackend.MATH), "planned with attention backends .*True.*, called with .*False"),
        *(
            (functools.partial(all_modules, getattr(nn.modules.module, name)), "a hook of all modules .* is set")
            for name in OF_ALL
        ),
    ],
)
def test_settings_and_hooks_of_all_modules_are_compared_at_each_call(context, message, x):
    model = Net(lambda self, y: nn.functional.scaled_dot_product_attention(y[None], y[None], y[None])[0])
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    with context(), pytest.raises(PlanError, match=message):
        step(x)
    step(x).sum().backward()


@pytest.mark.parametrize("names", ["own", "save_on_cpu"])
def test_a_plan_is_made_without_hooks_for_saved_tensors_and_called_under_those_of_pytorch(names, x):
    own = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    model = Net(lambda self, y: y)
    with {"own": own, "save_on_cpu": torch.autograd.graph.save_on_cpu()}[names]:
        with pytest.raises(
            PlanError, match=r"hooks for saved tensors are on \(.*, which a plan would not call: plan"
        ) as e:
            plan(model, (x,), budget="1TiB", **CHEAP)
        assert "\n" not in str(e.value)
    other, fresh = twin(model, [x])
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    with torch.autograd.graph.save_on_cpu():
        assert same(steps(model, step, [x]), steps(other, other, fresh))
    checkpoint(step, x, use_reentrant=False).sum().backward()


@pytest.mark.parametrize("name", OF_ALL)
def test_hooks_of_all_modules_are_refused_when_a_plan_is_made(name, x):
    with (
        all_modules(getattr(nn.modules.module, name)),
        pytest.raises(PlanError, match="a hook of all modules .*lambda.* of test_outside_state. is set .*remove it"),
    ):
        plan(Net(lambda self, y: y), (x,), budget="1TiB", **CHEAP)


def test_another_hook_in_the_place_of_one_is_refused(x):
    model = Net(lambda self, y: y)
    handle = model.first.register_forward_hook(lambda module, inputs, output: output * 2)
    step = plan(model, (x,), budget="1TiB", **CHEAP).module()
    handle.remove()
    model.first.register_forward_hook(lambda module, inputs, output: output * 3)
    with pytest.raises(PlanError, match="a submodule has other hooks than when the plan was made"):
        step(x)


# --- What is refused leaves parameters as they were -----------------------------------------------------------


def plus_one(weight):
    with torch.no_grad():
        weight.add_(1)


def by_data(weight):
    weight.data.mul_(2)


def of_a_list(weight):
    with torch.no_grad():
        torch._foreach_add_([weight], 1.0)


def of_a_view(weight):
    with torch.no_grad():
        weight[1:, 2].zero_()


def initialized(weight):
    nn.init.uniform_(weight)


def by_out(weight):
    with torch.no_grad():
        torch.add(weight, 1, out=weight)


@pytest.mark.parametrize("change", [plus_one, by_data, of_a_list, of_a_view, initialized, by_out])
@pytest.mark.parametrize("tied", [False, True])
def test_parameters_that_a_step_changes_are_as_before_when_it_is_refused(x, change, tied):
    def act(self, y):
        change(self.first.weight)
        return y

    net = Net(act, drop=0.0)
    if tied:
        net.last.weight = net.first.weight
    before = {name: value.detach().clone() for name, value in net.state_dict().items()}
    own = net.first.weight
    with pytest.raises(PlanError):
        plan(net, (x,), budget=0.9, loss=lambda y: y.square().mean(), **CHEAP)
    assert net.first.weight is own
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
