"""Diffusion transformers: one chunk of modulation gives six views, which broadcast over tokens."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from step_runs import excess, made, planned, same, steps, twin
from test_random_sequences import all_again, drawn
from torch import nn
from torch.nn import functional

from moccasin_mzn.pytorch.instructions import peaks


class Timestep(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(8, width), nn.SiLU(), nn.Linear(width, width))

    def forward(self, t):
        angles = t[:, None].float() * torch.exp(-math.log(10000) * torch.arange(4) / 4)[None]
        return self.mlp(torch.cat([angles.cos(), angles.sin()], -1))


class Modulated(nn.Module):
    def __init__(self, width: int, views: str) -> None:
        super().__init__()
        self.views, self.norm = views, nn.LayerNorm(width, elementwise_affine=False)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width))
        self.modulation = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))

    def six(self, c):
        made = self.modulation(c)
        if self.views == "chunk":
            return [each.unsqueeze(1) for each in made.chunk(6, dim=1)]
        if self.views == "unbind":
            return made.view(len(c), 6, 1, -1).unbind(1)
        return made[:, None].split(made.shape[1] // 6, -1)

    def attention(self, x):
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, 2, -1).permute(2, 0, 3, 1, 4).unbind(0)
        return self.project(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape))

    def forward(self, x, c):
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = self.six(c)
        x = x + gate * self.attention(self.norm(x) * (1 + scale) + shift)
        return x + gate_mlp * self.mlp(self.norm(x) * (1 + scale_mlp) + shift_mlp)


class Diffusion(nn.Module):
    """Patches, timesteps, labels that are left out at random, modulated blocks, and an image again."""

    def __init__(self, views: str = "chunk", width: int = 16, left_out: float = 0.1) -> None:
        super().__init__()
        self.patch, self.left_out = nn.Conv2d(4, width, 2, 2), left_out
        self.timestep, self.label = Timestep(width), nn.Embedding(11, width)
        self.blocks = nn.ModuleList(Modulated(width, views) for _ in range(2))
        self.last = nn.Sequential(nn.SiLU(), nn.Linear(width, 2 * width))
        self.norm, self.out = nn.LayerNorm(width, elementwise_affine=False), nn.Linear(width, 16)

    def forward(self, x, t, y):
        tokens = self.patch(x).flatten(2).transpose(1, 2)
        if self.left_out:
            y = torch.where(torch.rand(len(y)) < self.left_out, 10, y)
        c = self.timestep(t) + self.label(y)
        for block in self.blocks:
            tokens = block(tokens, c)
        shift, scale = self.last(c).chunk(2, dim=1)
        tokens = self.out(self.norm(tokens) * (1 + scale[:, None]) + shift[:, None])
        return torch.einsum("nhwpqc->nchpwq", tokens.view(-1, 4, 4, 2, 2, 4)).reshape(x.shape)


def diffusion(views: str, rows: int, left_out: float):
    return Diffusion(views, left_out=left_out), [
        torch.randn(rows, 4, 8, 8), torch.randint(1000, (rows,)), torch.randint(10, (rows,))
    ]  # fmt: skip


CASES = [
    (views, rows, left_out) for views in ("chunk", "unbind", "split") for rows in (4, 2, 1) for left_out in (0.1, 0.0)
]


@pytest.mark.few(2)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_peaks_are_right_to_the_byte_whatever_is_recomputed(case):
    model, inputs = made(lambda: diffusion(*case))
    whole = planned(model, inputs, "1TiB", durations="flop")
    problem = whole.traced.problem
    other, fresh = twin(model, inputs)
    wanted = steps(other, other, fresh, 1)
    for sequence in (drawn(problem, random.Random(1)), drawn(problem, random.Random(2)), all_again(problem)):
        found = replace(whole, sequence=sequence, peaks=peaks(whole.traced.linear(sequence)))
        before = {key: value.clone() for key, value in model.state_dict().items()}
        step = found.module()
        assert excess(found, step, inputs) == (0, 0)
        assert same(steps(model, step, inputs, 1), wanted)
        model.load_state_dict(before)


def test_a_plan_is_within_its_budget():
    model, inputs = made(lambda: diffusion("chunk", 4, 0.1))
    found = planned(model, inputs, 0.7, durations="flop")
    check = found.verify(inputs)
    assert found.recomputations > 0
    assert check.equal
    assert check.peak == found.predicted_peak <= found.budget


class ReadTwice(nn.Module):
    """Weights that a step reads more than once: a layer called again, a tied one, a modulation shared by blocks."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.one, self.other = how, nn.Linear(16, 16), nn.Linear(16, 16)
        self.convolution, self.blocks = nn.Conv1d(4, 4, 1), nn.ModuleList(Modulated(16, "chunk") for _ in range(2))
        if how == "tied":
            self.other.weight = self.one.weight

    def forward(self, x):
        match self.how:
            case "called again":
                x = self.one(self.one(x).tanh()).sin() + self.convolution(self.convolution(x))
            case "tied":
                x = self.other(self.one(x).tanh()).sin()
            case "shared":
                c = self.one(x.mean(1))
                for block in (*self.blocks, self.blocks[0]):
                    x = block(x, c)
            case _:
                x = self.other(self.one(x).tanh()).sin()
        return x.float().square().mean()


@pytest.mark.few(4)
@pytest.mark.parametrize("how", ["called again", "tied", "shared", "once"])
@pytest.mark.parametrize("gradients", ["returned", "accumulated"])
@pytest.mark.parametrize("cached", [True, False])
def test_a_weight_that_is_read_twice_is_cast_as_often_as_autocast_does(how, gradients, cached):
    """Its gradient is added up in the precision of the cast, where that is kept."""
    model, inputs = made(lambda: (ReadTwice(how), [torch.randn(4, 4, 16)]))
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=cached):
        found = planned(model, inputs, 1.0, durations="flop", gradients=gradients)
        check = found.verify(inputs)
    assert found.trust.known is None and check.equal and check.peak == check.predicted_peak
    casts = [str(node.target) for node in found.traced.joint.nodes if "_to_copy" in str(node.target)]
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=not cached):
        other = planned(model, inputs, 1.0, durations="flop", gradients=gradients, verify=False)
    many = [str(node.target) for node in other.traced.joint.nodes if "_to_copy" in str(node.target)]
    assert len(casts) == len(many) if how == "once" else (len(casts) < len(many)) == cached
