"""However a race ends, what was found is told, no process and no file is left, and the limits hold."""

import json
import os
import secrets
import signal
import subprocess
import sys

import pytest
from process_support import assert_gone, survivors

from moccasin_mzn.api.process import run_request
from moccasin_mzn.api.question import Question
from moccasin_mzn.cli.main import run
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.search.processes.guarded import run_guarded

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these tests send signals")


@pytest.fixture
def layered(tmp_path):
    """A graph on which a schedule is found at once at 80 %, and a proof takes minutes."""
    graph = tmp_path / "layered.json"
    assert run(["generate", "layered", "-n", "150", "--seed", "1", "-o", str(graph)]) == 0
    return graph


class Contest:
    """A race on the command line, in a session of its own; all its processes have `mark` in their environment."""

    def __init__(self, graph, folder, *options):
        self.mark = "mark-" + secrets.token_hex(8)
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        command = [sys.executable, "-m", "moccasin_mzn", "solve", graph, "--budget", "0.8", "--json", *options]
        self.process = subprocess.Popen(
            list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "RACE_MARK": self.mark, "TMPDIR": str(self.temporary)},
        )  # fmt: skip

    def wait_for(self, text):
        for line in self.process.stderr:
            if text in line:
                return
        pytest.fail(f"no progress line with {text!r}")

    def wait_for_racers(self, count):
        """Until so many racers are running: each is a guard and a process of `solve`, not to speak of MiniZinc."""
        while (
            len([1 for _, line in survivors(self.mark) if "--json-stream" in line and "processes.guard" not in line])
            < count
        ):
            assert self.process.poll() is None
        return self

    def end(self):
        out, err = self.process.communicate(timeout=40)
        assert_gone(self.mark, 5)
        return json.loads(out) if out else None, err


@pytest.fixture
def contest(layered, tmp_path):
    """Starts races."""
    started = []

    def start(*options):
        started.append(Contest(layered, tmp_path, *options))
        return started[-1]

    yield start
    for one in started:
        for pid, _ in survivors(one.mark):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.full
def test_success_leaves_nothing(contest):
    race = contest("--solver", "cp-sat,gecode", "--threads", 2, "--until-gap", "5%", "--time-limit", 60)
    told, err = race.end()
    assert (race.process.returncode, told["status"], told["valid"]) == (0, "feasible", True), err
    assert told["reason"].startswith("stopped at a gap of ")
    assert list(race.temporary.iterdir()) == []


@pytest.mark.full
def test_the_time_limit_leaves_nothing(contest):
    race = contest("--solver", "gecode,cp-sat,highs", "--threads", 2, "--time-limit", 5)
    told, err = race.end()
    assert (race.process.returncode, told["status"]) in [(0, "feasible"), (1, "unknown")], err
    assert "within the time limit" in told["reason"]
    assert told["seconds"]["total"] < 5 + 30  # on a machine that does much else
    assert sum(racer["cpu_seconds"] for racer in told["racers"]) <= 2 * 5
    assert list(race.temporary.iterdir()) == []


POLITE = [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)]


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, *POLITE])
def test_signals_keep_the_best_schedule(contest, number):
    race = contest("--solver", "gecode,cp-sat", "--threads", 3)
    race.wait_for("incumbent")
    race.wait_for_racers(2)
    if number == signal.SIGINT:
        os.killpg(race.process.pid, number)  # as from a terminal
    else:
        race.process.send_signal(number)
    told, err = race.end()
    assert (race.process.returncode, told["interrupted"], told["valid"]) == (0, True, True), err
    assert told["reason"].startswith("no proof was found before the user stopped the race; found by ")
    assert list(race.temporary.iterdir()) == []


def test_a_killed_parent_leaves_no_process(contest):
    race = contest("--solver", "gecode,cp-sat", "--threads", 2, "--search", "off").wait_for_racers(2)
    race.process.kill()
    assert race.end()[0] is None


@pytest.mark.slow
def test_a_racer_whose_guard_is_killed_does_not_end_the_race(contest):
    race = contest("--solver", "gecode,cp-sat", "--threads", 3, "--time-limit", 12).wait_for_racers(2)
    guard = next(pid for pid, line in survivors(race.mark) if "processes.guard" in line and "--search only" not in line)
    os.kill(guard, signal.SIGKILL)
    told, err = race.end()
    assert (race.process.returncode, told["valid"]) == (0, True), err
    assert [racer["ending"] for racer in told["racers"]].count("its supervisor died") == 1


@pytest.mark.slow
def test_a_race_under_guard_ends_as_a_whole(layered, monkeypatch):
    mark, seen = "mark-" + secrets.token_hex(8), []
    monkeypatch.setenv("RACE_MARK", mark)
    question = Question(0.8, how={"solver": "gecode,cp-sat", "threads": 3})
    attempt = run_request(
        question.request(read_graph(layered)),
        on_event=lambda event: seen.append(len(survivors(mark))),
        stop=lambda: bool(seen),
        grace=0.001,
        hard_limit=100,
    )
    assert attempt.ending.how == "stopped"
    assert max(seen) >= 4  # two guards and two processes at least
    assert attempt.sequence is not None
    assert survivors(mark) == []


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_processor_time_is_within_threads_times_limit(layered, threads):
    limit = 15
    options = ["--budget", "0.8", "--time-limit", limit, "--threads", threads, "--solver", "cp-sat,gecode,highs,scip"]
    command = [sys.executable, "-m", "moccasin_mzn", "solve", layered, *options]
    ending = run_guarded([str(part) for part in command], hard_limit=60)
    assert (ending.how, ending.exit_status) in [("exited", 0), ("exited", 1)]
    assert limit - 2 < ending.seconds < limit + 3
    assert ending.cpu_seconds <= threads * limit
