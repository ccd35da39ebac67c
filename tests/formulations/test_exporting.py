"""Instances and models as files: plain MiniZinc solves them, and what it prints is read back and judged."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys

import pytest
from cases import MODELS

import moccasin_mzn as mz
from moccasin_mzn.formulations.exporting import read_solution
from moccasin_mzn.solvers.minizinc.solvers import find_backend

FORMS = [
    (), ("--formulation", "general"), ("--precedence", "reservoir", "--index", "triangular"),
    ("--formulation", "checkmate-milp"),
]  # fmt: skip
GRAPH = mz.ComputationGraph(
    ("x", "a", "b", "c", "z"), (2, 3, 3, 3, 1), (4, 4, 4, 4, 1), ((0, 1), (1, 2), (2, 3), (0, 4), (3, 4))
)
"""Within 9, x is computed twice."""


def options(form):
    return {name.removeprefix("--"): value for name, value in zip(form[::2], form[1::2], strict=True)}


def minizinc(folder, *arguments):
    run = subprocess.run(["minizinc", *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.full
def test_exported_mixed_integer_programs_have_the_optimum(tmp_path, command, graph):
    """Solved as a file, by HiGHS in a process of its own."""
    for kind in ("mps", "lp"):
        file = tmp_path / f"made.{kind}"
        arguments = ("--formulation", "checkmate-milp", "--format", kind, "-o", file)
        assert command("export", graph, "--budget", 9, *arguments)[::2] == (0, "")
        script = (
            "import sys, highspy; h = highspy.Highs(); h.setOptionValue('output_flag', False); "
            "h.readModel(sys.argv[1]); h.run(); print(h.getInfo().objective_function_value)"
        )
        solved = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, check=True)
        assert float(solved.stdout.splitlines()[-1]) == 14


@pytest.mark.parametrize("kind", ["mps", "lp"])
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("predicate ours(var int: x); constraint ours(total_duration);", "unsupported constraint ours"),
        ("var 0..1: b; constraint 9007199254740993 * b + total_duration >= 1;", "9007199254740993 is no exact double"),
        ("var 0.0..9.0: x; constraint x * x >= 2.0;", "Unable to create linear formulation"),
    ],
)
def test_a_model_that_is_no_mixed_integer_program_is_one_line(tmp_path, command, graph, more, message, kind):
    (tmp_path / "odd.mzn").write_text(f'include "{MODELS}/checkmate.mzn";\n{more}\n')
    arguments = ("--model", tmp_path / "odd.mzn", "--like", "checkmate-milp", "--format", kind)
    status, out, err = command("export", graph, "--budget", 9, *arguments, "-o", tmp_path / "made.txt")
    assert (status, out, err.count("\n")) == (2, "", 1) and message in err and "Traceback" not in err, err
    assert not (tmp_path / "made.txt").exists()


def test_export_warns_of_numbers_too_large_for_some_solvers(tmp_path, command):
    big = mz.ComputationGraph(GRAPH.nodes, [10**9 + k for k in range(5)], GRAPH.sizes, GRAPH.edges)
    mz.write_graph(big, tmp_path / "big.json")
    status, _, told = command("export", tmp_path / "big.json", "--budget", 9, "-o", tmp_path / "big.dzn")
    note = "Gecode and Chuffed count up to 2,147,483,646, the total duration may be 9,000,000,016"
    assert (status, told) == (0, f"note: {note}\n") and f"% {note}\n" in (tmp_path / "big.dzn").read_text()


@pytest.mark.few(2)
@pytest.mark.parametrize("solver", ["gecode", "cp-sat"])
@pytest.mark.parametrize("mode", ["item", "json"])
@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_folder_stands_by_itself_and_its_solution_is_read_back(tmp_path, command, graph, form, mode, solver):
    folder, schedule = tmp_path / "made", tmp_path / "schedule.json"
    status, told, _ = command("export", graph, "--budget", 9, *form, "-o", folder)
    files = shlex.join(str(folder / name) for name in ("model.mzn", "model.mzc.mzn", "data.dzn"))
    assert status == 0 and told.splitlines()[-2] == f"minizinc --solver cp-sat {files}"
    words = shlex.join(["moccasin-mzn", "validate", str(graph), "-", "--budget", "9", *form, "--arrays"])
    assert told.splitlines()[-1].startswith(f"minizinc --solver cp-sat {files} | {words} --output schedule.json")
    for file in folder.iterdir():
        assert str(tmp_path) not in file.read_text() and "moccasin_mzn/" not in file.read_text()
        included = re.findall(r'^include "(.*)";', file.read_text(), re.M)
        assert set(included) <= {*os.listdir(folder), "ide/vis.mzn", "cumulative.mzn", "all_different.mzn"}
    with find_backend(solver).solver.configuration() as name:
        settings = folder / "own.mpc"  # the same for a solver that MiniZinc is told of
        settings.write_text((folder / f"{solver}.mpc").read_text().replace(f'"{solver}"', json.dumps(str(name))))
        printed = minizinc(folder, settings, "--output-mode", mode, "model.mzn", "data.dzn")
        checked = minizinc(folder, "--solver", name, "model.mzn", "model.mzc.mzn", "data.dzn")
    assert "CORRECT" in checked and "INCORRECT" not in checked
    (tmp_path / "printed.txt").write_text(printed)
    arguments = ("validate", graph, tmp_path / "printed.txt", "--budget", 9, "--arrays", *form, "--output", schedule)
    status, told, _ = command(*arguments)
    assert status == 0 and told.startswith("valid: peak 9, duration 14, budget 9")
    assert mz.solve(GRAPH, 9, **options(form)).duration == json.loads(schedule.read_text())["duration"] == 14
    assert command("validate", graph, schedule)[0] == 0


def test_exported_data_file_has_graph_and_budget(tmp_path, command, graph):
    data = tmp_path / "tiny.dzn"
    status, told, _ = command("export", graph, "--budget", "80%", "-o", data)
    told = told.splitlines()[-2].split()
    assert status == 0 and told[:3] == ["minizinc", "--solver", "cp-sat"] and told[-1] == str(data)
    comment = [line for line in data.read_text().splitlines() if line.startswith("%")]
    assert "moccasin-mzn export graph.json --budget 80%" in comment[2]
    assert 'name = ["x", "a", "b", "c", "z"];' in data.read_text().splitlines()
    assert command("export", graph, "--budget", "80%", "-o", tmp_path / "tiny.json")[0] == 0
    items = json.loads((tmp_path / "tiny.json").read_text())
    assert items["nodes"] == 5 and set(items) == set(re.findall(r"^(\w+) = ", data.read_text(), re.M))


def test_a_warm_start_and_flatzinc(tmp_path, command, graph):
    start = tmp_path / "start.json"
    start.write_text('["x", "a", "b", "c", "x", "z"]')
    assert command("export", graph, "--budget", 9, "--warm-start", start, "-o", tmp_path / "warm.dzn")[0] == 0
    assert "incumbent_active = [true, true" in (tmp_path / "warm.dzn").read_text()
    flat = tmp_path / "flat.fzn"
    for solver, name in (("cp-sat", "fzn_served_read"), ("gecode", "cumulatives")):
        arguments = ("--fzn", "--solver", solver, "-o", flat)
        assert command("export", graph, "--budget", 9, *arguments)[::2] == (0, "")
        assert name in flat.read_text() and flat.read_text().rstrip().endswith("minimize total_duration;")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "GRAPH", "--budget", 9, "--solver", "gecode", "-o", "x.dzn"), "--solver is for --fzn"),
        (("export", "GRAPH", "--budget", 9, "--format", "lp", "-o", "x.lp"), "staged is no mixed-integer program"),
        (("export", "GRAPH", "--budget", 9, "--format", "lp", "--fzn", "-o", "x.lp"), "--fzn and --format: give one"),
        (("export", "GRAPH", "--budget", 9, "--formulation", "x", "-o", "x.dzn"), "unknown formulation 'x'"),
        (("export", "GRAPH", "--budget", 9, "-o", "GRAPH"), "is the graph, and would be lost"),
        (("export", "GRAPH", "--budget", 9, "--warm-start", "GRAPH", "-o", "x.dzn"), "graph.json: expected a key "),
        (("validate", "GRAPH", "EMPTY", "--budget", 9, "--arrays"), "there is no solution: expected what minizinc"),
        (("validate", "GRAPH", "OTHER", "--budget", 9, "--arrays"), "the last solution has arrays of another instance"),
        (("validate", "GRAPH", "OTHER", "--budget", 9, "--arrays", "--formulation", "checkmate-milp"), "no array R"),
        (("validate", "GRAPH", "OTHER", "--arrays"), "--budget: with --arrays give that of the export"),
        (("validate", "GRAPH", "OTHER", "--output", "x.json"), "--output goes with --arrays"),
        (("validate", "GRAPH", "OTHER", "--max-computations", 2), "--max-computations goes with --arrays"),
    ],
)  # fmt: skip
def test_export_rejects_bad_options_in_one_line(tmp_path, command, graph, arguments, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.txt").write_text("=====UNKNOWN=====\n")
    (tmp_path / "other.txt").write_text("active = [true];\nstart = [1];\nend = [1];\n----------\n==========\n")
    names = {"GRAPH": graph, "EMPTY": tmp_path / "empty.txt", "OTHER": tmp_path / "other.txt"}
    before = sorted(os.listdir(tmp_path))
    status, out, err = command(*(names.get(one, one) for one in arguments))
    assert (status, out, err.count("\n")) == (2, "", 1) and message in err, err
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a = [true, false];", "a", [True, False]), ("a = array1d(1..2, [3, -4]);", "a", [3, -4]), ("a = 7;", "a", 7),
        ("a = array2d(1..2, 1..3, [1, 2, 3, 4, 5, 6]);", "a", [[1, 2, 3], [4, 5, 6]]),
        ("a = [|true, false|false, true|];", "a", [[True, False], [False, True]]), ("a = [];", "a", []),
        ('{"a": [true, 2], "_objective": 3}', "a", [True, 2]),
        ('a = [1];\n----------\na = [2];', "a", [2]),
    ],
)  # fmt: skip
def test_arrays_as_minizinc_prints_them(text, name, value):
    assert getattr(read_solution(f"{text}\n----------\n==========\n"), name) == value
