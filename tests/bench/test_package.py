"""Packages: model and instances that plain MiniZinc solves, graded, with what is known of each."""

from __future__ import annotations

import csv
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from bench_support import write

from moccasin_mzn.bench.best_known import graph_of, instance_of, read_table
from moccasin_mzn.bench.columns import empty_row
from moccasin_mzn.bench.package import (
    Findings,
    Graded,
    chosen,
    data_files,
    findings_of,
    grade_text,
    is_of_package,
    places,
)
from moccasin_mzn.cli.bench_run import generated, planned
from moccasin_mzn.formulations.catalogue import find_formulation
from moccasin_mzn.solvers.minizinc.solvers import find_backend

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "data" / "instances"
EXPERIMENT = """
name = "tiny"
time_limit = 60

[[graphs]]
generate = "chain --nodes 4 --seed 1"
label = "chain: 9"
budgets = ["0.9", "1.0", "0.5"]

[[graphs]]
generate = "u-shaped --nodes 8 --seed 2"
label = "u"
budgets = ["0.9"]

[[methods]]
label = "alone"
solver = "gecode"
search = "off"
two_phase = false

[[methods]]
strategy = "keep-all"
"""


def solved(folder, name, solver="gecode", seconds=20):
    """What plain minizinc prints of an instance of a package, with the checker: best duration, whether it is proven,
    and whether the checker accepts every solution."""
    own = (folder / "moccasin.mzn", folder / "moccasin.mzc.mzn")
    form = find_formulation("staged")
    model, checker = own if own[0].exists() else (form.file, form.checker_file)
    with find_backend(solver).solver.configuration() as known_as:
        words = ["minizinc", "--solver", known_as, "--time-limit", str(1000 * seconds), "-a", str(model), str(checker)]
        told = subprocess.run([*words, name], cwd=folder, capture_output=True, text=True, timeout=seconds + 60)
    assert told.returncode == 0, told.stderr
    durations = [int(found) for found in re.findall(r"CORRECT: duration (\d+)", told.stdout)]
    assert told.stdout.count("----------") == len(durations) and "INCORRECT" not in told.stdout
    return min(durations, default=None), "==========" in told.stdout


def best_known(folder):
    with open(folder / "best_known.csv", newline="") as file:
        return {row["instance"]: row for row in csv.DictReader(file)}


def best_known_of_shipped():
    """The same of the instances that ship, from the table of all best-known values, in the units of the models."""
    _, runs = planned(ROOT / "data" / "experiments" / "instances.toml", ())
    asked = places([run.row for run in runs if is_of_package(run.row)])
    table = {row.instance: row for row in read_table(ROOT / "data" / "best_known.csv")}
    found = {}
    for name, (_, _, digest, amount) in zip(data_files(place[:2] for place in asked), asked, strict=True):
        row = table.get((digest, amount, "input", "2"))
        if (SHIPPED / name).exists() and row is not None:
            instance = instance_of(row, graph_of(row, ROOT / "data", generated))
            scale = find_formulation("staged").data(instance).duration_scale
            values = {"duration": row.duration // scale, "bound": -(-row.bound // scale)}
            found[name] = {"status": row.status} | {key: str(value) for key, value in values.items()}
    return found


def check(folder, known, names, seconds=20, solver="gecode"):
    """Plain minizinc agrees with what is said of instances in a folder."""
    for name in names:
        duration, proven = solved(folder, name, solver, seconds)
        if duration is not None and known[name]["bound"]:
            assert duration >= int(known[name]["bound"]), name
        if proven:
            assert duration is not None and duration <= int(known[name]["duration"] or duration), name
            assert known[name]["status"] != "optimal" or duration == int(known[name]["duration"]), name


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A package of two instances, its folder and what the command told."""
    from moccasin_mzn.cli.main import run

    folder = tmp_path_factory.mktemp("tiny")
    path = write(folder, EXPERIMENT)
    words = ["bench", "package", path, "-o", folder / "out", "--store", folder / "s.sqlite", "--csplib"]
    assert run([str(word) for word in words]) == 0
    return folder


@pytest.mark.full
def test_plain_minizinc_solves_and_checks_what_is_in_a_package(tiny):
    known = best_known(tiny / "out")
    assert set(known) == {"chain_9_0.9.dzn", "u_0.9.dzn"} == {path.name for path in (tiny / "out").glob("*.dzn")}
    assert all(row["status"] == "optimal" and row["proved_by"] == row["found_by"] == "gecode" for row in known.values())
    check(tiny / "out", known, known)


@pytest.mark.full
def test_a_package_has_all_that_others_need(tiny):
    out = tiny / "out"
    readme = (out / "README.md").read_text()
    assert (out / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    assert all(f"| {name} | " in readme and row["duration"] in readme for name, row in best_known(out).items())
    assert "- alone: Gecode" in readme and "60 s at most, 1 thread" in readme
    models = {path.name: path.read_text() for path in out.glob("*.mzn")}
    assert set(models) == {"moccasin.mzn", "moccasin.mzc.mzn"}
    assert not any(str(ROOT) in text or str(tiny) in text or 'include "lib' in text for text in models.values())
    included = {name for text in models.values() for name in re.findall(r'^ *include "(.*)";', text, re.M)}
    assert included and not included & {path.name for path in (ROOT / "models").rglob("*.mzn")}
    assert str(tiny) not in readme + (out / "u_0.9.dzn").read_text()


@pytest.mark.full
def test_an_entry_of_csplib_is_what_csplib_reads(tiny):
    entry = tiny / "out" / "csplib"
    head = (entry / "specification.md").read_text().split("---\n")[1]
    assert [line.partition(":")[0] for line in head.splitlines()] == ["Title", "Proposer", "Category"]
    cited = re.findall(r"cite\{(\w+)\}", (entry / "specification.md").read_text())
    assert cited and all(
        f"@inproceedings{{{key}," in (entry / "references/references.bib").read_text() for key in cited
    )
    for kind, folder in (("*.mzn", entry / "models"), ("*.dzn", entry / "data")):
        same = {path.name: path.read_bytes() for path in (tiny / "out").glob(kind)}
        assert {path.name: path.read_bytes() for path in folder.glob(kind)} == same
    assert {path.name.removesuffix(".metadata") for path in (entry / "models").glob("*.metadata")} == {
        path.name for path in (entry / "models").glob("*.mzn")
    }


@pytest.mark.full
def test_what_is_done_is_not_done_again_and_a_full_folder_stays(tiny, command, tmp_path):
    asked = ("bench", "package", tiny / "experiment.toml", "--store", tiny / "s.sqlite", "-o")
    status, told, _ = command(*asked, tmp_path / "again", "--instances", 1)
    assert status == 0 and "4 of 4 runs done already" in told and "1 instance: 1 to " in told
    assert "left out: 1 instance: the input order fits" in told and "left out: 1 instance: there is no schedule" in told
    before = sorted((tiny / "out").rglob("*"))
    status, _, errors = command(*asked, tiny / "out")
    assert status == 2 and "the folder is not empty" in errors and sorted((tiny / "out").rglob("*")) == before


def test_an_experiment_without_the_formulation_is_refused(command, tmp_path):
    path = write(tmp_path, EXPERIMENT.replace('label = "alone"', 'label = "alone"\nformulation = "general"'))
    status, _, errors = command("bench", "package", path, "-o", tmp_path / "out")
    assert status == 2 and "no method has the formulation staged" in errors and errors.count("\n") == 1
    path = write(tmp_path, EXPERIMENT.replace('label = "alone"', "max_computations = [2, 3]"))
    status, _, errors = command("bench", "package", path, "-o", tmp_path / "out")
    assert status == 2 and "methods of the formulation staged differ in C: 2, 3" in errors
    status, _, errors = command(
        "bench", "package", write(tmp_path, EXPERIMENT), "-o", tmp_path / "out", "--grade-by", "x"
    )
    assert status == 2 and "--grade-by 'x': expected one of 'alone'" in errors
    assert sorted(one.name for one in tmp_path.iterdir()) == ["experiment.toml"]


def test_shipped_instances_are_documented_and_small():
    known = best_known_of_shipped()
    assert set(known) == {path.name for path in SHIPPED.glob("*.dzn")} and 12 <= len(known) <= 20
    assert sum(path.stat().st_size for path in SHIPPED.iterdir()) < 1_500_000
    readme = (SHIPPED / "README.md").read_text()
    for name, row in known.items():  # what the package knew, or better since
        cells = next(line.split(" | ") for line in readme.splitlines() if line.startswith(f"| {name} | "))
        assert int(cells[7]) >= int(row["duration"]) >= int(row["bound"]) >= int(cells[8])
    assert "| unsolved | " in readme and re.search(r"\| to (0\.\d|1) s \| ", readme)


def test_plain_minizinc_solves_the_easiest_that_ship():
    check(SHIPPED, best_known_of_shipped(), ["dag_12_0.85.dzn", "chain_11_0.8.dzn"])


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["gecode", "cp-sat"])
def test_plain_minizinc_solves_or_does_not_contradict_all_that_ship(solver):
    known = best_known_of_shipped()
    check(SHIPPED, known, known, solver=solver)


def graded(label, seconds, duration=1):
    instance = SimpleNamespace(graph=SimpleNamespace(nodes=(1,), edges=()))
    data = SimpleNamespace(duration_scale=1)
    return Graded(label, "0.8", instance, data, Findings(duration, "a", 1, "b", False, {}), seconds)


def test_instances_are_spread_over_grades_and_graphs():
    easy = [graded(f"easy {k % 4}", 0.01 * k) for k in range(10)]
    hard, open_ones = [graded("hard", 25.0)], [graded("open", None), graded("other", None)]
    found = chosen([*easy, *hard, *open_ones], 6)
    assert [one.grade for one in found] == sorted(one.grade for one in found)
    assert sorted(one.graph for one in found) == ["easy 0", "easy 1", "easy 2", "hard", "open", "other"]
    assert len(chosen(easy, 3)) == 3 and len(chosen(easy, 20)) == 10
    assert [grade_text(graded("x", seconds).grade) for seconds in (0.0, 0.1, 0.11, 0.9, 1.0, 25.0, None)] == [
        "to 0.1 s", "to 0.1 s", "to 0.3 s", "to 1 s", "to 1 s", "to 30 s", "unsolved",
    ]  # fmt: skip


def row(key, method, status, duration, bound, seconds):
    return {
        **empty_row(), "key": key, "method": method, "status": status, "valid": duration is not None,
        "duration": duration, "duration_bound": bound, "baseline_duration": 10, "solve_seconds": seconds,
    }  # fmt: skip


def test_what_runs_know_together():
    point = {"seconds": 0.0, "duration": None, "bound": 10, "source": "bounds"}
    rows = [row("a", "alone", "feasible", 14, 12, 5.0), row("b", "all", "feasible", 13, 11, 5.0),
            row("c", "other", "optimal", 13, 13, 2.0), row("d", "other", "unknown", None, 10, 4.0)]  # fmt: skip
    found = {**point, "duration": 13, "source": "cp-sat on a window"}
    traces = {"b": [point, found], "c": [{**found, "source": "x"}, {**found, "bound": 13, "source": "y"}]}
    known = findings_of(rows, traces)
    assert (known.duration, known.found_by, known.bound, known.proved_by) == (13, "cp-sat on a window", 13, "y")
    assert known.proven and known.seconds == {"alone": None, "all": None, "other": None}
    of_old = findings_of(rows[:1], {})
    assert (of_old.found_by, of_old.proved_by, of_old.proven) == ("alone", "alone", False)
    assert findings_of([row("e", "m", "optimal", 10, 10, 1.0)], {}).proved_by == "the instant bound"
    assert findings_of([row("f", "m", "infeasible", None, None, 1.0)], {}).infeasible
    assert (findings_of([], {}).duration, findings_of([], {}).bound, findings_of([], {}).found_by) == (None, None, "")
