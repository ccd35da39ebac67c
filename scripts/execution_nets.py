"""Networks for `bench_execution.py`: each returns its loss, and computes its blocks plainly or as checkpoints.

Sizes are such that a training step takes 50 to 400 ms on one thread of a CPU; small ones take a few ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint


class Blocks(nn.Module):
    """A network that is trained on inputs and targets."""

    checkpointed = False
    """Whether blocks are recomputed in the backward pass instead of keeping what they made."""

    def block(self, part: nn.Module, *inputs: torch.Tensor) -> Any:
        if self.checkpointed and torch.is_grad_enabled():
            return checkpoint(part, *inputs, use_reentrant=False)
        return part(*inputs)


class Mlp(Blocks):
    def __init__(self, width: int, layers: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width), nn.ReLU())
            for _ in range(layers)
        )  # fmt: skip
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.block(layer, x)
        return functional.cross_entropy(self.head(x), y)


class Residual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.main(x) + self.shortcut(x))


class ResNet(Blocks):
    """Basic blocks (He et al., CVPR 2016)."""

    def __init__(self, channels: int, depth: int, classes: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())
        widths = [channels, 2 * channels, 4 * channels]
        self.blocks = nn.ModuleList(
            Residual(widths[max(0, stage - (not at))], width, 2 if stage and not at else 1)
            for stage, width in enumerate(widths)
            for at in range(depth)
        )
        self.head = nn.Linear(widths[-1], classes)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for part in self.blocks:
            x = self.block(part, x)
        return functional.cross_entropy(self.head(x.mean((2, 3))), y)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class GptBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(nn.LayerNorm(width), Attention(width, heads), nn.Dropout(0.1))
        self.mlp = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


class Gpt(Blocks):
    """Layer norm first, the embedding tied to the last layer (Radford et al., 2019)."""

    def __init__(self, width: int, blocks: int, tokens: int, length: int, heads: int = 4) -> None:
        super().__init__()
        self.embedding, self.position = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(GptBlock(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, tokens, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for part in self.blocks:
            x = self.block(part, x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class LlamaBlock(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(width, 8 * width // 3, bias=False) for _ in range(2))
        self.down = nn.Linear(8 * width // 3, width, bias=False)
        half = width // heads // 2
        angles = torch.arange(length)[:, None] / 10_000 ** (torch.arange(half) / half)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions (Su et al., 2021)."""
        left, right = x.chunk(2, -1)
        return torch.cat((left * self.cosine - right * self.sine, left * self.sine + right * self.cosine), -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        y = self.norm1(x)
        q, k, v = (
            layer(y).view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y))


class Llama(Blocks):
    """RMS norm, rotary positions, SwiGLU (Touvron et al., 2023)."""

    def __init__(self, width: int, blocks: int, tokens: int, length: int, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, length) for _ in range(blocks))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, tokens, bias=False)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = self.embedding(x)
        for part in self.blocks:
            x = self.block(part, x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), y.flatten())


def double(channels_in: int, channels: int) -> nn.Module:
    """Two convolutions of a U-Net, each with batch norm and relu."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(),
    )  # fmt: skip


class UNet(Blocks):
    """Four levels with skips (Ronneberger et al., 2015)."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        widths = [channels * 2**level for level in range(4)]
        self.down = nn.ModuleList(double(width // 2 if at else 3, width) for at, width in enumerate(widths))
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[-2::-1])
        self.up = nn.ModuleList(double(2 * width, width) for width in widths[-2::-1])
        self.head = nn.Conv2d(channels, classes, 1)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        skips = []
        for at, part in enumerate(self.down):
            x = self.block(part, functional.max_pool2d(x, 2) if at else x)
            skips.append(x)
        skips.pop()
        for widen, part in zip(self.widen, self.up, strict=True):
            x = self.block(part, torch.cat((skips.pop(), widen(x)), 1))
        return functional.cross_entropy(self.head(x), y)


class Lstm(Blocks):
    """Two layers; run with oneDNN off, as it is traced."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, classes)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.block(layer, x)[0]
        return functional.cross_entropy(self.head(x[:, -1]), y)


@dataclass(frozen=True)
class Net:
    """A network and what it is trained on."""

    make: Callable[[bool], Blocks]
    """The argument: small."""
    data: Callable[[bool], tuple[torch.Tensor, torch.Tensor]]
    onednn: bool = True


def tokens(batch: int, length: int, kinds: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randint(kinds, (batch, length)), torch.randint(kinds, (batch, length))


def pictures(batch: int, side: int, *target: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(batch, 3, side, side), torch.randint(10, (batch, *target))


NETS = {
    "mlp": Net(
        lambda small: Mlp(16, 3, 10) if small else Mlp(384, 12, 1000),
        lambda small: (torch.randn(8, 16), torch.randint(10, (8,))) if small
        else (torch.randn(1024, 384), torch.randint(1000, (1024,))),
    ),
    "resnet": Net(
        lambda small: ResNet(4, 1, 10) if small else ResNet(16, 3, 10),
        lambda small: pictures(2, 8) if small else pictures(16, 32),
    ),
    "gpt": Net(
        lambda small: Gpt(16, 2, 20, 8) if small else Gpt(256, 4, 1000, 256),
        lambda small: tokens(2, 8, 20) if small else tokens(4, 256, 1000),
    ),
    "unet": Net(
        lambda small: UNet(2, 10) if small else UNet(16, 10),
        lambda small: pictures(1, 16, 16, 16) if small else pictures(2, 96, 96, 96),
    ),
    "llama": Net(
        lambda small: Llama(16, 2, 20, 8) if small else Llama(192, 4, 1000, 128),
        lambda small: tokens(2, 8, 20) if small else tokens(4, 128, 1000),
    ),
    "lstm": Net(
        lambda small: Lstm(8, 10) if small else Lstm(128, 10),
        lambda small: (torch.randn(2, 4, 8), torch.randint(10, (2,))) if small
        else (torch.randn(32, 48, 128), torch.randint(10, (32,))),
        onednn=False,
    ),
}  # fmt: skip
"""By name."""
