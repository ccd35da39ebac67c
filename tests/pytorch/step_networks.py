"""Six kinds of networks, tiny, each with what it is called with: everything on which a plan has to be right."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def mlp():
    layers = [layer for _ in range(4) for layer in (nn.Linear(24, 24), nn.GELU(), nn.Dropout(0.2))]
    return nn.Sequential(*layers, nn.Linear(24, 5)), [torch.randn(96, 24, generator=seeded(1))]


class Block(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(width, out, 3, padding=1, bias=False), nn.Conv2d(out, out, 3, padding=1)
        self.norms = nn.ModuleList([nn.BatchNorm2d(out), nn.BatchNorm2d(out)])
        self.relu = nn.ReLU(inplace=True)
        self.side = nn.Conv2d(width, out, 1) if width != out else nn.Identity()

    def forward(self, x):
        y = self.relu(self.norms[0](self.first(x)))
        y = self.norms[1](self.second(y))
        y += self.side(x)
        return self.relu(y)


def resnet():
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        Block(4, 4), Block(4, 8), Block(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 3),
    )  # fmt: skip
    return network, [torch.randn(4, 3, 24, 24, generator=seeded(2))]


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(0.1)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
        x = x + self.drop(self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return x + self.drop(self.down(functional.gelu(self.up(self.norms[1](x)))))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(16, 16)
        self.blocks, self.norm = nn.ModuleList(Attention(16, 2) for _ in range(2)), nn.LayerNorm(16)
        self.drop = nn.Dropout(0.1)

    def forward(self, tokens, targets):
        x = self.drop(self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()  # tied
        return functional.cross_entropy(logits.view(-1, 20), targets.view(-1))


def gpt():
    tokens = torch.randint(20, (8, 17), generator=seeded(3))
    return GPT(), [tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()]


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in ((1, 4), (4, 8), (8, 8)))
        self.up = nn.ModuleList(nn.ConvTranspose2d(i, o, 2, stride=2) for i, o in ((8, 8), (8, 4)))
        self.join = nn.ModuleList(nn.Conv2d(i, o, 3, padding=1) for i, o in ((16, 8), (8, 4)))
        self.norms, self.last = nn.ModuleList([nn.GroupNorm(2, 4), nn.GroupNorm(2, 8)]), nn.Conv2d(4, 1, 1)

    def forward(self, x):
        first = functional.relu(self.norms[0](self.down[0](x)))
        second = functional.relu(self.norms[1](self.down[1](functional.max_pool2d(first, 2))))
        y = functional.relu(self.down[2](functional.max_pool2d(second, 2)))
        for up, join, side in zip(self.up, self.join, (second, first), strict=True):
            y = functional.relu(join(torch.cat([up(y), side], 1)))
        return self.last(y)


def unet():
    return UNet(), [torch.randn(4, 1, 32, 32, generator=seeded(4))]


class LlamaBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up, self.down = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.norms = nn.ParameterList([torch.ones(width), torch.ones(width)])

    def normal(self, x, at):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.norms[at]

    def forward(self, x, cos, sin):
        y = self.normal(x, 0)
        q, k, v = (linear(y).view(*y.shape[:2], 2, -1).transpose(1, 2) for linear in (self.q, self.k, self.v))

        def turned(z):
            one, two = z.chunk(2, -1)
            return z * cos + torch.cat([-two, one], -1) * sin

        mixed = functional.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
        x = x + self.o(mixed.transpose(1, 2).reshape(x.shape))
        y = self.normal(x, 1)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.blocks = nn.Embedding(20, 16), nn.ModuleList(LlamaBlock(16) for _ in range(2))
        self.head = nn.Linear(16, 20, bias=False)
        angles = torch.outer(torch.arange(12.0), 1 / 10 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return self.head(x)


def llama():
    return Llama(), [torch.randint(20, (8, 12), generator=seeded(5))]


class Recurrent(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.cells, self.last = kind(6, 8, num_layers=2, batch_first=True, dropout=0.1), nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.cells(x)[0][:, -1])


def lstm():
    return Recurrent(nn.LSTM), [torch.randn(12, 5, 6, generator=seeded(6))]


NETWORKS = {made.__name__: made for made in (mlp, resnet, gpt, unet, llama, lstm)}
