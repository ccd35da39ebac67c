"""Do all that is proven and all that is found fit together?

A bound says that no schedule in a scope is shorter; a proof of optimality is a bound equal to its duration, a proof
that there is no schedule an infinite one. A schedule found in the same scope, or in one that is part of it, must not be
shorter. Scopes: `staged` with C computations is part of `staged` and of `general` with as many or more; all of `staged`
is part of Checkmate's models, which compute in the stages of the same order without a limit. What was asked for with
several memories or with addresses is only compared with the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Row, Table, amount, bytes_text, list_text, seconds_text
from moccasin_mzn.bench.report.runs import FAILURES, NOT_APPLICABLE, Problem, Runs, option_of
from moccasin_mzn.formulations import FORMULATIONS
from moccasin_mzn.problem.instance import FREE

_FORMS = {form.name: form for form in FORMULATIONS}


@dataclass(frozen=True, order=True)
class Scope:
    """Among which schedules a run seeks and proves."""

    formulation: str
    """"staged", "general" or "checkmate"."""
    computations: str
    """Most computations of a node, as given; empty: no limit."""
    order: str
    """Of first computations; empty: it is open."""
    extension: str = ""
    """Options for several memories and for addresses."""

    @property
    def title(self) -> str:
        """In a few words."""
        limit = f", C = {self.computations}" if self.computations else ""
        order = f", order {self.order}" if self.order not in ("", "input") else ""
        extension = f", {self.extension}" if self.extension else ""
        return f"{self.formulation}{limit}{order}{extension}"

    def holds(self, other: Scope) -> bool:
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

    problem: Problem
    prover: str
    scope: Scope
    bound: float
    """Infinite: proven that there is no schedule."""
    finder: str
    found_scope: Scope
    duration: float


@dataclass(frozen=True)
class ScopeCount:
    """What was proven in a scope."""

    scope: Scope
    problems: int
    """With a proof."""
    shared: int
    """With proofs by two methods or more."""
    agreed: int
    """Of those, with the same optimum by all."""


def scope_of(run: pd.Series) -> Scope | None:
    """None for a strategy, whose proofs are about no formulation."""
    formulation = run["formulation"]
    if not formulation or run["strategy"]:
        return None
    order = option_of(run["command"], "--order") or "input"
    form = _FORMS.get(formulation)
    if form is not None and not form.limited:
        return Scope("checkmate", "", order, run["extension"])
    if order == FREE or form is not None:
        formulation = "staged" if form is not None and form.staged and order != FREE else "general"
    order = "" if formulation == "general" else order
    return Scope(formulation, run["max_computations"] or "2", order, run["extension"])


def conflicts(runs: Runs) -> tuple[Conflict, ...]:
    """All bounds that a schedule of the same problem refutes, each pair of methods and scopes once."""
    found: dict[tuple[object, ...], Conflict] = {}
    for problem, group in runs.runs.groupby("problem", sort=True):
        told = [(run["method"], scope, run) for _, run in group.iterrows() if (scope := scope_of(run)) is not None]
        for prover, scope, run in told:
            bound = _bound(run)
            for finder, inner, other in told:
                if other["valid"] and other["value"] < bound and scope.holds(inner):
                    pair = Conflict(runs.problems[problem], prover, scope, bound, finder, inner, other["value"])
                    found.setdefault((problem, prover, scope, finder, inner), pair)
    return tuple(found.values())


def proofs(runs: Runs) -> pd.DataFrame:
    """The optima that are proven: a row for each run with columns problem, method, scope and optimum."""
    rows = [
        (int(run["problem"]), run["method"], scope, _bound(run))
        for _, run in runs.runs[runs.runs["proven"]].iterrows()
        if (scope := scope_of(run)) is not None and (run["status"] == "infeasible" or run["valid"])
    ]
    return pd.DataFrame(rows, columns=["problem", "method", "scope", "optimum"])


def scope_counts(runs: Runs) -> tuple[ScopeCount, ...]:
    """How much was proven in each scope, and by how many methods."""
    counts = []
    for scope, proven in proofs(runs).groupby("scope"):
        told = proven.groupby("problem").nunique()
        shared = told[told["method"] > 1]
        counts.append(ScopeCount(scope, len(told), len(shared), int((shared["optimum"] == 1).sum())))
    return tuple(counts)


def shared_problems(runs: Runs) -> int:
    """On how many problems two methods or more have a proof in the same scope."""
    provers = proofs(runs).groupby(["problem", "scope"])["method"].nunique()
    return provers[provers > 1].index.unique("problem").size


def _at_most(given: str, limit: str) -> bool:
    """True if the limit on computations `given` is surely no more than `limit`."""
    return given == limit or (given.isdigit() and limit.isdigit() and int(given) <= int(limit))


def _bound(run: pd.Series) -> float:
    """The bound that a run has proven on durations, or what else is to be least, in its scope."""
    if run["status"] == "infeasible":
        return math.inf
    known = -math.inf if math.isnan(run["bound"]) else float(run["bound"])
    return max(known, float(run["value"])) if run["status"] == "optimal" and run["valid"] else known


# --- What went wrong, what does not fit together, and how it was run ------------------------------------------


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

        def told(column: str, group: pd.DataFrame = group) -> str:
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
