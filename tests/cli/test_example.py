"""`solve` without a graph: the example that comes with the package."""

import json
from pathlib import Path

import pytest

from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.provenance import example_graph

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("--time-limit", 60, "--search", "only", "--seed", 1)


def test_solve_example_is_the_graph_of_the_checkout():
    assert example_graph() == ROOT / "data" / "unet_training.json"


def test_solve_alone_solves_the_example_at_80_percent(command):
    status, out, err = command("solve", "--solver", "cp-sat", "--json")
    told = json.loads(out)
    assert (status, told["status"], told["nodes"]) == (0, "optimal", 63)
    assert told["budget"] == -(-told["baseline_peak"] * 8 // 10)
    first, second, third = err.splitlines()[:3]
    assert (
        first == f"no GRAPH is given: this solves the example that comes with the package, {example_graph()}, "
        "within a budget of 80%"
    )
    assert second == "your own: moccasin-mzn solve my.json --budget 0.8"
    assert all(form in third for form in ("JSON", "GraphML", "DOT", "import", "ONNX", "PyTorch"))


def test_the_example_at_another_budget(command):
    status, out, err = command("solve", "--budget", "0.9", "--json", *QUICK)
    told = json.loads(out)
    assert (status, told["budget"]) == (0, -(-told["baseline_peak"] * 9 // 10))
    assert "within a budget of 0.9\n" in err


def test_the_example_on_devices_has_their_budgets(command):
    status, out, err = command("solve", "--device", "gpu=1.0", "--json", *QUICK)
    assert status == 0 and json.loads(out)["peaks"]["gpu"] <= json.loads(out)["baseline_peak"]
    assert "this solves the example" in err and "within a budget" not in err


def test_output_and_table_are_those_of_any_graph(command, tmp_path):
    output = tmp_path / "schedule.json"
    status, out, _ = command("solve", "--budget", "0.9", "--output", output, *QUICK)
    assert status == 0 and out.startswith(f"{read_graph(example_graph()).name}: 63 nodes, 135 edges\n")
    assert command("validate", example_graph(), output)[0] == 0


@pytest.mark.parametrize("more", [[], ["--json"], ["--strategy", "keep-all"], ["--paging", "--page-out-time", "1"]])
def test_a_graph_without_a_budget_is_refused(command, more):
    status, out, err = command("solve", example_graph(), *more)
    assert (status, err) == (2, "error: Missing option '--budget'.\n")
    told = {"type": "error", "kind": "input", "message": "Missing option '--budget'."}
    assert out == (f"{json.dumps(told)}\n" if "--json" in more else "")


def test_bad_options_are_refused_without_a_graph_too(command):
    status, out, err = command("solve", "--budget", "much")
    assert (status, out) == (2, "") and err.splitlines()[-1].startswith("error: budget 'much': expected a fraction")
