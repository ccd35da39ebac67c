"""The figures of a report: their panels, captions and legends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import pandas as pd

from moccasin_mzn.api.published import FAMILY_TITLES, Published, number_of
from moccasin_mzn.bench.report import drawing
from moccasin_mzn.bench.report.document import Figure, Mark, Panel
from moccasin_mzn.bench.report.drawing import LEAST_SIZES, PUBLISHED, VIRTUAL_BEST, PowerLaw, fit
from moccasin_mzn.bench.report.portfolio import virtual_best
from moccasin_mzn.bench.report.results import Lines, Summaries
from moccasin_mzn.bench.report.runs import Runs
from moccasin_mzn.bench.report.statistics import (
    FASTEST,
    Steps,
    bounds,
    durations,
    increases,
    median_gaps,
    performance_profiles,
    shares_within,
)

Marks = Mapping[str, Mark]
MOST_COLUMNS = 5
"""The most panels in a row, in a figure with a row for each graph."""
VIRTUAL_BEST_TITLE = "virtual best solver"


def progress_figures(runs: Runs, marks: Marks, lines: Lines) -> tuple[Figure, ...]:
    """Draw total duration increase against seconds, in a panel for each problem; none if no run found a schedule.

    Graphs with the same number of budgets, three or more, share a figure with a row for each graph; all others share
    another figure.
    """
    if not runs.runs["valid"].any():
        return ()
    budgets = Counter(problem.label for problem in runs.problems)
    columns = [
        budgets[problem.label] if 3 <= budgets[problem.label] <= MOST_COLUMNS else 0 for problem in runs.problems
    ]
    return tuple(
        _progress_figure(runs, marks, lines, [at for at, own in enumerate(columns) if own == number], number)
        for number in sorted(set(columns), reverse=True)
    )


def _progress_figure(runs: Runs, marks: Marks, lines: Lines, problems: Sequence[int], columns: int) -> Figure:
    panels = []
    for problem in problems:
        drawn = [_progress_line(runs, problem, method, marks[method]) for method in runs.methods
                 if runs.of(problem, method)["applies"].any()]  # fmt: skip
        points = [
            drawing.PublishedPoint(mark, tdi, seconds)
            for mark, tdi, seconds in _published_numbers(lines[problem])
            if tdi is not None and seconds is not None
        ]
        draw = partial(drawing.draw_progress, lines=drawn, points=points)
        of = runs.problems[problem]
        panels.append(Panel(f"{of.label} ({of.nodes or '?'} nodes), {of.budget_text}", draw))
    published = any(lines[problem] for problem in problems)
    caption = (
        "Total duration increase (TDI) of the best schedule so far against seconds: the median over runs, with the "
        "range from the least to the largest shaded. Dotted in the same colour: the proven bound. A marker shows when "
        "the final value was reached, a triangle at the upper edge a method whose schedules are all longer than the "
        "panel shows, and a method without either has found no schedule. Axes end where the good methods can still be "
        "distinguished: not all begin at zero." + (" Hollow markers: the paper's figures." if published else "")
    )
    name = f"progress-{columns}-budgets" if columns else "progress"
    legend = _legend(_that_ran(runs, problems), marks, published)
    return Figure(name, caption, tuple(panels), legend, small=True, columns=columns)


def _that_ran(runs: Runs, problems: Sequence[int]) -> list[str]:
    """List the methods with a run on one of the problems."""
    return [method for method in runs.methods if any(len(runs.of(problem, method)) for problem in problems)]


def _progress_line(runs: Runs, problem: int, method: str, mark: Mark) -> drawing.ProgressLine:
    took = runs.of(problem, method)["took"].max()
    proven = increases(runs, problem, method, bounds) if method in runs.models else None
    found = increases(runs, problem, method, durations)
    return drawing.ProgressLine(mark, found, proven, 0.0 if np.isnan(took) else float(took))


def growth_figure(
    runs: Runs, marks: Marks, summaries: Summaries, lines: Lines
) -> tuple[Figure | None, dict[str, dict[str, PowerLaw]]]:
    """Draw seconds to the best schedule against nodes, and return by panel the power law of each method.

    There is a panel for each budget, in percent of the peak, that graphs of `LEAST_SIZES` sizes have, or else one for
    all budgets. With fewer than two sizes there is no figure, None.
    """
    shares = _by_budget(runs, summaries)
    by_budget = [(f"{percent}\u00a0% of the peak", problems) for percent, problems in shares.items()]
    panels, laws, anyone, published = [], {}, set(), False
    for title, problems in by_budget or [("all budgets", list(range(len(runs.problems))))]:
        points = _growth_points(runs, summaries, problems)
        if len({size for sizes, _ in points.values() for size in sizes}) < 2:
            return None, {}
        laws[title] = {method: law for method, of in points.items() if (law := fit(*of)) is not None}
        papers = _published_growth([lines[problem] for problem in problems])
        draw = partial(drawing.draw_growth, points=points, laws=laws[title], marks=marks, published=papers)
        panels.append(Panel(f"time to the best schedule, {title}", draw))
        anyone |= set(points)
        published |= bool(papers)
    caption = (
        "Seconds until the best schedule was found against the number of nodes, both logarithmic; a point for each "
        "problem: the median over runs. Lines: power laws fitted by least squares of logarithms, where there are "
        "three sizes or more." + (" Hollow markers: the seconds of the paper's table." if published else "")
    )
    legend = _legend([method for method in runs.methods if method in anyone], marks, published)
    return Figure("growth", caption, tuple(panels), legend), laws


def _by_budget(runs: Runs, summaries: Summaries) -> dict[int, list[int]]:
    """Return the problems with a schedule by budget in percent of the peak, the loosest first, for budgets with enough
    sizes to fit a line."""
    found: dict[int, list[int]] = {}
    for at, problem in enumerate(runs.problems):
        if problem.percent and any(summaries[at, method].best_seconds for method in runs.methods):
            found.setdefault(problem.percent, []).append(at)
    return {
        percent: found[percent]
        for percent in sorted(found, reverse=True)
        if len({runs.problems[at].nodes for at in found[percent]}) >= LEAST_SIZES
    }


def _growth_points(
    runs: Runs, summaries: Summaries, problems: Iterable[int]
) -> dict[str, tuple[list[float], list[float]]]:
    """Return the numbers of nodes and the seconds to the best schedule, by method."""
    points: dict[str, tuple[list[float], list[float]]] = {}
    for problem, method in product(problems, runs.methods):
        nodes, seconds = runs.problems[problem].nodes, summaries[problem, method].best_seconds
        if seconds is not None and nodes:
            sizes, times = points.setdefault(method, ([], []))
            sizes.append(nodes)
            times.append(seconds.median)
    return points


def _published_numbers(line: Published | None) -> Iterator[tuple[Mark, float | None, float | None]]:
    """Yield mark, TDI in percent and seconds of each family that is drawn."""
    for name, mark in PUBLISHED.items():
        if line and name in line.figures:
            tdi, _, seconds = line.figures[name]
            yield mark, number_of(tdi), number_of(seconds)


def _published_growth(lines: Lines) -> list[tuple[Mark, list[int], list[float]]]:
    found: dict[Mark, tuple[list[int], list[float]]] = {}
    for line in filter(None, lines):
        for mark, _, seconds in _published_numbers(line):
            if seconds is not None:
                nodes, times = found.setdefault(mark, ([], []))
                nodes.append(line.nodes)
                times.append(seconds)
    return [(mark, *found[mark]) for mark in PUBLISHED.values() if mark in found]


def proof_figure(seconds: pd.DataFrame, marks: Marks, end: float) -> Figure | None:
    """Draw a cactus plot and a performance profile of times to proof; None if nothing was proven."""
    if not np.isfinite(seconds.to_numpy()).any():
        return None
    curves = {method: Steps.counting(seconds[method]) for method in seconds.columns}
    legend = _legend(seconds.columns, marks)
    several = len(seconds.columns) > 1
    if several:
        curves = {VIRTUAL_BEST_TITLE: Steps.counting(virtual_best(seconds)), **curves}
        legend += ((VIRTUAL_BEST_TITLE, VIRTUAL_BEST),)
    draw = partial(drawing.draw_cactus, curves=curves, marks=marks, problems=len(seconds), end=end)
    panels = [Panel("solved to a proof", draw)]
    caption = "Problems solved to a proof within a time; the thin line is their number."
    if several:
        profiles = performance_profiles(seconds, FASTEST)
        label = "time to the proof / that of the fastest"
        draw = partial(drawing.draw_profiles, profiles=profiles, marks=marks, label=label)
        panels.append(Panel("performance profile of times", draw))
        caption += (
            " Right: the performance profile, the share of the problems solved by any method on which a method's time "
            f"is within a factor of the fastest; times below {FASTEST} s count as that."
        )
    return Figure("proofs", caption, tuple(panels), legend)


def quality_figure(ratios_of: pd.DataFrame, marks: Marks) -> Figure | None:
    """Draw a performance profile of durations at the end; None with a single method or without schedules."""
    if len(ratios_of.columns) < 2 or not len(ratios_of):
        return None
    profiles = performance_profiles(ratios_of)
    label = "% longer than the shortest schedule found"
    caption = (
        "Performance profile of durations: the share of problems on which a method's schedule is at most x % longer "
        "than the shortest that any method found. Where a line ends below 100 %, the method found no schedule for the "
        "others."
    )
    draw = partial(drawing.draw_profiles, profiles=profiles, marks=marks, label=label, percent=True)
    panels = (Panel("performance profile of durations", draw),)
    return Figure("quality", caption, panels, _legend(ratios_of.columns, marks))


def gap_figure(
    runs: Runs, problems: Sequence[int], methods: Sequence[str], final: pd.DataFrame, marks: Marks, end: float
) -> Figure | None:
    """Draw median gaps over time and their distribution at the end; None without problems or models."""
    if not problems or not methods:
        return None
    curves = {method: median_gaps(runs, problems, method) for method in methods}
    shares = {method: shares_within(final.loc[problems, method]) for method in methods}
    panels = (
        Panel("median gap over time", partial(drawing.draw_gaps, curves=curves, marks=marks, end=end)),
        Panel("gaps at the end", partial(drawing.draw_shares, curves=shares, marks=marks)),
    )
    caption = (
        "Gap: 100 (duration - bound) / duration, 100 while there is no schedule. Left: the median over problems of "
        "the median over runs against seconds. Right: the share of problems with a gap of at most x % at the end; "
        "where a line ends below 100 %, the method found no schedule or no bound for the others. Both axes of "
        "gaps are linear below 0.01."
    )
    return Figure("gaps", caption, panels, _legend(methods, marks))


def _legend(methods: Sequence[str], marks: Marks, published: bool = False) -> tuple[tuple[str, Mark], ...]:
    entries = tuple((method, marks[method]) for method in methods)
    if published:
        entries += tuple((f"paper: {FAMILY_TITLES[name]}", mark) for name, mark in PUBLISHED.items())
    return entries
