"""`solve --device`: plans for several devices, and what is refused in one line."""

from __future__ import annotations

import json
import shutil

import pytest

from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph

NEEDS_MINIZINC = pytest.mark.skipif(shutil.which("minizinc") is None, reason="minizinc is not on PATH")


@pytest.fixture
def graph(tmp_path):
    """a -> b -> c -> d and a -> d, where only the cpu can compute c, and only the gpu d."""
    path = tmp_path / "graph.json"
    durations = {"gpu": [1, 2, None, 4], "cpu": [3, 6, 9, None]}
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    write_graph(ComputationGraph(list("abcd"), [1, 2, 3, 4], [2] * 4, edges, device_durations=durations), path)
    return path


@pytest.mark.full
@NEEDS_MINIZINC
def test_solve_command_plans_two_devices(command, graph, tmp_path):
    plan = tmp_path / "plan.json"
    options = ["--copy-time", "0.5", "--threads", 1, "--seed", 0, "--check", "--output", plan]
    status, out, _ = command("solve", graph, "--device", "gpu=6", "--device", "cpu=4", *options)
    assert status == 0
    assert "machine.mzc.mzn: CORRECT: duration 18, energy 16, traffic 4, peaks 6 and 4" in out
    answer = json.loads(plan.read_text())
    assert (answer["status"], answer["duration"], answer["copies"]) == (
        "optimal",
        18,
        {"gpu -> cpu": 1, "cpu -> gpu": 1},
    )
    assert {"compute": "c", "in": "cpu"} in answer["plan"]
    status, out, _ = command("validate", graph, plan)
    assert status == 0 and out.startswith("valid")


@pytest.mark.full
@NEEDS_MINIZINC
def test_solve_command_plans_devices_with_slow_memory(command, graph):
    """Copies by way of slow memory cost nothing here, those between the devices do."""
    options = ["--copy-time", "0.5", "--paging", "--page-out-time", "0", "--formulation", "general", "--json"]
    status, out, _ = command("solve", graph, "--device", "gpu=6", "--device", "cpu=4", "--threads", 1, *options)
    answer = json.loads(out)
    assert (status, answer["status"], answer["duration"], answer["form"]) == (0, "optimal", 16, "general")
    assert list(answer["peaks"]) == ["gpu", "cpu", "slow"]
    assert all("slow" in link for link in answer["copies"])


@NEEDS_MINIZINC
def test_solve_command_without_a_plan_for_devices_exits_with_1(command, graph):
    status, out, err = command("solve", graph, "--device", "gpu=4", "--device", "cpu=4")
    assert status == 1 and err.splitlines()[-1].startswith("no schedule (see ")
    assert "infeasible: node d alone needs 6" in out


@pytest.mark.full
@NEEDS_MINIZINC
@pytest.mark.parametrize(("option", "more"), [("--copy-time", ["--check"]), ("--copy-latency", ["--search", "off"])])
def test_nothing_can_be_copied_in_infinite_time(command, tmp_path, option, more):
    """The second device is too small for the widest node, and the first one for all in the input order."""
    path = tmp_path / "skip.json"
    nodes = [("x", 5, 2), ("a", 1, 1), ("b", 1, 7), ("c", 1, 1), ("z", 1, 1)]
    document = {
        "nodes": [{"id": node, "duration": duration, "size": size} for node, duration, size in nodes],
        "edges": [{"source": a, "target": b} for a, b in ("xa", "xz", "ab", "bc", "cz")],
    }
    path.write_text(json.dumps(document))
    devices = ("--device", "gpu=8", "--device", "cpu=4:1", "--threads", 1, "--seed", 0, "--time-limit", 60)
    told = {}
    for time in ("0", "inf"):
        status, out, _ = command("solve", path, *devices, option, time, *more, "--json")
        told[time] = json.loads(out)
        assert (status, told[time]["status"]) == (0, "optimal")
    assert told["0"]["duration"] == 9 and told["0"]["traffic"] > 0
    assert (told["inf"]["duration"], told["inf"]["traffic"], told["inf"]["copies"]) == (14, 0, {})


def test_amounts_in_powers_of_1000(command, graph):
    status, out, _ = command("solve", graph, "--device", "gpu=2kB", "--device", "cpu=1M:2", "--search", "only")
    budgets = [line.split()[-1] for line in out.splitlines() if line.strip().startswith("budget, ")]
    assert (status, budgets) == (0, ["2,000", "1,000,000"])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ([], "Missing option '--budget'."),
        (["--copy-time", "1", "--budget", "6"], "--copy-time is for --device"),
        (["--objective", "energy", "--budget", "6"], "--objective is for --paging or --device"),
        (["--device", "gpu=6", "--budget", "6"], "--budget is for one memory: with --device each has its own budget"),
        (
            ["--device", "gpu=6", "--count-fixed"],
            "--count-fixed is for one memory: with --device each has its own budget",
        ),
        (["--device", "gpu=6", "--slow-memory", "9"], "--slow-memory is for --paging"),
        (["--device", "gpu=6", "--device", "gpu=7"], "device gpu is given twice"),
        (
            ["--device", "gpu"],
            "device 'gpu': expected NAME=BUDGET, such as gpu=0.8 or cpu=16GiB:4 "
            "(see Several devices: docs/beyond-the-paper.md#several-devices)",
        ),
        (["--device", "gpu=6", "--copy-latency", "1.5"], "--copy-latency 1.5: expected an integer of 0 or more"),
        (
            ["--device", "gpu=6", "--copy-energy", "inf"],
            "--copy-energy 'inf': expected a number of 0 or more, such as 0.25",
        ),
        (
            ["--device", "gpu=6", "--copy-time", "-1"],
            "--copy-time '-1': expected a number of 0 or more, such as 0.25, or inf",
        ),
        (["--device", "gpu=6"], "node c cannot be computed in any of gpu"),
        (
            ["--device", "gpu=6", "--device", "tpu=6"],
            "device tpu: the graph has durations of gpu, cpu; expected one of them, or a slowness, as in tpu=16GiB:4",
        ),
        (
            ["--device", "gpu=6", "--device", "cpu=6", "--formulation", "checkmate"],
            "several memories are formulated as staged or general, not as checkmate",
        ),
    ],
)
def test_devices_command_rejects_bad_input_in_one_line(command, graph, options, complaint):
    status, out, err = command("solve", graph, *options)
    assert (status, out, err) == (2, "", f"error: {complaint}\n")
