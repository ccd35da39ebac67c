"""Small experiments, and `bench run` in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil

from moccasin_mzn.api.process import WORKER
from moccasin_mzn.bench.experiment import read_experiment
from moccasin_mzn.bench.matrix import Run, load_graphs, matrix
from moccasin_mzn.bench.store import Store
from moccasin_mzn.cli.bench_run import generated

MARK = "MOCCASIN_BENCH_TEST"
MEASURED = frozenset({"seconds", "cpu_seconds", "memory_peak", "solve_seconds", "started", "machine"})
"""Columns of runs that may differ between two equal ones."""

REPEATABLE = """
name = "repeatable"
time_limit = 600
budgets = ["0.8"]
seeds = [2]

[[graphs]]
generate = "layered --nodes 14 --seed 7"
label = "layered"

[[graphs]]
generate = "chain --nodes 6 --seed 1"
label = "chain"
budgets = ["0.9"]

[[methods]]
label = "alone"
solver = "cp-sat"
search = "off"
graphs = ["chain"]

[[methods]]
strategy = "keep-all"
"""
"""Runs that come out the same each time but for what is measured; far from their time limit on any machine."""
RUNS = 3
"""So many of them."""


def write(folder: Path, text: str, name: str = "experiment.toml") -> Path:
    """A file with this text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def runs_of(path: Path, *folders: Path) -> list[Run]:
    """The runs of an experiment's file."""
    experiment = read_experiment(path)
    return matrix(experiment, load_graphs(experiment, path.parent, folders, generated, print))


class BenchProcess:
    """`bench run` as people start it; all it starts carries a mark, so that what is left of it can be found."""

    def __init__(self, experiment: Path, store: Path, *options: str, own_group: bool = False) -> None:
        self.token = uuid.uuid4().hex
        words = [sys.executable, "-m", "moccasin_mzn", "bench", "run", experiment, "--store", store, *options]
        self.process = subprocess.Popen(
            list(map(str, words)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, MARK: self.token, "PYTHONUNBUFFERED": "1"}, start_new_session=own_group,
        )  # fmt: skip

    def wait(self) -> tuple[int, str]:
        """Exit status and all it told."""
        output, _ = self.process.communicate(timeout=900)
        return self.process.returncode, output

    def alive(self) -> list[psutil.Process]:
        """The processes that are left of it, itself included."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.token and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.Error, OSError):
                continue
        return found

    def solves(self) -> bool:
        """Is there a run under way?"""
        return any(WORKER in command_of(process) for process in self.alive())

    def workers(self) -> list[psutil.Process]:
        """The workers: its children that run runs."""
        try:
            children = psutil.Process(self.process.pid).children()
            return [child for child in children if "spawn_main" in " ".join(child.cmdline())]
        except psutil.NoSuchProcess:
            return []


def command_of(process: psutil.Process) -> list[str]:
    """Its words; none once it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def until(condition, seconds: float = 300) -> bool:
    """Wait for a condition, as long as a busy machine may need; False if it does not come about."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def count(store: Path) -> int:
    """How many runs are in a store, which may not be there yet."""
    if not store.is_file() or store.stat().st_size == 0:
        return 0
    with Store.open(store) as opened:
        return len(opened.keys())


def content(store: Path) -> tuple[list[str], list[str]]:
    """All that is not measured, in one order."""
    with Store.open(store) as opened:
        rows = [{name: value for name, value in row.items() if name not in MEASURED} for row in opened.rows()]
        traces = [{**point, "seconds": None} for point in opened.trace_rows()]
    return sorted(map(json.dumps, rows)), sorted(map(json.dumps, traces))
