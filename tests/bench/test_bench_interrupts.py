"""Ctrl-C in `bench run`, whenever it comes: one line, no traceback of any process, a store that is whole."""

import os
import re
import signal
import time

import pytest
from bench_support import BenchProcess, write

from moccasin_mzn.bench.store import Store

LONG = """
name = "long"
time_limit = 60
budgets = ["0.8"]
seeds = [1, 2]

[[graphs]]
generate = "layered --nodes 60 --seed 7"
label = "layered"

[[methods]]
label = "a"
search = "only"
formulation = "general"
threads = 1
"""


@pytest.mark.parametrize(
    "delay", [0.7, *(pytest.param(late, marks=pytest.mark.slow) for late in (0.0, 0.3, 1.0, 1.5, 2.0, 3.0, 5.0))]
)
def test_an_interrupt_is_one_line(tmp_path, delay):
    path = tmp_path / "runs.sqlite"
    bench = BenchProcess(write(tmp_path, LONG), path, "--workers", "2", own_group=True)
    assert bench.process.stdout.readline().startswith("2 runs to do")
    time.sleep(delay)
    os.killpg(bench.process.pid, signal.SIGINT)  # as from a terminal
    status, output = bench.wait()
    assert status == 1 and re.fullmatch(r"(stopped: 0 of 2 runs done; the same command goes on)\n", output), output
    assert bench.alive() == []
    with Store.open(path) as store:
        assert store.rows() == []
    assert os.listdir(tmp_path).count("runs.sqlite") == 1 and not list(tmp_path.glob("*.lock"))
