"""Broken configuration files of other people's solvers do not get in the way, and hide no message."""

from __future__ import annotations

import subprocess

import pytest
from others import installed, script
from solving import solve
from tiny_graphs import SKIP

from moccasin_mzn.solvers.minizinc.run import SolverError, compile_model
from moccasin_mzn.solvers.minizinc.solvers import find_backend

pytestmark = pytest.mark.usefixtures("minizinc")
BROKEN = {
    "cut.msc": b'{"id": "com.example.cut", "name": ',
    "program.msc": b"error(;\n",
    "odd.msc": b'{"id": "com.example.odd", "name": "x", "version": "1", "errors": true}',
    "types.msc": b'{"id": 3, "name": [], "version": {}}',
    "empty.msc": b"",
    "bytes.msc": bytes(range(256)),
}


@pytest.fixture
def cluttered(home):
    """A home with broken configurations, and broken preferences."""
    installed(home, "poor", script(home / "poor", "echo no licence >&2", "exit 1"))
    for name, content in BROKEN.items():
        (home / ".minizinc" / "solvers" / name).write_bytes(content)
    (home / ".minizinc" / "Preferences.json").write_bytes(b'{"solverDefaults": 3')
    complaints = subprocess.run(["minizinc", "--solvers-json"], capture_output=True, check=True).stderr
    assert b"error" in complaints  # or there is nothing to hide a message
    return home


@pytest.mark.full
@pytest.mark.parametrize("solver", ["cp-sat", "gecode"])
def test_other_solvers_run_beside_a_broken_configuration(cluttered, solver):
    result = solve(SKIP, 8, solver=solver, search="off", time_limit=60)
    assert (result.status, result.duration) == ("optimal", 14)


def test_the_message_of_a_run_is_the_solvers_own(cluttered):
    with pytest.raises(SolverError, match="^poor: no licence$"):
        solve(SKIP, 8, solver="poor", search="off", time_limit=60)


@pytest.mark.parametrize("solver", ["cp-sat", "gecode"])
def test_the_message_of_a_compilation_is_minizincs(cluttered, tmp_path, solver):
    model = tmp_path / "model.mzn"
    model.write_text("int: n; var 1..n: x; constraint x < y; solve satisfy;")
    with pytest.raises(SolverError, match=f"^{solver}: MiniZinc failed: Error: type error: undefined identifier `y'"):
        compile_model(find_backend(solver), model, "n = 3;")


def test_all_solvers_are_listed(cluttered, command):
    status, out, err = command("list")
    assert (status, err) == (0, "") and "gecode" in out and "poor" in out
