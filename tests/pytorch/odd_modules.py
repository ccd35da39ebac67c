"""Small modules, each with something that a plan can get wrong; a factory gives one and what it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

ODD: dict[str, Callable[[], tuple[nn.Module, list[Any]]]] = {}


def number(*shape: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).requires_grad_(grad)


def odd(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Registers a forward pass of a network with two linear layers; its input requires a gradient."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(6, 6), nn.Linear(6, 6)
            self.register_buffer("memory", torch.linspace(0, 1, 6))

        def forward(self, x):
            return function(self, x)

    ODD[function.__name__] = lambda: (Network(), [number(4, 6, grad=True)])
    return function


@odd
def in_place_after_reading(self, x):
    y = self.one(x)
    z = y * 2
    y = y.add_(1)
    return self.two(y.sin()) + z


@odd
def in_place_twice(self, x):
    y = self.one(x) * 3
    y.mul_(2).add_(x)
    z = y + 1
    y.sub_(0.5)
    return self.two(z) + y


@odd
def shapes_changed_in_place(self, x):
    y = self.one(x) * 1
    before = y + 1
    part = y.detach()[:2]
    y.t_().add_(self.memory[:4])
    z = y.clone().unsqueeze_(0).transpose_(1, 2)
    z.mul_(2)
    return self.two(y.t() * part.sum() + z.squeeze_(0).squeeze_()) + before


@odd
def spectrum_of_windows(self, x):
    y = self.one(x).flatten()
    made = torch.stft(y, 8, window=torch.hann_window(8), return_complex=True).abs()
    return self.two(made[:, :6]) * torch.kaiser_window(6, False)


@odd
def slice_writes(self, x):
    y = torch.zeros(4, 12)
    y[:, :6] = self.one(x)
    y[:, 6:] = y[:, :6].detach() * 2
    return self.two((y * y)[:, 3:9])


@odd
def slice_of_what_was_read(self, x):
    y = self.one(x) + 1
    z = y * 1.5
    y[1:3] = z[0:2] * 2
    return self.two(y) + z


@odd
def old_views(self, x):
    y = self.one(x) * 1
    view = y[:, ::2]
    z = (y * 1.0).sum()
    y.add_(3)
    return self.two(y * view.sum()) * z


@odd
def constants_are_overwritten(self, x):
    mask = torch.ones(6, 6).tril_()
    scaled = mask * 0.5
    mask.mul_(3).add_(self.memory)
    bias = torch.zeros(6)
    first = bias + 1
    bias += self.one(x).sum(0)
    return self.two((x @ mask) @ scaled) + bias * first


@odd
def same_mask_twice(self, x):
    mask = functional.dropout(torch.ones(4, 6), 0.5)
    return self.two(self.one(x) * mask).tanh() * mask


@odd
def many_kinds_of_chance(self, x):
    y = functional.rrelu(self.one(x), training=True)
    y = functional.alpha_dropout(y, 0.3, training=True) + torch.randn_like(y) + torch.rand(6)
    y = functional.dropout2d(y.view(4, 6, 1, 1), 0.4).view(4, 6)
    noise = torch.empty(4, 6).normal_(0, 0.1)
    return self.two(y + noise) + torch.bernoulli(torch.full((6,), 0.5))


@odd
def chance_that_is_lost(self, x):
    torch.rand(3)
    y = self.one(x)
    functional.dropout(y, 0.5)
    return self.two(functional.dropout(y, 0.5))


@odd
def masks_overwritten_later(self, x):
    first, second = torch.rand(4, 6), torch.rand(4, 6)
    first.mul_(2)
    return self.two(self.one(x) * first) * second


@odd
def masks_read_in_another_order(self, x):
    first, second = torch.rand(4, 6), torch.rand(4, 6)
    return self.two(functional.dropout(self.one(x) * second, 0.5)) * first


@odd
def several_outputs(self, x):
    y = self.one(x)
    return {"loss": self.two(y).pow(2).mean(), "hidden": [y, y.t()], "x": x, "index": y.argmax(1), "more": None}


@odd
def equal_outputs(self, x):
    y = self.one(x)
    return y, y, y.view(2, 12), self.two(y).detach()


@odd
def gradients_that_are_tangents(self, x):
    return x + self.one.bias + self.two.bias, x.sum() + self.one.weight[0, 0]


@odd
def gradients_in_other_layouts(self, x):
    return (x @ self.one.weight.t()).sum() + self.two.weight.t().sum() + self.two.bias.expand(4, 6).mul(x).sum()


@odd
def checkpoint_inside(self, x):
    def inner(y):
        return functional.dropout(self.one(y).relu(), 0.5)

    y = checkpoint(inner, x, use_reentrant=False)
    return self.two(checkpoint(inner, y, use_reentrant=True)) + y


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin().mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * 3  # not the derivative: it has to be taken as it is


@odd
def custom_function(self, x):
    return self.two(Scaled.apply(self.one(x)))


@odd
def moving_average(self, x):
    y = self.one(x)
    centred = y - self.memory
    with torch.no_grad():
        self.memory.mul_(0.9).add_(y.mean(0), alpha=0.1)
    return self.two((centred * self.memory.clone()).tanh())


@odd
def moving_average_read_afterwards(self, x):
    y = self.one(x)
    with torch.no_grad():
        self.memory.mul_(0.9).add_(y.mean(0), alpha=0.1)
    return self.two((y * self.memory.clone()).tanh())


@odd
def buffer_read_before_and_after(self, x):
    y = self.one(x) + self.memory
    with torch.no_grad():
        self.memory.copy_(y[0])
    z = self.two(y) * self.memory.detach().clone()
    with torch.no_grad():
        self.memory[2:4] += 1
    return z.cos() + self.memory


@odd
def complex_numbers(self, x):
    y = torch.fft.rfft(self.one(x))
    return self.two(torch.fft.irfft(y.conj() * y, n=6)).abs()


@odd
def sorted_and_chosen(self, x):
    values, order = self.one(x).sort(dim=1)
    top, _ = self.two(values).topk(3, dim=1)
    return top.sum() + values.gather(1, order).cumsum(1).sum()


@odd
def split_and_stacked(self, x):
    a, b, c = self.one(x).chunk(3, dim=1)
    parts = self.two(torch.cat([a * b, c, a], 1)).split([1, 2, 3], dim=1)
    return torch.stack([part.sum() for part in parts]).pow(2).sum()


@odd
def foreach_in_place(self, x):
    rows = [self.one(x) * 1, self.two(x) * 1]
    before = rows[0].sum()
    torch._foreach_add_(rows, 1.0)
    torch._foreach_mul_(rows, 2.0)
    return rows[0] * rows[1] + before


@odd
def half_precision_inside(self, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = self.two(self.one(x).relu())
    return y.float().pow(2).sum()


@odd
def decompositions(self, x):
    q, r = torch.linalg.qr(self.one(x).t() @ self.two(x) + 6 * torch.eye(6))
    return q.sum() + torch.linalg.inv(r + torch.eye(6)).sum() + torch.logsumexp(r, 0).sum()


@odd
def losses_in_hidden_memory(self, x):
    y, z = self.one(x), self.two(x)
    loss = functional.mse_loss(y, z) + functional.smooth_l1_loss(y, z) + functional.huber_loss(y, z)
    return loss + functional.binary_cross_entropy(y.sigmoid(), z.sigmoid().detach())


@odd
def dropout_in_place(self, x):
    y = functional.dropout(self.one(x) * 1, 0.5, inplace=True)
    return y + functional.alpha_dropout(self.two(x) * 1, 0.2, training=True, inplace=True)


@odd
def scattered(self, x):
    y = torch.zeros(4, 6).scatter_add_(1, x.argsort(1), self.one(x))
    return y.index_add(0, torch.tensor([0, 2, 1, 0]), self.two(x))


@odd
def written_through_data(self, x):
    y = self.one(x)
    y.data.mul_(0.5)
    return y.exp() + self.two.weight.detach()[0] + self.two(x)


@odd
def places_in_memory(self, x):
    return self.one(x).as_strided((3, 3), (6, 1), 2) + self.two(x).diagonal()[:3]


@odd
def outputs_that_are_constants(self, x):
    return self.one(x), torch.arange(3), torch.ones(2) * self.two.bias[0]


@odd
def experts(self, x):
    shares = functional.softmax(self.one(x), 1)
    return sum(shares[:, at : at + 1] * self.two(x * at) for at in range(3))


@odd
def loss_in_hidden_memory_returned(self, x):
    return functional.mse_loss(self.two(self.one(x).relu()), x.detach())


def net(name: str, factory: Callable[[], nn.Module], *inputs: Any) -> None:
    ODD[name] = lambda: (factory(), list(inputs))


class Called(nn.Module):
    """A network whose forward pass is a function of it."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs):
        return self.function(self, *inputs)


def tied(self, x):
    y = functional.relu(self.one(x))
    return functional.linear(y, self.one.weight.t()) + functional.linear(x, self.other.weight)


def make_tied() -> nn.Module:
    made = Called(tied, one=nn.Linear(6, 6), other=nn.Linear(6, 6, bias=False))
    made.other.weight = made.one.weight
    return made


NORM = nn.BatchNorm1d
net("tied_weights", make_tied, number(4, 6))
net(
    "weight_norm",
    lambda: nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)), nn.Tanh(),
        nn.utils.parametrizations.spectral_norm(nn.Linear(6, 4)),
    ),
    number(4, 6),
)  # fmt: skip
net(
    "shared_norm",
    lambda: Called(lambda self, x: self.norm(self.one(self.norm(self.norm(x).relu_()))), norm=NORM(6),
                   one=nn.Linear(6, 6)),
    number(5, 6, grad=True),
)  # fmt: skip
net("frozen_norm", lambda: nn.Sequential(nn.Linear(6, 6), NORM(6).eval(), nn.Linear(6, 2)), number(4, 6))
net(
    "statistics_read",
    lambda: Called(
        lambda self, x: self.norm((x + self.norm.running_mean).sin()) + self.norm.running_mean * 2, norm=NORM(6)
    ),
    number(5, 6, grad=True),
)
net(
    "instance_norm",
    lambda: nn.Sequential(
        nn.Conv1d(3, 4, 3), nn.InstanceNorm1d(4, affine=True, track_running_stats=True), nn.ReLU(inplace=True)
    ),
    number(2, 3, 9),
)
net(
    "group_norm_depthwise",
    lambda: nn.Sequential(
        nn.Conv2d(4, 4, 3, groups=4), nn.GroupNorm(2, 4), nn.SiLU(inplace=True), nn.Conv2d(4, 2, 1)
    ),
    number(2, 4, 6, 6),
)  # fmt: skip
LAST = torch.channels_last
net(
    "channels_last",
    lambda: nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Conv2d(8, 2, 3)).to(memory_format=LAST),
    number(2, 4, 7, 7).to(memory_format=LAST),
)
net("encoder_layer", lambda: nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), number(2, 5, 8))
net("gru", lambda: Called(lambda self, x: self.cells(x)[0], cells=nn.GRU(4, 5, bidirectional=True)), number(3, 2, 4))
net("embedding_bag", lambda: nn.Sequential(nn.EmbeddingBag(9, 4), nn.Linear(4, 2)), torch.arange(8).view(2, 4))
net(
    "frozen_parameter",
    lambda: nn.Sequential(nn.Linear(6, 6).requires_grad_(False), nn.ReLU(), nn.Linear(6, 2)),
    number(4, 6),
)
net(
    "unused_parameter",
    lambda: Called(lambda self, x: self.one(x), one=nn.Linear(6, 6), two=nn.Linear(6, 6)),
    number(4, 6),
)
