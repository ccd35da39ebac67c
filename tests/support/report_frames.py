"""Frames as a store has them, from a few words about each run; and stores of real runs."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pandas as pd

from moccasin_mzn.bench.columns import COLUMNS, TRACE_COLUMNS, TRACE_VALUES, empty_row
from moccasin_mzn.bench.report.runs import Runs, read_runs
from moccasin_mzn.bench.store import Store
from moccasin_mzn.cli.main import run

LIMIT = 10.0
AWKWARD = 'A_1 & "50%" <b>|x*'
"""The label of a graph that means something to HTML, Markdown and LaTeX."""


def row(method="m", graph="g", budget="0.9", seed=1, status="optimal", seconds=1.0, duration=110, **more):
    """A run of a staged model on a graph of 10 nodes whose baseline takes 100; `duration` None: without a schedule."""
    values = empty_row() | {
        "key": f"{method}/{graph}/{budget}/{seed}", "experiment": "e", "graph": graph, "graph_digest": f"of {graph}",
        "family": "f", "nodes": 10, "edges": 12, "budget": budget, "budget_amount": 90, "baseline_peak": 100,
        "baseline_duration": 100, "method": method, "formulation": "staged", "max_computations": "2", "seed": seed,
        "threads": 1, "time_limit": LIMIT, "memory_limit": 2**30, "command": "g.json", "status": status,
        "reason": "why", "valid": duration is not None, "duration": duration, "seconds": seconds,
        "peak": 80 if duration is not None else None, "solve_seconds": seconds, "version": "1",
        "machine": "a machine", "solver": "cp-sat",
    }  # fmt: skip
    if duration is not None:
        values |= {"duration_bound": duration if status == "optimal" else 100, "tdi_percent": float(duration - 100)}
        values["gap_percent"] = 100 * (1 - values["duration_bound"] / duration) if duration else 0.0
    return values | more


def frames(rows, traces=None):
    """The two frames; `traces` by key: (seconds, duration, bound) of each improvement."""
    points = [
        (key, position, *point, "cp-sat")
        for key, trace in (traces or {}).items() for position, point in enumerate(trace)
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS)), pd.DataFrame(points, columns=list(TRACE_COLUMNS))


def runs_of(rows, traces=None) -> Runs:
    """The runs of the only experiment."""
    return read_runs(*frames(rows, traces))


METHODS = {
    "moccasin": ["--formulation", "staged", "--threads", "1"],
    "gecode": ["--solver", "gecode", "--search", "off"],
    "keep-all": ["--strategy", "keep-all"],
    "dtr": ["--strategy", "dtr"],
}


def real_store(folder: Path) -> Path:
    """A store of real runs on two small graphs, one of them twice the size of the other, and of some that failed."""
    path = folder / "real.sqlite"
    graphs = {"chain 6": ["chain", "-n", "6"], AWKWARD: ["layered", "-n", "20", "--seed", "7"]}
    with Store.create(path) as store:
        for label, words in graphs.items():
            graph = folder / f"{words[0]}.json"
            _printed(["generate", *words, "--output", str(graph)])
            for budget in ("0.9", "0.8") if label == AWKWARD else ("0.9",):
                for method, options in METHODS.items():
                    for seed in (1, 2) if method == "moccasin" else (1,):
                        _add(store, label, budget, method, seed, [str(graph), "--budget", budget, *options])
        lost = {"graph": "chain 6", "graph_digest": "digest of chain 6", "duration": None, "experiment": "real",
                "nodes": None, "edges": None, "budget_amount": None, "baseline_duration": None}  # fmt: skip
        store.add(row("checkmate", status="out-of-memory", formulation="checkmate-milp", reason="over 1 GiB", **lost))
        store.add(
            row("griewank", status="not-applicable", strategy="griewank", formulation=None, reason="no chain", **lost)
        )
    return path


def _add(store: Store, label: str, budget: str, method: str, seed: int, arguments: list[str]) -> None:
    seeded = [] if "--strategy" in arguments else ["--seed", str(seed)]
    result = json.loads(_printed(["solve", *arguments, *seeded, "--time-limit", "20", "--json"]))
    own = {"seconds", "driver", "graph", "budget", "max_computations", "solver_version", "version"}
    copied = set(COLUMNS) & set(result) - own
    values = row(method, label, budget, seed) | {name: result[name] for name in copied}
    values |= {
        "experiment": "real", "graph_digest": f"digest of {label}", "budget_amount": result["budget"],
        "max_computations": str(result["max_computations"]), "seconds": result["seconds"]["total"] + 0.5,
        "solve_seconds": result["seconds"]["total"], "command": " ".join(arguments[1:]),
    }  # fmt: skip
    points = [dict(zip(TRACE_VALUES, point, strict=True)) for point in result["trace"]]
    store.add(values, points)


def _printed(arguments: list[str]) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        run(arguments)
    return out.getvalue()
