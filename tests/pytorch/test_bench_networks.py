"""The table of networks: equal, refused, impossible or crashed, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/bench_networks.py"
CASES = """
import os
import random

import torch
from torch import nn

CASES = {}


def case(build):
    CASES[build.__name__] = build
    return build


def layers(*more):
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(32, 32), nn.Tanh())), *more)


@case
def plain():
    return {"model": layers(), "args": (torch.rand(256, 32), torch.rand(256, 32)), "loss": nn.functional.mse_loss}


@case
def impossible():
    return {"model": nn.Linear(300, 300), "args": (torch.rand(2, 300),)}


class Drawing(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(32))

    def forward(self, x):
        return x * random.random() * self.weight


@case
def drawing():
    return {"model": Drawing(), "args": (torch.rand(256, 32),)}


@case
def parts():
    body = (part for _ in range(4) for part in (nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 32)))
    return {"model": nn.Sequential(nn.Sequential(*body), Drawing()), "args": (torch.rand(256, 32),)}


@case
def failing():
    return {"model": layers(), "args": (torch.rand(256, 33),)}


class Dying(nn.Module):
    def forward(self, x):
        os._exit(7)


@case
def dying():
    return {"model": layers(Dying()), "args": (torch.rand(256, 32),)}
"""


@pytest.mark.full
def test_outcomes(tmp_path):
    (tmp_path / "cases.py").write_text(CASES)
    found = tmp_path / "found.json"
    words = [tmp_path / "cases.py", "--time-limit", "12", "--output", found]
    done = subprocess.run([sys.executable, SCRIPT, *words], capture_output=True, text=True, check=True)
    rows = {row["network"]: row for row in json.loads(found.read_text())}
    outcomes = {name: row["outcome"] for name, row in rows.items()}
    assert outcomes == {
        "plain": "equal",
        "impossible": "none",
        "drawing": "refused",
        "parts": "regions",
        "failing": "eager fails",
        "dying": "crashed",
    }
    plain = rows["plain"]
    assert plain["plan_peak"] == plain["predicted_peak"] <= plain["budget_bytes"] < plain["eager_peak"]
    parts = rows["parts"]
    assert parts["plan_peak"] < parts["eager_peak"] and [*parts["regions"]] == ["0"]
    assert parts["predicted_peak"] <= parts["budget_bytes"]
    assert "random.random()" in parts["whole"]
    assert "random.random()" in rows["drawing"]["reason"] and rows["dying"]["status"] == 7
    assert done.stdout.splitlines()[-1] == "1 equal, 1 none, 1 refused, 1 regions, 1 eager fails, 1 crashed"
