"""The largest batch within a budget: a plan for it runs within the budget, and none is found for one more."""

from __future__ import annotations

import pytest
import torch
from step_networks import mlp
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, largest_batch
from moccasin_mzn.pytorch.measuring import allocator_peak
from moccasin_mzn.pytorch.planning import plan


def squared(outputs):
    return outputs.square().mean()


def rows(batch):
    return [torch.randn(batch, 24)]


def test_a_plan_for_it_runs_and_one_more_is_proven_not_to():
    model = nn.Sequential(nn.Linear(24, 96), nn.ReLU(), nn.Linear(96, 24))
    budget = 200_000
    found = largest_batch(model, rows, budget, loss=squared, time_limit=20, seed=0)
    step = found.plan.module()
    (inputs,) = rows(found.batch)
    step(inputs).backward()  # libraries prepare something that they keep
    model.zero_grad(set_to_none=True)
    peak = allocator_peak(lambda: step(inputs).backward())
    model.zero_grad(set_to_none=True)
    assert peak <= found.predicted_peak + 64 <= budget + 64
    with pytest.raises(NoPlanError):
        plan(model, rows(found.batch + 1), loss=squared, budget=budget, time_limit=20, seed=0)
    assert found.next_proven <= found.next_found and found.next_found > budget
    assert len(found.tried) < 20 and str(found.batch) in found.report()


def test_nothing_is_run_on_the_meta_device_and_schedules_are_tried_again():
    with torch.device("meta"):
        model = mlp()[0]
    found = largest_batch(model, rows, "64KiB", loss=squared, time_limit=20, seed=0)
    assert found.plan is None and found.predicted_peak <= found.budget == 64 << 10
    assert found.next_found > found.budget and found.next_proven > 0
    most = largest_batch(model, rows, "64KiB", loss=squared, most=found.batch // 2, time_limit=20, seed=0)
    assert most.batch == found.batch // 2 and most.next_found == most.next_proven == 0


def test_inputs_by_name_that_read_numbers():
    def by_name(batch):
        lengths = torch.arange(batch).clamp(max=3)
        return {"input": torch.ones(batch, int(lengths.max()) + 21)}

    with torch.device("meta"):
        model = mlp()[0]
    found = largest_batch(model, lambda batch: by_name(batch + 3), "64KiB", loss=squared, time_limit=12, seed=0)
    assert found.batch > 1 and found.predicted_peak <= found.budget


def test_no_batch_fits():
    with torch.device("meta"):
        model = mlp()[0]
    with pytest.raises(NoPlanError, match="for a batch of 1, which takes at least"):
        largest_batch(model, rows, 1000, loss=squared, time_limit=12)


@pytest.mark.parametrize(
    ("budget", "how", "message"),
    [(0.5, {}, "is for an amount"), ("1GiB", {"most": 0}, "the largest batch to try"), ("lots", {}, "budget")],
)
def test_nonsense_is_refused(budget, how, message):
    with pytest.raises(InputError, match=message):
        largest_batch(mlp()[0], rows, budget, loss=squared, **how)
