"""The command line as a person meets it: exit status, one-line refusals, tables, JSON."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moccasin_mzn.cli.main import run
from moccasin_mzn.graphs.formats import read_graph, write_graph
from moccasin_mzn.graphs.graph import ComputationGraph

DATA = Path(__file__).resolve().parents[2] / "data"
UNET = str(DATA / "unet_training.json")


@pytest.fixture(scope="module")
def schedule(tmp_path_factory):
    """The U-Net at 80 % of its peak, solved once: (path of the schedule, its content)."""
    path = tmp_path_factory.mktemp("schedule") / "schedule.json"
    assert run(["solve", UNET, "--budget", "0.8", "--time-limit", "60", "--output", str(path)]) == 0
    return path, json.loads(path.read_text())


def test_solve_prints_a_table(command):
    status, out, err = command("solve", UNET, "--budget", "80%", "--time-limit", 60)
    assert status == 0
    for text in ("1.57 GiB", "0.078 %", "valid", "optimal: proven", "nodes recomputed", "seconds: read"):
        assert text in out
    assert "incumbent +0.078 %" in err  # progress


def test_solve_prints_one_json_object(command):
    status, out, err = command(
        "solve", UNET, "--budget", "0.8", "--time-limit", 60, "--json", "--seed", 3, "--threads", 2
    )
    assert status == 0
    told = json.loads(out)
    keys = """graph nodes edges formulation solver solver_version driver max_computations budget
        baseline_peak baseline_duration status peak duration tdi_percent duration_bound gap_percent valid
        seconds sequence intervals"""
    assert set(keys.split()) <= told.keys()
    assert (told["status"], told["valid"], told["formulation"], told["solver"]) == ("optimal", True, "staged", "cp-sat")
    assert err


def test_output_is_validated(command, schedule):
    path, told = schedule
    status, out, _ = command("validate", UNET, path, "--budget", told["budget"])
    figures = f"peak {told['peak'] / 2**30:.2f} GiB, duration {told['duration']:,} FLOP, budget 1.57 GiB"
    assert (status, out) == (0, f"valid: {figures}\nno arena to judge: the schedule has no offsets\n")
    assert command("validate", UNET, path)[0] == 0  # the budget it was made for
    status, out, _ = command("validate", UNET, path, "--budget", "0.79")
    assert status == 1 and "another graph" not in out


def test_validate_reports_a_schedule_of_another_graph(command, schedule, tmp_path):
    other = tmp_path / "other.json"
    graph = json.loads(Path(UNET).read_text(encoding="utf-8"))
    graph["nodes"][0]["size"] *= 4
    other.write_text(json.dumps(graph), encoding="utf-8")
    status, out, _ = command("validate", other, schedule[0])
    assert (
        status == 1 and "note: the schedule is of another graph than this one, although both are called 'U-Net t" in out
    )


def last_recomputation(sequence):
    return max(t for t, v in enumerate(sequence) if v in sequence[:t])


def damage_drop_recomputation(told):
    del told["sequence"][last_recomputation(told["sequence"])]
    del told["intervals"], told["peak"], told["duration"]


def damage_drop_node(told):
    told["sequence"].remove(told["sequence"][-1])


def damage_swap(told):
    told["sequence"][0], told["sequence"][1] = told["sequence"][1], told["sequence"][0]


def damage_interval(told):
    longest = max(told["intervals"], key=lambda interval: interval["end"] - interval["start"])
    longest["end"] -= 1


def damage_peak(told):
    told["peak"] -= 1


def damage_duration(told):
    told["duration"] += 1


def damage_keep_nothing_recomputed(told):
    told.pop("intervals"), told.pop("peak"), told.pop("duration")
    told["sequence"] = list(dict.fromkeys(told["sequence"]))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (
            damage_drop_recomputation,
            r"invalid: position [0-9]+: memory [0-9.]+ GiB is [0-9.]+ MiB over the budget 1.57 GiB while computing",
        ),
        (
            damage_keep_nothing_recomputed,
            r"invalid: position [0-9]+: memory [0-9.]+ GiB is [0-9.]+ MiB over the budget 1.57 GiB while computing",
        ),
        (damage_drop_node, "invalid: node .* is never computed"),
        (damage_swap, r"invalid: position 1: the sequence computes node 1 \(\w+\), the intervals have node 0 \(\w+\)"),
        (
            damage_interval,
            r"invalid: position [0-9]+: the interval of node [0-9]+ \(\w+\) ends at [0-9]+, before its last read",
        ),
        (damage_peak, "invalid: peak claimed is [0-9,]+ B, but the sequence has peak [0-9,]+ B"),
        (damage_duration, "invalid: duration claimed is [0-9,]+ FLOP, but the sequence has duration [0-9,]+ FLOP"),
    ],
)
def test_damaged_schedules_are_rejected_for_the_right_reason(command, schedule, tmp_path, damage, reason):
    told = json.loads(json.dumps(schedule[1]))
    damage(told)
    path = tmp_path / "damaged.json"
    path.write_text(json.dumps(told))
    status, out, _ = command("validate", UNET, path)
    assert status == 1
    assert re.match(reason, out), out


def test_info_prints_peak_and_floor(command):
    status, out, _ = command("info", UNET)
    assert status == 0
    assert "832.00 MiB" in out
    facts = json.loads(command("info", UNET, "--json")[1])
    assert (facts["nodes"], facts["edges"]) == (63, 135)
    assert facts["least_budget_bound"] == 872_415_232
    assert facts["peak"] == 2_109_734_912


def test_an_infeasible_budget_is_an_answer(command, tmp_path):
    output = tmp_path / "none.json"
    status, out, err = command("solve", UNET, "--budget", "0.3", "--json", "--output", output)
    assert status == 1
    assert json.loads(out)["status"] == "infeasible"
    assert "no schedule: node 61 (down0_conv2_backward) alone needs 832.00 MiB" in err
    assert not output.exists()


def test_unknown_is_distinguished_from_infeasible(command):
    status, out, err = command("solve", UNET, "--budget", "0.8", "--time-limit", "0.001", "--json")
    assert status == 1
    assert json.loads(out)["status"] == "unknown"
    assert "no schedule: no schedule was found within the time limit" in err


def test_an_all_zero_graph(command, tmp_path):
    path = tmp_path / "zero.json"
    write_graph(ComputationGraph((0, 1), (0, 0), (0, 0), ((0, 1),)), path)
    assert command("info", path)[0] == 0
    assert command("solve", path, "--budget", "1")[0] == 0


def graph_text(a=None, **changes):
    nodes = [a or {"id": "a", "duration": 1, "size": 2}, {"id": "b", "duration": 1, "size": 2}]
    document = {"format": "moccasin-graph", "version": 1, "nodes": nodes, "edges": [{"source": "a", "target": "b"}]}
    return json.dumps({**document, **changes})


BAD_FILES = [
    ("{", "bad.json: .*line 1"),
    ("", "bad.json: "),
    ("[]", "bad.json: no known graph format"),
    (graph_text()[:-20], "bad.json: .*line 1"),
    (graph_text(nodes=[], edges=[]), "bad.json: .*(empty|no nodes)"),
    (
        graph_text(edges=[{"source": "a", "target": "b"}, {"source": "b", "target": "a"}]),
        "bad.json: cycle: a -> b -> a",
    ),
    (graph_text(edges=[{"source": "a", "target": "z"}]), "bad.json: edges.0.: node 'z' is not in the graph"),
    (graph_text(a={"id": "a", "duration": 1, "size": -2}), "bad.json: .*node a.*-2"),
    (graph_text(a={"id": "a", "duration": 1.5, "size": 2}), "bad.json: .*node a.*1.5"),
    (graph_text(a={"id": "a", "duration": 1}), "bad.json: .*size"),
    (graph_text(a={"id": "b", "duration": 1, "size": 2}, edges=[]), "bad.json: .*b.*(twice|duplicate|again)"),
]


@pytest.mark.parametrize(("text", "message"), BAD_FILES)
@pytest.mark.parametrize("verb", [["info"], ["solve", "--budget", "0.8"]])
def test_bad_graph_files_get_one_line(command, tmp_path, verb, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    assert_refused(command(verb[0], path, *verb[1:]), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["solve", "no/such.json", "--budget", "0.8"], "no/such.json: "),
        (["solve", str(DATA), "--budget", "0.8"], "data: "),
        (["solve", UNET], "Missing option '--budget'"),
        (["solve", UNET, "--budget", "lots"], "budget 'lots': expected a fraction"),
        (["solve", UNET, "--budget", "-1"], "budget '-1'"),
        (["solve", UNET, "--budget", "80"], "no error"),
        (["solve", UNET, "--budget", "80.0"], "budget 80 is not a fraction of the peak"),
        (
            ["solve", UNET, "--budget", "0.8", "--solver", "nonesuch"],
            "unknown solver 'nonesuch', MiniZinc knows cp-sat",
        ),
        (["solve", UNET, "--budget", "0.8", "--formulation", "magic"], "unknown formulation 'magic'"),
        (["solve", UNET, "--budget", "0.8", "--precedence", "magic"], "unknown precedence 'magic'"),
        (
            ["solve", UNET, "--budget", "0.8", "--max-computations", "0"],
            "max computations '0': expected a positive integer, auto or a file",
        ),
        (["solve", UNET, "--budget", "0.8", "--until-gap", "x%"], "gap 'x%': expected a percentage"),
        (["solve", UNET, "--budget", "0.8", "--until-gap", "100%"], "gap 1.0 is not a fraction of the duration"),
        (["solve", UNET, "--budget", "0.8", "--search", "maybe"], "unknown search 'maybe', expected one of on,"),
        (["solve", UNET, "--budget", "0.8", "--index", "round"], "unknown index 'round'"),
        (
            ["solve", UNET, "--budget", "0.8", "--max-computations", "two"],
            "max computations 'two': expected a positive",
        ),
        (["solve", UNET, "--budget", "0.8", "--time-limit", "-3"], "time limit -3.0 is not a positive number"),
        (["solve", UNET, "--budget", "0.8", "--threads", "0"], "threads 0 is not a positive integer"),
        (["solve", UNET, "--budget", "0.8", "--order", "no/such/order"], "no/such/order: "),
        (["solve", UNET, "--budget", "0.8", "--output", "no/such/folder/x.json"], "there is no folder no/such/folder"),
        (["solve", UNET, "--budget", "0.8", "--output", str(DATA)], "data: is a directory"),
        (["validate", UNET, "no/such.json"], "no/such.json: "),
        (["validate", UNET, UNET], 'expected a key "sequence"'),
        (["solve", UNET, "--budget", "0.8", "--nonsense"], "No such option '?--nonsense"),
        (["nonsense"], "No such command 'nonsense'"),
    ],
)
def test_bad_usage_gets_one_line(command, arguments, message):
    if message == "no error":  # 80 bytes: a budget that no schedule can meet is an answer
        assert command(*arguments)[0] == 1
        return
    assert_refused(command(*arguments), message)


def test_an_unknown_node_in_a_schedule(command, tmp_path):
    path = tmp_path / "schedule.json"
    path.write_text('["nobody"]')
    assert_refused(command("validate", UNET, path), "schedule.json: .*nobody")


def test_a_wrong_order_file_names_the_edge(command, tmp_path):
    graph = read_graph(UNET)
    path = tmp_path / "order.txt"
    path.write_text("\n".join(str(graph.nodes[v]) for v in reversed(graph.topological_order())))
    assert_refused(
        command("solve", UNET, "--budget", "0.8", "--order", path), "order.txt: order is not topological: edge"
    )


def test_a_missing_minizinc(command, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_refused(command("solve", UNET, "--budget", "0.8"), "MiniZinc is not on PATH; install it")


def test_nothing_is_overwritten_by_a_refusal(command, tmp_path):
    output = tmp_path / "schedule.json"
    output.write_text("precious")
    assert command("solve", UNET, "--budget", "0.8", "--solver", "nonesuch", "--output", output)[0] == 2
    assert command("solve", UNET, "--budget", "0.3", "--output", output)[0] == 1
    assert output.read_text() == "precious"


def assert_refused(answer, message):
    """Exit status 2, nothing on stdout, and one line on stderr."""
    status, out, err = answer
    assert (status, out) == (2, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1, err
    assert re.search(message, err), err


@pytest.mark.full
def test_tables_show_names_as_they_are(command, tmp_path):
    """Brackets in names are no markup, and what the terminal cannot show is no reason to fail."""
    path = tmp_path / "skip.json"
    edges = ((0, 1), (0, 4), (1, 2), (2, 3), (3, 4))
    nodes = ("[relu]", "[/x]", "[b]b[/b]", ":smile:", 'say "ü"')
    write_graph(ComputationGraph(nodes, (5, 1, 1, 1, 1), (2, 1, 7, 1, 1), edges, name="[blue]n[/x]"), path)
    status, out, _ = command("solve", path, "--budget", "8")
    assert status == 0
    for text in ("[blue]n[/x]: 5 nodes", "[relu]"):
        assert text in out
    assert "[blue]n[/x]" in command("info", path)[1]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    arguments = [sys.executable, "-m", "moccasin_mzn", "solve", path, "--budget", "8"]
    answer = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    assert (answer.returncode, answer.stderr.count("Traceback")) == (0, 0)
    assert "[relu]" in answer.stdout


def test_an_unwritable_output_is_refused_before_the_search(command):
    assert_refused(command("solve", UNET, "--budget", "0.8", "--output", "/proc/x.json"), "/proc/x.json: ")


def test_seed_and_threads_reach_the_solver():
    from moccasin_mzn.solvers.minizinc.run import Limits, _options
    from moccasin_mzn.solvers.minizinc.solvers import find_backend

    options = _options(find_backend("cp-sat"), Limits(seconds=9e9, threads=3, seed=5))
    assert (options["processes"], options["random_seed"], options["free_search"]) == (3, 5, True)
    assert options["time_limit"].total_seconds() == 2_000_000
