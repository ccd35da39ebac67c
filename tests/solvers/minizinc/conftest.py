"""Fixtures for tests with MiniZinc."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tiny_graphs import SKIP

from moccasin_mzn.graphs.formats import write_graph


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A home folder without configurations of solvers."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("MZN_SOLVER_PATH", raising=False)
    return tmp_path


@pytest.fixture
def skip(tmp_path) -> Path:
    """The file of `SKIP`."""
    path = tmp_path / "skip.json"
    write_graph(SKIP, path)
    return path


@pytest.fixture
def minizinc() -> None:
    """Skips a test where there is no MiniZinc on PATH."""
    if shutil.which("minizinc") is None:
        pytest.skip("minizinc is not on PATH")
