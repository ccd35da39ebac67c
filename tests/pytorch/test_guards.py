"""What a plan takes for granted is checked at every call, and told in one sentence."""

from __future__ import annotations

import json

import pytest
import torch
from step_runs import planned
from torch import nn

from moccasin_mzn.pytorch import Plan, PlanError, plan


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 2))


@pytest.fixture
def model():
    torch.set_num_threads(1)
    return network()


@pytest.fixture
def x():
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def step(model, x):
    return planned(model, [x], 1.0).module()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x[:3], r"planned for input 0 of float32\[4, 6\], called with float32\[3, 6\]"),
        (lambda x: x.double(), r"planned for input 0 of float32\[4, 6\], called with float64\[4, 6\]"),
        (lambda x: x.t().contiguous().t(), r"planned for input 0 with stride \(6, 1\), called with \(1, 4\)"),
        (lambda x: x.clone().requires_grad_(), "planned for input 0 with requires grad False, called with True"),
        (lambda x: x.to("meta"), "planned for input 0 with device cpu, called with meta"),
        (lambda x: [x], "called with other arguments than it was planned for"),
    ],
)
def test_guards_refuse_other_inputs(step, x, change, message):
    with pytest.raises(PlanError, match=message):
        step(change(x))


def test_arguments_that_are_no_tensors(x):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(6, 6)

        def forward(self, x, scale=1.0, *, flag=False):
            return self.line(x) * scale if flag else self.line(x)

    model = Network()
    step = planned(model, [x, 2.0], 1.0, kwargs={"flag": True}).module()
    assert torch.equal(step(x, 2.0, flag=True), model(x, 2.0, flag=True))
    for args, kwargs in (((x, 3.0), {"flag": True}), ((x, 2.0), {"flag": False}), ((x, 2), {"flag": True}), ((x,), {})):
        with pytest.raises(PlanError, match="called with other arguments"):
            step(*args, **kwargs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m.double(), r"planned for parameter '0.weight' of float32\[6, 6\], called with float64\[6, 6\]"),
        (lambda m: m[4].requires_grad_(False), "planned for parameter '4.weight' with requires grad True"),
        (lambda m: m[3].eval(), "planned in training mode, '3' is in evaluation mode"),
        (lambda m: m.eval(), "planned in training mode, the network is in evaluation mode"),
        (lambda m: setattr(m[1], "running_mean", None), "buffer '1.running_mean' is not where it was"),
    ],
)
def test_guards_refuse_a_changed_network(model, step, x, change, message):
    change(model)
    with pytest.raises(PlanError, match=message):
        step(x)


def test_weights_that_are_tied_no_more(x):
    model = nn.Sequential(nn.Linear(6, 6, bias=False), nn.Tanh(), nn.Linear(6, 6, bias=False))
    model[2].weight = model[0].weight
    step = planned(model, [x], 1.0).module()
    step(x).sum().backward()
    model[2].weight = nn.Parameter(model[0].weight.detach().clone())
    with pytest.raises(PlanError, match="parameter '0.weight' is not where it was, or tied no more"):
        step(x)


def test_guards_refuse_another_autocast(model, step, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with pytest.raises(PlanError, match="planned without autocast, called under autocast to bfloat16 on cpu"):
            step(x)
        under = planned(model, [x], 1.0).module()
        torch.manual_seed(3)
        found = under(x)
        torch.manual_seed(3)
        wanted = model(x)
    assert found.dtype == torch.bfloat16 and torch.equal(found, wanted)
    found.float().sum().backward()
    with pytest.raises(PlanError, match="planned under autocast to bfloat16 on cpu, called without autocast"):
        under(x)


def test_the_backward_pass_runs_once(step, x):
    loss = step(x).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(PlanError, match="the backward pass of a plan runs once"):
        loss.backward()


def test_no_second_derivatives(step, x):
    with pytest.raises(PlanError, match="a plan gives no second derivatives"):
        step(x).sum().backward(create_graph=True)


def test_a_parameter_changed_before_the_backward_pass(model, step, x):
    loss = step(x).sum()
    with torch.no_grad():
        model[4].weight.mul_(2)
    with pytest.raises(PlanError, match="parameter '4.weight' was changed in place between forward and backward"):
        loss.backward()


def test_an_output_changed_before_the_backward_pass(x):
    step = planned(nn.Sequential(nn.Linear(6, 6), nn.Sigmoid()), [x], 1.0).module()
    output = step(x)
    with torch.no_grad():
        output.mul_(2)
    with pytest.raises(PlanError, match="an output was changed in place between forward and backward"):
        output.sum().backward()


def test_without_gradients_the_network_itself_runs(model, step, x):
    model.eval()
    with torch.no_grad():
        assert torch.equal(step(x[:3]), model(x[:3]))


def test_a_step_forgotten_keeps_nothing(step, x):
    import gc
    import weakref

    output = step(x)
    kept = weakref.ref(output.grad_fn)
    gc.disable()
    try:
        storages = [weakref.ref(each.untyped_storage()) for each in output.grad_fn.kept if hasattr(each, "dim")]
        own = {id(tensor.untyped_storage()) for tensor in step.parameters()}
        del output
        assert kept() is None
        assert any(storage() is None for storage in storages) and own
    finally:
        gc.enable()


# --- networks that cannot be planned ---------------------------------------------------------------------------


def refused(function, message, x, **parts):
    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.line, self.rows = nn.Linear(6, 6), nn.Embedding(4, 6, sparse=True)
            self.register_buffer("memory", torch.zeros(6))
            self.scaled = nn.Embedding(4, 6, max_norm=1.0)
            self.generator, self.alias = torch.Generator(), self.memory.view(1, 6)

        def forward(self, x):
            return function(self, x)

    with pytest.raises(PlanError, match=message) as told:
        planned(Network(), [x], 0.9, **parts)
    assert "\n" not in str(told.value)


def attribute_that_requires_a_gradient(self, x):
    return self.line(x) * EXTRA


EXTRA = torch.ones(6).requires_grad_()


def overwritten_parameter(self, x):
    with torch.no_grad():
        self.line.weight.clamp_(-1, 1)
    return self.line(x)


class BackwardWrites(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, memory):
        ctx.memory = memory
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        ctx.memory.add_(gradient.sum(0))
        return gradient * 2, None


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda self, x: self.line(x.mul_(2)), r"input 0 is overwritten by aten.mul_.*: copy it first"),
        (overwritten_parameter, "parameter 'line.weight' is overwritten by aten.clamp_"),
        (lambda self, x: self.line(x.t_().t_()), "aten.t_.* changes the shape of a tensor in place"),
        (lambda self, x: self.line(x) + torch.rand(6, generator=self.generator), "draws from a generator of its own"),
        (lambda self, x: BackwardWrites.apply(self.line(x), self.memory), "backward pass overwrites buffer 'memory'"),
        (lambda self, x: self.line(x) + self.alias, "no parameter or buffer shares the memory of 'memory'"),
        (lambda self, x: self.line(x) + self.rows(torch.arange(4)), "aten.*gives a tensor that is sparse"),
        (lambda self, x: self.line(x) + self.scaled(torch.arange(4)), "parameter 'scaled.weight' is overwritten"),
        (attribute_that_requires_a_gradient, "a tensor that is no parameter requires a gradient"),
        (lambda self, x: x * 2, "no output depends on what requires a gradient"),
    ],
)  # fmt: skip
def test_what_cannot_be_planned(function, message, x):
    refused(function, message, x)


class Gate(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def as_numbers(x):
    return x + torch.from_numpy(x.detach().numpy())


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (lambda x: x if x.sum() > 0 else -x, "(lambda x: x if x.sum() > 0 else -x"),
        (as_numbers, "return x + torch.from_numpy(x.detach().numpy())"),
    ],
)
def test_a_line_that_reads_values_is_named_with_its_module(x, function, line):
    model = nn.Sequential(nn.Linear(6, 6), nn.Sequential(nn.ReLU(), Gate(function)))
    with pytest.raises(PlanError, match="data-dependent control flow") as refusal:
        plan(model, (x.to("meta"),), budget=0.9)
    number = function.__code__.co_firstlineno + (function is as_numbers)
    assert f"test_guards.py:{number}, in module '1.1', `{line}" in str(refusal.value)


def test_a_budget_that_is_too_small_is_refused_with_a_proof(model, x):
    with pytest.raises(
        PlanError,
        match=r"budget [\d.]+ K?i?B.*: no plan is within it, it takes at least [\d.]+ K?i?B.*, which is proven",
    ):
        planned(model, [x], 0.05, time_limit=5.0)


def test_other_orders_are_refused(model, x):
    from moccasin_mzn import InputError

    with pytest.raises(InputError, match="order 'free': plans are for the order of the trace"):
        plan(model, [x], budget=0.9, order="free")


# --- files -----------------------------------------------------------------------------------------------------


def unverified(report):
    """Without the line on the comparison of steps, which is made where the plan is."""
    return [line for line in report.splitlines() if not line.startswith("verified ")]


def test_a_plan_in_a_file(tmp_path, model, x):
    x = x.repeat(16, 1)
    found = planned(model, [x], 0.9)
    assert found.recomputations
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert (again.sequence, again.peaks, again.budget) == (found.sequence, found.peaks, found.budget)
    assert unverified(again.report()) == unverified(found.report())
    one, other = [], []
    for each, into in ((found, one), (again, other)):
        torch.manual_seed(5)
        into.append(each.module()(x))
    assert torch.equal(one[0], other[0])


@pytest.mark.parametrize(
    ("called", "message"),
    [
        (lambda model, x, y: plan(model, x, budget=0.9), r"the inputs are a tensor, expected .*: \(x,\)"),
        (lambda model, x, y: plan(network, (x,), budget=0.9), "the network is .*, expected a torch.nn.Module"),
        (lambda model, x, y: plan(model, (x, y), loss="mse", budget=0.9), "loss: expected a function, got 'mse'"),
        (lambda model, x, y: plan(model, (x, y), budget=0.9), "too many positional arguments; a target needs a loss"),
        (lambda model, x, y: plan(model, (x,), loss=nn.functional.mse_loss, budget=0.9),
         "missing a required argument: 'input'; the last one is the target, for the loss"),
        (lambda model, x, y: plan(model, (x, y), loss=nn.MSELoss, budget=0.9), "the loss is the class MSELoss"),
        (lambda model, x, y: plan(model, (x.numpy(),), budget=0.9), "an input is a numpy array, .*torch.from_numpy"),
        (lambda model, x, y: plan(torch.compile(model), (x,), budget=0.9), "the network is compiled by torch.compile"),
        (lambda model, x, y: plan(model, (x,), budget="lest"), "budget 'lest': expected .*, or least"),
        (lambda model, x, y: plan(model, (x,), budget=90), "budget 90 B .for 90 % write 90%.: no plan is within it"),
    ],
)  # fmt: skip
def test_common_mistakes_of_beginners_are_refused_with_advice(model, x, called, message):
    with pytest.raises(ValueError, match=message):
        called(model, x, torch.zeros(4, 2))


def test_an_error_of_the_networks_own_goes_through(x):
    class Network(nn.Linear):
        def forward(self, x):
            return super().forward(x + {})

    with pytest.raises(TypeError, match="unsupported operand"):
        plan(Network(6, 6), (x,), budget=0.9)


def test_a_plan_is_made_where_no_gradients_are_recorded(model, x):
    with torch.no_grad():
        assert plan(model, (x,), budget=1.0).verify((x,)).equal


def test_a_plan_is_loaded_in_the_mode_and_under_the_autocast_that_it_was_saved_in(tmp_path, x):
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(), nn.Linear(6, 6))
    planned(model, [x], 1.0).save(tmp_path / "plan.json")
    with (
        torch.autocast("cpu"),
        pytest.raises(PlanError, match="saved without autocast, this is under autocast to bfloat16 on cpu: load it li"),
    ):
        Plan.load(tmp_path / "plan.json", model)
    with pytest.raises(PlanError, match="saved in training mode, the network is in evaluation mode: load it likewise"):
        Plan.load(tmp_path / "plan.json", model.eval())


def test_a_plan_of_another_network_or_version_is_refused(tmp_path, model, x):
    found = planned(model, [x], 1.0)
    file = tmp_path / "plan.json"
    found.save(file)
    with pytest.raises(PlanError, match="saved for the graph [0-9a-f]{12}, this network's is [0-9a-f]{12}"):
        Plan.load(file, nn.Sequential(nn.Linear(6, 6), nn.Tanh()))
    with pytest.raises(PlanError, match="this network cannot be called as the plan's was, make a new plan"):
        Plan.load(file, nn.Linear(3, 3))
    with pytest.raises(PlanError, match="saved without a loss: give none"):
        Plan.load(file, model, loss=nn.functional.mse_loss)
    file.write_text(file.read_text().replace(torch.__version__, "1.0"))
    with pytest.raises(PlanError, match="saved with torch 1.0, this is"):
        Plan.load(file, model)
    file.write_text("[]")
    with pytest.raises(ValueError, match="plan.json: no plan of a PyTorch training step: expected an object"):
        Plan.load(file, model)
    file.write_text('{"format": "moccasin_mzn plan", "version": 1}')
    with pytest.raises(ValueError, match="plan.json: a plan for runtimes, as `solve --output` writes it; "):
        Plan.load(file, model)


def test_plan_file_of_the_first_format_is_read(tmp_path, model, x):
    found, file = planned(model, [x], 1.0), tmp_path / "plan.json"
    found.save(file)
    document = json.loads(file.read_text())
    assert (document.pop("format"), document.pop("version")) == ("moccasin_mzn PyTorch plan", 1)
    file.write_text(json.dumps({"format": "moccasin_mzn plan 1", **document}))
    assert Plan.load(file, model).sequence == found.sequence


def test_a_damaged_file_is_reported_in_one_line(tmp_path, model, x):
    file = tmp_path / "plan.json"
    planned(model, [x], 1.0).save(file)
    whole = file.read_text()
    for old, new, message in (
        ('"sequence"', '"sequences"', "plan.json: no plan: 'sequence' is missing"),
        ('"native_batch_norm"', '"nothing"', "nothing"),
    ):
        file.write_text(whole.replace(old, new))
        with pytest.raises(ValueError, match=message) as told:
            Plan.load(file, model)
        assert "\n" not in str(told.value)
