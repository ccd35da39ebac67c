"""Values over time: the trace of a run, its gap, and the median of several runs with the range they span."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.runs import OF_SCHEDULES, Runs

WORST = 100.0
"""The gap in percent while there is no schedule."""


@dataclass(frozen=True)
class Steps:
    """A value that changes: `values[k]` from `starts[k]` on, `before` until the first."""

    starts: np.ndarray
    """Ascending; seconds, or what else there is on the horizontal axis."""
    values: np.ndarray
    before: float = np.inf

    def at(self, places: np.ndarray | float) -> np.ndarray:
        """The value at each of `places`."""
        position = np.searchsorted(self.starts, places, side="right")
        return np.concatenate([[self.before], self.values])[position]

    @classmethod
    def counting(cls, values: pd.Series, total: int = 1) -> Steps:
        """How many of `total` values are at most so large; what is infinite or NaN never is."""
        known = np.sort(values[np.isfinite(values)].to_numpy(dtype=float))
        return cls(known, np.arange(1, len(known) + 1) / max(1, total), 0.0)


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
    changes = [one.starts for one in steps]
    moments = np.unique(np.concatenate(changes)) if changes else np.array([])
    if not len(moments):
        empty = np.array([])
        return Curve(empty, empty, empty, empty)
    values = np.array([one.at(moments) for one in steps])
    return Curve(moments, values.min(axis=0), upper_median(values), values.max(axis=0))


def durations(runs: Runs, run: pd.Series) -> Steps:
    """The duration of the incumbent of a run, in the graph's unit."""
    return _improving(runs, run, "duration", float(run["duration"]) if run["valid"] else np.nan, np.minimum, np.inf)


def bounds(runs: Runs, run: pd.Series) -> Steps:
    """The lower bound on the duration that a run has proven, in the graph's unit; before the first minus infinity."""
    return _improving(runs, run, "bound", float(run["duration_bound"]), np.maximum, -np.inf)


def _improving(runs: Runs, run: pd.Series, column: str, final: float, better: np.ufunc, before: float) -> Steps:
    """The best so far of what the trace of a run tells of `column`, unless it is of other amounts; the `final` value
    counts even if no trace tells of it."""
    seconds, values = [], []
    if run["objective"] == OF_SCHEDULES and run["key"] in runs.traces:
        told = runs.traces[run["key"]][["seconds", column]].astype(float).dropna(subset=[column])
        seconds, values = list(told["seconds"]), list(told[column])
    reached = better.reduce(np.array(values), initial=before)
    if not np.isnan(final) and better(reached, final) != reached:
        seconds.append(max([*seconds, float(run["took"])]))
        values.append(final)
    return Steps(np.array(seconds, dtype=float), better.accumulate(np.array(values, dtype=float)), before)


def best_seconds(runs: Runs, run: pd.Series) -> float:
    """Seconds until a run had its best schedule; infinite without one."""
    if not run["valid"]:
        return np.inf
    steps = durations(runs, run)
    return float(steps.starts[np.argmin(steps.values)])


def percent_over(values: np.ndarray | float, base: float | None) -> np.ndarray | float:
    """Total duration increase of durations over that of every node once, in percent; 0 if that is 0."""
    return 100 * (np.asarray(values, dtype=float) / base - 1) if base else np.asarray(values, dtype=float) * 0


def increases(runs: Runs, problem: int, method: str, of: Callable[[Runs, pd.Series], Steps]) -> Curve:
    """The median over runs of `durations`, or of `bounds`, in percent over every node once."""
    base = runs.problems[problem].baseline_duration
    curve = median_curve([of(runs, run) for _, run in runs.of(problem, method).iterrows()])
    low, median, high = (np.asarray(percent_over(values, base)) for values in (curve.low, curve.median, curve.high))
    return Curve(curve.seconds, low, median, high)


def gap_steps(runs: Runs, run: pd.Series) -> Steps:
    """The gap of a run over time: 100 * (duration - bound) / duration, `WORST` while there is no schedule; of what else
    is to be least the gap at the end."""
    if run["objective"] != OF_SCHEDULES:
        last = WORST if np.isnan(run["gap_percent"]) else run["gap_percent"]
        return Steps(np.array([0.0, float(run["took"])]), np.array([WORST, last]))
    above, below = durations(runs, run), bounds(runs, run)
    moments = np.unique(np.concatenate([[0.0], above.starts, below.starts]))
    best, bound = above.at(moments), below.at(moments)
    bound = np.where(np.isinf(bound), 0.0, bound)
    with np.errstate(invalid="ignore", divide="ignore"):
        gap = np.where(np.isinf(best), WORST, np.where(best > 0, 100 * (best - bound) / best, 0.0))
    return Steps(moments, np.clip(gap, 0.0, WORST))


def median_gaps(runs: Runs, problems: Sequence[int], method: str) -> Curve:
    """The upper median over problems of that over the runs of a method, and the range over problems."""
    groups = (runs.of(problem, method).iterrows() for problem in problems)
    curves = [median_curve([gap_steps(runs, run) for _, run in group]) for group in groups]
    return median_curve([Steps(curve.seconds, curve.median) for curve in curves])


def final_gaps(runs: Runs) -> pd.DataFrame:
    """The gap at the end, of every problem (row) and method (column): the upper median over runs; NaN: did not run."""
    return runs.matrix(lambda of: float(upper_median([gap_steps(runs, run).values[-1] for _, run in of.iterrows()])))


def shares_within(gaps: pd.Series) -> Steps:
    """The share of problems with a gap up to so many percent; `WORST` is no gap at all."""
    return Steps.counting(gaps[gaps < WORST], gaps.notna().sum())
