"""`frontier`: what it prints and writes, refusals, exit statuses, interruption."""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import subprocess
import sys

import pytest
from drawing_of_fronts import groups, uses

from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.files.schedules import read_schedule
from moccasin_mzn.problem.judges.schedules import judge

SKIP = ComputationGraph(
    ("x", "a", "b", "c", "z"), (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4)),
    fixed_memory={"parameters": 5},
)  # fmt: skip
LIMIT = ("--time-limit", 100, "--threads", 1)


@pytest.fixture
def skip(tmp_path):
    """The path of a graph whose front has two steps: 14 from a budget of 8 on, 9 from 10 on."""
    path = tmp_path / "skip.json"
    write_graph(SKIP, path)
    return path


def hard_graph(n=150, span=40):
    """A random graph with too much to find out for any time limit."""
    draw = random.Random(1)
    edges = sorted({(u, v) for v in range(1, n) for u in draw.sample(range(max(0, v - span), v), min(v, 2))})
    amounts = [[draw.randint(1, 99) for _ in range(n)] for _ in range(2)]
    return ComputationGraph(range(n), *amounts, edges, range(n))


def test_json_csv_and_table_have_the_same_values(tmp_path, command, skip):
    status, out, err = command("frontier", skip, *LIMIT, "--json", "--output", tmp_path / "f.json", "--csv",
                               tmp_path / "f.csv")  # fmt: skip
    told = json.loads(out)
    assert status == 0 and "budget 8 (80.00 %)  optimal  +55.556 %" in err
    assert (tmp_path / "f.json").read_text() == out
    assert (told["least_bound"], told["least_found"], told["baseline_peak"]) == (8, 8, 10)
    assert [(p["budget"], p["duration"], p["pareto"]) for p in told["points"]] == [
        (8, 14, True), (9, 14, False), (10, 9, True)
    ]  # fmt: skip
    assert told["proofs"].startswith("no schedule in stages of the input order with at most 2")
    for point in told["points"]:
        sequence = [SKIP.position_of(node) for node in point["sequence"]]
        simulation = judge(SKIP, sequence, point["budget"])
        assert simulation.feasible and (simulation.duration, simulation.peak) == (point["duration"], point["peak"])
    with open(tmp_path / "f.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, point in zip(rows, told["points"], strict=True):
        assert json.loads(row.pop("sequence")) == point.pop("sequence")
        assert row == {key: "" if value is None else str(value) for key, value in point.items()}


def test_frontier_command_prints_a_table(command, skip):
    status, out, _ = command("frontier", skip, *LIMIT)
    assert status == 0
    assert "8       80.00      8   55.556    55.556   0.000   optimal *" in out
    assert "less may do" not in out  # nothing fits less, however often nodes are computed
    ranges = "in stages of the input order with at most 2 computations per node"
    assert f"proven: no schedule {ranges} fits less than 8 (80.00 % of the peak)" in out
    assert "3 of 3 points proven" in out


def test_frontier_command_mentions_more_computations_where_they_may_help(command, skip):
    line = "with more computations per node less may do: --max-computations auto\n"
    assert line in command("frontier", skip, *LIMIT, "--points", 2, "--max-computations", 1)[1]
    assert line not in command("frontier", skip, *LIMIT, "--points", 2, "--max-computations", "auto")[1]


def test_frontier_command_takes_given_budgets(command, skip):
    status, out, _ = command("frontier", skip, *LIMIT, "--budget", "7", "--budget", "90%", "--budget", "8", "--json")
    points = json.loads(out)["points"]
    assert status == 0
    assert [(p["budget"], p["status"], p["duration"]) for p in points] == [
        (7, "infeasible", None), (8, "optimal", 14), (9, "optimal", 14)
    ]  # fmt: skip
    assert (points[0]["duration_bound"], points[0]["sequence"]) == (None, None)


def test_frontier_command_without_feasible_budgets_is_an_answer(command, skip):
    status, out, _ = command("frontier", skip, *LIMIT, "--budget", "7")
    assert status == 1
    assert "infeasible" in out


def test_budgets_that_count_fixed_memory(command, skip):
    status, out, _ = command("frontier", skip, *LIMIT, "--count-fixed", "--budget", "13", "--budget", "100%", "--json")
    told = json.loads(out)
    assert status == 0 and told["fixed_memory"] == 5
    assert [(p["budget"], p["duration"]) for p in told["points"]] == [(8, 14), (10, 9)]


def test_a_point_can_be_solved_and_validated_on_its_own(tmp_path, command, skip):
    path = tmp_path / "point.json"
    _, out, _ = command("frontier", skip, *LIMIT, "--json")
    path.write_text(json.dumps(json.loads(out)["points"][0]))
    assert read_schedule(path, SKIP).budget == 8
    assert command("validate", skip, path)[0] == 0


def test_a_gap_that_is_good_enough(command, skip):
    status, out, _ = command("frontier", skip, *LIMIT, "--budget", "8", "--until-gap", "90%", "--json")
    (point,) = json.loads(out)["points"]
    assert status == 0
    assert point["gap_percent"] <= 90 and point["duration"] >= 14


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--until-gap", "x"], "gap 'x': expected"),
        (["--points", "1"], "points 1 is not an integer from 2"),
        (["--time-limit", "0"], "time limit 0.0 is not a positive number"),
        (["--budget", "much"], "budget 'much': expected"),
        (["--formulation", "x"], "unknown formulation 'x'"),
        (["--solver", "x"], "unknown solver 'x'"),
        (["--max-computations", "x"], "max computations 'x': expected"),
        (["--order", "none.txt"], "none.txt: cannot read"),
        (["--threads", "0"], "threads 0 is not a positive"),
        (["--plot", "x.gif"], "x.gif: expected a name that ends in .png"),
        (["--csv", "none/x.csv"], "none/x.csv: there is no folder"),
        (["--output", "/"], "/: is a directory"),
    ],
)
def test_frontier_command_rejects_bad_input_in_one_line(command, skip, options, message):
    limit = () if "--time-limit" in options else ("--time-limit", 50)
    status, out, err = command("frontier", skip, *limit, *options)
    assert (status, out) == (2, "")
    assert err.startswith(f"error: {message}") and err.count("\n") == 1


@pytest.mark.full
def test_frontier_command_keeps_points_at_ctrl_c(tmp_path):
    graph, path = hard_graph(), tmp_path / "hard.json"
    write_graph(graph, path)
    process = subprocess.Popen(
        [sys.executable, "-m", "moccasin_mzn", "frontier", path, "--time-limit", "60", "--threads", "1", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert "budget" in process.stderr.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    assert process.returncode == 0, err
    told = json.loads(out)
    assert told["interrupted"] and told["seconds"] < 50
    assert told["points"][-1]["budget"] == told["baseline_peak"]
    for point in told["points"]:
        assert judge(graph, point["sequence"], point["budget"]).duration == point["duration"] >= point["duration_bound"]


@pytest.mark.full
def test_the_frontier_is_drawn(tmp_path, command, skip):
    assert command("frontier", skip, *LIMIT, "--plot", tmp_path / "a.svg")[0] == 0
    drawn = groups((tmp_path / "a.svg").read_bytes())
    assert uses(drawn["proven"]) == 3 and "open" not in drawn
