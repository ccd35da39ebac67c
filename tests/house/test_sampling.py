"""`--sample N` leaves one in N of what `make test` does not run, and all samples together leave out nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CASES = """
import pytest

@pytest.mark.full
@pytest.mark.parametrize("number", range(8))
def test_many(number): ...

def test_always(): ...
"""


@pytest.mark.full
def test_one_in_four_cases_is_left(tmp_path):
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "test_cases.py").write_text(CASES)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS / 'support'}\nmarkers =\n  full\n  few\n")

    def collected(*words):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *words]
        lines = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.splitlines()
        return {line.partition("::")[2] for line in lines if "::" in line}

    everything = collected()
    assert len(everything) == 9
    samples = [collected("--sample", "4", "--sample-seed", seed) for seed in "abcdefghijkl"]
    assert all(len(each) == 3 and "test_always" in each for each in samples) and set().union(*samples) == everything
