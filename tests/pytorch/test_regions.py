"""Plans for parts of a network under one budget: what is found, that all is equal, and what the step takes."""

from __future__ import annotations

import logging
import random

import pytest
import torch
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, Plan, PlanError, RegionPlan, plan
from moccasin_mzn.pytorch.loops import has_plan
from moccasin_mzn.pytorch.measuring import Sections, allocator_peak

FAST = {"regions": "auto", "time_limit": 30.0, "seed": 0, "durations": "flop", "workspaces": "none"}


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.norm, self.drop = nn.LayerNorm(width), nn.Dropout(0.1)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.drop(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Routed(nn.Module):
    """Experts, each for the rows that a router gives it: boolean masks."""

    def __init__(self):
        super().__init__()
        self.first, self.router = nn.Sequential(Block(), Block()), nn.Linear(32, 3)
        self.experts = nn.ModuleList(Block() for _ in range(3))
        self.layers = nn.ModuleList((Block(), Block()))

    def forward(self, x):
        x = self.first(x)
        chosen = self.router(x).argmax(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows = chosen == number
            y[rows] = expert(x[rows])
        for layer in self.layers:
            y = layer(y) * (1 + torch.rand(()))  # random numbers between regions
        return y.square().mean()


class Detector(nn.Module):
    """A head that chooses among what a backbone finds, by score."""

    def __init__(self):
        super().__init__()
        parts = [(nn.Conv2d(3 if not at else 8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()) for at in range(10)]
        self.backbone = nn.Sequential(*(part for three in parts for part in three))
        self.score, self.box = nn.Conv2d(8, 1, 1), nn.Conv2d(8, 4, 1)

    def forward(self, images, targets):
        features = self.backbone(images)
        scores, boxes = self.score(features).flatten(1), self.box(features).flatten(2).transpose(1, 2)
        loss = scores.square().mean()
        for score, box, target in zip(scores, boxes, targets, strict=True):
            best = (score > score.mean()).nonzero()[: len(target["boxes"])].flatten()
            loss = loss + (box[best] - target["boxes"][: len(best)]).abs().mean()
        return {"loss": loss, "scores": scores}


class Graph(nn.Module):
    """Self-loops are taken out of the edges and added anew."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x, edges):
        edges = edges[:, edges[0] != edges[1]]
        loops = torch.arange(len(x)).expand(2, -1)
        edges = torch.cat([edges, loops], 1)
        for layer in self.layers:
            x = torch.zeros_like(x).index_add(0, edges[1], layer(x)[edges[0]]) / 4
        return x.sin().mean()


class Dropping(nn.Module):
    """Layers are left out by Python's random numbers."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x) if random.random() < 0.9 else x
        return x.square().mean()


class Shared(nn.Module):
    """What several parts read, each of them in several places: a memory, a position, a weight."""

    def __init__(self):
        super().__init__()
        self.position, self.make = nn.Parameter(torch.randn(32)), nn.Linear(32, 32)
        self.layers = nn.ModuleList(Reader() for _ in range(3))
        for layer in self.layers:
            layer.own.weight = self.make.weight

    def forward(self, x):
        memory = self.make(x)
        for layer in self.layers:
            x = layer(x, memory, memory, self.position)
            assert not bool(x.isnan().any())
        return (x * memory).square().mean()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.last = nn.Linear(32, 32), Block()

    def forward(self, x, key, value, position):
        query = self.own(x + position).tanh()
        mixed = (query * (key + position).sigmoid()) * self.own(value).tanh() + self.own(key)
        return self.last(x + mixed)


def graph_batch():
    return torch.randn(300, 32), torch.cat([torch.randint(0, 300, (2, 900)), torch.arange(50).expand(2, -1)], 1)


def detector_batch():
    targets = [{"boxes": torch.rand(count, 4)} for count in (2, 3)]
    return torch.randn(2, 3, 24, 24), targets


NETWORKS = {
    "routed": (Routed, lambda: (torch.randn(400, 32),)),
    "detector": (Detector, detector_batch),
    "graph": (Graph, graph_batch),
    "dropping": (Dropping, lambda: (torch.randn(400, 32),)),
    "shared": (Shared, lambda: (torch.randn(400, 32),)),
}


def loss_of(returned):
    return returned["loss"] if isinstance(returned, dict) else returned


def left(model, call, batch, buffers):
    """What a step leaves: the loss, gradients, buffers, random states."""
    torch.manual_seed(3)
    random.seed(3)
    model.zero_grad(set_to_none=True)
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])
    loss = loss_of(call(*batch))
    loss.backward()
    found = {name: None if each.grad is None else each.grad.clone() for name, each in model.named_parameters()}
    found |= {name: each.clone() for name, each in model.named_buffers()}
    drawn = torch.tensor(random.random())
    return {**found, "loss": loss.detach(), "random": torch.get_rng_state(), "python": drawn}


def assert_equal(one, other):
    assert one.keys() == other.keys()
    assert [name for name in one if one[name] is not other[name] and not torch.equal(one[name], other[name])] == []


@pytest.mark.parametrize("name", NETWORKS)
def test_all_is_equal_over_several_batches_and_within_the_budget(name):
    build, batch = NETWORKS[name]
    torch.manual_seed(0)
    model, first = build(), batch()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    random.seed(3)
    python, state = random.getstate(), torch.get_rng_state()
    found = plan(model, first, budget=0.75, **FAST)
    assert random.getstate() == python and torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert isinstance(found, RegionPlan) and {type(each) for each in found.regions.values()} == {Plan}
    assert found.recomputations > 0 and not has_plan(model)
    buffers = {key: buffer.clone() for key, buffer in model.named_buffers()}
    for one in (first, batch(), batch()):
        assert_equal(left(model, found.module(), one, buffers), left(model, model, one, buffers))
    measured = allocator_peak(lambda: left_only(model, found.module(), first, buffers))
    eager = allocator_peak(lambda: left_only(model, model, first, buffers))
    assert abs(measured - found.predicted_peak) < 0.02 * found.predicted_peak
    assert abs(eager - found.eager_peak) < 0.02 * eager
    assert found.predicted_peak <= found.budget < found.eager_peak


def left_only(model, call, batch, buffers):
    """Run a step as `left`, and keep nothing."""
    torch.manual_seed(3)
    random.seed(3)
    loss_of(call(*batch)).backward()
    model.zero_grad(set_to_none=True)


def test_verify_and_the_report():
    torch.manual_seed(0)
    model, batch = Routed(), (torch.randn(400, 32),)
    found = plan(model, batch, budget=0.75, **FAST)
    check = found.verify(batch)
    assert check.equal and check.peak == check.predicted_peak == found.predicted_peak <= found.budget
    assert check.eager_peak == found.eager_peak
    report = found.report()
    assert f"{len(found.regions)} regions" in report and "region    'first'" in report
    assert "outside   the network: it reads values: " in report and "y[rows] = expert(x[rows])" in report
    assert "outside   'experts.0': the shape of an input depends on values" in report
    assert "experts.0.up" not in report  # what it is part of says it
    assert all(name.split(": ")[0] in found.regions for name in found.recomputed)


def test_installed_until_it_is_removed():
    torch.manual_seed(0)
    model, batch = Routed(), (torch.randn(400, 32),)
    found = plan(model, batch, budget=0.75, **FAST)
    expected = left(model, model, batch, {})
    found.install()
    assert has_plan(model) and found.verify(batch).equal and has_plan(model)
    assert_equal(left(model, model, batch, {}), expected)
    assert_equal(left(model, found.module(), batch, {}), expected)
    for again in (
        found.install,
        lambda: plan(model, batch, budget=1.0, **FAST),
        lambda: plan(model, batch, budget=1.0),
    ):
        with pytest.raises(PlanError, match="has a plan already"):
            again()
    with torch.no_grad():
        assert model(*batch).ndim == 0
    found.remove()
    assert not has_plan(model)
    with pytest.raises(PlanError, match="no plan is installed"):
        found.remove()
    with pytest.raises(PlanError, match="another|not the network"):
        found.install(Routed())


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Sequential(Block(), Block())

    def forward(self, x, rows):
        y = self.block(x)
        if float(y.detach().sum()) > 1e9:
            return y.sum()
        return self.block(y).sum() + self.block(y[:200]).sum() + self.block(y[:rows]).sum()


def test_a_region_has_a_plan_for_each_form_and_runs_as_it_is_in_others(caplog):
    torch.manual_seed(0)
    model, x = Twice(), torch.randn(400, 32)
    found = plan(model, (x, 100), budget=0.8, **FAST)
    assert [*found.regions] == ["block", "block (2)", "block (3)", "block (4)"]  # one's input needs no gradient
    assert_equal(left(model, found.module(), (x, 100), {}), left(model, model, (x, 100), {}))
    with caplog.at_level(logging.WARNING, "moccasin_mzn"):
        assert_equal(left(model, found.module(), (x, 70), {}), left(model, model, (x, 70), {}))
        found.module()(x, 60)
    assert [record.getMessage() for record in caplog.records if "'block' runs without its plan" in record.getMessage()]
    model.eval()
    assert_equal(left(model, found.module(), (x, 100), {}), left(model, model, (x, 100), {}))


def test_regions_by_name():
    torch.manual_seed(0)
    model, batch = Routed(), (torch.randn(400, 32),)
    found = plan(model, batch, budget=0.9, **{**FAST, "regions": ("layers",)})
    assert [*found.regions] == ["layers.0", "layers.1"]
    one = plan(model, batch, budget=0.95, **{**FAST, "regions": "first.1"})
    assert [*one.regions] == ["first.1"] and one.verify(batch).equal
    with pytest.raises(InputError, match="no submodule 'layer', did you mean layers"):
        plan(model, batch, budget=0.9, **{**FAST, "regions": ("layer",)})
    with pytest.raises(InputError, match="no names"):
        plan(model, batch, budget=0.9, **{**FAST, "regions": ()})


def test_a_loss_of_the_step_and_gradients_that_are_accumulated():
    class Scores(Routed):
        def forward(self, x):
            return super().forward(x).expand(4)

    torch.manual_seed(0)
    model, batch = Scores(), (torch.randn(400, 32), torch.rand(4))
    for gradients in ("returned", "accumulated"):
        how = {**FAST, "loss": nn.functional.mse_loss, "gradients": gradients}
        found = plan(model, batch, budget=0.85, **how)
        assert found.verify(batch).equal
        assert found.module()(*batch).ndim == 0


def test_gradients_of_what_several_parts_read_are_returned_summand_by_summand():
    torch.manual_seed(0)
    model, x = Shared(), torch.randn(400, 32)
    found = plan(model, (x,), budget=0.75, **FAST)
    joints = [each.traced.joint for name, each in found.regions.items() if name.startswith("layers")]
    apart = {joint.given[node].name for joint in joints for node in joint.apart}
    assert {"input 1", "input 2", "input 3", "own.weight"} <= apart and "last.up.weight" not in apart


class Transposed(nn.Module):
    """The gradient of a region's output is laid out in another way than the output."""

    def __init__(self):
        super().__init__()
        self.project, self.block = nn.Conv2d(8, 32, 1), Block()

    def forward(self, x):
        y = self.project(x).flatten(2).permute(0, 2, 1)
        assert not bool(y.isnan().any())
        return (self.block(y) * y).square().mean()


def test_gradients_of_outputs_come_in_their_own_layout():
    torch.manual_seed(0)
    model, x = Transposed(), torch.randn(2, 8, 30, 30)
    found = plan(model, (x,), budget="1GiB", **FAST)
    assert "project" in found.regions and found.verify((x,)).equal


def test_what_is_refused():
    model, batch = Routed(), (torch.randn(400, 32),)
    with pytest.raises(NoPlanError, match=r"no plans of \d regions were found, the least takes .* most of it "):
        plan(model, batch, budget="10KiB", **FAST)
    with pytest.raises(InputError, match="not least"):
        plan(model, batch, budget="least", **FAST)
    with pytest.raises(InputError, match="recomputation alone"):
        plan(model, batch, budget=0.5, slow_memory="1MiB", **FAST)
    with pytest.raises(PlanError, match="meta device"):
        plan(model.to("meta"), (torch.randn(400, 32, device="meta"),), budget=0.5, **FAST)

    class Alone(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x):
            return (x * self.weight)[x > 0].sum()

    with pytest.raises(PlanError, match="no submodule can be planned: the network: it reads values"):
        plan(Alone(), (torch.randn(3),), budget=0.5, **FAST)
    with pytest.raises(PlanError, match="not kept in files"):
        plan(Routed(), batch, budget=0.9, **FAST).save("plan.json")


def test_a_network_that_is_refused_as_a_whole_names_regions():
    with pytest.raises(PlanError, match=r"random.random\(\).*plan\(\.\.\., regions=\"auto\"\) \(see Regions"):
        plan(Dropping(), (torch.randn(40, 32),), budget=0.5)


def test_sections_of_a_call():
    sections = Sections()

    def call():
        kept = torch.empty(1000, dtype=torch.uint8)
        torch.empty(500, dtype=torch.uint8)
        assert sections.begin() == 1
        more = torch.empty(300, dtype=torch.uint8)
        del kept
        sections.begin()
        return more

    assert sections.peaks(call) == [1500, 1300, 300]
