"""Export of a store for other programs: CSV, Parquet, the layout of MiniZinc's mzn-bench, and scenarios of ASlib."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, require, shown
from moccasin_mzn.base.files import JsonObject, check_writable, replace_file
from moccasin_mzn.bench.columns import COLUMNS, TRACE_COLUMNS, Row, took
from moccasin_mzn.bench.features import STEPS, features
from moccasin_mzn.bench.matrix import instance_within, parsed, unpacked
from moccasin_mzn.bench.store import Store
from moccasin_mzn.problem.files.schedules import USUAL_COUNT
from moccasin_mzn.problem.instance import Instance

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
    """Write runs to `path`, such as "runs.csv", and traces next to it, here "runs-traces.csv".

    Integers stay integers, and missing values are empty.

    Args:
        form: "csv" or "parquet".

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
    """Make a table whose columns, empty ones included, have the types of the store."""
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
    NAME_stats.yml, its end. Times are seconds, the objective is the duration, or what else is minimized.

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
        InputError: the folder is there and not empty, or cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise InputError(f"{folder}: the folder is not empty")
    except OSError as error:
        raise InputError(f"{folder}: cannot make this folder: {error.strerror or error}") from None


def distinct_names(labels: Iterable[str]) -> list[str]:
    """Turn labels into different names that are valid as file names and in ARFF."""
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


def _standard(row: Row, status: str) -> JsonObject:
    model = " ".join(filter(None, (row["formulation"] or row["strategy"], row["extension"])))
    return {
        "problem": f"{row['family'] or 'rematerialization'}, {model}",
        "model": model,
        "data_file": f"{row['graph']} {row['budget']}",
        "configuration": row["method"],
        "status": status,
    }


def _solutions(row: Row, trace: list[Row]) -> Iterator[JsonObject]:
    """Yield a document for each schedule; mzn-bench reads the objective of each."""
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


def _statistics(row: Row) -> JsonObject:
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


def _either(row: Row, name: str, old_name: str) -> object:
    """Return a value that rows of old stores have under another name."""
    return row[old_name] if row[name] is None else row[name]


# --- ASlib ----------------------------------------------------------------------------------------------------

# ASlib is the library of algorithm selection (Bischl et al., Artificial Intelligence, 2016). Instances are graphs in
# budgets, algorithms are methods, repetitions are seeds. Performance is the seconds to a proof, of an optimum or that
# there is no schedule, censored at the time limit: a method that proves nothing, such as a strategy, has always timed
# out. Features are those of `features`, for the input order.


RUN_STATUS = {
    "optimal": "ok", "infeasible": "ok", "feasible": "timeout", "unknown": "timeout", "over-budget": "timeout",
    "not-applicable": "not_applicable", "error": "crash", "out-of-memory": "memout", "out-of-time": "timeout",
    "crashed": "crash",
}  # fmt: skip
NOT_RUN = "other"
"""The run status of a method on an instance on which it was not run."""
FOLDS = 10
_README = """\
Made by: moccasin-mzn bench export STORE --format aslib

Instances are computation graphs within memory budgets, to be scheduled in the least time with recomputation of
tensors. Algorithms are methods of the experiment {experiment}. PAR10 is the seconds to a proof of the optimum, or that
there is no schedule within the budget, at most the time limit; the run status is ok if there is such a proof.
A method that was not run on an instance has the status "{not_run}" there.

Features (seconds of their computation are in feature_costs.arff):
{features}
"""


def export_aslib(store: Store, folder: Path, experiment: str | None = None) -> list[Path]:
    """Write a scenario of one experiment's runs into a new folder.

    Args:
        experiment: its name; None: the only one in the store.

    Raises:
        InputError: there are several experiments, or none of this name; the experiment has no runs of schedules for one
            memory; graphs are missing in the store; the folder is not empty, or cannot be written.
    """
    scenario = _Scenario(_runs_of(store.rows(), experiment, store.path), store.graphs(), store.path)
    texts = scenario.files()
    empty_folder(folder)
    for name, text in texts.items():
        replace_file(folder / name, text)
    return [folder / name for name in texts]


def _runs_of(rows: Sequence[Row], experiment: str | None, path: Path) -> list[Row]:
    names = list(dict.fromkeys(row["experiment"] for row in rows))
    if experiment is None and len(names) > 1:
        raise InputError(f"{path}: of which experiment? give --experiment, one of {', '.join(map(shown, names))}")
    if experiment is not None and experiment not in names:
        raise InputError(f"{path}: there is no experiment {shown(experiment)}")
    name = experiment or names[0] if names else None
    found = [row for row in rows if row["experiment"] == name and row["budget_amount"] is not None
             and not row["extension"]]  # fmt: skip
    if not found:
        raise InputError(f"{path}: there are no runs of schedules for one memory")
    return found


@dataclass(frozen=True)
class _Scenario:
    rows: Sequence[Row]
    graphs: Mapping[str, bytes]
    path: Path

    @cached_property
    def names(self) -> dict[tuple[str, int], str]:
        """The id of each instance, by digest of the graph and budget."""
        first = {(row["graph_digest"], row["budget_amount"]): f"{row['graph']} {row['budget']}" for row in self.rows}
        return dict(zip(first, distinct_names(first.values()), strict=True))

    @cached_property
    def methods(self) -> dict[str, str]:
        """The id of each method, by label."""
        labels = dict.fromkeys(row["method"] for row in self.rows)
        return dict(zip(labels, distinct_names(labels), strict=True))

    @property
    def cutoff(self) -> float:
        """The shortest time limit, in seconds; longer runs are censored."""
        return min(row["time_limit"] for row in self.rows)

    def files(self) -> dict[str, str]:
        """Return the texts of all files, by name."""
        require("bench", "yaml")
        import yaml

        found = {key: features(self._instance(*key)) for key in self.names}
        values = [[self.names[key], 1, *values.values()] for key, (values, _) in found.items()]
        costs = [[self.names[key], 1, *seconds.values()] for key, (_, seconds) in found.items()]
        statuses = [[name, 1, *["ok"] * len(STEPS)] for name in self.names.values()]
        algorithm = {"algorithm": "STRING", "PAR10": "NUMERIC",
                     "runstatus": "{ok, timeout, memout, not_applicable, crash, other}"}  # fmt: skip
        of = dict.fromkeys(STEPS, "{ok, timeout, memout, presolved, crash, other}")
        numbers = dict.fromkeys((one.name for those in STEPS.values() for one in those), "NUMERIC")
        meanings = "".join(f"  {one.name}: {one.meaning}\n" for those in STEPS.values() for one in those)
        experiment = self.rows[0]["experiment"]
        return {
            "description.txt": yaml.safe_dump(self._description(), sort_keys=False, allow_unicode=True),
            "algorithm_runs.arff": self._arff("ALGORITHM_RUNS", algorithm, self._runs()),
            "feature_values.arff": self._arff("FEATURE_VALUES", numbers, values),
            "feature_runstatus.arff": self._arff("FEATURE_RUNSTATUS", of, statuses),
            "feature_costs.arff": self._arff("FEATURE_COSTS", dict.fromkeys(STEPS, "NUMERIC"), costs),
            "cv.arff": self._arff("CV", {"fold": "NUMERIC"}, self._folds()),
            "readme.txt": _README.format(experiment=experiment, not_run=NOT_RUN, features=meanings.rstrip("\n")),
        }

    def _instance(self, digest: str, budget: int) -> Instance:
        if digest not in self.graphs:
            label = next(row["graph"] for row in self.rows if row["graph_digest"] == digest)
            raise InputError(
                f"{self.path}: graph {label} is not in this older store; bench run of its experiment adds it"
            )
        same = {row["max_computations"] for row in self.rows} - {None}
        (most,) = same if len(same) == 1 else (str(USUAL_COUNT),)
        return instance_within(parsed(unpacked(self.graphs[digest])), budget, most)

    def _description(self) -> JsonObject:
        names = [feature.name for those in STEPS.values() for feature in those]
        seeded = {row["method"] for row in self.rows if row["seed"] is not None}
        limits = {row["memory_limit"] for row in self.rows} - {None}
        return {
            "scenario_id": self._relation,
            "performance_measures": ["PAR10"],
            "maximize": [False],
            "performance_type": ["runtime"],
            "algorithm_cutoff_time": self.cutoff,
            "algorithm_cutoff_memory": min(limits) // 2**20 if limits else "?",
            "features_cutoff_time": "?",
            "features_cutoff_memory": "?",
            "number_of_feature_steps": len(STEPS),
            "feature_steps": {step: {"provides": [one.name for one in those]} for step, those in STEPS.items()},
            "default_steps": list(STEPS),
            "features_deterministic": names,
            "features_stochastic": None,
            "metainfo_algorithms": {
                name: {"configuration": "", "deterministic": label not in seeded}
                for label, name in self.methods.items()
            },
        }  # fmt: skip

    @property
    def _relation(self) -> str:
        (name,) = distinct_names([self.rows[0]["experiment"]])
        return name

    def _runs(self) -> list[list[object]]:
        """Return the lines of algorithm_runs.arff: every method on every instance, at least once."""
        seeds = sorted({row["seed"] for row in self.rows} - {None})
        found: dict[tuple[tuple[str, int], str, int], list[object]] = {}
        for row in self.rows:
            seconds, status = took(row), RUN_STATUS[row["status"]]
            status = "timeout" if status == "ok" and seconds > self.cutoff else status
            turn = 1 if row["seed"] is None else seeds.index(row["seed"]) + 1
            place = (row["graph_digest"], row["budget_amount"]), row["method"], turn
            found[place] = [max(seconds, 0.001) if status == "ok" else self.cutoff, status]
        done = {place[:2] for place in found}
        others = ((key, method) for key in self.names for method in self.methods)
        found |= {(*pair, 1): [self.cutoff, NOT_RUN] for pair in others if pair not in done}
        lines = sorted(found.items(), key=lambda one: (self.names[one[0][0]], self.methods[one[0][1]], one[0][2]))
        return [[self.names[key], turn, self.methods[method], *result] for (key, method, turn), result in lines]

    def _folds(self) -> list[list[object]]:
        """Return the lines of cv.arff; all budgets of a graph are in one fold, as they are not independent."""
        digests = sorted({digest for digest, _ in self.names}, key=lambda one: hashlib.sha256(one.encode()).digest())
        fold = {digest: place % FOLDS + 1 for place, digest in enumerate(digests)}
        return [[name, 1, fold[digest]] for (digest, _), name in self.names.items()]

    def _arff(self, relation: str, attributes: Mapping[str, str], lines: Iterable[Sequence[object]]) -> str:
        every = {"instance_id": "STRING", "repetition": "NUMERIC", **attributes}
        declared = "".join(f"@ATTRIBUTE {name} {kind}\n" for name, kind in every.items())
        data = "".join(",".join(map(str, line)) + "\n" for line in lines)
        return f"@RELATION {relation}_{self._relation}\n\n{declared}\n@DATA\n{data}"
