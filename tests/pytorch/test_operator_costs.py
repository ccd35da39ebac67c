"""What operators take, workspaces to the byte."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
import torch
from step_runs import planned
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from moccasin_mzn.graphs.importers.torch import nodes as torch_storages
from moccasin_mzn.graphs.importers.torch.memory import INPUT, STATE, Traced, account
from moccasin_mzn.pytorch import operator_process
from moccasin_mzn.pytorch.kept_costs import KeptCosts
from moccasin_mzn.pytorch.operator_costs import OperatorCosts, measure_operators, unexpected_bytes
from moccasin_mzn.pytorch.operator_process import Worker
from moccasin_mzn.pytorch.operator_worker import Argument, OperatorCall, TensorLike
from moccasin_mzn.pytorch.plan_files import read_plan, write_plan
from moccasin_mzn.pytorch.tracing import Traced as TracedStep

SIDE = 64
pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration:UserWarning")
needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")


def traced(function, *tensors, kinds=None):
    """Nodes and members of a function, its first argument the input."""
    module = make_fx(function, tracing_mode="fake")(*tensors)
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    found = account(Traced(module, {name: STATE if at else INPUT for at, name in enumerate(names)}))
    return module.graph.nodes, found.members


def test_an_operation_has_the_time_and_the_workspace_of_its_operators():
    nodes, members = traced(lambda x, w: (x @ w).relu_().softmax(-1).sum(), torch.rand(256, 256), torch.rand(256, 256))
    costs = measure_operators(nodes, members, repeats=3)
    assert list(costs) == list(members) == ["mm", "_softmax", "sum_1"]
    assert all(cost.measured and cost.nanoseconds >= 1 for cost in costs.values())
    assert costs["mm"].workspace == costs["_softmax"].workspace == costs["sum_1"].workspace == 0
    assert costs["mm"].nanoseconds > costs["sum_1"].nanoseconds


def test_equal_calls_are_measured_once():
    costs = OperatorCosts()

    def chain(x, w, v):
        return ((x @ w) @ w).tanh() @ v + (x @ x)

    square = [torch.rand(SIDE, SIDE) for _ in range(3)]
    nodes, members = traced(chain, *square)
    found = measure_operators(nodes, members, costs=costs)
    assert len(costs.known) == 4  # a product, of a matrix with itself, tanh, a sum
    assert found["mm"] == found["mm_1"] == found["mm_2"]
    before = dict(costs.known)
    assert measure_operators(nodes, members, costs=costs) == found
    assert costs.known == before
    longer = [torch.rand(2 * SIDE, SIDE), *square[1:]]
    measure_operators(*traced(lambda x, w, v: x @ w, *longer), costs=costs)
    assert len(costs.known) == 5  # other shapes
    measure_operators(*traced(lambda x, w, v: (x @ w.t()).sum(0), *longer), costs=costs)
    assert len(costs.known) == 7  # other strides
    measure_operators(*traced(lambda x, w, v: (x @ w.t()).sum(1), *longer), costs=costs)
    assert len(costs.known) == 8  # another constant


def convolve(x, w, b):
    return torch.conv2d(x, w, b, padding=1)


def workspace_of_a_convolution(enabled):
    with torch.backends.mkldnn.flags(enabled=enabled):
        nodes, members = traced(convolve, torch.rand(2, 8, 16, 16), torch.rand(8, 8, 3, 3), torch.rand(8))
        return measure_operators(nodes, members, repeats=1)["convolution"].workspace


def test_a_convolution_without_onednn_takes_all_patches():
    assert workspace_of_a_convolution(False) == 2 * 8 * 9 * 16 * 16 * 4


@needs_onednn
def test_a_convolution_of_onednn_takes_a_workspace():
    found = workspace_of_a_convolution(True)
    assert found > 0
    assert workspace_of_a_convolution(True) == found


def test_operator_costs_group_outputs():
    def step(x, w, b):
        y = torch.conv2d(x, w, b, padding=1)
        y, mean, scale = torch.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)
        back = torch.ops.aten.convolution_backward(
            y, x, w, [8], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]
        )
        return back[0], back[1], back[2], mean + scale

    with torch.backends.mkldnn.flags(enabled=False):
        nodes, members = traced(step, torch.rand(8, 8, 16, 16), torch.rand(8, 8, 3, 3), torch.rand(8))
        costs = measure_operators(nodes, members, repeats=3)
    norm = next(node for node in nodes if node.name == "native_batch_norm")
    with torch.no_grad():
        inside = OperatorCosts().of(norm).workspace
    assert costs["native_batch_norm"].workspace == inside + 2 * 8 * 4  # the statistics are made with it, and freed
    assert costs["native_batch_norm_output_1_2"].workspace == 0
    assert costs["native_batch_norm_output_1_2"].nanoseconds == 1
    of_input, of_weights = (costs[f"convolution_backward{end}"] for end in ("", "_output_1_2"))
    assert of_weights.workspace == 8 * 8 * 9 * 16 * 16 * 4 > of_input.workspace  # all patches, of the weights only
    assert 0.5 < of_input.nanoseconds / of_weights.nanoseconds < 2


def test_an_operator_that_made_up_numbers_do_not_suit_is_estimated():
    def rows(x, lengths):
        return torch.segment_reduce(x @ x, "sum", lengths=lengths)  # whose lengths are all the rows

    nodes, members = traced(rows, torch.rand(32, 32), torch.full((4,), 8))
    costs = measure_operators(nodes, members, repeats=1)
    assert not costs["segment_reduce"].measured and costs["segment_reduce"].nanoseconds >= 1
    assert costs["mm"].measured


def test_expanded_tensors_and_lists_are_made_as_they_were():
    def call(x, w):
        rows = w[0].expand(8, SIDE)
        return torch.cat([x[:8] * rows, x[8:16].t().contiguous().view(8, SIDE)]).sum()

    nodes, members = traced(call, torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE))
    assert all(cost.measured for cost in measure_operators(nodes, members, repeats=1).values())


@pytest.mark.parametrize("flushed", [False, True])
def test_numbers_close_to_zero_stay_as_they_were(flushed):
    nodes, members = traced(lambda x, w: (x + w).mul_(w).mul_(w), torch.rand(8, 8), torch.rand(8, 8))
    torch.set_flush_denormal(flushed)
    try:
        costs = measure_operators(nodes, members, repeats=1)
        assert (float(torch.tensor(1e-38) * 1e-3) == 0) == flushed
    finally:
        torch.set_flush_denormal(False)
    assert list(costs) == ["add"] and costs["add"].measured


def test_operator_costs_keep_the_random_state():
    torch.manual_seed(5)
    expected = torch.rand(3)
    nodes, members = traced(lambda x: nn.functional.dropout(x, 0.5), torch.rand(8, 8))
    torch.manual_seed(5)
    measure_operators(nodes, members, repeats=1)
    assert torch.equal(torch.rand(3), expected)


def losses(x, y):
    names = ("mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "l1_loss")
    return sum(getattr(nn.functional, name)(x.sigmoid(), y) for name in names) + x.sort()[0].cumsum(0)[0, 0]


def bags(x, table):
    words = torch.zeros(24, dtype=torch.int64)
    made = torch.ops.aten._embedding_bag(table, words, torch.arange(4), False, 1)
    return x.sum() + made[0].sum() + made[1].sum()


def in_place(x, y):
    made = (x @ y).relu_()
    made[0].copy_(y[0])
    return made.unsqueeze(0).repeat(3, 1, 1), torch.conv2d(x.view(1, 1, SIDE, SIDE), y[:3, :9].reshape(3, 1, 3, 3))


@pytest.mark.parametrize("function", [losses, bags, in_place])
def test_operators_keep_what_the_trace_says(function):
    nodes, _ = traced(function, torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE))
    assert unexpected_bytes(nodes, OperatorCosts()) == {}


def test_a_storage_that_the_trace_does_not_know_is_found(monkeypatch):
    monkeypatch.setattr(torch_storages, "_RULES", {})
    nodes, _ = traced(losses, torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE))
    more = SIDE * SIDE * 4 - 4
    names = ("mse_loss", "smooth_l1_loss", "soft_margin_loss", "binary_cross_entropy")
    assert unexpected_bytes(nodes, OperatorCosts()) == dict.fromkeys(names, more)


class Deadly:
    """Ends the process that reads it."""

    def __init__(self, how, *arguments):
        self.how = how, arguments

    def __reduce__(self):
        return self.how


def product(*more):
    like = TensorLike((SIDE, SIDE), (SIDE, 1), "float32", "cpu")
    return OperatorCall(("aten", "mm", "default"), (Argument(0), Argument(0), *more), {}, (like,), "cpu")


def test_what_an_operator_does_to_its_process_is_its_own_affair(monkeypatch):
    """It may abort, end, or go on for ever: all others are measured."""
    worker = Worker()
    try:
        assert worker.measured([product()], 1)[0] is not None
        monkeypatch.setattr(operator_process, "_PATIENCE", 5.0)
        fatal = [product(Deadly(os.abort)), product(Deadly(os._exit, 0)), product(Deadly(time.sleep, 10**6))]
        calls = [fatal[0], product(), None, fatal[1], fatal[2], product(1), product()]
        found = worker.measured(calls, 2)
        assert [at for at, cost in enumerate(found) if cost is not None] == [1, 6]
        assert found[1].workspace == 0 and found[1].output_bytes == SIDE * SIDE * 4
    finally:
        worker.close()
    assert not worker.running


def test_after_a_crash_no_more_calls_of_the_operator_are_made(monkeypatch):
    """Where that is asked for: each crash takes as long as importing PyTorch."""
    worker, ended, crashing = Worker(), [], set()
    end = worker._end

    def ending():
        ended.append(end())
        return ended[-1]

    monkeypatch.setattr(worker, "_end", ending)
    other = replace(product(), operator=("aten", "maximum", "default"))
    try:
        fatal = [product(Deadly(os.abort)), product(Deadly(os.abort, 0))]
        calls = [product(), product(2), *fatal, other, product(1), None]
        partly = [False, True, True, True, True, True, False]
        found = worker.measured(calls, 2, partly=partly, crashing=crashing)
    finally:
        end()
    assert crashing == {("aten", "mm", "default")} and len(ended) == 1
    assert [at for at, cost in enumerate(found) if cost is not None] == [0, 4]


def test_that_a_process_crashes_in_an_operator_is_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("MOCCASIN_OPERATORS", str(tmp_path))
    layers = [nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.GroupNorm(2, 16)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    x = torch.randn(4, 8, 16, 16, requires_grad=True)
    found = planned(model, [x.detach().to(memory_format=torch.channels_last)], "1TiB", durations="flop", verify=False)
    nodes = found.traced.joint.nodes
    names = {node.name for node in nodes if "group_norm_backward" in str(node.target)}
    unsplit = OperatorCosts(kept=KeptCosts()).unsplit(nodes)
    assert unsplit in (names, frozenset())  # in a release whose kernel can do it, none is
    asked, measured = [], Worker.measured
    monkeypatch.setattr(
        Worker, "measured", lambda self, calls, *more: (asked.extend(calls), measured(self, calls, *more))[1]
    )
    later = OperatorCosts(kept=KeptCosts())
    assert later.unsplit(nodes) == unsplit and not asked
    later.forget_failures()
    assert later.unsplit(nodes) == unsplit and not asked


def test_a_worker_that_cannot_begin_measures_nothing(monkeypatch):
    monkeypatch.setattr(operator_process, "_BEGIN", "raise SystemExit(1)")
    assert Worker().measured([product(), product()], 1) == [None, None]


def test_a_worker_ends_when_nobody_asks(monkeypatch):
    monkeypatch.setattr(
        operator_process, "_BEGIN", "import moccasin_mzn.pytorch.operator_worker as w; w.IDLE_SECONDS = 0.1; w.main()"
    )
    worker = Worker()
    assert worker.measured([product()], 1)[0] is not None
    process = worker._running[0]
    process.wait(60)
    assert worker.measured([product()], 1)[0] is not None and worker._running[0].pid != process.pid
    worker.close()


def test_gradients_that_a_kernel_cannot_make_alone_are_made_together():
    """The kernel of group norms in channels last reads the gradient of its input even where it is told to make none."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(8, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 8, 3, padding=1)]
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    inputs = [torch.randn(4, 8, 16, 16).to(memory_format=torch.channels_last)]
    found = planned(model, inputs, "least")
    names = {node.name for node in found.traced.joint.nodes if "group_norm_backward" in str(node.target)}
    assert found.traced.unsplit <= names  # in a release whose kernel can do it, none is
    told = found.verify(inputs)
    assert told.equal and told.peak <= told.predicted_peak
    whole = [made for made in found.traced.program.all if made.members[0].node.name in found.traced.unsplit]
    assert all(made.once for made in whole)
    calls = [each for each in found.linear.backward if each.node in {made.members[0].node for made in whole}]
    assert len(calls) == len(found.traced.unsplit) and all(len(each.makes) == 3 for each in calls)


def test_what_is_not_split_is_kept_in_files(tmp_path):
    model, inputs = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 3, 3)), [torch.randn(2, 3, 16, 16)]
    found = planned(model, inputs, 1.0)
    name = next(node.name for node in found.traced.joint.nodes if "convolution_backward" in str(node.target))
    assert not found.traced.unsplit
    step = found.traced
    traced = TracedStep.of(step.step, step.arguments, step.forms, unsplit=[name])
    graph = traced.problem.graph
    whole = [
        at
        for at, made in enumerate(traced.problem.meanings)
        if getattr(made, "members", [None])[0] is not None and made.members[0].node.name == name
    ]
    assert len(graph.nodes) == len(found.graph.nodes) and not any(traced.problem.most[at] for at in whole)
    sequence = traced.problem.graph.input_order()
    write_plan(tmp_path / "plan.json", traced, sequence, {})
    assert read_plan(tmp_path / "plan.json", model, None, ())[0].unsplit == {name}


def test_an_operator_that_is_estimated_is_reported():
    class Pieces(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(32, 32)

        def forward(self, x, lengths):
            return torch.segment_reduce(self.layer(x), "sum", lengths=lengths)

    found = planned(Pieces(), [torch.rand(32, 32), torch.full((4,), 8)], 1.0)
    assert found.estimated == ("aten.segment_reduce",)
    assert "1 operator could not be measured" in found.report()
