"""`solve --paging` and `validate` of its plans, from the command line."""

from __future__ import annotations

import json

import pytest

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.formats.node_link import write_graph
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.files.plans import read_plan
from moccasin_mzn.problem.judges.plans import judge_plan

HALF = 3
ARGUMENTS = ("--budget", "6", "--paging", "--page-out-time", "0.25", "--threads", "1")


@pytest.fixture
def graph(tmp_path):
    """A U of six nodes: a chain whose second half reads the first half backwards."""
    n = 2 * HALF
    ids = [f"n{v}" for v in range(n)]
    edges = [(v, v + 1) for v in range(n - 1)] + [(v, n - 1 - v) for v in range(HALF - 1)]
    path = tmp_path / "graph.json"
    write_graph(ComputationGraph(ids, [7] * n, [2] * n, edges, name="U"), path)
    return path


def test_a_plan_is_found_proven_checked_written_and_validated(command, graph, tmp_path):
    file = tmp_path / "plan.json"
    status, out, err = command("solve", graph, *ARGUMENTS, "--json", "--check", "--output", file)
    assert status == 0, err
    answer = json.loads(out)
    assert (answer["status"], answer["valid"], answer["formulation"]) == ("optimal", True, "paging")
    assert answer["duration"] < 42 + 7 * answer["copies"]["slow -> local"]
    assert answer["peaks"]["local"] <= 6
    assert answer["checks"] and all(line.startswith("paging.mzc.mzn: CORRECT") for line in answer["checks"])
    claimed = read_plan(file, read_graph(graph))
    assert judge_plan(claimed.platform, claimed.plan, claimed.goal).duration == answer["duration"]
    status, out, _ = command("validate", graph, file)
    assert (status, out.split(",")[0]) == (0, f"valid: peak in local {answer['peaks']['local']}")
    document = json.loads(file.read_text())
    document["plan"] = [action for action in document["plan"] if "copy" not in action]
    file.write_text(json.dumps(document))
    status, out, _ = command("validate", graph, file)
    assert status == 1 and out.startswith("invalid: position")


def test_paging_table_shows_what_is_copied(command, graph):
    status, out, err = command("solve", graph, *ARGUMENTS, "--search", "only", "--time-limit", "2")
    assert status == 0, err
    assert "copies local -> slow" in out and "budget, local" in out and "slow -> local at" in out


def test_paging_command_without_a_plan_exits_with_1(command, graph):
    status, out, err = command("solve", graph, "--budget", "5", "--paging", "--page-out-time", "1")
    assert status == 1 and err.splitlines()[-1].startswith("no schedule (see ")
    assert (
        "infeasible: node n" in out
        and "alone needs 6 for its inputs and its output, 1 over the largest budget 5" in out
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--page-out-time", "1"], "--page-out-time is for --paging"),
        (["--objective", "energy"], "--objective is for --paging"),
        (["--paging"], "--paging: give --page-out-time, the duration of writing per size unit (0 if it takes none)"),
        (["--paging", "--page-out-time", "x"], "--page-out-time 'x': expected a number of 0 or more"),
        (["--paging", "--page-out-time", "-1"], "--page-out-time '-1': expected a number of 0 or more"),
        (["--paging", "--page-out-time", "1", "--page-in-energy", "inf"], "--page-in-energy 'inf': expected a number"),
        (["--paging", "--page-out-time", "1", "--objective", "x"], "unknown objective 'x'"),
        (["--paging", "--page-out-time", "1", "--max-duration", "5%"], "--max-duration '5%': expected an integer"),
        (["--paging", "--page-out-time", "1", "--max-traffic", "+5%"], "--max-traffic '+5%': expected an integer"),
        (["--paging", "--page-out-time", "1", "--slow-memory", "x"], "budget 'x'"),
        (
            ["--paging", "--page-out-time", "1", "--strategy", "chen"],
            "paging with a strategy: its rule knows one memory: leave out --paging or --strategy",
        ),
        (["--paging", "--page-out-time", "1", "--formulation", "x"], "paging is formulated as staged or general, not"),
        (["--paging", "--page-out-time", "1", "--solver", "a,a"], "solver 'a,a': a is named twice"),
    ],
)
def test_paging_command_rejects_bad_options_in_one_line(command, graph, arguments, message):
    status, out, err = command("solve", graph, "--budget", "8", *arguments)
    assert (status, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1
