"""What a method did with a problem, over its runs: medians, and the range from the least to the largest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.curves import best_seconds, percent_over
from moccasin_mzn.bench.report.runs import Runs


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of some numbers."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: pd.Series | np.ndarray | list[float]) -> Spread | None:
        """None without a finite number; what is not finite is left out."""
        known = np.asarray(values, dtype=float)
        known = known[np.isfinite(known)]
        if not len(known):
            return None
        return cls(float(np.median(known)), float(known.min()), float(known.max()))


@dataclass(frozen=True)
class Summary:
    """The runs of a method on a problem, one for each seed."""

    runs: int
    """0: it did not run."""
    applies: bool
    found: int
    """Runs with a valid schedule."""
    proven: int
    """Runs that ended with a proof."""
    failed: int
    status: str
    """The most frequent; of several, the first of the alphabet; empty without runs."""
    tdi: Spread | None
    """Total duration increase in percent, of runs with a schedule."""
    peak: Spread | None
    gap: Spread | None
    """100 * (duration - bound) / duration; None for a strategy, which seeks no bound."""
    best_seconds: Spread | None
    """Until the best schedule of a run."""
    proof_seconds: Spread | None
    """Until the proof, of runs that ended with one."""
    seconds: Spread | None
    """Of whole runs."""


def summarize(runs: Runs, problem: int, method: str) -> Summary:
    """Medians and ranges over the runs of a method on a problem."""
    group = runs.of(problem, method)
    valid, proven = group[group["valid"]], group[group["proven"]]
    base = runs.problems[problem].baseline_duration
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
    """A summary for every problem and method."""
    return {
        (problem, method): summarize(runs, problem, method)
        for problem in range(len(runs.problems))
        for method in runs.methods
    }
