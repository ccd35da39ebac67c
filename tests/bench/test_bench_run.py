"""`bench run` on this machine: what is recorded, and that nothing is lost or done twice, whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import time
from dataclasses import replace

import psutil
import pytest
from bench_support import MEASURED, REPEATABLE, RUNS, BenchProcess, command_of, content, count, runs_of, until, write

from moccasin_mzn.api.process import WORKER
from moccasin_mzn.bench.execute import execute
from moccasin_mzn.bench.store import Store, check_row
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.judges.schedules import simulate

pytestmark = pytest.mark.xdist_group("bench_run")  # one worker makes what all tests of this file share

LONG = """
name = "long"
time_limit = 600
budgets = ["0.9"]
[[graphs]]
generate = "layered --nodes 60 --seed 7"
[[methods]]
search = "off"
seeds = [1, 2, 3]
"""
"""Three runs that take as long as they may."""


DONE = f"{{store}}: {RUNS} of {RUNS} runs done: 1 optimal, 2 over-budget\nnext: moccasin-mzn bench report {{store}}\n"


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A store of all runs of `REPEATABLE`, and the experiment's file."""
    folder = tmp_path_factory.mktemp("undisturbed")
    path, store = write(folder, REPEATABLE), folder / "s.sqlite"
    bench = BenchProcess(path, store)
    status, output = bench.wait()
    assert status == 0, output
    assert len(re.findall(rf"^\d+/{RUNS}  ", output, re.MULTILINE)) == RUNS
    assert output.startswith("infeasible: layered, budget 0.8 (1 run): node 13 alone needs 12,690 ")
    assert f"\n{RUNS}/{RUNS}  " in output and f"\n{RUNS} runs to do, at most about " in output
    assert output.endswith(DONE.format(store=store)), output
    assert until(lambda: not bench.alive())
    assert sorted(entry.name for entry in folder.iterdir()) == ["experiment.toml", "s.sqlite"]
    return path, store


def test_rows_hold_what_was_run_and_what_came_of_it(undisturbed, tmp_path, command):
    path, store = undisturbed
    with Store.open(store) as opened:
        rows = {(row["graph"], row["budget"], row["method"], row["seed"]): row for row in opened.rows()}
        traces = opened.trace_rows()
    assert len(rows) == RUNS and {run.key for run in runs_of(path)} == {row["key"] for row in rows.values()}
    for row in rows.values():
        check_row(row)
        assert all(row[name] is not None for name in MEASURED) and row["seconds"] > 0 and row["memory_peak"] > 2**20
        assert row["valid"] == (row["schedule"] is not None and row["status"] != "over-budget")
    row = rows["chain", "0.9", "alone", 2]
    assert (row["status"], row["gap_percent"], row["search"], row["solver"]) == ("optimal", 0.0, "off", "cp-sat")
    assert row["solver_version"].startswith("OR-Tools") and row["driver"].startswith("MiniZinc")
    assert (row["extension"], row["objective"], row["memories"], row["arena"]) == (None, "duration", None, None)
    assert (row["value"], row["bound"]) == (row["duration"], row["duration_bound"])
    points = [point for point in traces if point["key"] == row["key"]]
    assert [point["position"] for point in points] == list(range(len(points)))
    assert points[-1]["duration"] == points[-1]["bound"] == row["duration"]

    graph_file = tmp_path / "chain.json"
    command("generate", "chain", "--nodes", 6, "--seed", 1, "-o", graph_file)
    graph = read_graph(graph_file)
    simulation = simulate(graph, [graph.position_of(node) for node in json.loads(row["schedule"])])
    assert (simulation.peak, simulation.duration) == (row["peak"], row["duration"])
    assert simulation.peak <= row["budget_amount"] and not simulation.violations
    assert rows["layered", "0.8", "keep-all", None]["status"] == "over-budget"


def test_what_is_done_is_not_done_again(undisturbed):
    path, store = undisturbed
    before = content(store)
    status, output = BenchProcess(path, store).wait()
    assert status == 0 and output == f"{store}: {RUNS} of {RUNS} runs done already\n{DONE.format(store=store)}"
    assert content(store) == before


def killed_and_resumed(path, store, moment):
    """Kill `bench run` as soon as `moment(bench)`, look that nothing is left of it, and let another go on."""
    bench = BenchProcess(path, store)
    assert until(lambda: moment(bench))
    bench.process.kill()
    bench.wait()
    assert until(lambda: not bench.alive()), bench.alive()
    done = count(store)
    again = BenchProcess(path, store)
    status, output = again.wait()
    assert status == 0, output
    assert len(re.findall(rf"^\d+/{RUNS}  ", output, re.MULTILINE)) == RUNS - done
    assert until(lambda: not again.alive())


@pytest.mark.full
def test_kill_9_and_resume_is_as_if_undisturbed(undisturbed, tmp_path):
    path, store = undisturbed
    mine = tmp_path / "s.sqlite"
    killed_and_resumed(path, mine, lambda bench: count(mine) >= 1)
    assert content(mine) == content(store)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_kill_9_at_any_moment_and_resume_is_as_if_undisturbed(undisturbed, tmp_path, seed):
    path, store = undisturbed
    mine = tmp_path / "s.sqlite"
    delay = random.Random(seed).uniform(0.5, 8)
    killed_and_resumed(path, mine, lambda bench: time.time() - psutil.Process(bench.process.pid).create_time() > delay)
    assert content(mine) == content(store)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "group"), [("SIGTERM", False), ("SIGINT", False), ("SIGINT", True), ("SIGHUP", True)])
def test_bench_run_stops_its_runs_when_asked(tmp_path, name, group):
    """A terminal tells the whole group: Ctrl-C sends SIGINT, closing it SIGHUP."""
    path, store = write(tmp_path, LONG), tmp_path / "s.sqlite"
    bench = BenchProcess(path, store, own_group=True)
    assert until(bench.solves)
    status, output = BenchProcess(path, store).wait()
    assert (status, output) == (2, f"error: {store}: another `bench run` is writing to this store\n")
    (os.killpg if group else os.kill)(bench.process.pid, getattr(signal, name))
    status, output = bench.wait()
    assert status == 1 and re.fullmatch("3 runs to do.*\nstopped: 0 of 3 runs done; the same command goes on\n", output)
    assert until(lambda: not bench.alive()), bench.alive()
    assert count(store) == 0


def long_run(folder, **changes):
    """The first run of `LONG`, with other columns."""
    run = runs_of(write(folder, LONG))[0]
    return replace(run, row={**run.row, **changes})


@pytest.mark.full
def test_too_much_memory_is_recorded(tmp_path):
    outcome = execute(long_run(tmp_path, memory_limit=60 * 2**20))
    assert outcome.row["status"] == "out-of-memory" and not outcome.row["valid"]
    assert outcome.row["reason"] == "killed at its limit of 60.00 MiB" and outcome.row["memory_peak"] > 60 * 2**20
    check_row(outcome.row)


def test_what_overruns_its_limits_is_recorded(tmp_path):
    outcome = execute(replace(long_run(tmp_path), hard_limit=0.2))
    assert outcome.row["status"] == "out-of-time" and outcome.row["reason"] == "killed at its limit of 0.2 s"
    assert not outcome.row["valid"] and not outcome.trace
    check_row(outcome.row)


@pytest.mark.slow
def test_a_hanging_run_is_recorded_and_its_best_schedule_kept(tmp_path):
    text = LONG.replace("nodes 60", "nodes 200").replace("0.9", "0.8").replace('search = "off"\n', "")
    run = replace(runs_of(write(tmp_path, text))[0], hard_limit=8.0)  # its time limit is far beyond
    outcome = execute(run)
    row = outcome.row
    assert row["status"] == "out-of-time" and row["reason"] == "killed at its limit of 8 s"
    assert row["valid"] and row["peak"] <= row["budget_amount"] and len(json.loads(row["schedule"])) >= 200
    assert outcome.trace[-1]["duration"] == row["duration"] and outcome.trace[-1]["bound"] == row["duration_bound"]
    assert row["gap_percent"] == pytest.approx(100 * (1 - row["duration_bound"] / row["duration"]))
    check_row(row)


def test_a_crash_is_recorded(tmp_path):
    def kill_it():
        for process in psutil.Process().children(recursive=True):
            words = command_of(process)
            if WORKER in words and "moccasin_mzn.search.processes.guard" not in words:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGSEGV)
        return False

    outcome = execute(long_run(tmp_path), kill_it)
    assert outcome.row["status"] == "crashed" and outcome.row["reason"].startswith(f"exit status {-signal.SIGSEGV}: ")
    check_row(outcome.row)


@pytest.mark.full
def test_a_solver_that_is_not_here_is_recorded(tmp_path):
    path = write(tmp_path, LONG.replace("[[methods]]", '[[methods]]\nsolver = "no-such-solver"'))
    outcome = execute(runs_of(path)[0])
    assert outcome.row["status"] == "error" and outcome.row["solver"] == "no-such-solver"
    assert outcome.row["reason"].startswith("unknown solver 'no-such-solver', MiniZinc knows ")
    check_row(outcome.row)


def test_a_strategy_for_other_graphs_is_recorded(tmp_path):
    path = write(tmp_path, LONG.replace("layered --nodes 60", "layered --nodes 12").replace(
        'search = "off"\nseeds = [1, 2, 3]', 'strategy = "griewank"'))  # fmt: skip
    (run,) = runs_of(path)
    outcome = execute(run)
    assert outcome.row["status"] == "not-applicable" and outcome.row["schedule"] is None
    check_row(outcome.row)


def test_stopped_runs_are_not_recorded(tmp_path):
    assert execute(long_run(tmp_path), lambda: True) is None
