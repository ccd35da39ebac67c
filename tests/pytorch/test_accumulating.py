"""Gradients added to `.grad` as they are made: what eager leaves there, and as much memory as was predicted."""

from __future__ import annotations

import copy
import gc

import pytest
import torch
from step_networks import NETWORKS
from step_runs import backward, made, planned, same, twin
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import Plan, PlanError
from moccasin_mzn.pytorch.measuring import allocator_peak, storage_peak
from moccasin_mzn.pytorch.measuring import backward as seeded

BUDGETS = {"mlp": 0.8, "resnet": 0.7, "gpt": 0.6, "unet": 0.75, "llama": 0.7, "lstm": 0.8}


def micro_batches(model, call, inputs, count=3):
    """What some backward passes leave: outputs, `.grad` after each, buffers, the random state."""
    torch.manual_seed(7)
    found = []
    for _ in range(count):
        outputs = call(*inputs)
        backward(outputs)
        found += [outputs.detach(), *(parameter.grad.clone() for parameter in model.parameters())]
    return [*found, *(buffer.clone() for buffer in model.buffers()), torch.get_rng_state()]


def step_peaks(call, inputs):
    """Of storages and at the allocator; the first step, which makes `.grad`, is that at the allocator."""
    gc.collect()

    def step():
        backward_of_ones(call(*inputs))

    first = allocator_peak(step)
    return storage_peak(step), allocator_peak(step), first


def predicted(found):
    return found.predicted_storage_peak, found.predicted_peak, found.first_peak


def backward_of_ones(output):
    seeded([output], torch.ones_like)


@pytest.mark.parametrize("name", BUDGETS)
def test_micro_batches_leave_what_eager_leaves_in_the_memory_that_was_predicted(name):
    model, inputs = made(NETWORKS[name])
    other, fresh = twin(model, inputs)
    found = planned(model, inputs, BUDGETS[name], gradients="accumulated")
    assert found.predicted_peak <= found.budget and found.recomputations > 0
    step = found.module()
    assert step_peaks(step, inputs) == predicted(found)
    assert found.first_peak >= found.predicted_peak
    model.zero_grad(set_to_none=True)
    model.load_state_dict(other.state_dict())
    assert same(micro_batches(model, step, inputs), micro_batches(other, other, fresh))


def test_gradients_are_not_held():
    torch.manual_seed(0)
    model, x = nn.Sequential(*(nn.Linear(50, 50) for _ in range(8))), torch.randn(1, 50)
    held, added = (planned(model, [x], 1.0, gradients=each) for each in ("returned", "accumulated"))
    whole = sum(4 * parameter.numel() for parameter in model.parameters())
    assert held.predicted_peak > whole
    assert added.predicted_peak < whole / 4
    assert held.first_peak == held.predicted_peak and whole <= added.first_peak <= held.predicted_peak
    text = "in the first step, which allocates the parameters' .grad"
    assert text in added.report() and text not in held.report()


class Odd(nn.Module):
    """Gradients that are the same memory twice, a gradient of an output, transposed, sums, of a batch of numbers."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Parameter(torch.randn(4, 6)), nn.Parameter(torch.randn(4, 6))
        self.turned = nn.Parameter(torch.randn(6, 6).t())
        self.tied = nn.Parameter(torch.randn(6, 6))
        self.scale, self.unused = nn.Parameter(torch.randn(())), nn.Parameter(torch.randn(3))
        self.frozen = nn.Parameter(torch.randn(6), requires_grad=False)
        self.conv = nn.Conv1d(1, 2, 3, bias=True, padding=1)

    def forward(self, x):
        y = (x + self.one + self.two) @ self.turned
        y = (y @ self.tied).tanh() @ self.tied * self.scale + self.frozen
        return self.conv(y[:, None]).sum(1) + self.one


def test_odd_gradients():
    torch.manual_seed(0)
    model, x = Odd(), torch.randn(4, 6)
    other = copy.deepcopy(model)
    found = planned(model, [x], 1.0, gradients="accumulated")
    for _ in range(3):
        for call in (found.module(), other):
            call(x).pow(2).sum().backward()
        assert model.unused.grad is other.unused.grad is model.frozen.grad is None
        for name, parameter in other.named_parameters():
            mine = model.get_parameter(name).grad
            assert mine is parameter.grad is None or torch.equal(mine, parameter.grad), name
            assert mine is None or mine.stride() == parameter.grad.stride()
    storages = [each.grad.untyped_storage().data_ptr() for each in model.parameters() if each.grad is not None]
    assert len(set(storages)) == len(storages)
    model.zero_grad(set_to_none=True)
    assert step_peaks(found.module(), [x]) == predicted(found)


def test_gradients_of_inputs_are_returned():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)), torch.randn(3, 6, requires_grad=True)
    other, (fresh,) = twin(model, [x])
    step = planned(model, [x], 1.0, gradients="accumulated").module()
    for call, tensor in ((step, x), (other, fresh)):
        for _ in range(2):
            call(tensor * 2).pow(2).sum().backward()
    assert torch.equal(x.grad, fresh.grad)
    assert same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()])


@pytest.fixture
def small():
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)), torch.randn(3, 6)
    return model, x, planned(model, [x], 1.0, gradients="accumulated").module()


def test_an_output_that_nothing_reads_leaves_no_grad():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(6, 4), nn.Linear(6, 4)

        def forward(self, x):
            return self.one(x), self.two(x)

    model = Two()
    step = planned(model, [torch.randn(3, 6)], 1.0, gradients="accumulated").module()
    step(torch.randn(3, 6))[1].sum().backward()
    assert [parameter.grad is None for parameter in model.parameters()] == [True, True, False, False]


def test_only_the_gradients_that_are_requested(small):
    model, x, step = small
    step(x).sum().backward(inputs=[model[0].weight])
    assert [parameter.grad is not None for parameter in model.parameters()] == [True, False, False, False]


def test_gradients_that_are_not_for_grad_are_refused(small):
    model, x, step = small
    loss = step(x).sum()
    with pytest.raises(PlanError, match=r"autograd.grad asks for a gradient that the plan adds"):
        torch.autograd.grad(loss, list(model.parameters()))
    assert all(parameter.grad is None for parameter in model.parameters())
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("hook", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_of_parameters_are_refused(small, hook):
    model, x, step = small
    handle = getattr(model[2].weight, hook)(lambda tensor: None)
    with pytest.raises(PlanError, match="parameter '2.weight' has hooks, which would not run: plan with gradients"):
        step(x)
    handle.remove()
    step(x).sum().backward()


def test_parameters_that_are_computed_are_refused(small):
    model, x, step = small
    with pytest.raises(PlanError, match="parameter '0.weight' was computed, it has no grad"):
        torch.func.functional_call(step, {"0.weight": model[0].weight * 2}, (x,))


def test_accumulated_gradients_reject_unknown_words():
    with pytest.raises(InputError, match="gradients 'lost': expected one of returned, accumulated"):
        planned(nn.Linear(2, 2), [torch.randn(1, 2)], 1.0, gradients="lost")


def test_verified_and_kept_in_a_file(tmp_path):
    model, inputs = made(NETWORKS["mlp"])
    found = planned(model, inputs, 0.8, gradients="accumulated")
    parameter = next(iter(model.parameters()))
    parameter.grad = torch.ones_like(parameter)
    told = found.verify(inputs)
    assert told.equal and (told.storage_peak, told.peak) == predicted(found)[:2]
    assert told.eager_storage_peak > told.storage_peak
    assert torch.equal(parameter.grad, torch.ones_like(parameter))
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert (again.peaks, again.first_peak, again.sequence) == (found.peaks, found.first_peak, found.sequence)
