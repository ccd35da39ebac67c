"""The computation that is to blame where no plan is within a budget: what it is said to need, every schedule takes."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest
import torch
from cases import draw_case
from step_runs import planned
from torch import nn

from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch import PlanError, plan
from moccasin_mzn.pytorch.infeasibility import largest_need


def schedules(instance):
    """All of them: before each first computation, any of the nodes before it once more, in their order."""
    order, most = instance.order, instance.max_computations

    def stages(stage):
        earlier = order[:stage]
        return ((*again, order[stage]) for size in range(stage + 1) for again in itertools.combinations(earlier, size))

    for parts in itertools.product(*(list(stages(stage)) for stage in range(len(order)))):
        sequence = tuple(itertools.chain.from_iterable(parts))
        if all(count <= most[v] for v, count in Counter(sequence).items()):
            yield sequence


@pytest.mark.parametrize("seed", range(24))
def test_every_schedule_takes_what_the_computation_to_blame_is_said_to_need(seed):
    case = draw_case(7000 + seed, 5, workspaces=seed % 2 == 1)
    graph = case.graph
    most = [random.Random(seed).choice([1, 2, 2]) for _ in graph.nodes]
    instance = Instance.build(graph, "100%", max_computations=most)
    found = largest_need(instance)
    at_first, until_then = [], []
    for sequence in schedules(instance):
        memory, first = simulate(graph, sequence).memory, sequence.index(found.node)
        at_first.append(memory[first])
        until_then.append(max(memory[: first + 1]))
    assert found.memory <= min(until_then)
    assert found.alone <= min(at_first)
    assert found.alone == graph.workspace_of[found.node] + sum(graph.sizes[v] for v in found.retained)
    assert found.memory >= max(map(graph.working_set, range(len(graph.nodes))))


def test_computations_that_are_done_once_hold_what_they_make():
    from tiny_graphs import U_SHAPE

    found = largest_need(Instance.build(U_SHAPE, "100%", max_computations=1))
    assert found.memory == found.alone == simulate(U_SHAPE, U_SHAPE.input_order()).peak
    assert largest_need(Instance.build(U_SHAPE, "100%", max_computations=2)).memory < found.memory


class Language(nn.Module):
    """Few features, many kinds of tokens."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(500, 4), nn.Linear(4, 500)

    def forward(self, x, y):
        return nn.functional.cross_entropy(self.head(self.embedding(x)), y)


LOGITS = 64 * 500 * 4


def tokens():
    return [torch.randint(500, (64,)), torch.randint(500, (64,))]


def test_the_message_names_the_operator_what_it_holds_and_what_is_known_of_budgets():
    torch.manual_seed(0)
    with pytest.raises(PlanError) as told:
        planned(Language(), tokens(), 0.3, time_limit=30.0)
    message = str(told.value)
    known = (
        r"budget ([\d.]+) KiB: no plan is within it, it takes at least ([\d.]+) KiB, ([\d.]+) % of the step "
        r"without a plan, which is proven without a search \(what operators take inside is not counted\)"
    )
    budget, proven, share = map(float, re.match(known, message).groups())
    assert budget < 3 * LOGITS / 1024 <= proven and 30 < share < 100
    assert "aten._log_softmax_backward_data (_log_softmax_backward_data) alone needs 375" in message
    for part in ("its own output", "aten.nll_loss_backward (nll_loss_backward)", "aten._log_softmax (_log_softmax)"):
        assert f"125.00 KiB of {part}" in message
    assert "\n" not in message


def test_with_slow_memory_the_operator_to_blame_is_the_one_that_touches_most():
    torch.manual_seed(0)
    told = r"no plan is within it: aten._log_softmax_backward_data \(.*\) alone needs 375.00 KiB: 125.00"
    with pytest.raises(PlanError, match=told):
        plan(Language(), tokens(), budget=250_000, paging={"out_time": 1}, durations="flop", workspaces="none")


def test_below_what_is_proven_there_is_no_plan_and_at_the_least_there_is_one():
    torch.manual_seed(0)
    least = planned(Language(), tokens(), "least")
    assert planned(Language(), tokens(), least.predicted_peak).predicted_peak <= least.predicted_peak
    with pytest.raises(PlanError, match="no plan is within it"):
        planned(Language(), tokens(), least.least_proven - 1)


def test_gradients_that_are_all_there_at_the_end_are_to_blame():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(30, 30) for _ in range(6)))
    held = (
        r"the end of the step takes 22.27 KiB, .* and alone needs 22.03 KiB: 3.52 KiB of aten.mm in '5'.*"
        r"\(with gradients='accumulated' none of them is kept to the end\)"
    )
    with pytest.raises(PlanError, match=held):
        planned(model, [torch.randn(2, 30)], 9_000, time_limit=5.0)
    assert planned(model, [torch.randn(2, 30)], 9_000, gradients="accumulated").predicted_peak <= 9_000
