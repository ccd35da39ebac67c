"""Commands that are printed run as printed, in a shell, in the folder where they were printed."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moccasin_mzn.base.commands import command as line_of
from moccasin_mzn.graphs.formats import read_graph

ROOT = Path(__file__).resolve().parents[2]
GRAPH = {
    "format": "moccasin-graph", "version": 1,
    "nodes": [{"id": node, "duration": 1, "size": size} for node, size in zip("xabcz", (2, 1, 7, 1, 1), strict=True)],
    "edges": [{"source": u, "target": v} for u, v in ("xa", "xz", "ab", "bc", "cz")],
}  # fmt: skip
NAME = "a graph's $HOME; ls.json"
"""A name in which a shell would see all kinds of things."""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with a graph in it; MiniZinc knows none of our solvers."""
    folder = tmp_path / "my folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    Path(NAME).write_text(json.dumps(GRAPH))
    return folder


def run(text, status=0):
    """Run lines in a shell as somebody would who has activated the environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = subprocess.run(
        ["bash", "-e", "-c", text], capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert ran.returncode == status, (text, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.mark.parametrize(
    "out",
    ["a 'folder'", pytest.param("my data.dzn", marks=pytest.mark.full), pytest.param("-odd", marks=pytest.mark.full)],
)
def test_export_prints_what_solves_its_files(command, here, out):
    status, reported, _ = command("export", NAME, "--budget", 10, f"--output={out}")
    lines = reported.splitlines()
    assert status == 0 and len(lines) == 3 and lines[0].startswith("moccasin-mzn install-solver    # once: ")
    answered = run(reported)
    assert "CORRECT" in answered and "==========" in answered and "\nvalid: peak" in answered
    assert json.loads(Path("schedule.json").read_text())["format"] == "moccasin_mzn plan"
    reported = command("export", NAME, "--budget", 10, f"--output={out}")[1]
    assert reported.splitlines() == lines[1:]  # nothing is to be installed any more


@pytest.mark.parametrize("folder", [None, "my solvers"])
def test_install_solver_prints_how_to_use_and_to_remove_them(command, here, folder):
    where = () if folder is None else ("--folder", folder)
    reported = command("install-solver", *where)[1].splitlines()
    Path("model.mzn").write_text("int: n; var 1..n: x; solve maximize x;")
    Path("data.dzn").write_text("n = 7;")
    use = [line for line in reported if "minizinc --solver" in line]
    assert len(use) == 3 and "x = 7;" in run(use[0])
    assert run(reported[-1]).count("removed ") == 3
    assert list((Path(folder) if folder else Path.home() / ".minizinc/solvers").iterdir()) == []


def test_the_example_names_commands_for_graphs_of_ones_own(command, here):
    lines = command("solve", "--budget", "100%", "--search", "only")[2].splitlines()
    own = next(line.removeprefix("your own: ") for line in lines if line.startswith("your own: "))
    Path("my.json").write_text(json.dumps({**GRAPH, "nodes": GRAPH["nodes"][:1], "edges": []}))
    assert "valid" in run(own)
    help_command = next(line for line in lines if "a graph is a file of" in line).partition("; ")[2]
    assert "Usage: " in run(help_command.partition(" explains ")[0])


def test_the_list_of_networks_is_a_command_away(command, here):
    err = command("generate", "network")[2]
    assert "resnet50" in run(err.partition("this lists them: ")[2])


def test_what_made_a_graph_makes_it_again_in_its_folder(command, here):
    command("generate", "layered", "--nodes", 12, "--seed", 3, "-o", "g.json")
    command("reduce", "g.json", "--elementwise", "it's a * pattern", "-o", "r.json")
    made = next(line for line in command("info", "r.json")[1].splitlines() if line.startswith("made by: "))
    Path("again.json").write_text(run(made.removeprefix("made by: ")))
    assert read_graph("again.json") == read_graph("r.json")


@pytest.mark.full
def test_bench_run_prints_what_makes_the_report(command, here):
    Path("e.toml").write_text(
        'name = "it\'s mine"\nbudgets = ["1.0"]\n[[graphs]]\ngenerate = "chain -n 4"\n'
        '[[methods]]\nstrategy = "keep-all"\n'
    )
    reported = command("bench", "run", "e.toml", "--store", "my runs.sqlite")[1].splitlines()
    assert reported[-1] == "next: moccasin-mzn bench report 'my runs.sqlite'"
    assert "written: " in run(reported[-1].removeprefix("next: "))


def test_words_are_quoted_and_paths_are_no_options():
    assert line_of("solve", Path("-g.json"), "--budget", 0.8) == "moccasin-mzn solve ./-g.json --budget 0.8"
    for words in (["a b"], ["it's"], ["$x", "*"], [""], ["-x"]):
        assert run(f"set -- {line_of(*words)}; shift; printf '%s|' \"$@\"") == "".join(f"{word}|" for word in words)


def test_no_message_spells_the_command_otherwise():
    """Docstrings may say which module runs; messages have the name of the program."""
    for path in (ROOT / "moccasin_mzn").rglob("*.py"):
        if "-m moccasin_mzn " not in path.read_text():
            continue
        tree = ast.parse(path.read_text())
        alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        assert not [node.value for node in texts if "-m moccasin_mzn " in node.value and id(node) not in alone], path
