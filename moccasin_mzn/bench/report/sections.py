"""The sections of a report. A section that does not apply to an experiment is left out, or is a sentence that explains
why it is empty."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from moccasin_mzn.api.published import Published, line_for
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.bench.best_known import Known
from moccasin_mzn.bench.report import ablation, figures, records, results, statistics
from moccasin_mzn.bench.report.document import (
    Document,
    Figure,
    Mark,
    Section,
    Table,
    bytes_text,
    list_text,
    seconds_text,
)
from moccasin_mzn.bench.report.drawing import marks_for
from moccasin_mzn.bench.report.portfolio import Portfolio, best_counts, portfolio, portfolio_table, quality_table
from moccasin_mzn.bench.report.results import BestKnown
from moccasin_mzn.bench.report.runs import Runs
from moccasin_mzn.bench.report.statistics import Summary, final_gaps, summaries, upper_median


@dataclass(frozen=True)
class Analysis:
    """Results that several sections need, each computed once."""

    runs: Runs
    published: tuple[Published, ...] = ()
    best_known: tuple[Known, ...] = ()

    @cached_property
    def lines(self) -> tuple[Published | None, ...]:
        """The published line of each problem."""
        return tuple(
            line_for(problem.nodes or 0, problem.edges or 0, problem.budget_amount or 0, self.published)
            for problem in self.runs.problems
        )

    @cached_property
    def known(self) -> BestKnown:
        """The best-known values of each problem, in the order that each method has."""
        return BestKnown.of(self.runs, self.best_known)

    @cached_property
    def marks(self) -> dict[str, Mark]:
        """The mark of each method in figures."""
        return marks_for(self.runs.methods)

    @cached_property
    def summaries(self) -> dict[tuple[int, str], Summary]:
        """The summary of each problem and method."""
        return summaries(self.runs)

    @cached_property
    def times(self) -> pd.DataFrame:
        """Times to proof of the models on the problems that they have in common."""
        times = statistics.proof_seconds(self.runs)
        provers = [m for m in self.runs.methods if m in self.runs.models or np.isfinite(times[m]).any()]
        problems, methods = statistics.common_ground(times[provers].notna())
        return times.loc[problems, methods]

    @cached_property
    def portfolio(self) -> Portfolio | None:
        """The portfolio of the methods in `times`; None if there are fewer than two."""
        if len(self.times.columns) < 2:
            return None
        return portfolio(self.times, statistics.time_limits(self.runs).loc[self.times.index, self.times.columns])

    @cached_property
    def durations(self) -> pd.DataFrame:
        """Durations at the end of all methods on the problems that they have in common and where one has a schedule."""
        of = self.runs.matrix(lambda group: float(upper_median(np.where(group["valid"], group["duration"], np.inf))))
        of = of.loc[np.isfinite(of).any(axis=1)]
        applicable = of.columns[of.notna().any()]
        problems, methods = statistics.common_ground(of[applicable].notna())
        of = of.loc[problems, methods]
        return of.loc[np.isfinite(of).any(axis=1) & (of.min(axis=1) > 0)]

    @cached_property
    def end(self) -> float:
        """The right end of axes of time, in seconds."""
        longest = self.runs.runs[["time_limit", "took"]].max().max()
        return float(longest) if np.isfinite(longest) else 1.0

    @cached_property
    def conflicts(self) -> tuple[records.Conflict, ...]:
        """The bounds that schedules refute."""
        return records.conflicts(self.runs)

    def not_common(self, frame: pd.DataFrame, methods: Sequence[str]) -> tuple[str, ...]:
        """Make a sentence about the methods that were left out of a comparison; none if there are none."""
        absent = [method for method in methods if method not in frame.columns]
        if not absent or not len(frame.columns):
            return ()
        return (f"Left out, because they did not run on enough of the problems: {list_text(absent)}.",)


def document(runs: Runs, published: Sequence[Published] = (), best_known: Sequence[Known] = ()) -> Document:
    """Make the report about an experiment.

    Args:
        published: published figures to compare with.
        best_known: lines of a table of best-known values to compare with.
    """
    of = Analysis(runs, tuple(published), tuple(best_known))
    makers = (
        _results, _extensions, _ablation, _progress, _growth, _proofs, _quality, _gaps, _agreement, _failures,
        _circumstances,
    )  # fmt: skip
    sections = tuple(section for maker in makers for section in maker(of))
    return Document(f"Experiment {runs.experiment}", _summary(of), _warnings(of), sections)


def _summary(of: Analysis) -> tuple[str, ...]:
    runs = of.runs
    graphs = len({problem.label for problem in runs.problems})
    lines = [
        f"{count_text(len(runs.runs), 'run')} of {count_text(len(runs.methods), 'method')} on "
        f"{count_text(len(runs.problems), 'problem')}: {count_text(graphs, 'graph')} within budgets."
    ]
    proven, found = int(runs.runs["proven"].sum()), int(runs.runs["valid"].sum())
    lines.append(f"{count_text(found, 'run')} found a valid schedule, {proven:,} ended with a proof.")
    if of.portfolio is not None and of.portfolio.solved:
        best, whole = of.portfolio.single_best, of.portfolio
        contributing = [member.method for member in whole.members if member.lost_solved]
        lines.append(
            f"Single best at proofs: {best.method}, {best.solved} of {count_text(whole.problems, 'problem')}, PAR2 "
            f"{seconds_text(best.par2)} s. Virtual best solver: {whole.solved}, PAR2 {seconds_text(whole.par2)} s; "
            + (f"it solves fewer without {list_text(contributing)}." if contributing
               else "it solves as many without any one of the methods.")
        )  # fmt: skip
    if len(of.durations.columns) > 1 and len(of.durations):
        counts = best_counts(of.durations)
        most = max(best for best, _ in counts.values())
        leaders = [method for method, (best, _) in counts.items() if best == most]
        lines.append(
            f"Shortest schedules most often: {list_text(leaders)}, on {most} of "
            f"{count_text(len(of.durations), 'problem')}."
        )
    if not of.conflicts:
        shared = records.shared_problems(runs)
        if shared:
            lines.append(f"All proofs agree, on {count_text(shared, 'problem')} that several methods solved.")
    return tuple(lines)


def _warnings(of: Analysis) -> tuple[str, ...]:
    lines = []
    if of.conflicts:
        lines.append(f"{count_text(len(of.conflicts), 'proof')} contradicted by a schedule: see Agreement.")
    failed = of.runs.runs[of.runs.runs["failed"]]["status"].value_counts().sort_index()
    if len(failed):
        lines.append(
            f"Failed runs: {list_text(f'{count} {status}' for status, count in failed.items())}: see Failures."
        )
    return tuple(lines)


def _section(name: str, title: str, text: Iterable[str], *blocks: Table | Figure | None) -> tuple[Section, ...]:
    """Make one section of the paragraphs and the blocks that exist; none if it would be empty."""
    there = tuple(block for block in blocks if block is not None)
    section = Section(name, title, tuple(text), there)
    return (section,) if section.paragraphs or there else ()


def _results(of: Analysis) -> tuple[Section, ...]:
    lines = ["A problem is a graph and a budget."]
    if any(of.lines):
        lines.append("Published figures are matched by the numbers of nodes and edges, and budgets within 0.5\u00a0%.")
    elif of.published:
        lines.append("None of the published figures is about one of these problems.")
    if of.best_known and not of.known.lines:
        lines.append("Nothing in the table of best-known values is about one of these problems.")
    overview = results.overview_table(of.runs, of.summaries, of.lines, of.known)
    details = results.detail_table(of.runs, of.summaries, of.lines, of.known)
    return _section("results", "Results", lines, overview) + _section("details", "Results in full", (), details)


def _extensions(of: Analysis) -> tuple[Section, ...]:
    table = results.extension_table(of.runs)
    return _section("extensions", "Several memories and arenas", (), table)


def _ablation(of: Analysis) -> tuple[Section, ...]:
    found = ablation.comparisons(of.runs)
    table = ablation.ablation_table(found)
    return _section("ablation", "Ablation", ablation.sentences(found), table)


def _progress(of: Analysis) -> tuple[Section, ...]:
    drawn = figures.progress_figures(of.runs, of.marks, of.lines)
    text = () if drawn else ("No run found a schedule: there is no progress to plot.",)
    return _section("progress", "Progress", text, *drawn)


def _growth(of: Analysis) -> tuple[Section, ...]:
    figure, laws = figures.growth_figure(of.runs, of.marks, of.summaries, of.lines)
    if figure is None:
        return ()
    text = []
    for title, fitted in laws.items():
        growth = [f"{m}: n^{round(fitted[m].exponent, 2) + 0.0:.2f}" for m in of.runs.methods if m in fitted]
        text += [f"Fitted growth, {title}: {', '.join(growth)}."] if growth else []
    text = text or ["Too few sizes of graphs to fit a growth."]
    return _section("growth", "Time to the best schedule and size", text, figure)


def _proofs(of: Analysis) -> tuple[Section, ...]:
    if not of.runs.models:
        return ()
    title = "Proofs and the portfolio"
    if not len(of.times.columns):
        return _section("proofs", title, ["No method ran on half of the problems: there is nothing to compare."])
    figure = figures.proof_figure(of.times, of.marks, of.end)
    if figure is None:
        return _section("proofs", title, ["No method proved anything on more than half of its runs of a problem."])
    text = [
        "A method solves a problem if more than half of its runs end with a proof; its time is then their upper "
        "median.",
        *of.not_common(of.times, of.runs.models),
    ]
    if of.portfolio is None:
        return _section("proofs", "Proofs", text, figure)
    return _section("proofs", title, text, portfolio_table(of.portfolio, len(of.runs.problems)), figure)


def _quality(of: Analysis) -> tuple[Section, ...]:
    frame = of.durations
    figure = figures.quality_figure(frame, of.marks)
    if figure is None:
        return ()
    table = quality_table(frame, len(of.runs.problems))
    return _section("quality", "Schedules at the end", of.not_common(frame, of.runs.methods), table, figure)


def _gaps(of: Analysis) -> tuple[Section, ...]:
    final = final_gaps(of.runs)[list(of.runs.models)]
    impossible = set(of.runs.runs[of.runs.runs["status"] == "infeasible"]["problem"])
    final = final.loc[[problem for problem in final.index if problem not in impossible]]
    problems, methods = statistics.common_ground(final.notna())
    figure = figures.gap_figure(of.runs, problems, methods, final, of.marks, of.end)
    if figure is None:
        return ()
    text = f"On the {count_text(len(problems), 'problem')} that all of these methods ran on"
    text += " and that are not proven to have no schedule." if impossible else "."
    return _section("gaps", "Gaps over time", [text, *of.not_common(final[methods], of.runs.models)], figure)


def _agreement(of: Analysis) -> tuple[Section, ...]:
    counts = records.scope_counts(of.runs)
    if not counts:
        return ()
    text = "No proof is contradicted by another or by a schedule of the same scope or of a part of it."
    if of.conflicts:
        text = "CONTRADICTIONS: at least one proof or one schedule below is wrong."
    tables = (records.conflict_table(of.conflicts), records.scope_table(counts))
    return _section("agreement", "Agreement", [text], *tables)


def _failures(of: Analysis) -> tuple[Section, ...]:
    failed = records.failure_table(of.runs)
    text = () if failed else ("No run failed.",)
    return _section("failures", "Failures", text, failed, records.unsuited_table(of.runs))


def _circumstances(of: Analysis) -> tuple[Section, ...]:
    runs, text = of.runs.runs, []
    machines = runs[runs["machine"] != ""]["machine"].value_counts().sort_index()
    versions = sorted(set(runs["version"]) - {""})
    if len(machines):
        counts = (f"{name} ({count_text(count, 'run')})" for name, count in machines.items())
        text.append(f"Machines: {'; '.join(counts)}.")
    if versions:
        text.append(f"moccasin_mzn {list_text(versions)}.")
    hours, peak = runs["seconds"].sum() / 3600, runs["memory_peak"].max()
    spent = f"In total {hours:.1f} hours" if hours >= 1 else f"In total {count_text(round(60 * hours), 'minute')}"
    memory = f"; the largest run took {bytes_text(peak)}" if pd.notna(peak) else ""
    text.append(f"{spent} of runs by the clock{memory}. Every schedule is judged by the simulator.")
    tables = (records.circumstance_table(of.runs), records.ending_table(of.runs))
    return _section("circumstances", "How it was run", text, *tables)
