"""Agreement of all proofs and schedules, and records of how runs were made and ended.

A bound claims that no schedule in a scope is shorter; a proof of optimality is a bound equal to its duration, a proof
that there is no schedule an infinite one. A schedule found in the same scope, or in one that is part of it, must not be
shorter. Scopes: `staged` with C computations is part of `staged` and of `general` with as many or more; all of `staged`
is part of Checkmate's models, which compute in the stages of the same order without a limit. Runs with several memories
or with addresses are only compared with runs with the same options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Row, Table, amount, bytes_text, list_text, seconds_text
from moccasin_mzn.bench.report.runs import FAILURES, NOT_APPLICABLE, ReportedProblem, Runs, option_of
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.problem.instance import FREE

_FORMS = {form.name: form for form in FORMULATIONS}


@dataclass(frozen=True, order=True)
class Scope:
    """The set of schedules in which a run searches and for which its proofs are valid."""

    formulation: str
    """"staged", "general" or "checkmate"."""
    computations: str
    """The most computations of a node, as given; empty: no limit."""
    order: str
    """The order of first computations; empty: it is open."""
    extension: str = ""
    """Options for several memories, addresses, in place, parts and concatenations."""

    @property
    def title(self) -> str:
        """The scope in a few words."""
        limit = f", C = {self.computations}" if self.computations else ""
        order = f", order {self.order}" if self.order not in ("", "input") else ""
        extension = f", {self.extension}" if self.extension else ""
        return f"{self.formulation}{limit}{order}{extension}"

    def includes(self, other: Scope) -> bool:
        """True if every schedule of `other` is one of this scope."""
        if other.extension != self.extension:
            return False
        if other.formulation != self.formulation and (other.formulation != "staged" or self.formulation == "staged"):
            return False
        if self.order and self.order != other.order:
            return False
        return not self.computations or _at_most(other.computations, self.computations)


@dataclass(frozen=True)
class Conflict:
    """A bound, and a schedule that is shorter."""

    problem: ReportedProblem
    prover: str
    scope: Scope
    bound: float
    """The bound; infinite: proven that there is no schedule."""
    finder: str
    found_scope: Scope
    duration: float


@dataclass(frozen=True)
class ScopeCount:
    """The numbers of proofs in a scope."""

    scope: Scope
    problems: int
    """The number of problems with a proof."""
    shared: int
    """The number of problems with proofs by two methods or more."""
    agreed: int
    """The number of these with the same optimum by all methods."""


def scope_of(run: pd.Series) -> Scope | None:
    """Return the scope of a run; None for a strategy, whose proofs are about no formulation."""
    formulation = run["formulation"]
    if not formulation or run["strategy"]:
        return None
    order = option_of(run["command"], "--order") or "input"
    form = _FORMS.get(formulation)
    if "--tile" in run["extension"] and form is not None and not option_of(run["command"], "--model"):
        order = FREE  # parts are computed in any order, but by a model of one's own
    if form is not None and not form.limited:
        return Scope("checkmate", "", order, run["extension"])
    if order == FREE or form is not None:
        formulation = "staged" if form is not None and form.staged and order != FREE else "general"
    order = "" if formulation == "general" else order
    return Scope(formulation, run["max_computations"] or "2", order, run["extension"])


def conflicts(runs: Runs) -> tuple[Conflict, ...]:
    """Find all bounds that a schedule of the same problem refutes, each pair of methods and scopes once."""
    found: dict[tuple[object, ...], Conflict] = {}
    for problem, group in runs.runs.groupby("problem", sort=True):
        scoped = [(run["method"], scope, run) for _, run in group.iterrows() if (scope := scope_of(run)) is not None]
        for prover, scope, run in scoped:
            bound = _bound(run)
            for finder, inner, other in scoped:
                if other["valid"] and other["value"] < bound and scope.includes(inner):
                    pair = Conflict(runs.problems[problem], prover, scope, bound, finder, inner, other["value"])
                    found.setdefault((problem, prover, scope, finder, inner), pair)
    return tuple(found.values())


def proofs(runs: Runs) -> pd.DataFrame:
    """Return the optima that are proven: a row for each run with columns problem, method, scope and optimum."""
    rows = [
        (int(run["problem"]), run["method"], scope, _bound(run))
        for _, run in runs.runs[runs.runs["proven"]].iterrows()
        if (scope := scope_of(run)) is not None and (run["status"] == "infeasible" or run["valid"])
    ]
    return pd.DataFrame(rows, columns=["problem", "method", "scope", "optimum"])


def scope_counts(runs: Runs) -> tuple[ScopeCount, ...]:
    """Count the proofs in each scope, and on how many problems several methods have one."""
    counts = []
    for scope, proven in proofs(runs).groupby("scope"):
        distinct = proven.groupby("problem").nunique()
        shared = distinct[distinct["method"] > 1]
        counts.append(ScopeCount(scope, len(distinct), len(shared), int((shared["optimum"] == 1).sum())))
    return tuple(counts)


def shared_problems(runs: Runs) -> int:
    """Count the problems on which two methods or more have a proof in the same scope."""
    provers = proofs(runs).groupby(["problem", "scope"])["method"].nunique()
    return provers[provers > 1].index.unique("problem").size


def _at_most(given: str, limit: str) -> bool:
    """True if a limit on computations is certainly no more than `limit`."""
    return given == limit or (given.isdigit() and limit.isdigit() and int(given) <= int(limit))


def _bound(run: pd.Series) -> float:
    """Return the bound that a run has proven in its scope, on durations or what else is minimized."""
    if run["status"] == "infeasible":
        return math.inf
    known = -math.inf if math.isnan(run["bound"]) else float(run["bound"])
    return max(known, float(run["value"])) if run["status"] == "optimal" and run["valid"] else known


# --- The tables of the report ---------------------------------------------------------------------------------


_REASON_CHARACTERS = 160


def failure_table(runs: Runs) -> Table | None:
    """Make a row for failed runs with the same problem, method, status and reason; None if no run failed."""
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
            "total time (s)": Cell(seconds_text(float(group["seconds"].max()))),
            "memory": Cell(_peak_text(group["memory_peak"].max())), "reason": _shortened(reason),
        })  # fmt: skip
    caption = "Runs that failed. Saved: valid schedules that they had reported before they ended."
    return Table.of("failures", caption, rows) if rows else None


def unsuited_table(runs: Runs) -> Table | None:
    """Make a row for each strategy on graphs that it is not for; None if there are none."""
    rows: list[Row] = []
    for method, group in runs.runs[runs.runs["status"] == NOT_APPLICABLE].groupby("method", sort=True):
        labels = dict.fromkeys(runs.problems[problem].label for problem in sorted(group["problem"]))
        rows.append({"method": method, "graphs": list_text(labels), "reason": _shortened(group["reason"].iloc[0])})
    caption = "Not failures: strategies on graphs that they are not for, with the reason given for the first."
    return Table.of("unsuited", caption, rows) if rows else None


def conflict_table(conflicts: tuple[Conflict, ...]) -> Table | None:
    """Make a row for each bound that a schedule refutes; None if there are none."""
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
    """Make a row for each scope: how much was proven there, and on how much several methods agree."""
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
        "The sets of schedules for which optima are proven. Optima are compared only within one row; bounds and "
        "schedules also across rows: staged schedules are also general ones, and also Checkmate's."
    )
    return Table.of("scopes", caption, rows)


def circumstance_table(runs: Runs) -> Table:
    """Make a row for each method: its model, solver, driver and limits."""
    rows: list[Row] = []
    for method in runs.methods:
        group = runs.runs[runs.runs["method"] == method]

        def text(column: str, group: pd.DataFrame = group) -> str:
            return ", ".join(sorted({str(value) for value in group[column] if value and str(value) != "nan"})) or "-"

        what = text("strategy") if method not in runs.models else " ".join(
            part for part in map(text, ("formulation", "precedence", "index", "extension")) if part != "-")  # fmt: skip
        limits = [bytes_text(value) for value in sorted(group["memory_limit"].dropna().unique())]
        rows.append({
            "method": method, "model or strategy": what, "C": Cell(text("max_computations")), "search": text("search"),
            "solver": text("solver"), "version": text("solver_version"), "driver": text("driver"),
            "threads": Cell(_numbers(group["threads"])), "seeds": Cell(_numbers(group["seed"])),
            "time limit, s": Cell(_numbers(group["time_limit"])), "memory limit": Cell(", ".join(limits) or "-"),
            "runs": Cell(str(len(group))),
        })  # fmt: skip
    caption = (
        "The methods, as they were run. C: most computations of a node. Search: local search and bounds in parallel "
        "with the model."
    )
    return Table.of("methods", caption, rows)


def ending_table(runs: Runs) -> Table:
    """Make a row for each method: how many of its runs ended with which status."""
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
