"""Solvers that cannot run are refused before anything else is done; those that fail say so themselves."""

from __future__ import annotations

import json
import re

import pytest
from others import installed, script

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.solvers.minizinc.solvers import find_backend, solver_list

pytestmark = pytest.mark.usefixtures("minizinc")
EXPERIMENT = """
name = "refused"
time_limit = 60
budgets = ["0.8"]
seeds = [1]
[[graphs]]
generate = "chain --nodes 6 --seed 1"
label = "chain"
[[methods]]
label = "gone"
solver = "gone"
"""
PAGING = ("--paging", "--page-out-time", 1, "--page-in-time", 1)


@pytest.fixture
def useless(home):
    """Solvers without a library and without an executable."""
    installed(home, "needy", "/bin/true", requiredFlags=["--needy-dll"])
    installed(home, "gone", home / "gone")
    return home


PAGE = re.escape(" (see More solvers: docs/flatzinc.md#more-solvers)")
WHY = {
    "needy": r"solver 'needy' cannot run by MiniZinc 2\S+: its library is not here \(--needy-dll\)",
    "gone": r"solver 'gone' cannot run by MiniZinc 2\S+: its executable is not here \(\S+/gone\)",
    "nonesuch": "unknown solver 'nonesuch', MiniZinc knows cp-sat, highs, scip, .*",
}


EVERYWHERE = (
    ("solve", "skip.json", "--budget", "100%"),  # the input order fits
    ("solve", "skip.json", "--budget", 1),  # nothing ever does
    ("solve", "skip.json", "--budget", 8),
    ("solve", "skip.json", "--budget", 8, "--search", "only"),
    ("solve", "skip.json", "--budget", 8, "--order", "free"),
    ("solve", "skip.json", "--budget", 8, "--addresses"),
    ("solve", "skip.json", "--budget", 8, "--formulation", "checkmate-milp"),
    ("solve", "skip.json", "--budget", 8, *PAGING),
    ("solve", "skip.json", "--budget", 1, *PAGING),
    ("solve", "skip.json", "--budget", 8, *PAGING, "--order", "free"),
    ("frontier", "skip.json"),
    ("frontier", "skip.json", "--budget", "100%"),
    ("frontier", "skip.json", *PAGING),
    ("complexity", "skip.json"),
)


@pytest.mark.few(15)
@pytest.mark.parametrize(
    ("arguments", "solver"), [*((words, "gone") for words in EVERYWHERE), *((EVERYWHERE[0], name) for name in WHY)]
)
def test_a_solver_that_cannot_run_is_refused_whatever_is_asked(useless, skip, command, monkeypatch, arguments, solver):
    monkeypatch.chdir(skip.parent)
    status, out, err = command(*arguments, "--solver", solver)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert re.fullmatch(f"error: {WHY[solver]}{PAGE}\n", err), err


@pytest.mark.parametrize("names", ["needy,cp-sat", "cp-sat,gone"])
@pytest.mark.parametrize("budget", [8, "100%"])
def test_a_race_does_not_begin_without_one_of_its_solvers(useless, skip, command, names, budget):
    status, out, err = command("solve", skip, "--budget", budget, "--solver", names)
    why = next(WHY[name] for name in names.split(",") if name in WHY)
    assert (status, out) == (2, "") and re.fullmatch(f"error: {why}{PAGE}\n", err), err


def test_a_version_that_is_not_here_is_refused_where_none_is_needed(home, skip, command):
    status, out, err = command("solve", skip, "--budget", "100%", "--solver", "cp-sat@1.2")
    assert (status, out) == (2, "") and err.startswith("error: unknown version 'cp-sat@1.2': here is cp-sat@")


@pytest.mark.full
def test_the_list_reports_what_is_lacking(useless, command):
    lacking = {solver.name: solver.needs for solver in solver_list() if solver.needs}
    assert lacking["needy"] == "--needy-dll" and lacking["gone"] == str(useless / "gone")
    for name in lacking:
        with pytest.raises(InputError, match=f"solver '{name}' cannot run"):
            find_backend(name)


def test_a_library_that_the_user_has_named_to_minizinc_is_there(useless):
    defaults = {"solverDefaults": [["com.example.needy", "--needy-dll", "/lib/needy.so"]]}
    (useless / ".minizinc" / "Preferences.json").write_text(json.dumps(defaults))
    assert find_backend("needy").solver.id == "com.example.needy"


def test_an_executable_is_looked_for_as_minizinc_does(home, monkeypatch):
    path = installed(home, "near", "near-solver")
    with pytest.raises(InputError, match="its executable is not here .near-solver."):
        find_backend("near")
    script(path.parent / "near-solver", "exit 0")  # beside its configuration
    assert find_backend("near").solver.id == "com.example.near"


FAILING = {
    "exits": (("exit 7",), "it ended without a message"),
    "says why": (("echo '  libneedy.so.1: cannot open shared object file  ' >&2", "exit 127"),
                 "libneedy.so.1: cannot open shared object file"),
    "warns before": (("echo 'Warning: old' >&2", "echo 'note' >&2", "echo 'error: no licence' >&2", "exit 1"),
                     "error: no licence"),
    "dies": (("kill -SEGV $$",), "it ended without a message"),
    "tells an error": (("echo =====ERROR=====",), "it ended without a message"),
    "is not text": (("printf 'licence \\377 expired\\n' >&2", "exit 1"), "licence \N{REPLACEMENT CHARACTER} expired"),
    "succeeds all the same": (("echo 'Error: licence expired' >&2", "exit 0"), "Error: licence expired"),
}  # fmt: skip


@pytest.mark.few(4)
@pytest.mark.parametrize("how", FAILING)
def test_a_solver_that_fails_at_once_is_an_error_with_its_own_message(home, skip, command, how):
    lines, message = FAILING[how]
    installed(home, "poor", script(home / "poor", *lines))
    status, out, err = command("solve", skip, "--budget", 8, "--search", "off", "--solver", "poor", "--time-limit", 60)
    assert (status, out, err) == (2, "", f"error: poor: {message}\n")


@pytest.mark.full
def test_schedules_of_other_searches_are_kept_when_a_solver_fails(home, skip, command):
    installed(home, "poor", script(home / "poor", "exit 7"))
    for solver in ("poor", "poor,cp-sat"):
        status, out, _ = command("solve", skip, "--budget", 8, "--solver", solver, "--time-limit", 60, "--json")
        assert (status, json.loads(out)["duration"]) == (0, 14)


@pytest.mark.full
def test_a_bench_refuses_before_the_first_run(useless, tmp_path, command):
    (tmp_path / "experiment.toml").write_text(EXPERIMENT, encoding="utf-8")
    store = tmp_path / "s.sqlite"
    status, _, err = command("bench", "run", tmp_path / "experiment.toml", "--store", store)
    assert status == 2 and err.startswith("error: ") and err.count("\n") == 1 and not store.exists()
    assert re.search(f"{WHY['gone']}{PAGE}", err), err
