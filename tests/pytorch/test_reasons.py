"""What `verify` finds where a step is not equal, or where other loops would not be: the table on the page."""

from __future__ import annotations

import copy
import itertools
from functools import partial

import pytest
import torch
from documents import ROOT
from step_runs import QUICK, planned, same
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.pytorch import plan
from moccasin_mzn.pytorch.steps import compared, scratch_copy

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(1))


class Checkpointed(nn.Module):
    """Blocks under checkpoints of the network's own."""

    def __init__(self, middle, **how):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), middle(), nn.GELU()) for _ in range(3))
        self.first, self.how = nn.Linear(8, 8), how

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, **self.how) if self.how else block(x)
        return x


def batch_norm():
    return nn.BatchNorm1d(8)


def bare_norm():
    return nn.BatchNorm1d(8, affine=False, momentum=0.3)


KINDS = [
    {"use_reentrant": reentrant, "preserve_rng_state": state} for reentrant in (False, True) for state in (True, False)
]
QUICKLY = (batch_norm, 0), (bare_norm, 2), (nn.RReLU, 1), (nn.Dropout, 3)
"""The cases of these that are run by default."""


@pytest.mark.parametrize(
    ("middle", "how"),
    [
        pytest.param(middle, how, marks=() if (middle, at) in QUICKLY else pytest.mark.full)
        for middle in (batch_norm, bare_norm, nn.RReLU, nn.Dropout)
        for at, how in enumerate(KINDS)
    ],
)
def test_checkpoints_that_change_a_step_are_the_reason_and_a_plan_is_as_without_them(middle, how):
    torch.manual_seed(0)
    model = Checkpointed(middle, **how)
    check = planned(model, [X], 1.0).verify((X,))
    draws_others = middle in (nn.RReLU, nn.Dropout) and not how["preserve_rng_state"]
    assert check.equal is not (draws_others or middle in (batch_norm, bare_norm))
    assert bool(check.reasons) is not check.equal
    if not check.equal:
        assert len(check.reasons) == 1 and "as without the network's own checkpoints, bit for bit" in check.reasons[0]
        assert str(check).startswith("unequal   ") and f"\nreason    {check.reasons[0]}\n" in str(check)
    plain = copy.deepcopy(model)
    plain.how = {}
    states = []
    planned(model, [X], 1.0).install()
    for network in (model, plain):
        torch.manual_seed(3)
        for _ in range(2):
            network(X).pow(2).sum().backward()
        states.append(
            [*network.state_dict().values(), *(each.grad for each in network.parameters()), torch.get_rng_state()]
        )
    assert same(*states)


def test_other_rounding_has_no_such_reason():
    class Product(Checkpointed):
        def forward(self, x):
            return super().forward(x).prod(1)

    torch.manual_seed(0)
    check = planned(Product(nn.Identity, use_reentrant=False), [X], 1.0, verify=False).verify((X,))
    assert not check.equal and "without the network's own checkpoints" not in str(check)
    assert "traced differently than they run" in check.reasons[0]
    both = planned(Product(batch_norm, use_reentrant=False), [X], 1.0, verify=False).verify((X,))
    assert len(both.reasons) == 2 and "buffer blocks.0.1.running_mean" in both.reasons[0]


def test_what_differs_from_itself_is_the_reason():
    torch.manual_seed(0)
    model, calls = Checkpointed(nn.Identity), itertools.count(1)
    found = planned(model, [X], 1.0)
    copies = partial(scratch_copy, found.traced, (X,), {})

    def restless(x):
        return model(x) * (1 + next(calls))

    check = compared(copies, found.runtime(), restless, "cpu", found.peaks, [found.traced.joint])
    assert not check.equal and "two steps without the plan differ as well" in check.reasons[0]
    assert compared(copies, found.runtime(), model, "cpu", found.peaks, [found.traced.joint]).reasons == ()


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.body = nn.Embedding(20, 8), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, tokens):
        return nn.functional.linear(self.body(self.embedding(tokens)), self.embedding.weight)


TOKENS = torch.randint(20, (4, 8), generator=torch.Generator().manual_seed(2))


class Residual(nn.Module):
    """The input is read twice, and once more outside."""

    def __init__(self):
        super().__init__()
        self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.one(x) * self.other(x)


def gradients(network, loss):
    network.zero_grad()
    torch.manual_seed(7)
    loss(network).backward()
    return [each.grad.clone() for each in network.parameters()]


def test_a_tied_weight_is_named_and_only_that_is_added_up_in_another_order():
    torch.manual_seed(0)
    model = Tied()
    other = copy.deepcopy(model)
    found = planned(model, [TOKENS], 1.0)
    check = found.verify((TOKENS,))
    assert check.equal and len(check.notes) == 1 and "the gradient of embedding.weight:" in check.notes[0]
    assert f"\nbut       {check.notes[0]}\n" in check.report()
    found.install()

    def once(network):
        return network(TOKENS).pow(2).mean()

    def more(network):
        return once(network) + 0.01 * sum(each.pow(2).sum() for each in network.parameters())

    assert same(gradients(model, once), gradients(other, once))
    for mine, its, (name, _) in zip(
        gradients(model, more), gradients(other, more), model.named_parameters(), strict=True
    ):
        assert torch.equal(mine, its) or name == "embedding.weight"
        assert torch.allclose(mine, its, rtol=1e-4, atol=1e-6)


def test_inputs_that_are_read_twice_are_named_and_untied_networks_have_no_note():
    x = X.clone().requires_grad_()
    assert "the gradient of input 0:" in planned(Residual(), [x], 1.0).verify((x,)).notes[0]
    assert planned(Residual(), [X], 1.0).verify((X,)).notes == ()
    assert planned(nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), [X], 1.0).verify((X,)).notes == ()


@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)), Tied])
def test_several_calls_in_one_autocast_are_named_and_equal_without_its_cache(make):
    torch.manual_seed(0)
    model, x = make(), TOKENS if make is Tied else X
    other = copy.deepcopy(model)
    with torch.autocast("cpu"):
        found = plan(model, (x,), budget="1MiB", **QUICK)
        check = found.verify((x,))
    assert check.equal and "torch.autocast(..., cache_enabled=False)" in check.notes[-1]
    found.install()

    def calls(cached):
        def loss(network):
            with torch.autocast("cpu", cache_enabled=cached):
                return network(x).float().pow(2).mean() + network(x).float().sum()

        return loss

    def regions(network):
        total = 0.0
        for _ in range(2):
            with torch.autocast("cpu"):
                total = total + network(x).float().pow(2).mean()
        return total

    names = [name for name, _ in model.named_parameters() if name != "embedding.weight"]
    for loss in (calls(cached=False), regions):
        pairs = dict(
            zip(
                dict(model.named_parameters()),
                zip(gradients(model, loss), gradients(other, loss), strict=True),
                strict=True,
            )
        )
        assert all(torch.equal(*pairs[name]) for name in names)
    with torch.autocast("cpu", cache_enabled=False):
        assert "autocast" not in str(found.verify((x,)).notes)


def test_the_page_has_a_row_for_each():
    text = (ROOT / "docs/training.md").read_text(encoding="utf-8")
    table = text.partition("## Is it the same?")[2].partition("## Loops of other kinds")[0]
    for what in (
        "checkpoint",
        "cache_enabled=False",
        "tied weights",
        "use_deterministic_algorithms",
        "`prod`",
        "check.reasons",
    ):
        assert what in table
