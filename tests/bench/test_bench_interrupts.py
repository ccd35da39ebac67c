"""Ctrl-C in `bench run`, whenever it comes: one line, no traceback of any process, a store that is whole."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from bench_support import BenchProcess, write

from moccasin_mzn.base.environment import own_environment
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


INTERRUPTED = """
import os, signal, sys
import moccasin_mzn.cli.main, moccasin_mzn.__main__
def interrupted(*_):
    try:
        exec("os.kill(os.getpid(), signal.SIGINT)\\nwhile True: pass")
    except KeyboardInterrupt:
        return 1
moccasin_mzn.cli.main.run = interrupted
moccasin_mzn.__main__.main()
"""


def test_an_interrupt_of_what_a_library_executes_as_text(tmp_path):
    write(tmp_path, INTERRUPTED, "interrupted.py")
    environment = own_environment()
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), environment.get("PYTHONPATH"))))
    run = subprocess.run([sys.executable, "-m", "interrupted"], capture_output=True, text=True, env=environment)
    assert (run.returncode, run.stdout, run.stderr) == (1, "", "")
