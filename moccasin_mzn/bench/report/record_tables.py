"""What went wrong, what does not fit together, and how it was run."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from moccasin_mzn.bench.report.agreement import Conflict, ScopeCount
from moccasin_mzn.bench.report.document import Cell, Row, Table
from moccasin_mzn.bench.report.runs import FAILURES, NOT_APPLICABLE, Runs
from moccasin_mzn.bench.report.text import amount, bytes_text, list_text, seconds_text

_REASON_CHARACTERS = 160


def failure_table(runs: Runs) -> Table | None:
    """Runs that ended as a failure, alike ones in a row; None if there are none."""
    failed = runs.runs[runs.runs["failed"]]
    rows: list[Row] = []
    for (problem, method, status, reason), group in failed.groupby(
        ["problem", "method", "status", "reason"], sort=True
    ):
        of = runs.problems[problem]
        seeds = list_text(f"{seed:.0f}" for seed in group["seed"].dropna()) if group["seed"].notna().any() else "-"
        saved = int(group["valid"].sum())
        rows.append({
            "graph": of.label, "budget": Cell(of.budget), "method": method, "seeds": seeds,
            "ended as": Cell(status, alarm=True, left=True), "schedules saved": Cell(str(saved) if saved else "-"),
            "s": Cell(seconds_text(float(group["seconds"].max()))),
            "memory": Cell(_peak_text(group["memory_peak"].max())), "reason": _shortened(reason),
        })  # fmt: skip
    caption = "Runs that gave no answer of their own. Saved: valid schedules that they had told of before they ended."
    return Table.of("failures", caption, rows) if rows else None


def unsuited_table(runs: Runs) -> Table | None:
    """Strategies on graphs that they are not for."""
    rows: list[Row] = []
    for method, group in runs.runs[runs.runs["status"] == NOT_APPLICABLE].groupby("method", sort=True):
        labels = dict.fromkeys(runs.problems[problem].label for problem in sorted(group["problem"]))
        rows.append({"method": method, "graphs": list_text(labels), "reason": _shortened(group["reason"].iloc[0])})
    caption = "Not failures: strategies on graphs that they are not for, with the reason given for the first."
    return Table.of("unsuited", caption, rows) if rows else None


def conflict_table(conflicts: tuple[Conflict, ...]) -> Table | None:
    """Bounds that are refuted by a schedule; None if there are none."""
    rows: list[Row] = []
    for conflict in conflicts:
        bound = "no schedule" if math.isinf(conflict.bound) else amount(conflict.bound)
        of = conflict.problem
        rows.append({
            "graph": of.label, "budget": Cell(of.budget), "proven by": conflict.prover, "for": conflict.scope.title,
            "least duration": Cell(bound, alarm=True), "but found by": conflict.finder,
            "in": conflict.found_scope.title, "duration": Cell(amount(conflict.duration), alarm=True),
        })  # fmt: skip
    caption = "Proofs and schedules that contradict each other: one of them is wrong."
    return Table.of("conflicts", caption, rows) if rows else None


def scope_table(counts: tuple[ScopeCount, ...]) -> Table:
    """How much was proven in each scope, and by several methods alike."""
    rows: list[Row] = [
        {
            "schedules": count.scope.title,
            "problems with a proof": Cell(str(count.problems)),
            "by two methods or more": Cell(str(count.shared)),
            "of those, with the same optimum": Cell(str(count.agreed), alarm=count.agreed < count.shared),
        }
        for count in counts
    ]
    caption = (
        "Among which schedules optima are proven. Optima are compared only within one row; bounds and schedules "
        "also across rows: staged schedules are also general ones, and also Checkmate's."
    )
    return Table.of("scopes", caption, rows)


def circumstance_table(runs: Runs) -> Table:
    """What each method was: model, solver, driver, limits."""
    rows: list[Row] = []
    for method in runs.methods:
        group = runs.runs[runs.runs["method"] == method]

        def told(column: str, group: Any = group) -> str:
            return ", ".join(sorted({str(value) for value in group[column] if value and str(value) != "nan"})) or "-"

        what = told("strategy") if method not in runs.models else " ".join(
            part for part in map(told, ("formulation", "precedence", "index", "extension")) if part != "-")  # fmt: skip
        limits = [bytes_text(value) for value in sorted(group["memory_limit"].dropna().unique())]
        rows.append({
            "method": method, "model or strategy": what, "C": Cell(told("max_computations")), "search": told("search"),
            "solver": told("solver"), "version": told("solver_version"), "driver": told("driver"),
            "threads": Cell(_numbers(group["threads"])), "seeds": Cell(_numbers(group["seed"])),
            "time limit, s": Cell(_numbers(group["time_limit"])), "memory limit": Cell(", ".join(limits) or "-"),
            "runs": Cell(str(len(group))),
        })  # fmt: skip
    caption = (
        "The methods, as they were run. C: most computations of a node. Search: local search and bounds beside the "
        "model."
    )
    return Table.of("methods", caption, rows)


def ending_table(runs: Runs) -> Table:
    """How many runs of each method ended in which way."""
    counts = runs.runs.groupby(["method", "status"]).size().unstack(fill_value=0)
    rows: list[Row] = [
        {
            "method": method,
            **{str(status): _count_cell(int(count), str(status)) for status, count in counts.loc[method].items()},
        }
        for method in runs.methods
    ]
    return Table.of("endings", "How the runs of each method ended.", rows)


def _count_cell(count: int, status: str) -> Cell:
    return Cell(str(count), quiet=not count, alarm=count > 0 and status in FAILURES)


def _numbers(values: pd.Series) -> str:
    known = sorted(values.dropna().unique())
    if len(known) > 6:
        return f"{len(known)} from {known[0]:g} to {known[-1]:g}"
    return ", ".join(f"{value:g}" for value in known) or "-"


def _peak_text(value: float) -> str:
    return "-" if math.isnan(value) else bytes_text(value)


def _shortened(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= _REASON_CHARACTERS else text[: _REASON_CHARACTERS - 4] + " ..."
