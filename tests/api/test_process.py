"""`solve` in a process of its own tells all it finds as it finds it."""

import json

import psutil
import pytest
from bench_support import command_of

from moccasin_mzn.api.process import WORKER, _Transcript, ignore, run_request
from moccasin_mzn.api.question import Question
from moccasin_mzn.cli.main import run
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.result import TracePoint

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
)


def asked(graph, budget, **given):
    """What `mz.solve` asks."""
    return Question.of({"budget": budget, **given}).request(graph)


@pytest.fixture
def skip_file(tmp_path):
    write_graph(SKIP, tmp_path / "skip.json")
    return tmp_path / "skip.json"


def test_the_stream_ends_with_the_result(skip_file, command):
    status, out, err = command("solve", skip_file, "--budget", 8, "--json-stream", "--time-limit", 60)
    *progress, result = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert "incumbent" in err
    assert [line["type"] for line in progress] == ["progress"] * len(progress)
    keys = {"type", "seconds", "phase", "peak", "duration", "bound", "recomputations", "source"}
    assert set(progress[0]) - {"sequence"} == keys
    assert (result["type"], result["status"], result["duration"]) == ("result", "optimal", 14)
    last = [line for line in progress if "sequence" in line][-1]
    assert (last["sequence"], last["duration"]) == (result["sequence"], 14)
    positions = [SKIP.nodes.index(node) for node in last["sequence"]]
    assert judge(SKIP, positions, 8).feasible


def test_the_result_of_the_stream_is_that_of_json(skip_file, command):
    options = ("solve", skip_file, "--budget", 8, "--strategy", "tree-decomposition-held")
    one = json.loads(command(*options, "--json")[1])
    *progress, other = [json.loads(line) for line in command(*options, "--json-stream")[1].splitlines()]
    assert other.pop("type") == "result"
    assert set(other) == set(one)
    assert (other["sequence"], other["status"]) == (one["sequence"], one["status"])
    assert progress[-1]["sequence"] == other["sequence"]


@pytest.mark.full
def test_the_stream_of_a_first_phase_has_no_schedule(skip_file, command):
    options = ("--budget", 8, "--search", "off", "--two-phase", "--json-stream", "--time-limit", 60)
    lines = [json.loads(line) for line in command("solve", skip_file, *options)[1].splitlines()]
    over = [line for line in lines if line["type"] == "progress" and line["duration"] is None]
    assert all("sequence" not in line and line["phase"] == "peak" and line["peak"] > 8 for line in over)
    assert "sequence" in lines[-2] or "sequence" in lines[-3]


def test_one_form_of_json_at_a_time(skip_file, command):
    status, out, err = command("solve", skip_file, "--budget", 8, "--json", "--json-stream")
    assert (status, err) == (2, "error: --json and --json-stream: give one of them\n")
    assert json.loads(out) == {"type": "error", "kind": "input", "message": err.removeprefix("error: ").strip()}


@pytest.mark.full
def test_a_process_that_succeeds_returns_its_result():
    events = []
    attempt = run_request(asked(SKIP, 8, time_limit=60), hard_limit=60, on_event=events.append)
    assert (attempt.ending.how, attempt.ending.exit_status) == ("exited", 0)
    assert attempt.result["status"] == "optimal"
    assert events[-1] == attempt.result
    assert attempt.sequence == tuple(attempt.result["sequence"])
    assert (attempt.trace[-1].value, attempt.trace[-1].bound) == (14, 14)
    assert attempt.trace[-1].source in (attempt.result["found_by"], attempt.result["proved_by"])
    assert attempt.ending.cpu_seconds > 0.1 and attempt.ending.memory_peak > 10_000_000


def test_the_trace_of_an_older_result_has_no_sources():
    transcript = _Transcript(ignore)
    transcript.take('{"type": "result", "valid": false, "trace": [[0.1, null, 9], [0.2, 14, 9, "bounds"]]}')
    assert transcript.trace == [TracePoint(0.1, None, 9), TracePoint(0.2, 14, 9, "bounds")]


def test_a_process_that_is_refused_returns_the_message():
    attempt = run_request(asked(SKIP, 8, solver="eight"), hard_limit=60)
    assert (attempt.ending.exit_status, attempt.result, attempt.sequence, attempt.trace) == (2, None, None, ())
    assert attempt.ending.stderr.startswith("error: unknown solver 'eight'")
    assert attempt.error["kind"] == "input" and attempt.ending.stderr.strip() == f"error: {attempt.error['message']}"


def test_a_killed_attempt_keeps_what_it_reported(tmp_path):
    graph = tmp_path / "layered.json"
    assert run(["generate", "layered", "-n", "150", "--seed", "1", "-o", str(graph)]) == 0
    events = []

    def take(event):
        events.append(event)
        if "sequence" in event and sum("sequence" in one for one in events) == 1:
            tree = psutil.Process().children(recursive=True)
            next(child for child in tree if command_of(child)[3:] == [WORKER]).kill()

    attempt = run_request(asked(read_graph(graph), 0.8, time_limit=100), on_event=take, hard_limit=60)
    assert (attempt.ending.how, attempt.ending.exit_status, attempt.result) == ("exited", -9, None)
    assert attempt.trace[-1].value == events[-1]["duration"] and attempt.trace[-1].source == events[-1]["source"]
    assert list(attempt.sequence) == [event["sequence"] for event in events if "sequence" in event][-1]
