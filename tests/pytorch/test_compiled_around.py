"""A network with a plan in what `torch.compile` compiles: the plan runs as it is, and all is equal bit for bit."""

from __future__ import annotations

import pytest
import torch
from step_runs import QUICK, planned, same
from torch import nn

from moccasin_mzn.pytorch import Plans, plan

X = torch.randn(32, 12, generator=torch.Generator().manual_seed(1))


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def made():
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 12)) for _ in "ab")
    )


def trained(model, step):
    torch.manual_seed(5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = []
    for size in (32, 32, 20):
        optimizer.zero_grad()
        loss = step(X[:size]).pow(2).mean()
        loss.backward()
        optimizer.step()
        found.append(loss.detach())
    return [*found, *model.parameters(), torch.get_rng_state()]


def with_plans(model):
    Plans(model, budget="40KiB", **QUICK).install()
    return model


def with_plan(model):
    plan(model, (X,), budget="40KiB", shapes="each", **QUICK).install()
    return model


def with_regions(model):
    plan(model, (X,), budget=1.0, regions="auto", **QUICK).install()
    return model


def as_module(model):
    return plan(model, (X,), budget="40KiB", shapes="each", **QUICK).module()


def compiled(step):
    return torch.compile(step, backend="eager")


def in_place(step):
    step.compile(backend="eager")
    return step


def in_a_function(step):
    @torch.compile(backend="eager")
    def doubled(x):
        return step(x * 1) * 1

    return doubled


def in_a_network(step):
    return torch.compile(nn.Sequential(nn.Identity(), step), backend="eager")


@pytest.mark.parametrize(
    ("install", "around"),
    [
        (with_plans, compiled), (with_plans, in_place),
        *[
            pytest.param(install, around, marks=pytest.mark.full)
            for install in (with_plans, with_plan, with_regions, as_module)
            for around in (compiled, in_place, in_a_function, in_a_network)
        ],
    ],
)  # fmt: skip
def test_what_is_compiled_around_a_plan_is_equal_bit_for_bit(install, around):
    eager, model = made(), made()
    assert same(trained(eager, eager), trained(model, around(install(model))))


def test_the_plan_runs_in_what_is_compiled():
    model = made()
    found = planned(model, [X], 0.9)
    found.install()
    step = compiled(model)
    assert type(step(X).grad_fn).__name__ == "PlannedBackward"
    assert found.verify((X,)).equal
    found.remove()
    assert type(step(X).grad_fn).__name__ != "PlannedBackward"


def test_one_whole_graph_is_refused_with_what_to_do():
    model = made()
    planned(model, [X], 1.0).install()
    whole = torch.compile(lambda x: model(x) * 2, backend="eager", fullgraph=True)
    with pytest.raises(
        Exception, match=r"compile with fullgraph=False, or, .* compile with moccasin_mzn\.pytorch\.backend"
    ):
        whole(X)
