"""`make` hands on what it is given as it is: blanks, quotes and dollars in names mean nothing to the shell."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from few import few

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["my graph", "it's", 'a "b" c', "a;touch injected", "`touch injected`", "-x", "*", "a&b|c>d", "a\\b"]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")


@pytest.fixture
def checkout(tmp_path):
    """A folder, with a blank in its name, with the Makefile and an environment that is ready."""
    folder = tmp_path / "check out"
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / "scripts").mkdir()
    for name in ("Makefile", "pyproject.toml", "scripts/setup.sh"):
        shutil.copy(ROOT / name, folder / name)
    python = folder / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    for state in ("ready", "tested"):  # in this order
        (folder / ".venv" / state).touch()
    return folder


def made(checkout, target, **variables):
    answer = subprocess.run(
        ["make", target, *(f"{name}={value}" for name, value in variables.items())],
        cwd=checkout, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert not (checkout / "injected").exists()
    return answer


@pytest.mark.parametrize("name", few(NAMES, keep=1))
@pytest.mark.few(1)
def test_names_of_files_arrive_as_they_are(checkout, name):
    nodes = [{"id": node, "duration": 1, "size": 1} for node in "ab"]
    document = {"format": "moccasin-graph", "nodes": nodes, "edges": [{"source": "a", "target": "b"}]}
    (checkout / name).write_text(json.dumps(document))
    answer = made(checkout, "solve", GRAPH=name, BUDGET="100%", PICTURE=f"build/{name}.svg")
    assert answer.returncode == 0, answer.stderr
    assert (checkout / "build" / f"{name}.svg").is_file()


@pytest.mark.full
@pytest.mark.parametrize("name", few(NAMES[:3], keep=1))
def test_experiments_have_a_folder_of_their_name(checkout, name):
    (checkout / "my experiments").mkdir()
    (checkout / "my experiments" / f"{name}.toml").write_text("nonsense")
    answer = made(checkout, "bench", EXPERIMENT=f"my experiments/{name}.toml")
    assert answer.returncode != 0 and f"my experiments/{name}.toml: " in answer.stderr
    assert (checkout / "build" / name).is_dir()
    made(checkout, "bench", EXPERIMENT=f"my experiments/{name}.toml", RESULTS=f"else where/{name}")
    assert (checkout / "else where" / name).is_dir()


def test_make_goes_on_without_wheels_and_reports_it(checkout):
    (checkout / ".venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1\n")  # neither imports nor installs
    answer = made(checkout, "test-deploy")
    assert answer.returncode == 0
    assert "no TensorFlow Lite: its models are not run" in answer.stdout.splitlines()
    assert made(checkout, "test-torch").returncode != 0  # PyTorch itself is not for choice
