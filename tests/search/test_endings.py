"""However a search ends, what was found is told and nothing is left running."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from few import few
from process_support import hard_graph
from solving import solve

from moccasin_mzn.base.errors import JudgeError
from moccasin_mzn.cli.main import run
from moccasin_mzn.formulations.moccasin import Moccasin
from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)


@pytest.fixture
def search(tmp_path):
    """Starts the command line on the hard graph, in a process group of its own, as a terminal does."""
    started = []

    def start(*options):
        graph = tmp_path / "hard.json"
        write_graph(hard_graph(), graph)
        output = tmp_path / "schedule.json"
        limits = ["--time-limit", "100", "--json", "--output", output]
        process = subprocess.Popen(
            [sys.executable, "-m", "moccasin_mzn", "solve", graph, "--budget", "0.9", *limits, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process, graph, output

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(process, text):
    """Read the progress up to the first line with `text`."""
    for line in process.stderr:
        if text in line:
            return
    pytest.fail(f"no progress line with {text!r}")


def processes_of_session(session):
    """(pid, command line) of the live processes in a session, its leader aside; MiniZinc gives solvers own groups."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            alive = process.info["status"] != psutil.STATUS_ZOMBIE
            if alive and process.pid != session and os.getsid(process.pid) == session:
                found.append((process.pid, " ".join(process.info["cmdline"] or [])))
    return found


def wait_for_solver(process):
    """The process of CP-SAT, once it is there."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        found = [pid for pid, args in processes_of_session(process.pid) if "-m moccasin_mzn.solvers.cpsat" in args]
        if found:
            return found[0]
        time.sleep(0.02)
    pytest.fail("no solver is running")


def assert_best_schedule_is_kept(process, graph, output):
    asked = time.monotonic()
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - asked < 10
    assert process.returncode == 0, err
    told = json.loads(out)
    assert (told["status"], told["valid"]) == ("feasible", True)
    assert run(["validate", str(graph), str(output)]) == 0
    deadline = time.monotonic() + 3
    while processes_of_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of_session(process.pid) == []
    return told


@pytest.mark.parametrize("signal_number", few([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], keep=1))
def test_ctrl_c_and_polite_signals_keep_the_best_schedule(search, signal_number):
    process, graph, output = search()
    wait_for(process, "incumbent")
    if signal_number == signal.SIGINT:
        os.killpg(process.pid, signal_number)  # as from a terminal: MiniZinc and the solver get it too
    else:
        process.send_signal(signal_number)
    told = assert_best_schedule_is_kept(process, graph, output)
    assert told["interrupted"]
    assert told["reason"] == "no proof was found before the user stopped the search"


@pytest.mark.full
@pytest.mark.parametrize(
    "delay", [0.05, *(pytest.param(late, marks=pytest.mark.slow) for late in (0.0, 0.1, 0.2, 0.4))]
)
def test_ctrl_c_between_the_phases(search, delay):
    process, graph, output = search("--search", "off", "--two-phase")
    wait_for(process, "within the budget")
    time.sleep(delay)
    os.killpg(process.pid, signal.SIGINT)
    assert assert_best_schedule_is_kept(process, graph, output)["interrupted"]


@pytest.mark.full
def test_a_solver_that_dies_does_not_take_the_schedule_along(search):
    process, graph, output = search("--search", "off")
    wait_for(process, "incumbent")
    solver = wait_for_solver(process)
    os.kill(solver, signal.SIGKILL)
    told = assert_best_schedule_is_kept(process, graph, output)
    assert not told["interrupted"]
    assert told["reason"].startswith("no proof was found before the solver ")


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("setpriv") is None, reason="nothing ties MiniZinc to it")
def test_a_killed_search_leaves_no_solver(search):
    process, _, _ = search("--search", "off")
    wait_for_solver(process)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while processes_of_session(process.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_of_session(process.pid) == []


def test_solve_runs_inside_an_event_loop():
    async def main():
        return solve(SKIP, 8, time_limit=60)

    assert asyncio.run(main()).duration == 14


def test_solve_runs_in_a_thread_other_than_the_main_one():
    results = []
    thread = threading.Thread(target=lambda: results.append(solve(SKIP, 8, time_limit=60)))
    thread.start()
    thread.join(60)
    assert results[0].duration == 14


def test_listeners_are_called_in_the_callers_thread_and_may_stop_the_search():
    class EnoughError(Exception):
        pass

    def listener(progress):
        assert threading.current_thread() is threading.main_thread()
        raise EnoughError

    with pytest.raises(EnoughError):
        solve(SKIP, 8, time_limit=60, on_progress=listener)


@pytest.mark.full
def test_a_bound_that_a_schedule_refutes_is_an_error(monkeypatch):
    import moccasin_mzn.solvers.minizinc.run as module

    def lie(statistics, listener, outcome):
        listener.bound(15)  # the optimum is 14

    monkeypatch.setattr(module, "_note_statistics", lie)
    with pytest.raises(
        JudgeError, match="cp-sat claims that no schedule is shorter than 15, but the simulator accepts 14"
    ):
        solve(SKIP, 8, search="off", time_limit=60)


def test_an_objective_that_the_simulator_does_not_find_is_an_error(monkeypatch):
    genuine = Moccasin.sequence
    monkeypatch.setattr(Moccasin, "sequence", lambda form, data, values: (*genuine(form, data, values), 4))
    with pytest.raises(JudgeError, match=r"cp-sat reports \d+, but the simulator finds a duration of \d+$") as raised:
        solve(SKIP, 8, time_limit=60, search="off", two_phase=False)
    reported, found = map(int, re.findall(r"\d+", str(raised.value)))  # of whichever solution comes first
    assert found == reported + SKIP.durations[4]


def test_bounds_are_reported_on_the_way_in_the_units_of_the_graph():
    scaled = ComputationGraph(SKIP.nodes, tuple(1000 * w for w in SKIP.durations), SKIP.sizes, SKIP.edges)
    heard = []
    assert solve(scaled, 8, time_limit=60, on_progress=heard.append).bound == 14_000
    assert heard[-1].bound == 14_000
    assert all(9_000 <= progress.bound <= 14_000 and progress.bound % 1000 == 0 for progress in heard)


def test_durations_beyond_exact_floating_point():
    durations = (2**52 + 1, 2**51 + 3, 7, 7, 2**50)
    graph = ComputationGraph(SKIP.nodes, durations, SKIP.sizes, SKIP.edges)
    result = solve(graph, 8, time_limit=60)
    assert (result.status, result.duration) == ("optimal", sum(durations) + durations[0])


def test_a_time_limit_past_minizincs_milliseconds():
    assert solve(SKIP, 8, time_limit=3_000_000).status == "optimal"


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("#!/bin/sh\nexit 1\n", "the MiniZinc on PATH does not run: it reports no version"),
        ("not a program", "the MiniZinc on PATH does not run: .*Exec format"),
        ("#!/bin/sh\necho 'MiniZinc, version 2.5.5'\n", "has version .2, 5, 5.*2, 6, 0"),
    ],
)
def test_a_broken_minizinc(script, message, tmp_path):
    (tmp_path / "minizinc").write_text(script)
    (tmp_path / "minizinc").chmod(0o755)
    code = f"import sys, os; sys.argv[0] = 'x'; os.environ['PATH'] = {str(tmp_path)!r} + ':/usr/bin:/bin'\n"
    code += "from moccasin_mzn.cli.main import run; sys.exit(run(sys.argv[1:]))"
    graph = tmp_path / "skip.json"
    write_graph(SKIP, graph)
    command = [sys.executable, "-c", code, "solve", graph, "--budget", "8"]
    answer = subprocess.run(command, capture_output=True, text=True)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.count("\n") == 1
    assert re.search(message, answer.stderr), answer.stderr
