"""Gaps between incumbents and bounds: over time, and at the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.curves import Curve, Steps, bounds, durations, median_curve, upper_median
from moccasin_mzn.bench.report.runs import OF_SCHEDULES, Runs

WORST = 100.0
"""The gap in percent while there is no schedule."""


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


def problem_gaps(runs: Runs, problem: int, method: str) -> Steps:
    """The upper median over the runs of a method on a problem."""
    curve = median_curve([gap_steps(runs, run) for _, run in runs.of(problem, method).iterrows()])
    return Steps(curve.seconds, curve.median)


def median_gaps(runs: Runs, problems: Sequence[int], method: str) -> Curve:
    """The upper median over problems of the gap of a method, and the range over problems."""
    return median_curve([problem_gaps(runs, problem, method) for problem in problems])


def final_gaps(runs: Runs) -> pd.DataFrame:
    """The gap at the end, of every problem (row) and method (column): the upper median over runs; NaN: did not run."""

    def of(group: pd.DataFrame) -> float:
        return float(upper_median([gap_steps(runs, run).values[-1] for _, run in group.iterrows()]))

    return runs.matrix(of)


def shares_within(gaps: pd.Series) -> Steps:
    """The share of problems with a gap up to so many percent; `WORST` is no gap at all."""
    return Steps.counting(gaps[gaps < WORST], gaps.notna().sum())
