"""Runs on dask clusters: workers that are lost, that offer too little, that are told to stop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from bench_support import REPEATABLE, RUNS, BenchProcess, count, runs_of, until, write

from moccasin_mzn.bench.store import Store


@pytest.mark.full
@pytest.mark.parametrize("moments", [(1,), pytest.param((0, 1, 2), marks=pytest.mark.slow)])
def test_lost_workers_lose_no_run_and_double_none(tmp_path, moments):
    path, store = write(tmp_path, REPEATABLE), tmp_path / "s.sqlite"
    bench = BenchProcess(path, store, "--workers", "2")
    for moment in moments:
        assert until(lambda: count(store) >= moment and len(bench.workers()) == 2)  # noqa: B023
        assert bench.process.poll() is None
        os.kill(bench.workers()[0].pid, signal.SIGKILL)
    status, output = bench.wait()
    assert status == 0, output
    assert re.findall(r"^(\d+)/", output, re.MULTILINE) == [str(number) for number in range(1, RUNS + 1)], output
    assert count(store) == RUNS
    assert until(lambda: not bench.alive())
    with Store.open(store) as opened:
        rows = opened.rows()
    assert {row["key"] for row in rows} == {run.key for run in runs_of(path)}
    assert {row["status"] for row in rows} == {"optimal", "over-budget"}


def is_guard(process):
    try:
        return "moccasin_mzn.search.processes.guard" in process.cmdline()
    except psutil.NoSuchProcess:
        return False


class Dask:
    """A dask scheduler, and perhaps a worker."""

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.start("dask.log", "scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        assert until(lambda: self.address() is not None)

    def start(self, log, *words):
        with open(self.folder / log, "w") as file:
            command = [sys.executable, "-m", "distributed.cli.dask_" + words[0], *words[1:]]
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=self.folder)
        self.processes.append(process)
        return process

    def address(self):
        found = re.search(r"tcp://127\.0\.0\.1:\d+", (self.folder / "dask.log").read_text())
        return found[0] if found else None

    def start_worker(self, resources):
        options = ["--nthreads", "4", "--resources", resources, "--dashboard-address", "127.0.0.1:0"]
        return self.start("worker.log", "worker", self.address(), *options)


@pytest.fixture
def dask(tmp_path):
    made = Dask(tmp_path)
    yield made
    for process in reversed(made.processes):
        process.kill()
    for process in made.processes:
        process.wait(30)


@pytest.mark.slow
def test_a_scheduler_with_too_few_resources_is_reported_in_one_line_and_with_enough_does_all(dask, tmp_path):
    path, store = write(tmp_path, REPEATABLE), tmp_path / "s.sqlite"
    dask.start_worker("threads=0.5 memory=1e9")
    status, output = BenchProcess(path, store, "--scheduler", dask.address()).wait()
    assert status == 2 and output.count("\n") == 1, output
    assert f"error: --scheduler {dask.address()}: none of its 1 workers offers threads=1 memory=0; start one" in output
    dask.start_worker("threads=2 memory=8e9")
    assert until(lambda: "Registered to" in (tmp_path / "worker.log").read_text())
    status, output = BenchProcess(path, store, "--scheduler", dask.address()).wait()
    assert status == 0 and count(store) == RUNS, output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_runs_on_a_cluster_stop_when_nobody_waits_for_them(dask, tmp_path, name):
    text = REPEATABLE.replace("nodes 14", "nodes 80").replace(
        'strategy = "keep-all"', 'label = "long"\nsearch = "off"')  # fmt: skip
    path, store = write(tmp_path, text), tmp_path / "s.sqlite"
    worker = dask.start_worker("threads=2 memory=8e9")
    bench = BenchProcess(path, store, "--scheduler", dask.address())

    def guards():
        return [process for process in psutil.Process(worker.pid).children(recursive=True) if is_guard(process)]

    assert until(lambda: guards() and count(store) >= 1)
    bench.process.send_signal(getattr(signal, name))
    bench.wait()
    assert until(lambda: not guards())
    assert worker.poll() is None


def test_a_wrong_scheduler_address_is_refused_in_one_line(tmp_path, command):
    path, store = write(tmp_path, REPEATABLE), tmp_path / "s.sqlite"
    for words, expected in (
        (["--scheduler", "nonsense"], "--scheduler 'nonsense': expected an address such as tcp://127.0.0.1:8786"),
        (["--scheduler", "tcp://127.0.0.1:9", "--workers", 2], "--workers is for this machine"),
    ):
        status, _, errors = command("bench", "run", path, "--store", store, *words)
        assert status == 2 and expected in errors and errors.count("\n") == 1
    assert not store.exists()


@pytest.mark.slow
def test_an_absent_scheduler_is_reported_in_one_line(tmp_path):
    path = write(tmp_path, REPEATABLE)
    status, output = BenchProcess(path, tmp_path / "s.sqlite", "--scheduler", "tcp://127.0.0.1:9").wait()
    assert status == 2 and output.count("\n") == 1, output
    assert output.startswith("error: --scheduler tcp://127.0.0.1:9: no dask scheduler can be reached there: ")
