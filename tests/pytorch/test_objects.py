"""Tensors in plain objects: a plan reads those of each call, and returns new objects with its own."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from step_runs import excess, planned, same, steps, twin
from torch import nn

from moccasin_mzn.pytorch import PlanError, plan
from moccasin_mzn.pytorch.call import Structure, output_names

CHEAP = {"durations": "flop", "workspaces": "none", "search": "only", "until_gap": 0.9, "time_limit": 30.0}


@dataclass
class Batch:
    x: torch.Tensor
    more: list[torch.Tensor]
    scale: float = 1.0


@dataclass(frozen=True)
class Made:
    loss: torch.Tensor
    cache: Cache
    name: str = "made"


class Cache:
    """Grows by what the layers give, as caches of keys and values do; knows who made it."""

    def __init__(self, owner):
        self.owner, self.layers = owner, []

    def add(self, keys):
        self.layers.append({"keys": keys, "count": len(keys)})


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, batch):
        cache, y = Cache(self), batch.x * batch.scale
        for line, more in zip(self.lines, batch.more, strict=True):
            y = (line(y) + more).tanh()
            cache.add(y)
        return Made(y.square().sum(), cache)


def batch(seed, scale=1.0):
    torch.manual_seed(seed)
    return Batch(torch.rand(64, 6), [torch.rand(6) for _ in range(4)], scale)


def test_a_network_that_takes_and_returns_objects_trains_as_without_a_plan():
    model, inputs = Network(), [batch(0)]
    other, _ = twin(model, [])
    found = planned(model, inputs, 0.9, differentiate="loss")
    step = found.module()
    for seed in (1, 2):
        one, its = (call(batch(seed)) for call in (step, other))
        assert type(one) is Made and one.name == "made" and one.cache.owner is model
        assert torch.equal(one.loss, its.loss) and [each["count"] for each in one.cache.layers] == [64] * 4
        for mine, theirs in zip(one.cache.layers, its.cache.layers, strict=True):
            assert type(mine["keys"]) is torch.Tensor and torch.equal(mine["keys"], theirs["keys"])
        assert one.cache is not step(batch(seed)).cache
        one.loss.backward()
        its.loss.backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters(), strict=True))
    assert excess(found, step, inputs)[0] == 0


def test_a_plain_attribute_of_an_object_that_differs_is_refused_and_such_a_plan_is_not_saved(tmp_path):
    found = plan(Network(), [batch(0)], budget=1.0, **CHEAP)
    with pytest.raises(PlanError, match="called with other arguments than it was planned for"):
        found.module()(batch(0, scale=2.0))
    with pytest.raises(PlanError, match="an object of a class of its own: this plan cannot be saved"):
        found.save(tmp_path / "plan.json")


class Unnamed(dict):
    """Parts without names for PyTorch, as some libraries have it."""


def test_outputs_whose_parts_have_no_names_for_pytorch_are_named_by_their_keys():
    from torch.utils._pytree import register_pytree_node

    register_pytree_node(Unnamed, lambda d: (list(d.values()), tuple(d)), lambda v, k: Unnamed(zip(k, v, strict=True)))
    value = Unnamed(sample=torch.ones(2), more=[torch.ones(1), torch.ones(1)])
    assert output_names(value) == ["sample", "more.0", "more.1"]
    assert output_names([value]) == ["0", "1", "2"]
    assert len(Structure.of(value)[1]) == 3


class Endless:
    def __init__(self):
        self.me, self.x = self, torch.ones(2)


def test_objects_in_circles_end_and_names_of_tensors_are_their_places():
    structure, tensors = Structure.of({"a": Endless(), "b": [torch.zeros(1)]})
    assert len(tensors) >= 2 and tensors[-1].shape == (1,)
    value = Made(torch.ones(()), Cache(None))
    value.cache.add(torch.ones(3))
    assert output_names(value) == ["loss", "cache.layers.0.keys"]
    again, _ = Structure.of(value)
    assert again.matches(Structure.of(Made(torch.zeros(()), value.cache))[0])
    assert not again.matches(Structure.of(Made(torch.zeros(()), value.cache, "other"))[0])
    assert value.cache.layers[0]["keys"].shape == (3,)  # what was looked into is as it was


def test_steps_of_it_are_equal():
    model, inputs = Network(), [batch(0)]
    other, _ = twin(model, [])
    step = planned(model, inputs, 0.9, differentiate="loss").module()
    assert same(steps(model, lambda x: step(x).loss, inputs), steps(other, lambda x: other(x).loss, inputs))
