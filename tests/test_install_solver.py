"""`install-solver`: MiniZinc knows the solver after it and no longer after `--remove`; nothing else is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moccasin_mzn.flatzinc import install


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """An empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MZN_SOLVER_PATH", raising=False)
    return tmp_path


def call(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "moccasin_mzn", "install-solver", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def solve(folder: Path) -> subprocess.CompletedProcess:
    """Plain `minizinc --solver cp-sat`, in another folder and without this checkout on the path."""
    model, data = folder / "model.mzn", folder / "data.dzn"
    model.write_text('int: n; var 1..n: x; solve maximize x; output ["x=\\(x)\\n"];')
    data.write_text("n = 7;")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = ["minizinc", "--solver", "cp-sat", model, data]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=folder)


def test_minizinc_knows_the_solver_until_it_is_removed(home):
    path = home / ".minizinc" / "solvers" / "cp-sat.msc"
    assert install.user_solver_folder() == path.parent
    assert solve(home).returncode != 0

    assert call().stdout.startswith(f"wrote {path}\nminizinc --solver cp-sat model.mzn data.dzn ")
    assert solve(home).stdout == "x=7\n----------\n==========\n"
    assert call().stdout.startswith(f"{path} was up to date\n")

    removed = call("--remove")
    assert (removed.returncode, removed.stdout) == (0, f"removed {path}\n")
    assert not path.exists()
    assert solve(home).returncode != 0
    again = call("--remove")
    assert (again.returncode, again.stdout) == (0, f"nothing to remove: there is no {path}\n")


def test_an_older_file_of_ours_is_replaced(home):
    call("--folder", home)
    path = home / "cp-sat.msc"
    fresh = path.read_text()
    path.write_text(json.dumps(json.loads(fresh) | {"version": "1.0", "executable": ["/moved/python"]}))
    assert call("--folder", home).stdout.startswith(f"replaced {path}\n")
    assert path.read_text() == fresh


@pytest.mark.parametrize("content", ['{"id": "com.example.cp-sat"}', "not JSON", "[]", ""])
@pytest.mark.parametrize("flags", [[], ["--remove"]])
def test_files_of_others_stay(home, content, flags):
    path = home / "cp-sat.msc"
    path.write_text(content)
    refused = call("--folder", home, *flags)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"error: {path}: belongs to another solver, left as it is\n"
    assert path.read_text() == content


def test_a_folder_that_cannot_be(home):
    path = home / "file"
    path.write_text("")
    refused = call("--folder", path)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1
    assert str(path) in refused.stderr and "cannot" in refused.stderr


def test_another_solver_of_the_same_name_is_told(home):
    folder = home / ".minizinc" / "solvers"
    folder.mkdir(parents=True)
    other = {"id": "com.example.cp-sat", "name": "Other", "version": "1", "executable": "other"}
    (folder / "other.msc").write_text(json.dumps(other))
    text = call().stdout
    assert "com.example.cp-sat" in text and "minizinc --solver org.moccasin-mzn.cp-sat model.mzn" in text


def test_without_minizinc_the_usual_folder_is_taken(home, monkeypatch):
    monkeypatch.setenv("PATH", str(home))
    assert install.user_solver_folder() == home / ".minizinc" / "solvers"
    assert "MiniZinc is not on PATH" in call().stdout
