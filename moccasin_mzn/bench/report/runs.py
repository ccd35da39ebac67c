"""The runs of one experiment, from the two frames of a store: problems, methods and clean columns."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from moccasin_mzn.base.errors import InputError, some_of
from moccasin_mzn.bench.columns import COLUMNS
from moccasin_mzn.formulations import FORMULATIONS

PROOFS = ("optimal", "infeasible")
"""Statuses of runs that ended with a proof."""
FAILURES = ("error", "out-of-memory", "out-of-time", "crashed")
"""Statuses of runs that gave no answer of their own; a schedule may have been saved from one all the same."""
NOT_APPLICABLE = "not-applicable"
OF_SCHEDULES = "duration"
"""The default objective; runs with another one have no curve of durations."""
_RANKS = {form.name: (0 if form.staged else 1) for form in FORMULATIONS if form.limited}


@dataclass(frozen=True)
class ReportedProblem:
    """A graph and a budget."""

    label: str
    """The label of the graph, with the beginning of its digest where two graphs share a label."""
    budget: str
    """The budget as the experiment has it."""
    nodes: int | None
    """The number of nodes; None, as all fields below, if no run has it."""
    edges: int | None
    budget_amount: int | None
    """The budget in the graph's size unit."""
    baseline_peak: int | None
    """The peak of the input order, in the graph's size unit."""

    @property
    def title(self) -> str:
        """Graph and budget in a few words."""
        return f"{self.label}, budget {self.budget}"

    @property
    def percent(self) -> int | None:
        """The budget in percent of the input order's peak."""
        return (
            round(100 * self.budget_amount / self.baseline_peak) if self.budget_amount and self.baseline_peak else None
        )

    @property
    def budget_text(self) -> str:
        """The budget, with the share of the peak where it is given as an amount."""
        if self.percent is None or self.budget != str(self.budget_amount):
            return self.budget
        return f"{self.budget} = {self.percent}\u00a0%"


@dataclass(frozen=True)
class Runs:
    """The runs of one experiment.

    `runs` has the store's columns, with these added or made whole: `problem` (position in `problems`), `valid` (no
    gaps), `found` (the same for any objective), `proven`, `failed`, `applies` (booleans), `took` (seconds: the
    answer's own total, else the whole process).
    `traces` are those of these runs, by key, in their order.
    """

    experiment: str
    problems: tuple[ReportedProblem, ...]
    methods: tuple[str, ...]
    models: tuple[str, ...]
    """The methods that can prove optimality: formulations."""
    runs: pd.DataFrame
    traces: Mapping[str, pd.DataFrame]

    @cached_property
    def _groups(self) -> dict[tuple[int, str], pd.DataFrame]:
        return dict(iter(self.runs.groupby(["problem", "method"], sort=True)))

    def of(self, problem: int, method: str) -> pd.DataFrame:
        """Return the runs of a method on a problem, one for each seed; empty where it did not run."""
        return self._groups.get((problem, method), self.runs.iloc[:0])

    def once(self, problem: int, method: str) -> int | None:
        """Return the duration of every node computed once as the method has it, in the graph's unit; accesses to
        memories of one device are part of it."""
        return _usual(self.of(problem, method)["baseline_duration"])

    def matrix(self, value: Callable[[pd.DataFrame], float]) -> pd.DataFrame:
        """Return a row for each problem, a column for each method: `value` of their runs, NaN where none apply."""
        values = pd.DataFrame(np.nan, index=range(len(self.problems)), columns=list(self.methods))
        for (problem, method), group in self._groups.items():
            group = group[group["applies"]]
            if len(group):
                values.loc[problem, method] = value(group)
        return values


def read_runs(runs: pd.DataFrame, traces: pd.DataFrame, experiment: str | None = None) -> Runs:
    """Read the runs of an experiment from the frames of a store.

    Args:
        experiment: its name; None: the only one in the store.

    Raises:
        InputError: there are no runs, none of this experiment, or several experiments to choose from.
    """
    names = sorted(runs["experiment"].dropna().unique()) if len(runs) else []
    if not len(runs):
        raise InputError("the store has no runs yet")
    if experiment is None and len(names) > 1:
        raise InputError(f"the store has several experiments, choose one with --experiment: {some_of(names)}")
    if experiment is not None and experiment not in names:
        raise InputError(f"the store has no experiment {experiment}, only {some_of(names)}")
    chosen = _cleaned(runs if experiment is None else runs[runs["experiment"] == experiment])
    problems, positions = _problems(chosen)
    chosen["problem"] = positions
    order = ["problem", "method", "seed", "key"]
    chosen = chosen.sort_values(order, kind="stable", na_position="first").reset_index(drop=True)
    methods, models = _methods(chosen)
    traces = traces[traces["key"].isin(chosen["key"])].sort_values(["key", "position"])
    by_key = {str(key): group.reset_index(drop=True) for key, group in traces.groupby("key", sort=True)}
    return Runs(experiment or (names[0] if names else ""), problems, methods, models, chosen, by_key)


def option_of(command: str, option: str) -> str:
    """Return the value of an option in the arguments of a run; empty without it."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == option:
            return following
        if word.startswith(f"{option}="):
            return word.removeprefix(f"{option}=")
    return ""


def _cleaned(runs: pd.DataFrame) -> pd.DataFrame:
    runs = runs.copy()
    for name, kind in COLUMNS.items():
        if kind is str:
            runs[name] = runs[name].astype(object).where(runs[name].notna(), "").astype(str) if name in runs else ""
        elif kind is not bool:
            runs[name] = pd.to_numeric(runs[name], errors="coerce").astype(float) if name in runs else np.nan
    found = runs["valid"].astype(object).where(runs["valid"].notna(), False).astype(bool)
    runs["valid"] = found & runs["duration"].notna()
    runs["proven"] = runs["status"].isin(PROOFS)
    runs["failed"] = runs["status"].isin(FAILURES)
    runs["applies"] = runs["status"] != NOT_APPLICABLE
    runs["objective"] = runs["objective"].replace("", OF_SCHEDULES)  # old stores have no other
    for column, of_schedules in (("value", "duration"), ("bound", "duration_bound")):
        runs[column] = runs[column].fillna(runs[of_schedules])
    runs["found"] = found & runs["value"].notna()
    runs["took"] = runs["solve_seconds"].fillna(runs["seconds"])
    return runs


def _problems(runs: pd.DataFrame) -> tuple[tuple[ReportedProblem, ...], list[int]]:
    """The problems, small graphs and loose budgets first, and the position of each run's."""
    same = [runs["graph"], runs["graph_digest"], runs["budget"]]
    # a fraction is another amount of what a method makes of a graph, such as in place
    several = runs.groupby(same)["budget_amount"].transform("nunique") > 1
    amounts = runs["budget_amount"].map("{:,.0f}".format).where(several, "")
    identity = list(zip(*same, amounts, strict=True))
    shared = runs.groupby("graph")["graph_digest"].nunique()
    found: dict[tuple[str, str, str, str], ReportedProblem] = {}
    for key, group in runs.groupby(pd.Series(identity, index=runs.index), sort=False):
        graph, digest, budget, amount = key
        label = graph if shared[graph] == 1 else f"{graph} ({digest[:6] or 'unread'})"
        columns = ("nodes", "edges", "budget_amount", "baseline_peak")
        found[key] = ReportedProblem(
            label, f"{budget} = {amount}" if amount else budget, *(_usual(group[column]) for column in columns)
        )

    def rank(key: tuple[str, str, str, str]) -> tuple[object, ...]:
        problem = found[key]
        return problem.nodes or 0, _natural(problem.label), -(problem.budget_amount or 0), key

    keys = sorted(found, key=rank)
    position = {key: k for k, key in enumerate(keys)}
    return tuple(found[key] for key in keys), [position[key] for key in identity]


def _methods(runs: pd.DataFrame) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The methods: staged models, MOCCASIN first, general ones, baselines, strategies; and which are models."""
    ranks = {}
    for method, group in runs.groupby("method"):
        strategy, formulation = group["strategy"].max(), group["formulation"].max()
        rank = 3 if strategy else _RANKS.get(formulation, 2)
        ranks[method] = (rank, not method.startswith("moccasin"), _natural(method))
    methods = sorted(ranks, key=lambda method: ranks[method])
    return tuple(methods), tuple(method for method in methods if ranks[method][0] < 3)


def _usual(values: pd.Series) -> int | None:
    known = values.dropna()
    return int(known.mode().iloc[0]) if len(known) else None


def _natural(text: str) -> tuple[object, ...]:
    """Return a key that sorts numbers inside names by their value."""
    return tuple((int(part), "") if part.isdigit() else (-1, part.lower()) for part in re.split(r"(\d+)", text)), text
