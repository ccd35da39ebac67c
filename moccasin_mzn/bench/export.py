"""A store as files that other programs read: CSV, Parquet, and the layout of MiniZinc's mzn-bench."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moccasin_mzn.bench.rows import COLUMNS, TRACE_COLUMNS, Row, took
from moccasin_mzn.bench.store import Store
from moccasin_mzn.errors import InputError, require
from moccasin_mzn.files import check_writable, replace_file

if TYPE_CHECKING:
    import pandas

_DTYPES = {str: "string", int: "Int64", float: "Float64", bool: "boolean"}
MZN_BENCH_STATUS = {
    "optimal": "OPTIMAL_SOLUTION",
    "feasible": "SATISFIED",
    "infeasible": "UNSATISFIABLE",
    "unknown": "UNKNOWN",
    "over-budget": "UNKNOWN",
    "not-applicable": "ERROR",
    "error": "ERROR",
    "out-of-memory": "ERROR",
    "out-of-time": "UNKNOWN",
    "crashed": "ERROR",
}
"""mzn-bench knows the statuses of the Python package minizinc; a killed run that has a schedule is SATISFIED."""


def export_tables(store: Store, path: Path, form: str) -> list[Path]:
    """Write runs to `path`, "runs.csv", say, and traces beside it, to "runs-traces.csv"; `form` is "csv" or "parquet".

    Integers are integers, and nothing stands where nothing is.

    Raises:
        InputError: a file cannot be written; a package is missing.
    """
    traces = path.with_name(f"{path.stem}-traces{path.suffix}")
    for each in (path, traces):
        check_writable(each)
        if each.exists() and os.path.samefile(each, store.path):
            raise InputError(f"{each}: that is the store")
    for each, rows, columns in ((path, store.rows(), COLUMNS), (traces, store.trace_rows(), TRACE_COLUMNS)):
        frame = _exact(rows, columns)
        replace_file(each, frame.to_csv(index=False, lineterminator="\n") if form == "csv" else _parquet(frame))
    return [path, traces]


def _exact(rows: list[Row], columns: Mapping[str, type]) -> pandas.DataFrame:
    """A table whose types are those of the store, for every column, also an empty one."""
    require("bench", "pandas")
    import pandas

    return pandas.DataFrame(
        {name: pandas.Series([row[name] for row in rows], dtype=_DTYPES[form]) for name, form in columns.items()}
    )


def _parquet(frame: pandas.DataFrame) -> bytes:
    require("bench", "pyarrow")
    return frame.to_parquet(index=False, engine="pyarrow")


def export_mzn_bench(store: Store, folder: Path) -> list[Path]:
    """Write the two files of each run that mzn-bench collects: NAME_sol.yml, its schedules in order of time, and
    NAME_stats.yml, its end. Times are seconds, the objective is the duration, or what else is to be least.

    The files have mzn-bench's keys: problem (the graph's family and the model), model (the formulation or strategy),
    data_file (the graph and the budget), configuration (the method), status, time. As it compares configurations of
    one model only, what different formulations prove never meets; the problem has the model's name because all models
    of a problem are taken to have all its data. Each seed of an experiment has a folder of its own within, which
    mzn-bench calls a run; strategies, which have no seed, are in EXPERIMENT-once. ::

        mzn-bench collect-statistics FOLDER/* statistics.csv
        mzn-bench collect-objectives FOLDER/* objectives.csv

    Raises:
        InputError: the folder is there and not empty, or cannot be written; a package is missing.
    """
    require("bench", "yaml")
    import yaml

    empty_folder(folder)
    traces = {key: list(points) for key, points in groupby(store.trace_rows(), key=lambda point: point["key"])}
    written = []
    for number, row in enumerate(store.rows(), start=1):
        name = f"{number}_{_plain(row['method'])}"
        files = {"sol": list(_solutions(row, traces.get(row["key"], []))), "stats": _statistics(row)}
        for kind, content in files.items():
            path = folder / _run_name(row) / f"{name}_{kind}.yml"
            path.parent.mkdir(exist_ok=True)
            replace_file(path, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
            written.append(path)
    return written


def empty_folder(folder: Path) -> None:
    """Make a folder.

    Raises:
        InputError: it is there and not empty, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: the folder is not empty")
    except OSError as error:
        raise InputError(f"{folder}: cannot make this folder: {error.strerror or error}") from None


def distinct_names(labels: Iterable[str]) -> list[str]:
    """Labels as names of files, which every reader of ARFF takes too, each another."""
    found: list[str] = []
    for label in labels:
        name = _plain(label).strip("_") or "_"
        found.append(
            next(one for one in (name, *(f"{name}_{k}" for k in range(2, len(found) + 3))) if one not in found)
        )
    return found


def _plain(label: str | None) -> str:
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", label or "none")


def _run_name(row: Row) -> str:
    return f"{_plain(row['experiment'])}-" + ("once" if row["seed"] is None else f"seed-{row['seed']}")


def _standard(row: Row, status: str) -> dict[str, Any]:
    model = " ".join(filter(None, (row["formulation"] or row["strategy"], row["extension"])))
    return {
        "problem": f"{row['family'] or 'rematerialization'}, {model}",
        "model": model,
        "data_file": f"{row['graph']} {row['budget']}",
        "configuration": row["method"],
        "status": status,
    }


def _solutions(row: Row, trace: list[Row]) -> Iterator[dict[str, Any]]:
    """A document for each schedule; mzn-bench reads the objective of each."""
    points = [point for at, point in enumerate(trace) if point["duration"] is not None
              and (at == 0 or trace[at - 1]["duration"] != point["duration"])]  # fmt: skip
    for point in points:
        solution = {"objective": point["duration"]}
        yield {**_standard(row, "SATISFIED"), "time": point["seconds"], "solution": solution}
    status = _status(row)
    if status != "SATISFIED":
        yield {**_standard(row, status), "time": took(row)}


def _status(row: Row) -> str:
    status = MZN_BENCH_STATUS[row["status"]]
    return "SATISFIED" if row["valid"] and status in ("UNKNOWN", "ERROR") else status


def _statistics(row: Row) -> dict[str, Any]:
    found = {
        **_standard(row, _status(row)),
        "time": row["seconds"],
        "flatTime": None,  # not known; mzn-bench's plots want the column
        "method": "minimize",
        "objective": _either(row, "value", "duration") if row["valid"] else None,
        "objectiveBound": _either(row, "bound", "duration_bound"),
        "solveTime": row["solve_seconds"],
        "random_seed": row["seed"],
        "threads": row["threads"],
        "solver": row["solver"],
        "error": row["reason"] if _status(row) == "ERROR" else None,
    }
    return {name: value for name, value in found.items() if value is not None or name in ("objective", "flatTime")}


def _either(row: Row, name: str, of_old: str) -> Any:
    """A value that rows of old stores have under another name."""
    return row[of_old] if row[name] is None else row[name]
