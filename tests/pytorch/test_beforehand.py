"""What is known of a step before it is traced: it is traced once, and gradients alone refuse a budget at once."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from step_networks import NETWORKS
from step_runs import made, planned
from torch import nn

from moccasin_mzn.clock import Deadline
from moccasin_mzn.pytorch import NoPlanError, PlanError, beforehand, tracing
from moccasin_mzn.pytorch.beforehand import known_beforehand
from moccasin_mzn.pytorch.call import Form, Step, Structure
from moccasin_mzn.pytorch.instructions import gradient_bytes
from moccasin_mzn.pytorch.operator_costs import Worker
from moccasin_mzn.pytorch.tracing import Traced


@pytest.fixture
def runs(monkeypatch):
    """How often a step is traced, and run without memory."""
    counts = {"traces": 0, "dry runs": 0}

    def counted(name, call):
        def counting(*args, **kwargs):
            counts[name] += 1
            return call(*args, **kwargs)

        return counting

    monkeypatch.setattr(tracing, "trace_joint", counted("traces", tracing.trace_joint))
    monkeypatch.setattr(beforehand, "dry_run", counted("dry runs", beforehand.dry_run))
    return counts


@pytest.mark.parametrize("budget", ["1GiB", 1.0, "least"])
def test_a_step_is_traced_once(budget, runs):
    model, inputs = made(NETWORKS["mlp"])
    at_once = {"on_progress": lambda _: True}  # the search ends when it begins
    assert planned(model, inputs, budget, durations="flop", **at_once).predicted_peak
    assert runs == {"traces": 1, "dry runs": 1}


class Reading(nn.Module):
    """It reads a value, so that it cannot be run without numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        x = self.layer(x).relu()
        return x * 2 if float(x.detach().sum()) > 0 else x


def test_what_cannot_be_run_without_numbers_is_traced_on_numbers(runs):
    model, inputs = Reading(), [torch.rand(4, 8)]
    assert planned(model, inputs, "1MiB", durations="flop").predicted_peak
    assert runs["traces"] == 1
    with pytest.raises(PlanError, match="data-dependent control flow"):
        planned(model, inputs, "least", durations="flop")


@pytest.mark.parametrize("budget", ["1KiB", 0.01])
@pytest.mark.parametrize("gradients", ["returned", "accumulated"])
def test_a_budget_below_gradients_is_refused_before_anything_is_traced(budget, gradients, runs, monkeypatch):
    def asked(*_):
        raise AssertionError("operators are measured")

    monkeypatch.setattr(Worker, "measured", asked)
    model, inputs = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 1)), [torch.rand(4, 64)]
    at_least = "16.50 KiB" if gradients == "returned" else "16.00 KiB"
    message = f"no plan is within it, it takes at least {at_least}, which is proven without a search"
    with pytest.raises(NoPlanError, match=message) as refused:
        planned(model, inputs, budget, gradients=gradients)
    assert ("the gradient of 0.weight" if gradients == "returned" else "aten.mm makes in '0'") in str(refused.value)
    assert runs["traces"] == 0


class Gradients(nn.Module):
    """Gradients that are a number, slices, transposed, shared, of the caller's, or absent."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.unused = how, nn.Parameter(torch.rand(64, 64))
        self.a, self.b = nn.Parameter(torch.rand(64, 64)), nn.Parameter(torch.rand(64, 64))

    def forward(self, x):
        match self.how:
            case "number":
                return self.a.sum() + x.sum()
            case "shared":
                return ((self.a + self.b) @ x).square().sum()
            case "shared number":
                return (self.a + self.b).sum() + x.sum()
            case "slices":
                return (torch.cat([self.a, self.b]) @ x).square().sum()
            case "transposed":
                return (self.a.t() @ x).square().sum()
            case "row":
                return (self.a[0] * x).sum()
            case "twice":
                return (self.a @ (self.a * x)).square().sum()
            case _:
                return self.a + x


WAYS = ["number", "shared", "shared number", "slices", "transposed", "row", "twice", "output"]
CASES = [
    *NETWORKS.values(),
    *(lambda how=how, needs=needs: (Gradients(how), [torch.rand(64, 64, requires_grad=needs)])
      for how in WAYS for needs in (False, True)),
]  # fmt: skip


@pytest.mark.few(8)
@pytest.mark.parametrize("factory", CASES)
def test_no_plan_takes_less_than_is_proven_beforehand(factory):
    model, inputs = made(factory)
    arguments, tensors = Structure.of((tuple(inputs), {}))
    step, forms = Step(model), [Form.of(each) for each in tensors]
    known = known_beforehand(step, arguments, tensors, "all", Deadline())
    traced = Traced.of(step, arguments, forms, differentiate="all")
    stay = gradient_bytes(traced.linear(traced.problem.graph.input_order()))
    proven = sum(known.gradients("returned").values())
    assert proven == stay if factory in NETWORKS.values() else proven <= stay
    added = Traced.of(step, arguments, forms, gradients="accumulated", differentiate="all").problem.graph
    assert max(known.gradients("accumulated").values(), default=0) <= added.largest_working_set().memory


def test_a_budget_of_the_gradients_is_not_refused_beforehand(runs):
    """At the proven amount itself it is up to the trace."""
    model, inputs = made(NETWORKS["mlp"])
    arguments, tensors = Structure.of((tuple(inputs), {}))
    known = known_beforehand(Step(model), arguments, tensors, "all", Deadline())
    proven = sum(known.gradients("returned").values())
    for amount, traces in ((proven - 1, 0), (proven, 1)):
        runs["traces"] = 0
        with pytest.raises(NoPlanError, match="no plan is within it"):
            planned(model, inputs, f"{amount}B", durations="flop")
        assert runs["traces"] == traces
