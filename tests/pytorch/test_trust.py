"""Plans are compared to the step as it is before they are trusted, and in every so many steps on demand."""

from __future__ import annotations

import logging
import random
import re
from typing import Any

import pytest
import torch
from step_runs import QUICK, same, steps
from torch import nn
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.pytorch import Plan, PlanError, Plans, plan
from moccasin_mzn.pytorch.trust import Trust, room_for

HOW: dict[str, Any] = {**QUICK, "durations": "flop", "workspaces": "none"}
HIDDEN = random.Random(1)
"""What no trace sees: the operator below draws from it wherever it is called."""


@torch.library.custom_op("trust::drift", mutates_args=())
def drift(x: torch.Tensor) -> torch.Tensor:
    """An operator of a library, with a state of its own."""
    return x * (1 + HIDDEN.random())


drift.register_fake(torch.empty_like)
drift.register_autograd(lambda ctx, grad: grad)


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(x)))


class Drifting(nn.Sequential):
    """Blocks, and in between an operator that no trace sees through."""

    def __init__(self) -> None:
        super().__init__(Block(), Block())

    def forward(self, x):
        return self[1](drift(self[0](x)))


class Read(nn.Sequential):
    """Blocks, and in between a number from a file."""

    def __init__(self, path) -> None:
        super().__init__(Block(), Block())
        self.path = str(path)

    def forward(self, x):
        with open(self.path) as file:
            return self[1](self[0](x) * float(file.read()))


def x_of(rows: int = 16) -> torch.Tensor:
    return torch.randn(rows, 8, generator=torch.Generator().manual_seed(rows))


def blocks() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block())


class Replaced(nn.Sequential):
    """Blocks, and a buffer that each step replaces."""

    def __init__(self) -> None:
        super().__init__(Block(), Block())
        self.register_buffer("mean", torch.zeros(8))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return super().forward(x) - self.mean


def test_a_buffer_that_a_step_replaces_is_compared():
    model, before = Replaced(), torch.zeros(8)
    with pytest.raises(PlanError, match="buffer mean|attribute 'mean'|buffer 'mean'"):
        plan(model, (x_of(),), budget="1TiB", **HOW)
    assert torch.equal(model.mean, before)


DIFFERS = "not equal to the step as it is: output 0, gradient of"


@pytest.mark.parametrize("how", [{}, {"shapes": "each"}, {"regions": ("0", "1")}], ids=["one", "each", "regions"])
def test_what_only_a_comparison_sees_is_refused(how):
    with pytest.raises(PlanError, match=DIFFERS):
        plan(Drifting(), (x_of(),), budget=0.9, **HOW, **how)
    taken = plan(Drifting(), (x_of(),), budget=0.9, verify=False, **HOW, **how)
    assert taken.trust.left_out == "switched off by verify=False"
    assert not taken.verify((x_of(),)).equal
    taken.module()(x_of()).sum().backward()  # as it was asked for


def test_plans_are_compared_as_they_are_made():
    model = Drifting()
    plans = Plans(model, budget=0.9, **HOW).install()
    with pytest.raises(PlanError, match=DIFFERS):
        model(x_of())
    plans.remove()
    Plans(model, budget=0.9, verify=False, **HOW).install()
    model(x_of()).sum().backward()


@pytest.mark.parametrize(
    "how", [{}, {"gradients": "accumulated"}, {"loss": lambda out: out.sum()}], ids=["plain", "accumulated", "loss"]
)
def test_what_is_equal_is_trusted_and_its_state_left_as_it_was(how):
    model, x = blocks(), x_of().requires_grad_()
    before, state = {name: each.clone() for name, each in model.state_dict().items()}, torch.get_rng_state()
    found = plan(model, (x,), budget=0.9, **HOW, **how)
    assert (found.trust.known, found.trust.left_out, found.unchecked) == (None, None, False)
    assert found.trust.seconds > 0
    assert "\nverified  equal to the step as it is, bit for bit; compared in " in found.report()
    assert same([*model.state_dict().values(), torch.get_rng_state()], [*before.values(), state])
    assert all(each.grad is None for each in (x, *model.parameters()))


# --- Differences that are known


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 8))

    def forward(self, x):
        return checkpoint(self.body, x, use_reentrant=False).tanh()


class Product(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = blocks()

    def forward(self, x):
        return self.body(x).prod(1)


@pytest.mark.parametrize(("network", "known"), [
    (Normed, "buffer body.1.running_mean, .*: the step is equal to that without the network's own checkpoints"),
    (Product, "by up to .*e-.*, which is rounding"),
])  # fmt: skip
def test_known_differences_are_said(network, known):
    torch.manual_seed(0)
    found = plan(network(), (x_of(),), budget="1TiB", **HOW)
    assert re.search(known, found.trust.known)
    assert "\nverified  not equal: " in found.report()


class Apart(nn.Module):
    """A step that differs from its trace by a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor, self.body = factor, blocks()

    def forward(self, x):
        return self.body(drift_by(x, self.factor))


CALLS = [0]


@torch.library.custom_op("trust::by", mutates_args=())
def drift_by(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Another factor in every second call."""
    CALLS[0] += 1
    return x * (factor if CALLS[0] % 2 else 1.0)


drift_by.register_fake(lambda x, factor: torch.empty_like(x))
drift_by.register_autograd(lambda ctx, grad: (grad, None))


@pytest.mark.parametrize(("factor", "equal"), [(1.0, True), (1 + 2**-20, True), (1.01, False), (2.0, False)])
def test_only_what_is_small_is_rounding(factor, equal):
    if equal:
        found = plan(Apart(factor), (x_of(),), budget="1TiB", **HOW)
        assert (found.trust.known is None) == (factor == 1.0)
    else:
        with pytest.raises(PlanError, match=DIFFERS):
            plan(Apart(factor), (x_of(),), budget="1TiB", **HOW)


# --- Where nothing can be compared when the plan is made


def test_a_plan_that_was_read_is_compared_in_its_first_call(tmp_path):
    model = Drifting()
    plan(model, (x_of(),), budget="1TiB", verify=False, **HOW).save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json", model)
    assert read.unchecked
    read.install()
    with pytest.raises(PlanError, match="in call 1 of the plan, the planned step is " + DIFFERS):
        model(x_of())
    read.remove()
    with pytest.raises(PlanError, match=DIFFERS):
        read.module()(x_of())
    read.module(verify=False)(x_of()).sum().backward()
    read.install(verify=False)
    model(x_of()).sum().backward()


def test_a_first_call_that_is_compared_changes_nothing(tmp_path):
    wanted = steps(*(2 * (blocks(),)), [x_of()])
    model = blocks()
    plan(model, (x_of(),), budget=0.9, **HOW).save(tmp_path / "plan.json")
    read = Plan.load(tmp_path / "plan.json", model)
    read.install()
    assert same(steps(model, model, [x_of()]), wanted)


@pytest.mark.parametrize(("inputs", "why"), [
    ([torch.empty(16, 8, device="meta")], "there are no numbers to run it on"),
    ([torch.full((16,), 9)], "the step as it is ends with IndexError on these inputs"),
])  # fmt: skip
def test_without_numbers_to_run_it_on_the_first_call_is_compared(inputs, why):
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.body = nn.Embedding(4, 8), Drifting()

        def forward(self, x):
            return self.body(x if x.is_floating_point() else self.table(x))

    model = Embedded()
    found = plan(model, inputs, budget="1TiB", **HOW)
    assert (found.trust.left_out, found.unchecked) == (why, True)
    assert f"so that the first call is: {why}" in found.report()
    step = found.module()
    with pytest.raises(PlanError, match="in call 1 of the plan"):
        step(x_of() if inputs[0].is_meta else torch.zeros(16, dtype=torch.int64))


def test_there_is_room_for_a_step_of_which_several_are_free():
    assert room_for(1, "cpu") is None
    assert "4 times the memory" in room_for(2**60, "cpu")
    assert "2 times the memory" in room_for(2**60, "cpu", measured=True)
    assert str(Trust(left_out="because")).endswith("so that the first call is: because")


# --- Every so many steps


def trained(model: nn.Module, path, change_at: int, sizes) -> list[int]:
    """The steps that were trained; before one of them the file changes."""
    done = []
    for step, rows in enumerate(sizes, 1):
        if step == change_at:
            path.write_text("3.0")
        model(x_of(rows)).sum().backward()
        done.append(step)
    return done


@pytest.mark.parametrize(("every", "change_at", "found_at", "sizes"), [
    (1, 2, 2, [16] * 6), (3, 2, 3, [16] * 6), (3, 4, 6, [16] * 6), (2, 6, 6, [16] * 6),
    (1, 2, 3, [16, 12] * 5), (3, 4, 9, [16, 12] * 5),  # steps of 12 rows run without a plan
])  # fmt: skip
def test_a_change_is_found_in_the_next_step_that_is_compared(tmp_path, every, change_at, found_at, sizes):
    path = tmp_path / "factor"
    path.write_text("2.0")
    model, done = Read(path), []
    Plans(model, budget=0.9, check_every=every, **HOW).install()
    with pytest.raises(PlanError, match=f"in call {found_at} of the plan, the planned step is {DIFFERS}"):
        done = trained(model, path, change_at, sizes)
    assert not done
    path.write_text("2.0")
    trained(model, path, 0, sizes)  # it goes on where all is equal again


def test_steps_that_are_compared_change_nothing():
    wanted = steps(*(2 * (blocks(),)), [x_of()], 6)
    model = blocks()
    Plans(model, budget=0.9, check_every=2, **HOW).install()
    assert same(steps(model, model, [x_of()], 6), wanted)


def test_comparisons_that_there_is_no_memory_for_are_noted(caplog, monkeypatch):
    from moccasin_mzn.pytorch import trust

    model = blocks()
    Plans(model, budget=0.9, check_every=2, **HOW).install()
    model(x_of())
    monkeypatch.setattr(trust, "free_memory", lambda device: 0)
    with caplog.at_level(logging.INFO, "moccasin_mzn.notes"):
        model(x_of()).sum().backward()
    assert "call 2 of the plan was not compared to the step as it is: 4 times the memory" in caplog.text


@pytest.mark.parametrize("every", [0, -1, 1.5, "10", True])
def test_nonsense_is_refused(every):
    with pytest.raises(InputError, match="expected a number of steps"):
        Plans(blocks(), budget=0.9, check_every=every)
