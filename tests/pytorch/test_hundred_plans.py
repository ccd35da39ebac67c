"""Plans of all networks and odd modules: each takes what was predicted, to the byte, and keeps within its budget."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import torch
from more_networks import MORE
from odd_modules import ODD
from step_networks import NETWORKS
from step_runs import excess, made, planned

from moccasin_mzn.pytorch import NoPlanError

LIMIT = {"time_limit": 6.0}
SMALL_LIMIT = {"time_limit": 5.0}
BUDGETS = [*((budget, LIMIT) for budget in (0.9, 0.8, 0.7, 0.6, 0.5)), ("least", LIMIT)]
SMALL_BUDGETS = [(0.9, SMALL_LIMIT), (0.75, SMALL_LIMIT), ("least", SMALL_LIMIT)]
CASES = [
    *((name, factory, *budget) for name, factory in {**NETWORKS, **MORE}.items() for budget in BUDGETS),
    *((f"odd {name}", factory, *budget) for name, factory in ODD.items() for budget in SMALL_BUDGETS),
]
ENOUGH = 100
"""Of plans that compute something again; of all, those of odd modules included, there are more."""


def outcome(name, factory, budget, options):
    """Whether there is a plan, and whether it computes anything again; False if it takes what was not predicted."""
    model, inputs = made(factory)
    recurrent = any(kind in name for kind in ("lstm", "gru"))
    with torch.backends.mkldnn.flags(enabled=not recurrent):
        try:
            found = planned(model, inputs, budget, **options)
        except NoPlanError as error:
            return "none, proven" if "no plan is within it" in str(error) else "none found"
        right = found.predicted_peak <= found.budget and excess(found, found.module(), inputs) == (0, 0)
    return right and ("again" if found.recomputations else "without recomputation")


@pytest.mark.slow
def test_at_least_a_hundred_plans_take_what_was_predicted_within_their_budgets():
    begin, wrong, tally = time.monotonic(), [], Counter()
    for name, factory, budget, options in CASES:
        found = outcome(name, factory, budget, options)
        tally[found] += 1
        if not found:
            wrong.append((name, budget))
    print(f"{dict(tally)} of {len(CASES)} in {time.monotonic() - begin:.0f} s")
    assert not wrong
    assert tally["again"] >= ENOUGH, tally
