"""Ablation: methods compared with a baseline from which they differ in one option, run by run.

Two runs are a pair if problem and seed are the same; pairs whose runs both failed are left out. A run without a proof
counts with twice the longer time limit (`statistics.PENALTY`), so that there is a ratio of two times wherever one of
them proved something. Means are geometric: twice as fast here and half as fast there is no difference. Their intervals
are percentiles of a bootstrap over problems (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13),
as seeds of one problem are not independent of each other; its random numbers are always the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Row, Table, list_text, percent, ratio_text
from moccasin_mzn.bench.report.runs import Runs
from moccasin_mzn.bench.report.statistics import FASTEST, PENALTY, WORST

TIE = 1.1
"""Times to proof within this factor are a tie, as repeated runs on one machine differ by as much."""
TIE_GAP = 0.01
"""Gaps at the end that differ by at most this, in points of a percent, are a tie."""
CONFIDENCE = 95
"""The confidence of intervals, in percent."""
RESAMPLES = 2_000
"""The number of samples of the bootstrap."""
LEAST_PROBLEMS = 5
"""The fewest problems for which there is an interval."""


@dataclass(frozen=True)
class Ratio:
    """A geometric mean of ratios, of a method to its baseline."""

    mean: float
    interval: tuple[float, float] | None
    """The interval of `CONFIDENCE`; None with fewer than `LEAST_PROBLEMS` problems."""

    @classmethod
    def of(cls, ratios: pd.Series) -> Ratio | None:
        """Return the mean of positive ratios; None without any. Their index is the problem, which may repeat."""
        if not len(ratios):
            return None
        logarithms = np.log(ratios).groupby(level=0).agg(["sum", "count"])
        mean = float(np.exp(logarithms["sum"].sum() / logarithms["count"].sum()))
        problems = len(logarithms)
        if problems < LEAST_PROBLEMS:
            return cls(mean, None)
        drawn = np.random.default_rng(0).integers(problems, size=(RESAMPLES, problems))
        means = logarithms["sum"].to_numpy()[drawn].sum(axis=1) / logarithms["count"].to_numpy()[drawn].sum(axis=1)
        tail = (100 - CONFIDENCE) / 2
        low, high = np.exp(np.percentile(means, [tail, 100 - tail]))
        return cls(mean, (float(low), float(high)))


@dataclass(frozen=True)
class Comparison:
    """All pairs of a method and its baseline."""

    method: str
    baseline: str
    pairs: int
    proven: int
    """The number of pairs in which the method's run ended with a proof."""
    proven_before: int
    """The number of pairs in which the baseline's run ended with a proof."""
    seconds: Ratio | None
    """The ratio of times to proof, over pairs in which one of the two proved something."""
    durations: Ratio | None
    """The ratio of durations, over pairs in which both have a schedule."""
    gap: float | None
    """The mean difference of the gaps at the end, in points of a percent, where not both proved something."""
    better: int
    """The number of pairs in which the method's run is better: it has a proof and the other none; of two proofs it is
    faster by more than `TIE`; without proofs its schedule is shorter, or else its gap smaller."""
    ties: int
    worse: int

    @property
    def sign(self) -> int:
        """1 if the method is slower than its baseline with `CONFIDENCE`, -1 if it is faster, else 0."""
        low, high = (self.seconds and self.seconds.interval) or (0.0, np.inf)
        return (low > 1) - (high < 1)


def comparisons(runs: Runs) -> tuple[Comparison, ...]:
    """Compare every method that has a baseline with it, over problems and seeds that both ran on."""
    found = []
    for method in runs.methods:
        baseline = runs.runs.loc[runs.runs["method"] == method, "baseline"].max()
        pairs = _pairs(runs, method, baseline)
        if len(pairs):
            found.append(_comparison(method, baseline, pairs))
    return tuple(found)


def _pairs(runs: Runs, method: str, baseline: str) -> pd.DataFrame:
    """Make a line for each pair; columns of the baseline have names that end in "_before"."""
    columns = ["problem", "seed", "proven", "failed", "valid", "duration", "took", "time_limit", "gap_percent"]
    own, before = (
        runs.runs.loc[runs.runs["applies"] & (runs.runs["method"] == name), columns] for name in (method, baseline)
    )
    pairs = own.merge(before, on=["problem", "seed"], suffixes=("", "_before"))
    return pairs[~(pairs["failed"] & pairs["failed_before"])]


def _comparison(method: str, baseline: str, pairs: pd.DataFrame) -> Comparison:
    proven, proven_before = pairs["proven"], pairs["proven_before"]
    censored = PENALTY * pairs[["time_limit", "time_limit_before"]].max(axis=1)
    times = pairs["took"].clip(lower=FASTEST).where(proven, censored)
    ratios = times / pairs["took_before"].clip(lower=FASTEST).where(proven_before, censored)
    ratios.index = pairs["problem"]
    lengths = pairs["duration"] / pairs["duration_before"]
    lengths.index = pairs["problem"]
    known = (
        pairs["valid"] & pairs["valid_before"] & (pairs["duration"] > 0) & (pairs["duration_before"] > 0)
    ).to_numpy()
    gaps = _gaps(pairs, "") - _gaps(pairs, "_before")
    open_ones = ~(proven & proven_before)
    signs = _signs(pairs, ratios.to_numpy(), gaps)
    return Comparison(
        method, baseline, len(pairs), int(proven.sum()), int(proven_before.sum()),
        Ratio.of(ratios[(proven | proven_before).to_numpy()]), Ratio.of(lengths[known]),
        float(gaps[open_ones].mean()) if open_ones.any() else None,
        *(int((signs == sign).sum()) for sign in (-1, 0, 1)),
    )  # fmt: skip


def _gaps(pairs: pd.DataFrame, whose: str) -> pd.Series:
    """Return the gap at the end of each run, in percent: 0 after a proof, `WORST` without a schedule or a bound."""
    known = pairs[f"gap_percent{whose}"].where(pairs[f"valid{whose}"]).fillna(WORST)
    return known.mask(pairs[f"proven{whose}"], 0.0)


def _signs(pairs: pd.DataFrame, ratios: np.ndarray, gaps: pd.Series) -> np.ndarray:
    """Return for each pair -1 if the method's run is the better one, 1 if it is the worse one, 0 for a tie."""
    proven, proven_before = pairs["proven"].to_numpy(), pairs["proven_before"].to_numpy()
    length, length_before = (
        pairs[f"duration{whose}"].where(pairs[f"valid{whose}"], np.inf).to_numpy() for whose in ("", "_before")
    )

    def sign(worse: np.ndarray, better: np.ndarray) -> np.ndarray:
        return worse.astype(int) - better.astype(int)

    proofs = sign(proven_before & ~proven, proven & ~proven_before)
    times = sign(ratios > TIE, ratios < 1 / TIE)
    lengths = sign(length > length_before, length < length_before)
    of_gaps = sign((gaps > TIE_GAP).to_numpy(), (gaps < -TIE_GAP).to_numpy())
    return np.select([proofs != 0, proven, lengths != 0], [proofs, times, lengths], of_gaps)


# --- The table and the sentences of the report ----------------------------------------------------------------


def ablation_table(found: Sequence[Comparison]) -> Table | None:
    """Make a row for each method, grouped by baseline; None without any."""
    groups = [(f"compared with {baseline}", [_row(one) for one in of]) for baseline, of in _by_baseline(found)]
    caption = (
        "Methods that differ in one option from a baseline, run by run: a pair is a problem and a seed. Ratio of the "
        "seconds to the proof, the method's to the baseline's, above 1 where the change costs time: a geometric mean "
        "over the pairs in which one of the two proved something; a run without a proof counts with twice its time "
        f"limit, less than {FASTEST} s as that. In brackets the interval of {CONFIDENCE}\u00a0% confidence, by a "
        f"bootstrap over problems, of which it takes {LEAST_PROBLEMS}; in bold where it leaves out 1. Better, ties, "
        f"worse: pairs; a proof is better than none, a proof faster by a factor of {TIE:g} than another, without "
        "proofs the shorter schedule, then the smaller gap. % longer: the schedules, where both have one, by a "
        "geometric mean. Gap: the mean difference at the end in points, where not both proved something."
    )
    return Table.of("ablation", caption, groups=groups) if groups else None


def sentences(found: Sequence[Comparison]) -> list[str]:
    """Make a sentence for each baseline."""
    return [_sentence(baseline, list(of)) for baseline, of in _by_baseline(found)]


def _by_baseline(found: Sequence[Comparison]) -> list[tuple[str, list[Comparison]]]:
    ordered = sorted(found, key=lambda one: one.baseline)
    return [(baseline, list(of)) for baseline, of in groupby(ordered, key=lambda one: one.baseline)]


def _sentence(baseline: str, of: Sequence[Comparison]) -> str:
    named = {
        sign: [f"{one.method} ({ratio_text(one.seconds.mean)})" for one in of if one.sign == sign and one.seconds]
        for sign in (1, -1)
    }
    rest = [one.method for one in of if not one.sign]
    parts = [f"slower to the proof are {list_text(named[1])}"] if named[1] else []
    parts += [f"faster are {list_text(named[-1])}"] if named[-1] else []
    parts += [f"no difference is shown for {list_text(rest)}"] if rest else []
    return f"Compared with {baseline}, with {CONFIDENCE}\u00a0% confidence: {'; '.join(parts)}."


def _row(one: Comparison) -> Row:
    seconds, durations = one.seconds, one.durations
    interval = seconds and seconds.interval
    ratio = ratio_text(seconds.mean) if seconds else "-"
    if interval:
        ratio += f" [{ratio_text(interval[0])}\u00a0to\u00a0{ratio_text(interval[1])}]"
    return {
        "method": one.method,
        "pairs": Cell(str(one.pairs)),
        "proven": Cell(f"{one.proven} ({100 * one.proven / one.pairs:.0f}\u00a0%)"),
        "by baseline": Cell(f"{one.proven_before} ({100 * one.proven_before / one.pairs:.0f}\u00a0%)"),
        "time to proof, ratio": Cell(ratio, strong=one.sign != 0),
        "better": Cell(str(one.better)),
        "ties": Cell(str(one.ties)),
        "worse": Cell(str(one.worse)),
        "% longer": Cell(percent(100 * (durations.mean - 1)) if durations else "-"),
        "gap": Cell("-" if one.gap is None else percent(one.gap)),
    }
