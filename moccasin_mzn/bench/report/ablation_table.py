"""What one option is worth, as a table and in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from moccasin_mzn.bench.report.ablation import ALIKE, CONFIDENCE, LEAST_PROBLEMS, Comparison
from moccasin_mzn.bench.report.document import Cell, Row, Table
from moccasin_mzn.bench.report.proofs import FASTEST
from moccasin_mzn.bench.report.text import list_text, percent, ratio_text


def ablation_table(found: Sequence[Comparison]) -> Table | None:
    """A row for each method, grouped by what it is compared with; None without any."""
    groups = [(f"beside {baseline}", [_row(one) for one in of]) for baseline, of in _by_baseline(found)]
    caption = (
        "Methods that differ in one option from a baseline, run by run: a pair is a problem and a seed. Ratio of the "
        "seconds to the proof, the method's to the baseline's, above 1 where the change costs time: a geometric mean "
        "over the pairs in which one of the two proved something; a run without a proof counts with twice its time "
        f"limit, less than {FASTEST} s as that. In brackets the interval of {CONFIDENCE}\u00a0% confidence, by a "
        f"bootstrap over problems, of which it takes {LEAST_PROBLEMS}; in bold where it leaves out 1. Better, ties, "
        f"worse: pairs; a proof is better than none, a proof faster by a factor of {ALIKE:g} than another, without "
        "proofs the shorter schedule, then the smaller gap. % longer: the schedules, where both have one, by a "
        "geometric mean. Gap: the mean difference at the end in points, where not both proved something."
    )
    return Table.of("ablation", caption, groups=groups) if groups else None


def verdicts(found: Sequence[Comparison]) -> list[str]:
    """A sentence for each baseline."""
    return [_verdict(baseline, list(of)) for baseline, of in _by_baseline(found)]


def _by_baseline(found: Sequence[Comparison]) -> list[tuple[str, list[Comparison]]]:
    ordered = sorted(found, key=lambda one: one.baseline)
    return [(baseline, list(of)) for baseline, of in groupby(ordered, key=lambda one: one.baseline)]


def _verdict(baseline: str, of: Sequence[Comparison]) -> str:
    named = {
        sign: [f"{one.method} ({ratio_text(one.seconds.mean)})" for one in of if one.verdict == sign and one.seconds]
        for sign in (1, -1)
    }
    rest = [one.method for one in of if not one.verdict]
    parts = [f"slower to the proof are {list_text(named[1])}"] if named[1] else []
    parts += [f"faster are {list_text(named[-1])}"] if named[-1] else []
    parts += [f"no difference is shown for {list_text(rest)}"] if rest else []
    return f"Beside {baseline}, with {CONFIDENCE}\u00a0% confidence: {'; '.join(parts)}."


def _row(one: Comparison) -> Row:
    seconds, durations = one.seconds, one.durations
    interval = seconds and seconds.interval
    told = ratio_text(seconds.mean) if seconds else "-"
    if interval:
        told += f" [{ratio_text(interval[0])}\u00a0to\u00a0{ratio_text(interval[1])}]"
    return {
        "method": one.method,
        "pairs": Cell(str(one.pairs)),
        "proven": Cell(f"{one.proven} ({100 * one.proven / one.pairs:.0f}\u00a0%)"),
        "by baseline": Cell(f"{one.proven_before} ({100 * one.proven_before / one.pairs:.0f}\u00a0%)"),
        "time to proof, ratio": Cell(told, strong=one.verdict != 0),
        "better": Cell(str(one.better)),
        "ties": Cell(str(one.alike)),
        "worse": Cell(str(one.worse)),
        "% longer": Cell(percent(100 * (durations.mean - 1)) if durations else "-"),
        "gap": Cell("-" if one.gap is None else percent(one.gap)),
    }
