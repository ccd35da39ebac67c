"""The table of time limits: seconds, signs of life and outcomes of each call, in processes of their own."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import bench_limits
import pytest
import torch
from torch import nn

FEWEST, MOST = 250, 700


class Loss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(*(each for _ in range(3) for each in (nn.Linear(16, 16), nn.Tanh())))

    def forward(self, x):
        return self.layers(x).square().mean()


@pytest.mark.parametrize("call", ["new", "none"])
def test_a_call_has_its_figures(call, monkeypatch):
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    monkeypatch.setitem(bench_limits.NETS, "tiny", lambda rows: (Loss(), (torch.rand(16 * rows, 16),)))
    asked = argparse.Namespace(nets=["tiny"], call=call, peak=0, budget=0.9, time_limit=20.0, batch=0.0, threads=1)
    found = bench_limits.figures(asked)
    assert 0 <= found["first"] <= found["silence"] <= found["seconds"]
    outcome = found["outcome"].partition(":")[0]
    assert (
        outcome == "NoPlanError" if call == "none" else (outcome in ("optimal", "feasible") and found["operators"] > 6)
    )
    assert bench_limits.cells({"net": "tiny", "outcomes": {call: outcome}, call: 1.234})[-1] == f"{call} {outcome}"


@pytest.mark.slow
@pytest.mark.parametrize("name", bench_limits.NETS)
def test_networks_have_as_many_operators_as_they_are_to_have(name):
    pytest.importorskip("transformers")
    words = [name, "--call", "new", "--time-limit", "60"]
    done = subprocess.run([sys.executable, bench_limits.__file__, *words], capture_output=True, text=True, check=True)
    assert FEWEST <= json.loads(done.stdout.splitlines()[-1])["operators"] <= MOST
    assert len(bench_limits.NETS) == 12
