"""Fractions of the activations as budgets: of what is above the gradients that stay."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import NoPlanError, plan


def wide():
    """A network whose gradients are much of what its step takes."""
    layers = [layer for _ in range(4) for layer in (nn.Linear(64, 64), nn.GELU())]
    return nn.Sequential(*layers), [torch.randn(160, 64)]


def planned(budget, **how):
    model, inputs = wide()
    return plan(
        model,
        inputs,
        loss=lambda out: out.square().mean(),
        budget=budget,
        time_limit=15,
        seed=0,
        durations="flop",
        **how,
    )


def test_the_gradients_that_stay_are_added():
    gradients = sum(each.nbytes for each in wide()[0].parameters())
    found = planned(0.8, of="activations")
    assert found.budget == gradients + -(-8 * (found.eager_peak - gradients) // 10)
    assert found.predicted_peak <= found.budget and found.of == "activations"
    assert " of the activations above 65.00 KiB of gradients" in found.report()
    assert "of the activations" not in planned(0.9).report()


def test_none_stay_where_they_are_accumulated():
    found = planned(0.8, of="activations", gradients="accumulated")
    assert found.budget == -(-8 * found.eager_peak // 10)


def test_gradients_that_leave_no_room_are_named():
    with pytest.raises(NoPlanError, match="65.00 KiB of every plan's step are gradients, which stay: more than"):
        planned(0.12)
    with pytest.raises(NoPlanError, match=r"the budget is \d+ % of what is above them; with of='activations'"):
        planned(0.35)


@pytest.mark.parametrize(
    ("budget", "of", "message"),
    [("1GiB", "activations", "of activations there is a fraction"), ("least", "activations", "there is a fraction"),
     (0.5, "gradients", "of 'gradients': expected one of step, activations")],
)  # fmt: skip
def test_nonsense_is_refused(budget, of, message):
    with pytest.raises(InputError, match=message):
        planned(budget, of=of)
