"""Times to proof, scores, and on how many problems methods are good.

A method solves a problem if more than half of its runs end with a proof (of optimality, or that there is no schedule);
its time is then the upper median over its runs. PAR2, the penalized average runtime with factor 2, counts twice the
time limit for a problem that is not solved (as in the solver competitions; Kerschke et al., Automated Algorithm
Selection: Survey and Perspectives, Evolutionary Computation 27, 2019, section 2.1).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.curves import Steps, upper_median
from moccasin_mzn.bench.report.runs import Runs

PENALTY = 2
FASTEST = 0.05
"""Times to proof below count as this many seconds where ratios are taken."""


def proof_seconds(runs: Runs) -> pd.DataFrame:
    """Time to proof of every problem (row) by every method (column): infinite if not solved, NaN if it did not run."""
    return runs.matrix(lambda group: float(upper_median(np.where(group["proven"], group["took"], np.inf))))


def time_limits(runs: Runs) -> pd.DataFrame:
    """The time limit of every problem and method, in seconds; without one, the longest of its runs."""
    return runs.matrix(lambda group: float(group["time_limit"].fillna(group["took"]).max()))


def par2(seconds: pd.DataFrame, limits: pd.DataFrame | pd.Series) -> pd.DataFrame:
    """`seconds`, with twice the limit where a problem is not solved; NaN stays."""
    penalties = PENALTY * limits
    if isinstance(limits, pd.Series):
        penalties = pd.concat([penalties] * len(seconds.columns), axis=1, keys=seconds.columns)
    return seconds.where(~np.isinf(seconds), penalties)


def performance_profiles(values: pd.DataFrame, floor: float = 0.0) -> dict[str, Steps]:
    """Of each method the share of problems on which it is within a factor of the best (Dolan and More, Benchmarking
    optimization software with performance profiles, Mathematical Programming 91, 2002).

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
    """Problems and methods to compare: every one of the methods ran on every one of the problems.

    While fewer than half of the problems are common to all, the method that ran on the fewest is left out; of several,
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
