"""Plans begin with what the network itself recomputes, or with blocks of modules recomputed."""

# ruff: noqa: E402 - nothing can be imported before it is known that PyTorch is there

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", minversion="2.6")

from step_runs import excess, planned
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.stages import first_out_of_stage
from moccasin_mzn.pytorch import starts
from moccasin_mzn.pytorch.checkpoints import CHECKPOINT

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
    whole, least = (simulate(graph, one).peak for one in (graph.input_order(), starts.least_checkpointed(problem)))
    durations = []
    for budget in (least, (least + whole) // 2, whole):
        sequence = starts.checkpointed_within(problem, budget)
        found = simulate(graph, sequence)
        assert found.peak <= budget and first_out_of_stage(graph.input_order(), sequence) is None
        durations.append(found.duration)
    assert durations[0] > durations[1] >= durations[2]
    assert starts.checkpointed_within(problem, least - 1) is None


def test_a_schedule_by_blocks_computes_each_of_a_block_twice_at_most(given):
    model = nn.Sequential(*(Block() for _ in range(3)))
    problem = planned(model, [given], "1TiB", durations="flop", workspaces="none").traced.problem
    for blocks in starts._partitions(problem):
        sequence = starts.checkpointed(problem, blocks)
        again = [node for node in set(sequence) if sequence.count(node) > 1]
        assert set(again) <= {node for block in blocks for node in block} and all(problem.most[node] for node in again)
        assert max(map(sequence.count, sequence)) <= 2
