"""Planning of large networks: its memory does not grow with what the network takes, and figures are told of each."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import bench_planning
import pytest

GIBIBYTE = 2**30


def options(**changed):
    given = {"small": True, "real": False, "budget": "0.8", "time_limit": 20.0, "threads": 1}
    return argparse.Namespace(**{**given, **changed})


@pytest.mark.parametrize(("name", "real"), [("gpt2", True), ("llama", False)])
def test_bench_planning_measures_time_and_memory(name, real):
    row = bench_planning.figures(name, options(real=real))
    assert 0 < row["peak"] <= 0.8 * row["before"]
    assert row["status"] in ("optimal", "feasible") and 0 <= row["gap"] < 100 and row["over"] >= 0
    assert {*bench_planning._COLUMNS} == {*row}


def test_no_plan_is_a_row_as_well(capsys):
    row = bench_planning.figures("gpt2", options(budget="0.1", time_limit=10.0))
    assert row["status"] == "none" and "peak" not in row
    assert "gpt2 0.1: budget" in capsys.readouterr().err


@pytest.mark.slow
def test_each_network_has_a_process_and_a_row():
    words = ["--small", "--budget", "0.9", "--threads", "1", "--time-limit", "20"]
    told = subprocess.run(
        [sys.executable, bench_planning.__file__, "gpt2", *words], capture_output=True, text=True, check=True
    ).stdout
    assert "process MB" in told
    assert next(line for line in told.splitlines() if "gpt2" in line).split()[1].isdigit()


STEP_OF_MANY_GIBIBYTES = """
import resource, torch
from torch import nn
from moccasin_mzn.pytorch import plan
model = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(16)), nn.Linear(256, 1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
found = plan(model, [torch.empty(400_000, 256, device="meta")], budget=0.6, time_limit=10, threads=1, search="only",
             until_gap=0.9)
found.module()
print(found.unplanned.whole, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
"""


def test_planning_takes_none_of_the_memory_of_the_step():
    told = subprocess.run([sys.executable, "-c", STEP_OF_MANY_GIBIBYTES], capture_output=True, text=True, check=True)
    step, process = map(int, told.stdout.split())
    assert step > 12 * GIBIBYTE > 24 * process


@pytest.mark.slow
@pytest.mark.parametrize("name", bench_planning.NETS)
def test_large_networks(name):
    """GPT-2 with 124M parameters, and 32 blocks of Llama's kind."""
    told = subprocess.run(
        [sys.executable, bench_planning.__file__, name, "--alone"], capture_output=True, text=True, check=True
    ).stdout
    row = json.loads(told)
    assert row["peak"] <= 0.5 * row["before"] and row["gap"] < 5
    assert row["process"] < 4 * GIBIBYTE
