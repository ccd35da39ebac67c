"""More kinds of networks, tiny, each with what it is called with; see `step_networks`."""

from __future__ import annotations

import torch
from step_networks import seeded
from torch import nn
from torch.nn import functional


def encoder():
    """Attention with dropout, as `nn.TransformerEncoder` has it, with a mask."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True, norm_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(12)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [
        torch.randn(6, 12, 16, generator=seeded(11)), mask, None, True
    ]  # fmt: skip


class Inverted(nn.Module):
    """An inverted residual with a depthwise convolution and a gate for channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = 3 * width
        self.up = nn.Sequential(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish(inplace=True))
        self.each = nn.Sequential(
            nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True)
        )  # fmt: skip
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(wide, 2, 1), nn.ReLU(), nn.Conv2d(2, wide, 1), nn.Hardsigmoid()
        )  # fmt: skip
        self.down = nn.Sequential(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = self.each(self.up(x))
        return x + self.down(y * self.gate(y))


def mobilenet():
    """Depthwise convolutions."""
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), Inverted(4), Inverted(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Dropout(0.2), nn.Linear(4, 3),
    )  # fmt: skip
    return network, [torch.randn(4, 3, 24, 24, generator=seeded(12))]


class Translator(nn.Module):
    """Instance norms, one with running statistics, reflections, and a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(3, 6, 3), nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
            nn.ReLU(inplace=True),
        )  # fmt: skip
        self.down = nn.Sequential(nn.Conv2d(6, 8, 4, stride=2, padding=1), nn.InstanceNorm2d(8), nn.LeakyReLU(0.2))
        self.middle = nn.ModuleList(
            nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.SiLU()) for _ in range(2)
        )  # fmt: skip
        self.up = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())

    def forward(self, x):
        y = self.down(self.first(x))
        for layer in self.middle:
            y = y + layer(y)
        return self.up(y)


def translator():
    """Group and instance norm."""
    return Translator(), [torch.randn(2, 3, 20, 20, generator=seeded(13))]


class Autoencoder(nn.Module):
    """Variational, its decoder tied to its encoder; several outputs, one of them the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(24, 16), nn.Linear(16, 12), nn.Linear(12, 8)])
        self.mean, self.spread = nn.Linear(8, 4), nn.Linear(8, 4)
        self.begin = nn.Linear(4, 8)
        self.shifts = nn.ParameterList([torch.zeros(12), torch.zeros(16), torch.zeros(24)])

    def forward(self, x):
        y = x
        for layer in self.layers:
            y = torch.tanh(layer(y))
        mean, spread = self.mean(y), self.spread(y).clamp(-5, 5)
        y = self.begin(mean + torch.randn_like(mean) * (spread / 2).exp())
        for layer, shift in zip(reversed(self.layers), self.shifts, strict=True):
            y = functional.linear(torch.tanh(y), layer.weight.t(), shift)
        apart = -0.5 * (1 + spread - mean.pow(2) - spread.exp()).sum(1)
        return {"loss": functional.mse_loss(y, x) + apart.mean(), "made": y, "code": (mean, spread)}


def autoencoder():
    """Weights in two places, several outputs."""
    return Autoencoder(), [torch.randn(128, 24, generator=seeded(14))]


class Words(nn.Module):
    """Both directions of a GRU, and what its states are weighted by."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(20, 6, padding_idx=0), nn.Dropout(0.1)
        self.cells = nn.GRU(6, 6, bidirectional=True, batch_first=True)
        self.weigh, self.last = nn.Linear(12, 1), nn.Linear(12, 3)

    def forward(self, tokens):
        y, last = self.cells(self.drop(self.embed(tokens)))
        weights = self.weigh(torch.tanh(y)).softmax(1)
        return self.last((weights * y).sum(1)), last


def gru():
    return Words(), [torch.randint(20, (16, 5), generator=seeded(15))]


class Patch(nn.Module):
    """A block of a vision transformer, whose branches are left out at random."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mixed = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
        self.line = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.scales = nn.ParameterList([torch.full((width,), 0.5), torch.full((width,), 0.5)])

    def some(self, x):
        return x * torch.empty(len(x), 1, 1).bernoulli_(0.8).div_(0.8)

    def forward(self, x):
        y = self.norms[0](x)
        x = x + self.some(self.mixed(y, y, y, need_weights=False)[0] * self.scales[0])
        return x + self.some(self.line(self.norms[1](x)) * self.scales[1])


class ViT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.blocks = nn.Conv2d(3, 12, 4, stride=4), nn.Sequential(Patch(12), Patch(12))
        self.token, self.places = nn.Parameter(torch.zeros(1, 1, 12)), nn.Parameter(torch.randn(1, 26, 12) * 0.1)
        self.norm, self.last = nn.LayerNorm(12), nn.Linear(12, 3)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(len(x), -1, -1), y], 1) + self.places
        return self.last(self.norm(self.blocks(y))[:, 0])


def vit():
    return ViT(), [torch.randn(4, 3, 20, 20, generator=seeded(16))]


class Growing(nn.Module):
    """A block of a dense net: each layer reads all before it."""

    def __init__(self, width: int, growth: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.BatchNorm2d(width + at * growth), nn.ReLU(inplace=True),
                          nn.Conv2d(width + at * growth, growth, 3, padding=1, bias=False))
            for at in range(layers)
        )  # fmt: skip

    def forward(self, x):
        made = [x]
        for layer in self.layers:
            made.append(layer(torch.cat(made, 1)))
        return torch.cat(made, 1)


def densenet():
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), Growing(4, 3, 4), nn.BatchNorm2d(16), nn.Conv2d(16, 6, 1), nn.AvgPool2d(2),
        Growing(6, 3, 3), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(15, 3), nn.LogSoftmax(1),
    )  # fmt: skip
    return network, [torch.randn(3, 3, 16, 16, generator=seeded(17))]


class Residual(nn.Module):
    """A block of a diffusion model, told the time."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.GroupNorm(2, width), nn.GroupNorm(2, out)])
        self.first, self.second = nn.Conv2d(width, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.side = nn.Linear(8, out), nn.Conv2d(width, out, 1)

    def forward(self, x, time):
        y = self.first(functional.silu(self.norms[0](x))) + self.time(time)[:, :, None, None]
        return self.side(x) + self.second(functional.dropout(functional.silu(self.norms[1](y)), 0.1, self.training))


class Everywhere(nn.Module):
    """Attention between all places of an image."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.qkv = nn.GroupNorm(2, width), nn.Conv1d(width, 3 * width, 1)
        self.out = nn.Conv1d(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x).flatten(2)).chunk(3, 1)
        weights = (torch.bmm(q.transpose(1, 2), k) / q.shape[1] ** 0.5).softmax(-1)
        return x + self.out(torch.bmm(v, weights.transpose(1, 2))).view(x.shape)


class Diffusion(nn.Module):
    """Noise is added to an image and predicted."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.Linear(8, 8))
        self.first, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 1, 3, padding=1)
        self.down, self.low, self.up = Residual(4, 4), Residual(4, 8), Residual(12, 4)
        self.mixed = Everywhere(8)
        self.register_buffer("kept", torch.linspace(0.99, 0.1, 10))

    def forward(self, x, at):
        noise = torch.randn_like(x)
        kept = self.kept[at][:, None, None, None]
        angles = at[:, None] / 10 ** torch.arange(0, 1, 0.25)
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        side = self.down(self.first(kept.sqrt() * x + (1 - kept).sqrt() * noise), time)
        y = self.mixed(self.low(functional.avg_pool2d(side, 2), time))
        y = self.up(torch.cat([functional.interpolate(y, scale_factor=2), side], 1), time)
        return functional.mse_loss(self.last(functional.silu(y)), noise)


def diffusion():
    return Diffusion(), [torch.randn(4, 1, 16, 16, generator=seeded(18)), torch.arange(4) * 2]


class Experts(nn.Module):
    """All experts of all places, weighted by the best two of them; one norm is called thrice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.gate, self.last = nn.BatchNorm1d(12), nn.Linear(12, 4), nn.Linear(12, 3)
        self.up, self.down = nn.Parameter(torch.randn(4, 12, 20) / 4), nn.Parameter(torch.randn(4, 20, 12) / 4)

    def mixed(self, x):
        y = self.norm(x)
        best, which = self.gate(y).softmax(-1).topk(2, -1)
        weights = torch.zeros(len(x), 4).scatter(1, which, best / best.sum(-1, keepdim=True))
        made = torch.einsum("ebh,ehd->ebd", functional.gelu(torch.einsum("bd,edh->ebh", y, self.up)), self.down)
        return x + torch.einsum("ebd,be->bd", made, weights), weights.mean(0)

    def forward(self, x):
        x, first = self.mixed(x)
        x, second = self.mixed(x)
        x, third = self.mixed(x)
        return self.last(x), (first * second * third).sum() * 16


def experts():
    return Experts(), [torch.randn(96, 12, generator=seeded(19))]


class Gated(nn.Module):
    """A dilated convolution of a wave net, with weights in two parts."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.dilation = dilation
        normal = nn.utils.parametrizations.weight_norm
        self.both, self.out = normal(nn.Conv1d(width, 2 * width, 2, dilation=dilation)), nn.Conv1d(width, 2 * width, 1)

    def forward(self, x):
        y = functional.glu(self.both(functional.pad(x, (self.dilation, 0))), 1)
        further, aside = self.out(torch.tanh(y)).chunk(2, 1)
        return x + further, aside


class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.layers = nn.Conv1d(1, 6, 1), nn.ModuleList(Gated(6, 2 ** (at % 4)) for at in range(8))
        self.last = nn.utils.parametrizations.spectral_norm(nn.Conv1d(6, 8, 1))

    def forward(self, x):
        y, total = self.first(x), 0
        for layer in self.layers:
            y, aside = layer(y)
            total = total + aside
        return self.last(functional.relu(total))


def wavenet():
    return WaveNet(), [torch.randn(4, 1, 64, generator=seeded(20))]


MORE = {
    made.__name__: made
    for made in (encoder, mobilenet, translator, autoencoder, gru, vit, densenet, diffusion, experts, wavenet)
}
