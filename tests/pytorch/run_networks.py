"""Networks that the command `run torch` is tested with: factories without arguments."""

from __future__ import annotations

import torch
from torch import nn


def layers():
    """Input 64x16."""
    made = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.2))]
    return nn.Sequential(*made, nn.BatchNorm1d(16), nn.Linear(16, 4))


def distance(outputs, target):
    """A loss: far from zero where a class is 1."""
    return (outputs.sum(1) - target).pow(2).mean()


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.line, self.last = nn.Embedding(2, 8), nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, tokens, scale):
        print("forward")
        return self.last(torch.tanh(self.line(self.embed(tokens) * scale)).sin().cos())


def tokens():
    """Inputs 8x4:int64 and scale=8x4x8."""
    return Tokens()


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(16, 16, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0]


def lstm():
    """Input 8x6x16."""
    return Recurrent()


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines = nn.ModuleList(nn.Linear(8, 8) for _ in range(24))

    def forward(self, x):
        made = [x]
        for line in self.lines:
            y = line(sum(made[-5:]))
            made.append(torch.tanh(y) * torch.sigmoid(y))
        return made[-1] * made[3]


def dense():
    """Input 64x8; a search takes long."""
    return Dense()


def wrong():
    """Raises when it is called."""
    return nn.Sequential(nn.Linear(16, 16), nn.Unflatten(1, (7, 7)))


def number():
    """No network."""
    return 3
