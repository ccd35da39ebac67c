"""Plans begin with what the network itself recomputes, or with blocks of modules recomputed."""

from __future__ import annotations

import pytest
import torch
from step_runs import excess, planned
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.pytorch import starts
from moccasin_mzn.pytorch.checkpoints import CHECKPOINT
from moccasin_mzn.pytorch.on_demand import on_demand

WIDTH = 32


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.dropout(nn.functional.gelu(self.up(x)), 0.1, self.training))


class Checkpointed(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.blocks, self.reentrant = nn.ModuleList(Block() for _ in range(4)), reentrant

    def forward(self, x):
        x = x.requires_grad_() if self.reentrant and not x.requires_grad else x
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant)
        return x.square().mean()


@pytest.fixture
def given():
    torch.manual_seed(0)
    return torch.randn(256, WIDTH)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_plan_takes_no_more_than_the_checkpoints_of_the_network(given, reentrant):
    model, x = Checkpointed(reentrant), given.clone().requires_grad_(reentrant)
    found = planned(model, [x], 1.0)
    assert found.recomputations > 0 and found.predicted_peak <= found.eager_peak < 0.7 * found.unplanned.whole
    assert excess(found, found.module(), [x])[0] == 0 and found.verify([x]).equal
    marks = {node.meta.get(CHECKPOINT) for node in found.traced.joint.nodes}
    assert len(marks - {None}) == len(model.blocks)


def test_blocks_of_modules_are_recomputed_as_few_as_the_budget_asks_for(given):
    model = nn.Sequential(*(Block() for _ in range(6)))
    problem = planned(model, [given], "1TiB", durations="flop", workspaces="none").traced.problem
    graph = problem.graph
    all_blocks = (starts.checkpointed(problem, blocks) for blocks in starts._partitions(problem))
    least, whole = min(simulate(graph, each).peak for each in all_blocks), simulate(graph, graph.input_order()).peak
    durations = []
    for budget in (least, (least + whole) // 2, whole):
        schedules = [*starts._by_blocks(problem, budget)]
        found = [simulate(graph, each) for each in schedules]
        assert all(each.peak <= budget for each in found)
        assert all(first_out_of_stage(graph.input_order(), each) is None for each in schedules)
        durations.append(min(each.duration for each in found))
    assert durations[0] > durations[1] >= durations[2]
    assert not [*starts._by_blocks(problem, least - 1)]


def test_a_schedule_by_blocks_computes_each_of_a_block_twice_at_most(given):
    model = nn.Sequential(*(Block() for _ in range(3)))
    problem = planned(model, [given], "1TiB", durations="flop", workspaces="none").traced.problem
    for blocks in starts._partitions(problem):
        sequence = starts.checkpointed(problem, blocks)
        again = [node for node in set(sequence) if sequence.count(node) > 1]
        assert set(again) <= {node for block in blocks for node in block} and all(problem.most[node] for node in again)
        assert max(map(sequence.count, sequence)) <= 2


class Decoder(nn.Module):
    """Checkpoints of its own, and many classes: its blocks, its head and its loss each need much memory."""

    def __init__(self):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block() for _ in range(4)), nn.Linear(WIDTH, 120)

    def forward(self, x):
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return nn.functional.cross_entropy(self.head(x), torch.arange(len(x)) % 120)


def traced(model, x):
    return planned(model, [x], "1TiB", durations="flop", workspaces="none").traced.problem


def test_a_network_with_checkpoints_is_planned_below_what_they_take(given):
    model = Decoder()
    found = planned(model, [given], 0.87, time_limit=20.0)
    assert found.predicted_peak <= 0.87 * found.eager_peak and found.verify([given]).equal
    assert excess(found, found.module(), [given])[0] == 0
    blocks = starts.checkpointed(found.traced.problem, next(starts._partitions(found.traced.problem)))
    assert simulate(found.graph, blocks).peak > found.budget


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_a_schedule_on_demand_keeps_to_its_budget_and_counts(given, most):
    problem = traced(Decoder(), given)
    graph = problem.graph
    whole = simulate(graph, graph.input_order())
    durations = []
    for share in (1.0, 0.6, 0.4, 0.35, 0.33, 0.1):
        sequence = on_demand(problem, int(share * whole.peak), most)
        if sequence is not None:
            found = simulate(graph, sequence)
            assert found.feasible and found.peak <= share * whole.peak
            assert first_out_of_stage(graph.input_order(), sequence) is None
            assert max(map(sequence.count, sequence)) <= most
            assert all(problem.most[node] or sequence.count(node) == 1 for node in sequence)
            durations.append(found.duration)
    assert durations[0] == whole.duration and len(durations) == {1: 1, 2: 3, 3: 4, 8: 5}[most]


def test_a_schedule_on_demand_ends_when_it_is_told_to(given):
    problem = traced(Decoder(), given)
    assert on_demand(problem, 2**40) is not None and on_demand(problem, 2**40, stop=lambda: True) is None


def test_the_least_start_takes_no_more_than_blocks(given):
    problem = traced(Decoder(), given)
    least = simulate(problem.graph, starts.least_start(problem, 8)).peak
    assert least < min(
        simulate(problem.graph, starts.checkpointed(problem, blocks)).peak for blocks in starts._partitions(problem)
    )
