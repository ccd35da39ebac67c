"""Exports: every value arrives, and mzn-bench's keys are there."""

from __future__ import annotations

import csv

import pandas
import pytest
import yaml
from minizinc.result import Status

from moccasin_mzn.bench.columns import COLUMNS, STATUSES, TRACE_COLUMNS, empty_row, took
from moccasin_mzn.bench.export import MZN_BENCH_STATUS
from moccasin_mzn.bench.store import Store

BIG = 2**53 + 1
POINTS = (
    {"seconds": 0.5, "duration": None, "bound": 3, "source": "bounds"},
    {"seconds": 1.0, "duration": BIG, "bound": 3, "source": "local search"},
    {"seconds": 1.5, "duration": BIG, "bound": 4, "source": "bounds"},
    {"seconds": 2.0, "duration": 9, "bound": 9, "source": "cp-sat"},
)
FIRST = {
    **empty_row(), "key": "k1", "experiment": "a b", "graph": 'RL, "G" 1', "family": "random layered", "budget": "0.9",
    "method": "moccasin cp-sat,gecode", "formulation": "staged", "solver": "cp-sat,gecode", "seed": 3,
    "status": "optimal", "valid": True, "peak": BIG, "duration": 9, "duration_bound": 9, "gap_percent": 0.0,
    "seconds": 2.5, "solve_seconds": 2.25, "schedule": "[1,2]",
}  # fmt: skip
SECOND = {
    **empty_row(), "key": "k2", "experiment": "a b", "graph": "g", "budget": "0.8", "method": "dtr", "strategy": "dtr",
    "status": "crashed", "reason": "exit status -9", "valid": False, "seconds": 1.0,
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "s.sqlite"
    with Store.create(path) as made:
        made.add(FIRST, POINTS)
        made.add(SECOND)
    return path


def test_csv_has_every_value_as_it_is(store, command, tmp_path):
    output = tmp_path / "runs.csv"
    status, told, _ = command("bench", "export", store, "-o", output)
    assert status == 0 and told == f"{output}\n{tmp_path / 'runs-traces.csv'}\n"
    with open(output, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [list(row) for row in rows] == [list(COLUMNS)] * 2
    assert rows[0]["graph"] == 'RL, "G" 1' and rows[0]["peak"] == str(BIG) and rows[0]["valid"] == "True"
    assert rows[1]["peak"] == rows[1]["seed"] == "" and rows[1]["reason"] == "exit status -9"
    with open(tmp_path / "runs-traces.csv", newline="") as file:
        points = list(csv.DictReader(file))
    assert [list(point) for point in points] == [list(TRACE_COLUMNS)] * 4
    assert [point["duration"] for point in points] == ["", str(BIG), str(BIG), "9"]
    assert [point["source"] for point in points] == ["bounds", "local search", "bounds", "cp-sat"]


def test_parquet_has_every_value_with_its_type(store, command, tmp_path):
    output = tmp_path / "runs.parquet"
    assert command("bench", "export", store, "-o", output)[0] == 0
    frame = pandas.read_parquet(output, dtype_backend="numpy_nullable")
    assert list(frame) == list(COLUMNS)
    assert {
        name: str(kind) for name, kind in frame.dtypes.items() if name in ("peak", "nodes", "valid", "seconds")
    } == {"peak": "Int64", "nodes": "Int64", "valid": "boolean", "seconds": "Float64"}
    for row, expected in zip(frame.to_dict("records"), (FIRST, SECOND), strict=True):
        assert {name: None if pandas.isna(value) else value for name, value in row.items()} == expected
    traces = pandas.read_parquet(tmp_path / "runs-traces.parquet", dtype_backend="numpy_nullable")
    assert traces["duration"].dropna().tolist() == [BIG, BIG, 9]


def test_mzn_bench_finds_its_files_and_keys(store, command, tmp_path):
    output = tmp_path / "out"
    status, told, _ = command("bench", "export", store, "-o", output, "--format", "mzn-bench")
    assert status == 0 and told == f"{output}: 4 files\n"
    assert sorted(str(path.relative_to(output)) for path in output.rglob("*.yml")) == [
        "a_b-once/2_dtr_sol.yml",
        "a_b-once/2_dtr_stats.yml",
        "a_b-seed-3/1_moccasin_cp-sat_gecode_sol.yml",
        "a_b-seed-3/1_moccasin_cp-sat_gecode_stats.yml",
    ]
    solutions = yaml.safe_load((output / "a_b-seed-3/1_moccasin_cp-sat_gecode_sol.yml").read_text())
    statistics = yaml.safe_load((output / "a_b-seed-3/1_moccasin_cp-sat_gecode_stats.yml").read_text())
    for document in (*solutions, statistics):
        assert {"configuration", "problem", "model", "data_file", "status", "time"} <= set(document)
        assert document["data_file"] == 'RL, "G" 1 0.9' and document["configuration"] == "moccasin cp-sat,gecode"
    found = [(one["time"], one["solution"]["objective"]) for one in solutions if "solution" in one]
    assert found == [(1.0, BIG), (2.0, 9)]
    assert (statistics["status"], statistics["time"], statistics["objective"]) == ("OPTIMAL_SOLUTION", 2.5, 9)
    failed = yaml.safe_load((output / "a_b-once/2_dtr_stats.yml").read_text())
    assert (failed["status"], failed["error"], failed["model"]) == ("ERROR", "exit status -9", "dtr")
    assert failed["problem"] == "rematerialization, dtr" and failed["objective"] is None


@pytest.mark.parametrize(("told", "seconds"), [(None, 2.5), (0.0, 0.0), (2.25, 2.25)])
def test_seconds_of_a_run_are_those_it_reported(told, seconds, tmp_path, command):
    row = {**FIRST, "solve_seconds": told}
    assert took(row) == seconds
    with Store.create(tmp_path / "s.sqlite") as made:
        made.add(row, POINTS)
    assert command("bench", "export", tmp_path / "s.sqlite", "--format", "mzn-bench", "-o", tmp_path / "out")[0] == 0
    (solutions,) = (tmp_path / "out").rglob("*_sol.yml")
    assert yaml.safe_load(solutions.read_text())[-1]["time"] == seconds


def test_all_statuses_are_known_to_minizinc():
    assert set(MZN_BENCH_STATUS) == set(STATUSES)
    assert all(Status[name] for name in MZN_BENCH_STATUS.values())


def test_what_cannot_be_written_is_refused_and_nothing_overwritten(store, command, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "x").touch()
    before = store.read_bytes()
    for words, expected in (
        ((store, "-o", full, "--format", "mzn-bench"), "the folder is not empty"),
        ((store, "-o", full, "--format", "csv"), "is a directory"),
        ((store, "-o", tmp_path / "x.txt"), "of which format?"),
        ((store, "-o", tmp_path / "none" / "x.csv"), "there is no folder"),
        ((store, "-o", store, "--format", "csv"), "that is the store"),
        ((tmp_path / "none.sqlite", "-o", tmp_path / "x.csv"), "no such store"),
        ((full / "x", "-o", tmp_path / "x.csv"), "the store is empty"),
    ):
        status, _, errors = command("bench", "export", *words)
        assert status == 2 and expected in errors and errors.count("\n") == 1, errors
    assert store.read_bytes() == before and sorted(path.name for path in tmp_path.iterdir()) == ["full", "s.sqlite"]
