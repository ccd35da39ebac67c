"""What measuring changes in the graph that is planned, and how a plan without it differs."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from step_networks import NETWORKS
from step_runs import excess, made, planned
from torch import nn
from torch.nn import functional

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import Plan, planning
from moccasin_mzn.pytorch.measuring import free_memory


@pytest.fixture
def resnet():
    return made(NETWORKS["resnet"])


def test_workspaces_and_nanoseconds_are_part_of_the_graph(resnet):
    model, inputs = resnet
    graph = planned(model, inputs, 0.9).graph
    assert graph.duration_unit == "ns" and max(graph.workspaces) > max(graph.sizes) / 10
    by_kind = {label.split()[-1]: size for label, size in zip(graph.labels, graph.workspaces, strict=True)}
    assert by_kind["aten.convolution_backward"] > 0 == by_kind["tangent"]


def test_without_measuring_the_budget_is_of_storages(resnet):
    model, inputs = resnet
    found = planned(model, inputs, 0.7, durations="flop", workspaces="none")
    assert (found.graph.duration_unit, found.graph.workspaces) == ("FLOP", None)
    assert found.predicted_peak == found.predicted_storage_peak <= found.budget
    storages, allocator = excess(found, found.module(), inputs)
    assert storages == 0 < allocator


def test_a_fraction_is_of_the_measured_step(resnet):
    model, inputs = resnet
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    found = planned(model, inputs, Fraction(9, 10))
    assert found.budget == -(-9 * found.eager_peak // 10)
    assert found.verify(inputs).eager_peak == found.eager_peak
    assert planned(model, inputs, "1TiB").eager_peak is None  # nothing was run
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_the_increase_is_of_the_step_that_was_measured(resnet):
    model, inputs = resnet
    found = planned(model, inputs, 0.7)
    operators = simulate(found.graph, found.graph.input_order()).duration
    again = simulate(found.graph, found.sequence).duration - operators
    assert 0 < found.predicted_increase - found.overhead <= again / operators + 1e-9  # of rounding
    assert found.overhead <= found.bound <= found.predicted_increase + 1e-9


@pytest.mark.parametrize("free", [2**50, 0])
def test_for_bytes_the_eager_step_is_run_only_where_much_memory_is_free(resnet, monkeypatch, free):
    """Otherwise the planned one is."""
    monkeypatch.setattr(planning, "free_memory", lambda device: free)
    model, inputs = resnet
    alone = planned(model, inputs, "254KiB")
    operators = simulate(alone.graph, alone.graph.input_order()).duration
    again = simulate(alone.graph, alone.sequence).duration - operators
    assert 0 < alone.predicted_increase - alone.overhead <= again / operators + 1e-9  # of rounding
    assert (alone.overhead != 0) == (free > 0) and alone.eager_peak is None
    assert alone.overhead <= alone.bound <= alone.predicted_increase + 1e-9


def test_free_memory_is_some_of_the_machines():
    assert 0 < free_memory() < 2**50


def test_inputs_that_are_no_examples_are_forms():
    """Of a budget in bytes: then the increase is of what the operators take."""

    class Embedded(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.linears = nn.Embedding(4, 64), nn.ModuleList(nn.Linear(64, 64) for _ in range(8))

        def forward(self, x):
            x = self.table(x)
            for linear in self.linears:
                x = linear(x).tanh()
            return x.sum()

    found = planned(Embedded(), [torch.full((512,), 4)], "least")
    operators = simulate(found.graph, found.graph.input_order()).duration
    again = simulate(found.graph, found.sequence).duration - operators
    assert found.recomputations and found.predicted_increase == again / operators


def test_hooks_of_parameters_are_not_called_by_measuring():
    model, x = nn.Linear(30, 30), torch.rand(4, 30)
    called = []
    model.weight.register_post_accumulate_grad_hook(called.append)
    planned(model, [x], 1.0).verify([x])
    assert called == []


def test_what_has_no_memory_is_planned_by_flop():
    model, inputs = made(NETWORKS["mlp"])
    found = planned(model.to("meta"), [each.to("meta") for each in inputs], 0.7)
    assert (found.graph.duration_unit, found.graph.workspaces, found.eager_peak) == ("FLOP", None, None)
    assert found.budget == -(-7 * found.unplanned.whole // 10)


def test_the_judge_of_the_graph_and_the_peak_of_the_instructions_agree(resnet):
    model, inputs = resnet
    found = planned(model, inputs, 1.0)
    assert simulate(found.graph, found.sequence).peak == found.predicted_peak > found.predicted_storage_peak


def test_files_keep_what_was_measured(resnet, tmp_path):
    model, inputs = resnet
    found = planned(model, inputs, 0.7)
    found.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json", model)
    assert (again.graph.durations, again.graph.workspaces) == (found.graph.durations, found.graph.workspaces)
    assert (again.peaks, again.eager_peak) == (found.peaks, found.eager_peak)
    assert excess(again, again.module(verify=False), inputs) == (0, 0)


@pytest.mark.parametrize("wrong", [{"durations": "seconds"}, {"workspaces": "flop"}])
def test_plan_rejects_wrong_budgets_and_costs(resnet, wrong):
    model, inputs = resnet
    ((what, value),) = wrong.items()
    with pytest.raises(InputError, match=f"{what} .*{value}.*: expected one of"):
        planned(model, inputs, 0.9, **wrong)


class Sorted(nn.Module):
    """The positions of a sorted tensor, twice as large as the tensor, are read at once, the numbers at the end."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(64, 64)

    def forward(self, x):
        numbers, positions = x.sort(-1)
        with torch.no_grad():
            far = positions.amax()
        del positions
        y = self.line(x)
        for _ in range(3):
            y = y.exp().cumsum(-1)
        return (y + numbers).sum() + far


def test_of_several_outputs_each_is_freed_after_its_last_reader():
    torch.manual_seed(0)
    model, x = Sorted(), torch.rand(40, 64)
    found = planned(model, [x], "1TiB")
    assert simulate(found.graph, found.sequence).peak > found.predicted_peak  # a node holds all that it has made
    assert excess(found, found.module(), [x]) == (0, 0)


@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss"])
def test_a_loss_keeps_nothing_of_what_its_operator_has_allocated_for_each_element(name):
    x, target = torch.rand(32, 8), torch.rand(32, 8)
    model = nn.Sequential(nn.Linear(8, 8), nn.Sigmoid())
    found = planned(model, [x, target], "1TiB", loss=getattr(functional, name))
    step = found.module()
    assert step(x, target).untyped_storage().nbytes() == 4
    assert excess(found, step, [x, target]) == (0, 0)
    assert simulate(found.graph, found.sequence).peak == found.predicted_peak
