"""The command `order`: tables, files that `--order` reads, and refusals."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.heuristics.orders.cut_bound import CutBound
from moccasin_mzn.problem.files.schedules import read_order
from moccasin_mzn.problem.judges.schedules import simulate

DATA = Path(__file__).resolve().parents[2] / "data"


@pytest.fixture
def layered(tmp_path):
    path = tmp_path / "layered.json"
    write_graph(random_layered(50, seed=7), path)
    return path


def test_the_order_file_is_one_that_solve_and_info_read(command, layered, tmp_path):
    file = tmp_path / "order.json"
    status, out, err = command("order", layered, "--output", file, "--json")
    told, graph = json.loads(out), read_graph(layered)
    assert status == 0
    order = read_order(file, graph)
    assert [graph.nodes[v] for v in order] == told["order"]
    assert simulate(graph, order).peak == told["peak"] < told["input_peak"]
    assert told["input_peak"] == simulate(graph, graph.input_order()).peak
    assert (told["status"], told["bound"], told["gap_percent"]) == ("optimal", told["peak"], 0)
    assert f"peak {100 * told['peak'] / told['input_peak']:.3f} % of the input order's" in err

    status, out, _ = command("info", layered, "--order", file, "--json")
    assert status == 0 and json.loads(out)["peak"] == told["peak"]
    status, out, _ = command("solve", layered, "--order", file, "--budget", told["peak"], "--json")
    assert status == 0 and json.loads(out)["tdi_percent"] == 0


def test_the_table_compares_with_the_order_that_is_given(command, layered, tmp_path):
    best = tmp_path / "best.json"
    command("order", layered, "--output", best)
    status, out, err = command("order", layered, "--order", best, "--time-limit", "30")
    assert status == 0
    assert "optimal: no order that computes every node once has a smaller peak" in out
    assert "the input order, which nothing improved" in out
    assert out.count("100.000 %") == 3 and "0.000 %" in out


@pytest.mark.full
def test_info_shows_the_bound_on_the_peak_of_any_order(command, layered):
    graph = read_graph(layered)
    cuts = CutBound(graph_arrays(graph, graph.input_order()))
    highest = max(cuts.at(v) for v in range(len(graph.nodes)))
    found = json.loads(command("order", layered, "--json")[1])
    told = json.loads(command("info", layered, "--json")[1])
    assert told["least_budget_bound"] <= told["order_peak_bound"] == highest <= found["peak"]
    status, out, _ = command("info", layered)
    assert status == 0 and f"no order without recomputation needs less than   {highest:,}" in out


def test_order_reports_what_is_known_when_time_is_up(command):
    status, out, err = command("order", DATA / "rw" / "randwire_n574.json", "--time-limit", "0.4")
    assert status == 0
    assert "feasible: an order of smaller peak is possible, but not below the bound" in out
    assert "; bound by " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time-limit", "0"], "time limit 0.0 is not a positive number of seconds"),
        (["--seed", "-1"], "seed -1 is not an integer in 0..2147483647"),
        (["--order", "nowhere.txt"], "nowhere.txt"),
        (["--output", "nowhere/order.json"], "nowhere"),
        (["--threads", "2"], "No such option"),
    ],
)
def test_order_rejects_bad_options_in_one_line(command, layered, arguments, message):
    status, out, err = command("order", layered, *arguments)
    assert (status, out) == (2, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and message in err


def test_order_rejects_a_missing_graph_in_one_line(command, tmp_path):
    status, _, err = command("order", tmp_path / "none.json")
    assert status == 2 and err.count("\n") == 1 and "none.json" in err


@pytest.mark.slow
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_order_keeps_the_best_order_at_a_signal(tmp_path, signal_number):
    graph, file = DATA / "rw" / "randwire_n574.json", tmp_path / "order.json"
    line = [sys.executable, "-m", "moccasin_mzn", "order", str(graph), "--output", str(file), "--json"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while "peak 9" not in (line := process.stderr.readline()):
            assert line, "the search ended without an improvement"
        os.kill(process.pid, signal_number)
        out, _ = process.communicate(timeout=60)
    told = json.loads(out)
    assert process.returncode == 0 and told["status"] == "feasible" and told["peak"] < told["input_peak"]
    assert read_order(file, read_graph(graph))
