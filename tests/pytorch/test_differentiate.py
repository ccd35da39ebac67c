"""Which outputs of a step get a gradient: by default the loss alone, so that the others take no more than in eager."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from step_runs import excess, planned, twin
from torch import nn

from moccasin_mzn.pytorch import Plan, PlanError, plan
from moccasin_mzn.pytorch.joint import differentiated
from moccasin_mzn.pytorch.measuring import allocator_peak

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}


class Labelled(nn.Module):
    """Returns its loss next to large outputs, as networks with labels do."""

    def __init__(self, key="loss"):
        super().__init__()
        self.body, self.head, self.key = nn.Linear(8, 8), nn.Linear(8, 400), key

    def forward(self, x, y):
        hidden = self.body(x).tanh()
        logits = self.head(hidden)
        return {self.key: nn.functional.cross_entropy(logits, y), "logits": logits, "inner": [hidden]}


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.rand(64, 8), torch.randint(400, (64,))


def test_a_loss_among_the_outputs_is_differentiated_alone_and_takes_no_more_than_without_a_plan(batch):
    model = Labelled()
    other, fresh = twin(model, batch)
    found = planned(model, batch, 1.0, differentiate=None)
    assert found.traced.joint.differentiable.count(True) == 1
    held = []

    def step(call, tensors):
        held[:] = [call(*tensors)]
        held[0]["loss"].backward()

    eager = allocator_peak(lambda: step(other, fresh))
    other.zero_grad(set_to_none=True)
    held.clear()
    assert allocator_peak(lambda: step(found.module(), batch)) == found.predicted_peak <= eager
    everything = planned(Labelled(), batch, 1.0, differentiate="all")
    assert everything.predicted_peak >= found.predicted_peak + 64 * 400 * 4
    for one, its in zip(model.parameters(), other.parameters(), strict=True):
        other.zero_grad(set_to_none=True)
        step(other, fresh)
        assert torch.equal(one.grad, its.grad)


def test_a_gradient_of_another_output_is_refused_and_none_is_lost(batch):
    found = plan(Labelled(), batch, budget=1.0, **CHEAP)
    made = found.module()(*batch)
    assert made["logits"].requires_grad and made["inner"][0].requires_grad
    with pytest.raises(PlanError, match=r"output 'logits' gets a gradient, which this plan leaves out"):
        (made["loss"] + made["logits"].sum()).backward()


@pytest.mark.parametrize("chosen", ["all", ("loss", "logits"), ["loss", "inner"], "inner.0", 0])
def test_outputs_are_chosen_by_name_or_position(batch, chosen, tmp_path):
    model = nn.Sequential() if chosen == 0 else Labelled()
    if chosen == 0:
        model = nn.ModuleDict({"line": nn.Linear(8, 3)})
        model.forward = lambda x, y: (model.line(x).sum(), model.line(x))
    found = plan(model, batch, budget=1.0, differentiate=chosen, **CHEAP)
    assert found.verify(batch).equal and excess(found, found.module(), batch)[0] == 0
    count = {"all": 3, "inner.0": 1, 0: 1}.get(chosen if not isinstance(chosen, list | tuple) else "", 2)
    assert found.traced.joint.differentiable.count(True) == count
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert again.traced.joint.differentiable == found.traced.joint.differentiable


def test_what_is_no_output_is_refused_with_those_that_are(batch):
    with pytest.raises(PlanError, match="differentiate: 'los' is no output .*, expected some of loss, logits, inner.0"):
        plan(Labelled(), batch, budget=1.0, differentiate="los", **CHEAP)


def test_a_loss_of_the_outputs_alone(batch):
    model = Labelled("objective")
    found = plan(model, batch, loss=lambda out: out["objective"], budget=1.0, **CHEAP)
    step = found.module()
    made = step(*batch)
    assert made.shape == () and made.requires_grad
    assert torch.equal(made, model(*batch)["objective"])
    with pytest.raises(KeyError, match="objectiv"):
        plan(model, (*batch, batch[1]), loss=lambda out, target: out["objectiv"], budget=1.0, **CHEAP)


@dataclass(frozen=True)
class Case:
    """Outputs as numbers of elements and whether they require a gradient, with the default choice."""

    outputs: tuple[tuple[str, int, bool], ...]
    chosen: tuple[bool, ...]


@pytest.mark.parametrize(
    "case",
    [
        Case((("loss", 1, True), ("logits", 9, True)), (True, False)),
        Case((("loss", 1, False), ("logits", 9, True)), (False, True)),
        Case((("a.loss", 1, True), ("b.loss", 4, True), ("c", 9, True)), (True, True, False)),
        Case((("0", 9, True), ("1", 1, True)), (False, True)),
        Case((("0", 1, True), ("1", 1, True), ("2", 9, True)), (True, True, True)),
        Case((("", 9, True),), (True,)),
    ],
)
def test_the_default_is_the_loss_or_the_only_number_or_all(case):
    outputs = [torch.zeros(size, requires_grad=has) for _, size, has in case.outputs]
    assert differentiated(outputs, [name for name, _, _ in case.outputs], None) == case.chosen
