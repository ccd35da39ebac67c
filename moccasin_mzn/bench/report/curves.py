"""Values over time: the trace of a run, and the median of several runs with the range they span."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.runs import OF_SCHEDULES, Runs


@dataclass(frozen=True)
class Steps:
    """A value that changes at moments: `values[k]` from `seconds[k]` on, `before` until the first."""

    seconds: np.ndarray
    """Ascending."""
    values: np.ndarray
    before: float = np.inf

    def at(self, moments: np.ndarray) -> np.ndarray:
        """The value at each of `moments`."""
        position = np.searchsorted(self.seconds, moments, side="right")
        return np.concatenate([[self.before], self.values])[position]


@dataclass(frozen=True)
class Curve:
    """The median of several step functions from each moment on, and the least and largest of them."""

    seconds: np.ndarray
    low: np.ndarray
    median: np.ndarray
    high: np.ndarray


def upper_median(values: np.ndarray | Sequence[float]) -> np.ndarray:
    """The median along the first axis, of an even number the larger of the middle two: where half of the values are
    infinite, so is the median."""
    ordered = np.sort(np.asarray(values, dtype=float), axis=0)
    return ordered[len(ordered) // 2]


def median_curve(steps: Sequence[Steps]) -> Curve:
    """The upper median over runs at every moment where one of them changes."""
    changes = [one.seconds for one in steps]
    moments = np.unique(np.concatenate(changes)) if changes else np.array([])
    if not len(moments):
        empty = np.array([])
        return Curve(empty, empty, empty, empty)
    values = np.array([one.at(moments) for one in steps])
    return Curve(moments, values.min(axis=0), upper_median(values), values.max(axis=0))


def durations(runs: Runs, run: pd.Series) -> Steps:
    """The duration of the incumbent of a run, in the graph's unit; its answer counts even if no trace tells of it."""
    seconds, values = _told(runs, run, "duration")
    if run["valid"] and (not values or min(values) > run["duration"]):
        seconds.append(max([*seconds, float(run["took"])]))
        values.append(float(run["duration"]))
    best = np.minimum.accumulate(np.array(values, dtype=float)) if values else np.array([])
    return Steps(np.array(seconds, dtype=float), best)


def bounds(runs: Runs, run: pd.Series) -> Steps:
    """The lower bound on the duration that a run has proven, in the graph's unit; before the first minus infinity."""
    seconds, values = _told(runs, run, "bound")
    if not np.isnan(run["duration_bound"]) and (not values or max(values) < run["duration_bound"]):
        seconds.append(max([*seconds, float(run["took"])]))
        values.append(float(run["duration_bound"]))
    best = np.maximum.accumulate(np.array(values, dtype=float)) if values else np.array([])
    return Steps(np.array(seconds, dtype=float), best, -np.inf)


def _told(runs: Runs, run: pd.Series, column: str) -> tuple[list[float], list[float]]:
    """When the trace of a run tells of `column`, and what; empty without a trace, or with one of other amounts."""
    trace = runs.traces.get(run["key"])
    if trace is None or run["objective"] != OF_SCHEDULES:
        return [], []
    seconds, values = trace["seconds"].to_numpy(dtype=float), trace[column].to_numpy(dtype=float, na_value=np.nan)
    known = ~np.isnan(values)
    return list(seconds[known]), list(values[known])


def best_seconds(runs: Runs, run: pd.Series) -> float:
    """Seconds until a run had its best schedule; infinite without one."""
    if not run["valid"]:
        return np.inf
    steps = durations(runs, run)
    return float(steps.seconds[np.argmin(steps.values)])


def percent_over(values: np.ndarray | float, base: float | None) -> np.ndarray | float:
    """Total duration increase of durations over that of every node once, in percent; 0 if that is 0."""
    return 100 * (np.asarray(values, dtype=float) / base - 1) if base else np.asarray(values, dtype=float) * 0
