"""Statistics of runs: values over time, times to proof, and summaries over seeds."""

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
        """Return the value at each of `places`."""
        position = np.searchsorted(self.starts, places, side="right")
        return np.concatenate([[self.before], self.values])[position]

    @classmethod
    def counting(cls, values: pd.Series, total: int = 1) -> Steps:
        """Return the share of `total` values that are at most x, over x; infinite and NaN never are."""
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
    """Return the median along the first axis, of an even number the larger of the middle two: where half of the values
    are infinite, so is the median."""
    ordered = np.sort(np.asarray(values, dtype=float), axis=0)
    return ordered[len(ordered) // 2]


def median_curve(steps: Sequence[Steps]) -> Curve:
    """Return the upper median over runs at every moment where one of them changes."""
    changes = [one.starts for one in steps]
    moments = np.unique(np.concatenate(changes)) if changes else np.array([])
    if not len(moments):
        empty = np.array([])
        return Curve(empty, empty, empty, empty)
    values = np.array([one.at(moments) for one in steps])
    return Curve(moments, values.min(axis=0), upper_median(values), values.max(axis=0))


def durations(runs: Runs, run: pd.Series) -> Steps:
    """Return the duration of the incumbent of a run over time, in the graph's unit."""
    return _improving(runs, run, "duration", float(run["duration"]) if run["valid"] else np.nan, np.minimum, np.inf)


def bounds(runs: Runs, run: pd.Series) -> Steps:
    """Return the lower bound on durations that a run has proven, over time, in the graph's unit; at first -infinity."""
    return _improving(runs, run, "bound", float(run["duration_bound"]), np.maximum, -np.inf)


def _improving(runs: Runs, run: pd.Series, column: str, final: float, better: np.ufunc, before: float) -> Steps:
    """Return the best value so far of a column of a run's trace; `final` counts even if it is not in the trace.

    A run with another objective has a trace of that: then `final` is the only value.
    """
    seconds, values = [], []
    if run["objective"] == OF_SCHEDULES and run["key"] in runs.traces:
        trace = runs.traces[run["key"]][["seconds", column]].astype(float).dropna(subset=[column])
        seconds, values = list(trace["seconds"]), list(trace[column])
    best = better.reduce(np.array(values), initial=before)
    if not np.isnan(final) and better(best, final) != best:
        seconds.append(max([*seconds, float(run["took"])]))
        values.append(final)
    return Steps(np.array(seconds, dtype=float), better.accumulate(np.array(values, dtype=float)), before)


def best_seconds(runs: Runs, run: pd.Series) -> float:
    """Return the seconds until a run had its best schedule; infinite without one."""
    if not run["valid"]:
        return np.inf
    steps = durations(runs, run)
    return float(steps.starts[np.argmin(steps.values)])


def percent_over(values: np.ndarray | float, base: float | None) -> np.ndarray | float:
    """Return the total duration increase over every node once, in percent; 0 if that duration is 0."""
    return 100 * (np.asarray(values, dtype=float) / base - 1) if base else np.asarray(values, dtype=float) * 0


def increases(runs: Runs, problem: int, method: str, of: Callable[[Runs, pd.Series], Steps]) -> Curve:
    """Return the median over runs of `durations`, or of `bounds`, in percent over every node once."""
    base = runs.once(problem, method)
    curve = median_curve([of(runs, run) for _, run in runs.of(problem, method).iterrows()])
    low, median, high = (np.asarray(percent_over(values, base)) for values in (curve.low, curve.median, curve.high))
    return Curve(curve.seconds, low, median, high)


def gap_steps(runs: Runs, run: pd.Series) -> Steps:
    """Return the gap of a run over time: 100 * (duration - bound) / duration, `WORST` while there is no schedule; for
    other objectives only the gap at the end."""
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
    """Return the upper median over problems of that over a method's runs, and the range over problems."""
    groups = (runs.of(problem, method).iterrows() for problem in problems)
    curves = [median_curve([gap_steps(runs, run) for _, run in group]) for group in groups]
    return median_curve([Steps(curve.seconds, curve.median) for curve in curves])


def final_gaps(runs: Runs) -> pd.DataFrame:
    """Return the gap at the end of each problem (row) and method (column): the upper median over runs; NaN: not run."""
    return runs.matrix(lambda of: float(upper_median([gap_steps(runs, run).values[-1] for _, run in of.iterrows()])))


def shares_within(gaps: pd.Series) -> Steps:
    """Return the share of problems with a gap of at most x percent, over x; `WORST` counts as no gap at all."""
    return Steps.counting(gaps[gaps < WORST], gaps.notna().sum())


# --- Times to proof, scores and performance profiles ----------------------------------------------------------

# A method solves a problem if more than half of its runs end with a proof (of optimality, or that there is no
# schedule);
# its time is then the upper median over its runs. PAR2, the penalized average runtime with factor 2, counts twice the
# time limit for a problem that is not solved (as in the solver competitions; Kerschke et al., Automated Algorithm
# Selection: Survey and Perspectives, Evolutionary Computation 27, 2019, section 2.1).


PENALTY = 2
FASTEST = 0.05
"""The least time to a proof, in seconds, where ratios are taken: shorter ones cannot be measured."""


def proof_seconds(runs: Runs) -> pd.DataFrame:
    """Return times to proof of problems (rows) by methods (columns): infinite if not solved, NaN if not run."""
    return runs.matrix(lambda group: float(upper_median(np.where(group["proven"], group["took"], np.inf))))


def time_limits(runs: Runs) -> pd.DataFrame:
    """Return the time limit of each problem and method, in seconds; without one, the longest of its runs."""
    return runs.matrix(lambda group: float(group["time_limit"].fillna(group["took"]).max()))


def par2(seconds: pd.DataFrame, limits: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """Return `seconds`, with twice the limit where a problem is not solved; NaN stays."""
    penalties = PENALTY * limits
    if isinstance(limits, pd.Series):
        penalties = pd.concat([penalties] * len(seconds.columns), axis=1, keys=seconds.columns)
    return seconds.where(~np.isinf(seconds), penalties)


def performance_profiles(values: pd.DataFrame, floor: float = 0.0) -> dict[str, Steps]:
    """Return for each method the share of problems on which it is within a factor of the best (Dolan and More,
    Benchmarking optimization software with performance profiles, Mathematical Programming 91, 2002).

    Args:
        values: what is to be small, for problems (rows) and methods (columns); infinite or NaN: never within any
            factor. Problems on which all are infinite do not count.
        floor: values below count as this, so that what cannot be measured makes no ratio.

    Raises:
        ValueError: a value that counts is not positive.
    """
    kept = values.clip(lower=floor)
    kept = kept[np.isfinite(kept).any(axis=1)]
    best = kept.min(axis=1)
    if (best <= 0).any():
        raise ValueError("ratios need positive values")
    return {method: Steps.counting(kept[method] / best, len(kept)) for method in kept.columns}


def common_ground(ran: pd.DataFrame) -> tuple[list[int], list[str]]:
    """Choose problems and methods to compare, such that each of the methods ran on each of the problems.

    While fewer than half of the problems are common to all, the method that ran on the fewest is left out; among ties,
    the last. Both are empty if no method ran on half of the problems.

    Args:
        ran: True where a method (column) ran on a problem (row).
    """
    methods = list(ran.columns)
    attempted = int(ran.any(axis=1).sum())
    while methods:
        common = ran.index[ran[methods].all(axis=1)]
        if 2 * len(common) >= attempted and len(common):
            return list(common), methods
        counts = ran[methods].sum()
        methods.remove([method for method in methods if counts[method] == counts.min()][-1])
    return [], []


# --- Summaries of a method's runs on a problem: medians, and the range from the least to the largest ----------


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of some numbers."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: pd.Series | np.ndarray | list[float]) -> Spread | None:
        """Summarize the finite values; None without any."""
        known = np.asarray(values, dtype=float)
        known = known[np.isfinite(known)]
        if not len(known):
            return None
        return cls(float(np.median(known)), float(known.min()), float(known.max()))


@dataclass(frozen=True)
class Summary:
    """The runs of a method on a problem, one for each seed."""

    runs: int
    """The number of runs; 0: the method did not run."""
    applies: bool
    found: int
    """The number of runs with a valid schedule."""
    proven: int
    """The number of runs that ended with a proof."""
    failed: int
    status: str
    """The most frequent status; among ties, the first in alphabetical order; empty without runs."""
    tdi: Spread | None
    """Total duration increase in percent, of runs with a schedule."""
    peak: Spread | None
    gap: Spread | None
    """The gap, 100 * (duration - bound) / duration; None for a strategy, which seeks no bound."""
    best_seconds: Spread | None
    """The seconds until a run had its best schedule."""
    proof_seconds: Spread | None
    """The seconds until the proof, for runs that ended with one."""
    seconds: Spread | None
    """The seconds of whole runs."""


def summarize(runs: Runs, problem: int, method: str) -> Summary:
    """Compute medians and ranges over the runs of a method on a problem."""
    group = runs.of(problem, method)
    valid, proven = group[group["valid"]], group[group["proven"]]
    base = runs.once(problem, method)
    return Summary(
        runs=len(group),
        applies=bool(group["applies"].any()) if len(group) else True,
        found=len(valid),
        proven=len(proven),
        failed=int(group["failed"].sum()),
        status=group["status"].mode().iloc[0] if len(group) else "",
        tdi=Spread.of(percent_over(valid["duration"].to_numpy(), base)),
        peak=Spread.of(valid["peak"]),
        gap=Spread.of(valid["gap_percent"]) if method in runs.models else None,
        best_seconds=Spread.of([best_seconds(runs, run) for _, run in valid.iterrows()]),
        proof_seconds=Spread.of(proven["took"]),
        seconds=Spread.of(group["took"]),
    )  # fmt: skip


def summaries(runs: Runs) -> dict[tuple[int, str], Summary]:
    """Make the summary of every problem and method."""
    return {
        (problem, method): summarize(runs, problem, method)
        for problem in range(len(runs.problems))
        for method in runs.methods
    }
