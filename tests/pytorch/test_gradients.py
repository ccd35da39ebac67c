"""Gradients by plans against finite differences: every idiom that is handled in a way of its own."""

from __future__ import annotations

import pytest
import torch
from step_runs import planned
from torch import nn
from torch.nn import functional
from torch.utils import checkpoint as checkpoints
from torch.utils.checkpoint import checkpoint

from moccasin_mzn.pytorch import PlanError
from moccasin_mzn.pytorch import checkpoints as plain

WIDTH = 12


class Blocks(nn.Module):
    """Blocks that mix in one idiom each, and end in a number."""

    def __init__(self, idiom, width=WIDTH):
        super().__init__()
        self.idiom = idiom
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(6))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(6))

    def forward(self, x):
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = self.idiom(layer, norm, x)
        return x.square().mean()


def plainly(layer, norm, x):
    return x + functional.gelu(layer(norm(x)))


def dropout(layer, norm, x):
    return x + functional.dropout(functional.gelu(layer(norm(x))), 0.3)


def checkpointed(layer, norm, x):
    return checkpoint(dropout, layer, norm, x, use_reentrant=False)


def reentrant(layer, norm, x):
    return checkpoint(dropout, layer, norm, x, use_reentrant=True)


def selective(layer, norm, x):
    """What is kept is chosen by a policy."""
    kept = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    contexts = checkpoints.create_selective_checkpoint_contexts
    return checkpoint(dropout, layer, norm, x, use_reentrant=False, context_fn=lambda: contexts(kept))


def nested(layer, norm, x):
    inner = checkpoint(dropout, layer, norm, x, use_reentrant=False)
    return checkpoint(lambda y: checkpointed(layer, norm, y) + y, inner, use_reentrant=False)


def views(layer, norm, x):
    y = layer(norm(x)).view(len(x), 3, -1).transpose(1, 2)
    left, right = y.chunk(2, 1)
    return x + torch.cat([left.sigmoid(), right * left], 1).reshape(x.shape)[:, torch.arange(WIDTH).flip(0)]


def in_place(layer, norm, x):
    y = layer(norm(x))
    y += x
    y[:, ::2].mul_(0.5).tanh_()
    z = y.clone()
    z[1:] = z[1:].sin_()
    return z.add_(y)


def batch_norm(layer, norm, x):
    statistics = [torch.zeros(WIDTH, dtype=x.dtype), torch.ones(WIDTH, dtype=x.dtype)]
    return x + functional.batch_norm(layer(x), *statistics, norm.weight, norm.bias, training=True)


def attention(layer, norm, x):
    y = layer(norm(x)).view(1, len(x), 2, -1).transpose(1, 2)
    mixed = functional.scaled_dot_product_attention(y, y.sin(), y, dropout_p=0.2)
    return x + mixed.transpose(1, 2).reshape(x.shape)


IDIOMS = [
    plainly, dropout, checkpointed, reentrant, selective, nested, views, in_place, batch_norm, attention
]  # fmt: skip


def derivatives(call, model, x, direction, step):
    """Of the loss, along a direction of parameters and input: by the call's gradients, and by differences of eager."""
    leaves = [*model.parameters(), x]
    torch.manual_seed(3)
    call(x).backward()
    found = sum((leaf.grad * way).sum().item() for leaf, way in zip(leaves, direction, strict=True))
    values = []
    for sign in (1, -1):
        with torch.no_grad():
            for leaf, way in zip(leaves, direction, strict=True):
                leaf.add_(way, alpha=sign * step)
            torch.manual_seed(3)
            values.append(model(x).item())
            for leaf, way in zip(leaves, direction, strict=True):
                leaf.sub_(way, alpha=sign * step)
    return found, (values[0] - values[1]) / (2 * step)


def made(idiom, kind=torch.float64):
    torch.manual_seed(1)
    model = Blocks(idiom)
    x = torch.randn(16, WIDTH)
    direction = [torch.randn_like(leaf).to(kind) for leaf in (*model.parameters(), x)]
    model, x = model.to(kind), x.to(kind).requires_grad_()
    return model, x, [way / sum(float(each.square().sum()) for each in direction) ** 0.5 for way in direction]


@pytest.mark.few(3)
@pytest.mark.parametrize("idiom", IDIOMS, ids=lambda idiom: idiom.__name__)
def test_gradients_of_a_plan_are_those_of_finite_differences(idiom):
    model, x, direction = made(idiom)
    found = planned(model, [x], "least", time_limit=6)
    assert found.recomputations > 0
    by_plan, by_differences = derivatives(found.module(), model, x, direction, 1e-5)
    assert abs(by_differences) > 1e-3
    assert by_plan == pytest.approx(by_differences, rel=1e-6)


@pytest.mark.parametrize("again", [False, True], ids=["plainly", "checkpointed"])
def test_gradients_under_autocast_are_those_of_finite_differences_without(again):
    """As far as numbers of 8 bits go: the differences are of numbers of 53."""

    def idiom(*given):
        return checkpoint(plainly, *given, use_reentrant=False) if again else plainly(*given)

    model, x, direction = made(idiom, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = planned(model, [x], "least", time_limit=6)
        by_plan, _ = derivatives(found.module(), model, x, direction, 1e-3)
    model, x, direction = made(plainly)
    _, by_differences = derivatives(model, model, x, direction, 1e-5)
    assert by_plan == pytest.approx(by_differences, rel=0.1)


def test_saving_tensors_by_hooks_is_refused():
    def offloaded(layer, norm, x):
        with torch.autograd.graph.save_on_cpu():
            return plainly(layer, norm, x)

    model, x, _ = made(offloaded)
    with pytest.raises(PlanError, match="the network saves tensors by hooks"):
        planned(model, [x], 0.9)


def test_checkpoints_of_an_unknown_kind_are_refused_with_the_release(monkeypatch):
    """Nothing is traced where what is replaced is not what checkpoints call."""
    own = plain._generator()
    assert plain._is_plain(own) and not plain._is_plain("noop_context_fn")
    model, x, _ = made(checkpointed)
    plain._generator.cache_clear()
    monkeypatch.setattr(checkpoints, own, lambda *args, **kwargs: iter(()))  # such as that of 2.14, called otherwise
    try:
        with pytest.raises(PlanError, match=f"PyTorch {torch.__version__.split('+')[0]}.* checkpoints"):
            planned(model, [x], 0.9)
    finally:
        plain._generator.cache_clear()
