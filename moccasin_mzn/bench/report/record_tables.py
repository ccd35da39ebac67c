"""What went wrong, what does not fit together, and how it was run."""

from __future__ import annotations

import math

import pandas as pd

from moccasin_mzn.bench.report.agreement import Conflict, ScopeCount
from moccasin_mzn.bench.report.document import Cell, Group, Table
from moccasin_mzn.bench.report.runs import FAILURES, NOT_APPLICABLE, Runs
from moccasin_mzn.bench.report.text import amount, bytes_text, list_text, seconds_text

_REASON_CHARACTERS = 160


def failure_table(runs: Runs) -> Table | None:
    """Runs that ended as a failure, alike ones in a row; None if there are none."""
    failed = runs.runs[runs.runs["failed"]]
    rows = []
    for (problem, method, status, reason), group in failed.groupby(
        ["problem", "method", "status", "reason"], sort=True
    ):
        of = runs.problems[problem]
        seeds = list_text(f"{seed:.0f}" for seed in group["seed"].dropna()) if group["seed"].notna().any() else "-"
        saved = int(group["valid"].sum())
        rows.append((
            Cell(of.label), Cell(of.budget), Cell(method), Cell(seeds), Cell(status, alarm=True),
            Cell(str(saved) if saved else "-"), Cell(seconds_text(float(group["seconds"].max()))),
            Cell(_peak_text(group["memory_peak"].max())), Cell(_shortened(reason)),
        ))  # fmt: skip
    if not rows:
        return None
    headings = ("graph", "budget", "method", "seeds", "ended as", "schedules saved", "s", "memory", "reason")
    caption = "Runs that gave no answer of their own. Saved: valid schedules that they had told of before they ended."
    return Table("failures", caption, headings, (Group(tuple(rows)),), left=frozenset({0, 2, 3, 4, 8}))


def unsuited_table(runs: Runs) -> Table | None:
    """Strategies on graphs that they are not for."""
    rows = []
    for method, group in runs.runs[runs.runs["status"] == NOT_APPLICABLE].groupby("method", sort=True):
        labels = dict.fromkeys(runs.problems[problem].label for problem in sorted(group["problem"]))
        rows.append((Cell(method), Cell(list_text(labels)), Cell(_shortened(group["reason"].iloc[0]))))
    if not rows:
        return None
    caption = "Not failures: strategies on graphs that they are not for, with the reason given for the first."
    return Table("unsuited", caption, ("method", "graphs", "reason"), (Group(tuple(rows)),), left=frozenset({0, 1, 2}))


def conflict_table(conflicts: tuple[Conflict, ...]) -> Table | None:
    """Bounds that are refuted by a schedule; None if there are none."""
    rows = []
    for conflict in conflicts:
        bound = "no schedule" if math.isinf(conflict.bound) else amount(conflict.bound)
        of = conflict.problem
        rows.append((
            Cell(of.label), Cell(of.budget), Cell(conflict.prover), Cell(conflict.scope.title), Cell(bound, alarm=True),
            Cell(conflict.finder), Cell(conflict.found_scope.title), Cell(amount(conflict.duration), alarm=True),
        ))  # fmt: skip
    if not rows:
        return None
    headings = ("graph", "budget", "proven by", "for", "least duration", "but found by", "in", "duration")
    return Table("conflicts", "Proofs and schedules that contradict each other: one of them is wrong.", headings,
                 (Group(tuple(rows)),), left=frozenset({0, 2, 3, 5, 6}))  # fmt: skip


def scope_table(counts: tuple[ScopeCount, ...]) -> Table:
    """How much was proven in each scope, and by several methods alike."""
    rows = tuple(
        (Cell(count.scope.title), Cell(str(count.problems)), Cell(str(count.shared)),
         Cell(str(count.agreed), alarm=count.agreed < count.shared))
        for count in counts
    )  # fmt: skip
    headings = ("schedules", "problems with a proof", "by two methods or more", "of those, with the same optimum")
    caption = (
        "Among which schedules optima are proven. Optima are compared only within one row; bounds and schedules "
        "also across rows: staged schedules are also general ones, and also Checkmate's."
    )
    return Table("scopes", caption, headings, (Group(rows),))


def circumstance_table(runs: Runs) -> Table:
    """What each method was: model, solver, driver, limits."""
    rows = []
    for method in runs.methods:
        group = runs.runs[runs.runs["method"] == method]

        def told(column: str, group=group) -> str:
            return ", ".join(sorted({str(value) for value in group[column] if value and str(value) != "nan"})) or "-"

        what = told("strategy") if method not in runs.models else " ".join(
            part for part in map(told, ("formulation", "precedence", "index", "extension")) if part != "-")  # fmt: skip
        rows.append((
            Cell(method), Cell(what), Cell(told("max_computations")), Cell(told("search")), Cell(told("solver")),
            Cell(told("solver_version")), Cell(told("driver")), Cell(_numbers(group["threads"])),
            Cell(_numbers(group["seed"])), Cell(_numbers(group["time_limit"])),
            Cell(", ".join(bytes_text(value) for value in sorted(group["memory_limit"].dropna().unique())) or "-"),
            Cell(str(len(group))),
        ))  # fmt: skip
    headings = ("method", "model or strategy", "C", "search", "solver", "version", "driver", "threads", "seeds",
                "time limit, s", "memory limit", "runs")  # fmt: skip
    caption = (
        "The methods, as they were run. C: most computations of a node. Search: local search and bounds beside the "
        "model."
    )
    return Table("methods", caption, headings, (Group(tuple(rows)),), left=frozenset({0, 1, 3, 4, 5, 6}))


def ending_table(runs: Runs) -> Table:
    """How many runs of each method ended in which way."""
    counts = runs.runs.groupby(["method", "status"]).size().unstack(fill_value=0)
    statuses = list(counts.columns)
    rows = tuple(
        (Cell(method), *(_count_cell(int(counts.loc[method, status]), status) for status in statuses))
        for method in runs.methods
    )  # fmt: skip
    return Table("endings", "How the runs of each method ended.", ("method", *statuses), (Group(rows),))


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
