"""`install-solver`: MiniZinc knows our solvers after it and no longer after `--remove`; nothing else is touched."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moccasin_mzn.solvers.flatzinc import configuration as install

SOLVERS = ["cp-sat", "highs", "scip"]


def call(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "moccasin_mzn", "install-solver", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def solve(folder: Path, solver: str) -> subprocess.CompletedProcess:
    """Plain `minizinc --solver`, in another folder and without this checkout on the path."""
    model, data = folder / "model.mzn", folder / "data.dzn"
    model.write_text('int: n; var 1..n: x; constraint x != n - 1; solve maximize x; output ["x=\\(x)\\n"];')
    data.write_text("n = 7;")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["minizinc", "--solver", solver, model, data]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=folder)


@pytest.mark.full
def test_minizinc_knows_the_solvers_until_they_are_removed(home):
    folder = home / ".minizinc" / "solvers"
    paths = [folder / f"{name}.msc" for name in SOLVERS]
    assert install.user_solver_folder() == folder
    assert solve(home, "cp-sat").returncode != 0

    told = call().stdout
    assert told.startswith(
        "".join(f"wrote {path}\n" for path in paths) + "minizinc --solver cp-sat model.mzn data.dzn "
    )
    names = re.findall(r"^minizinc --solver (\S+) model.mzn data.dzn ", told, re.MULTILINE)
    assert [name.rpartition(".")[2] for name in names] == SOLVERS
    for name in names:
        assert solve(home, name).stdout == "x=7\n----------\n==========\n"
    assert call().stdout.startswith("".join(f"{path} was up to date\n" for path in paths))

    removed = call("--remove")
    assert (removed.returncode, removed.stdout) == (0, "".join(f"removed {path}\n" for path in paths))
    assert not any(folder.iterdir())
    assert solve(home, "cp-sat").returncode != 0
    again = call("--remove")
    expected = "".join(f"nothing to remove: there is no {path}\n" for path in paths)
    assert (again.returncode, again.stdout) == (0, expected)


@pytest.mark.full
@pytest.mark.parametrize("name", SOLVERS)
def test_an_older_file_of_ours_is_replaced(home, name):
    call("--folder", home)
    path = home / f"{name}.msc"
    fresh = path.read_text()
    path.write_text(json.dumps(json.loads(fresh) | {"version": "1.0", "executable": ["/moved/python"]}))
    told = call("--folder", home).stdout
    assert f"replaced {path}\n" in told and told.count(" was up to date\n") == 2
    assert path.read_text() == fresh


@pytest.mark.few(2)
@pytest.mark.parametrize("content", ['{"id": "com.example.cp-sat"}', "not JSON", "[]", ""])
@pytest.mark.parametrize("flags", [[], ["--remove"]])
def test_install_solver_keeps_files_of_others(home, content, flags):
    path = home / "cp-sat.msc"
    path.write_text(content)
    refused = call("--folder", home, *flags)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: {path}: belongs to another solver, left as it is\n"
    assert path.read_text() == content


@pytest.mark.few(1)
@pytest.mark.parametrize("flags", [[], ["--remove"]])
def test_install_solver_writes_all_files_or_none(home, flags):
    if flags:
        call("--folder", home)
    path = home / "scip.msc"
    path.write_text('{"id": "org.scip.scip"}')
    before = sorted(file.name for file in home.iterdir())
    refused = call("--folder", home, *flags)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: {path}: belongs to another solver, left as it is\n"
    assert sorted(file.name for file in home.iterdir()) == before


def test_install_solver_rejects_unusable_folders(home):
    path = home / "file"
    path.write_text("")
    refused = call("--folder", path)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert str(path) in refused.stderr and "cannot" in refused.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("name", SOLVERS)
def test_another_solver_of_the_same_name_is_reported(home, name):
    folder = home / ".minizinc" / "solvers"
    folder.mkdir(parents=True)
    other = {"id": f"com.example.{name}", "name": "Other", "version": "1", "executable": "other"}
    (folder / "other.msc").write_text(json.dumps(other))
    text = call().stdout
    assert f"com.example.{name}" in text and f"minizinc --solver org.moccasin-mzn.{name} model.mzn" in text


def test_solvers_of_the_same_kind_do_not_conflict(home):
    folder = home / ".minizinc" / "solvers"
    folder.mkdir(parents=True)
    other = {
        "id": "com.example.other",
        "name": "Other",
        "version": "1",
        "executable": "other",
        "tags": ["mip", "float"],
    }
    (folder / "other.msc").write_text(json.dumps(other))
    assert "com.example.other" not in call().stdout


def test_without_minizinc_the_usual_folder_is_taken(home, monkeypatch):
    monkeypatch.setenv("PATH", str(home))
    assert install.user_solver_folder() == home / ".minizinc" / "solvers"
    assert "MiniZinc is not on PATH" in call().stdout
