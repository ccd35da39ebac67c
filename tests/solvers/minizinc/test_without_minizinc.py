"""What works where there is no MiniZinc."""

from __future__ import annotations

import json
import shutil

import pytest

from moccasin_mzn.solvers.minizinc.drivers import bundle_folders

INSTALL = "MiniZinc is not on PATH; install it ("
SOON = ("--points", 3, "--time-limit", 4)


@pytest.fixture(autouse=True)
def bare(home, monkeypatch):
    """Neither MiniZinc on PATH nor Node.js."""
    monkeypatch.setenv("PATH", str(home))
    if any(shutil.which("minizinc", path=str(folder)) for folder in bundle_folders()):
        pytest.skip("a bundle of MiniZinc is installed here")


def test_list_names_methods_and_what_is_missing(command):
    status, out, err = command("list")
    assert (status, err) == (0, "")
    assert "staged" in out and "chen-sqrt" in out
    assert out.splitlines()[-1].startswith(f"--solver, for formulations: none; {INSTALL}")
    status, out, _ = command("list", "--json")
    told = json.loads(out)
    assert (status, told["solvers"], told["solver_versions"]) == (0, [], [])
    assert told["no_solvers"].startswith(INSTALL) and "staged" in {method["name"] for method in told["methods"]}


@pytest.mark.parametrize("options", [(), ("--solver", "cp-sat,highs")])
def test_the_frontier_is_found_without_models(skip, command, options):
    status, out, err = command("frontier", skip, *SOON, *options, "--json")
    told = json.loads(out)
    assert status == 0 and err.startswith(f"note: {INSTALL}")
    assert [(point["budget"], point["duration"]) for point in told["points"]] == [(8, 14), (9, 14), (10, 9)]


@pytest.mark.full
def test_frontier_with_slow_memory_needs_no_models(skip, command):
    status, out, err = command("frontier", skip, *SOON, "--paging", "--page-out-time", 1, "--page-in-time", 1)
    assert status == 0 and err.startswith(f"note: {INSTALL}") and "100.00" in out


NEEDING = (
    ("--search", "off"), ("--solver", "gecode"), ("--formulation", "checkmate-milp"), ("--solver", "nonesuch"),
)  # fmt: skip


@pytest.mark.parametrize("options", NEEDING)
def test_what_needs_minizinc_is_refused(skip, command, options):
    status, out, err = command("frontier", skip, *SOON, *options)
    assert (status, out) == (2, "") and err.startswith(f"error: {INSTALL}") and err.count("\n") == 1


def test_a_search_without_model_needs_none(skip, command):
    for budget, options in ((8, ("--search", "only")), ("100%", ())):
        assert command("solve", skip, "--budget", budget, "--time-limit", 4, *options)[0] == 0
