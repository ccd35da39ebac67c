"""The tables of results: the paper's table with our columns, and several memories and arenas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pandas as pd

from moccasin_mzn.api.published import BUDGET_TOLERANCE, FAMILY_TITLES, Published, families_of
from moccasin_mzn.bench.best_known import Known
from moccasin_mzn.bench.report.document import Cell, Group, Row, Table, amount, percent, seconds_text, spread_text
from moccasin_mzn.bench.report.runs import PROOFS, ReportedProblem, Runs, option_of
from moccasin_mzn.bench.report.statistics import Spread, Summary
from moccasin_mzn.problem.instance import FREE

_INPUT = "input"


@dataclass(frozen=True)
class BestKnown:
    """Lines of a table of best-known values, for problems of an experiment."""

    lines: Mapping[tuple[int, str], Known]
    """The line with the shortest schedule for any C, by position of the problem and order."""
    orders: Mapping[str, str]
    """The order of each method, "input" or "free"."""

    @classmethod
    def of(cls, runs: Runs, known: Sequence[Known]) -> BestKnown:
        """Match lines with problems by the graph's digest and the budget's amount."""
        found: dict[tuple[int, str], Known] = {}
        columns = zip(runs.runs["problem"], runs.runs["graph_digest"], runs.runs["budget_amount"], strict=True)
        for problem, digest, budget in dict.fromkeys(columns):
            for row in known:
                if (row.digest, row.amount) == (digest, budget) and row.duration is not None:
                    other = found.get((problem, row.order))
                    if other is None or (other.duration or 0) > row.duration:
                        found[problem, row.order] = row
        commands = dict(zip(runs.runs["method"], runs.runs["command"], strict=True))
        orders = {method: FREE if option_of(text, "--order") == FREE else _INPUT for method, text in commands.items()}
        return cls(found, orders)

    def text(self, problem: int) -> str:
        """Return the TDI in percent, with an asterisk if optimal; that of a free order in brackets, if better."""
        own, free = (self.lines.get((problem, order)) for order in (_INPUT, FREE))
        texts = [f"{row.tdi_percent:.3f}{'*' * (row.status == 'optimal')}" if row else "" for row in (own, free)]
        if free is None or (own is not None and (own.duration or 0) <= (free.duration or 0)):
            return texts[0] or "-"
        return f"{texts[0]} ({texts[1]})".strip()

    def over(self, problem: int, method: str, summaries: Mapping[tuple[int, str], Summary]) -> str:
        """Return the percentage points by which a method's median TDI is over the best known one in its order."""
        row = self.lines.get((problem, self.orders.get(method, _INPUT)))
        tdi = summaries[problem, method].tdi
        return "-" if row is None or row.tdi_percent is None or tdi is None else f"{tdi.median - row.tdi_percent:+.3f}"


# --- The paper's table with our columns: overview and details -------------------------------------------------


Summaries = Mapping[tuple[int, str], Summary]
Lines = Sequence[Published | None]
"""The published line of each problem, if it has one."""

_WORDS = {
    "": "not run", "unknown": "none found", "over-budget": "over budget", "not-applicable": "n/a",
    "out-of-memory": "out of memory", "out-of-time": "killed",
}  # fmt: skip
_SAME = 1e-9


def overview_table(runs: Runs, summaries: Summaries, lines: Lines, known: BestKnown) -> Table:
    """Make a row for each problem: total duration increases of all methods, with published ones."""
    families = families_of(lines)
    best_known = ["best known"] if known.lines else []
    papers = (f"paper: {_family(name)}" for name in families)
    headings = ("graph", "n", "m", "budget", *papers, *best_known, *runs.methods)
    rows = []
    for problem, (of, line) in enumerate(zip(runs.problems, lines, strict=True)):
        cells = [Cell(of.label), Cell(amount(of.nodes)), Cell(amount(of.edges)), Cell(of.budget_text)]
        best = _least([summaries[problem, method].tdi for method in runs.methods])
        cells += [Cell(_published_tdi(line, name), quiet=True) for name in families]
        cells += [Cell(known.text(problem), quiet=True) for _ in best_known]
        cells += [_tdi_cell(summaries[problem, method], best) for method in runs.methods]
        rows.append(tuple(cells))
    groups = tuple(Group(tuple(of_graph)) for _, of_graph in groupby(rows, key=lambda cells: cells[0].text))
    caption = (
        "Total duration increase (TDI) in percent over computing every node once: the median over the runs that found "
        "a schedule. An asterisk: proven optimal, or proven that there is no schedule, each for the method's own "
        "formulation; (k/s*): by k of s runs only. The least of a row is set in bold. not run: not in this experiment "
        "or not done yet; n/a: not for this graph; killed: at the hard time limit."
        + (" (over): with a peak above the budget." if families else "")
        + (" Best known: in the input order; in any order, if that is better, in brackets." if best_known else "")
    )
    return Table("overview", caption, headings, groups, keys=3)


def detail_table(runs: Runs, summaries: Summaries, lines: Lines, known: BestKnown) -> Table:
    """Make a row for each problem and method, and for the published figures of the problem."""
    groups = []
    for problem, (of, line) in enumerate(zip(runs.problems, lines, strict=True)):
        title = f"{of.label}: n = {amount(of.nodes)}, m = {amount(of.edges)}, budget {_budget(of, line)}"
        best = _least([summaries[problem, method].tdi for method in runs.methods])
        rows = [] if line is None else [_published_cells(name, line, of) for name in families_of([line])]
        for method in runs.methods:
            if summaries[problem, method].runs:
                cells = _detail_cells(summaries[problem, method], of, line, best)
                over = {"over best known": Cell(known.over(problem, method, summaries))} if known.lines else {}
                rows.append({"method": method, **cells, **over})
        groups.append((title, rows))
    caption = (
        "Medians over runs, with the range from the least to the largest in brackets where runs differ. Peaks are in "
        "the graph's own unit, or in that of the paper's table. Seconds are wall clock: until the best schedule of a "
        "run was found, until it was proven (by the runs that prove it), and of whole runs. Gap: 100 (duration - "
        "bound) / duration. Proven: runs that ended with a proof, of all runs."
        + (
            " Over best known: percentage points of TDI over the best schedule known in the method's order."
            if known.lines
            else ""
        )
    )
    return Table.of("details", caption, groups=groups)


def _status_text(summary: Summary) -> str:
    """Return the most frequent status of runs without a schedule, in a word or two."""
    return _WORDS.get(summary.status, summary.status)


def _tdi_cell(summary: Summary, best: float | None) -> Cell:
    share = f" ({summary.proven}/{summary.runs}*)" if 0 < summary.proven < summary.runs else ""
    if summary.tdi is None:
        nothing = not summary.runs or not summary.applies
        star = "*" if summary.proven and not share else ""
        return Cell(_status_text(summary) + star + share, quiet=nothing or not summary.failed, alarm=summary.failed > 0)
    star = "*" if summary.proven == summary.runs else ""
    missing = f" (found {summary.found}/{summary.runs})" if summary.found < summary.runs else ""
    strong = best is not None and summary.tdi.median <= best + _SAME
    return Cell(percent(summary.tdi.median) + star + share + missing, strong=strong, alarm=summary.failed > 0)


def _detail_cells(summary: Summary, of: ReportedProblem, line: Published | None, best: float | None) -> Row:
    step, unit = line.step if line else (1, "")

    def peak_text(value: float) -> str:
        return f"{value / step:.2f}\u00a0{unit}" if unit else amount(value)

    share = Spread.of([summary.peak.median / of.budget_amount]) if of.budget_amount and summary.peak else None
    found = f" (found {summary.found}/{summary.runs})" if summary.found < summary.runs else ""
    if summary.tdi is None:
        tdi = Cell(_status_text(summary), alarm=summary.failed > 0, quiet=not summary.failed)
    else:
        strong = best is not None and summary.tdi.median <= best + _SAME
        tdi = Cell(spread_text(summary.tdi) + found, strong=strong)
    return {
        "TDI %": tdi,
        "peak": Cell(spread_text(summary.peak, peak_text), quiet=summary.tdi is None),
        "peak / budget": Cell(spread_text(share), quiet=summary.tdi is None),
        "time to best (s)": _seconds_cell(summary.best_seconds),
        "time to proof (s)": _seconds_cell(summary.proof_seconds),
        "total time (s)": _seconds_cell(summary.seconds),
        "gap %": Cell(spread_text(summary.gap), quiet=summary.gap is None),
        "proven": Cell(f"{summary.proven} of {summary.runs}", quiet=not summary.proven),
    }


def _seconds_cell(spread: Spread | None) -> Cell:
    return Cell(spread_text(spread, seconds_text), quiet=spread is None)


def _published_cells(family: str, line: Published, of: ReportedProblem) -> Row:
    tdi, peak, seconds = line.figures[family]
    value = line.peak(family)
    share = f"{value / of.budget_amount:.3f}" if value and of.budget_amount else ""
    peak = peak if " " in peak else amount(value)
    texts = {"TDI %": tdi, "peak": peak, "peak / budget": share, "total time (s)": seconds}
    cells = {heading: Cell(text or "-", quiet=True) for heading, text in texts.items()}
    return {"method": Cell(f"paper: {_family(family)}", quiet=True, left=True), **cells}


def _published_tdi(line: Published | None, family: str) -> str:
    """Return a published duration increase, and whether its schedule is over the budget."""
    if line is None or family not in line.figures:
        return "-"
    tdi, peak = line.figures[family][0], line.peak(family)
    over = peak is not None and peak > line.budget * (1 + BUDGET_TOLERANCE)
    return f"{tdi} (over)" if over else tdi or "-"


def _budget(of: ReportedProblem, line: Published | None) -> str:
    if of.budget_amount is None or of.budget_text != of.budget:
        return of.budget_text
    step, unit = line.step if line else (1, "")
    return f"{of.budget} = {of.budget_amount / step:.2f} {unit}" if unit else f"{of.budget} = {of.budget_amount:,}"


def _least(spreads: Sequence[Spread | None]) -> float | None:
    return min((spread.median for spread in spreads if spread is not None), default=None)


def _family(name: str) -> str:
    return FAMILY_TITLES.get(name, name)


# --- Several memories and arenas ------------------------------------------------------------------------------


def extension_table(runs: Runs) -> Table | None:
    """Make a row for the best run of each method, on problems with several memories or arenas; None without any."""
    frame, order = runs.runs, {method: place for place, method in enumerate(runs.methods)}
    chosen = frame[frame["problem"].isin(frame[(frame["extension"] != "") | frame["arena"].notna()]["problem"])]
    ranked = chosen.assign(rank=chosen["value"].where(chosen["found"]), place=chosen["method"].map(order))
    best = ranked.sort_values("rank", kind="stable").drop_duplicates(["problem", "method"])
    caption = (
        "The best run of each method: the objective, its value and the bound on it. Peaks, budgets and arenas are in "
        "the graph's own unit; actions: how often something is computed in a memory, or copied."
    )
    groups = [
        (runs.problems[int(problem)].title, [_cells(run) for _, run in group.iterrows()])
        for problem, group in best.sort_values(["problem", "place"]).groupby("problem")
    ]
    return Table.of("extensions", caption, groups=groups) if groups else None


def _cells(run: pd.Series) -> Row:
    memories = json.loads(run["memories"] or "{}")
    arenas = {name: (of["arena"], of["peak"]) for name, of in memories.items() if of["arena"] is not None}
    if not memories and pd.notna(run["arena"]):
        arenas = {"": (int(run["arena"]), int(run["peak"]))}
    over = [percent(100 * (size / peak - 1) if peak else 0.0) for size, peak in arenas.values()]
    tdi, gap = (percent(run[name]) if pd.notna(run[name]) else "-" for name in ("tdi_percent", "gap_percent"))
    value, bound = (amount(run[name] if pd.notna(run[name]) else None) for name in ("value", "bound"))
    rooms = (f"{name}: {amount(of['peak'])} / {amount(of['budget'])}" for name, of in memories.items())
    sizes = (f"{name}: {amount(size)}" if name else amount(size) for name, (size, _) in arenas.items())
    return {
        "method": run["method"], "objective": run["objective"], "value": Cell(value if run["found"] else "-"),
        "bound": Cell(bound), "gap %": Cell(gap), "TDI %": Cell(tdi if run["valid"] else "-"),
        "memories: peak / budget": "; ".join(rooms) or "-", "arena": Cell("; ".join(sizes) or "-"),
        "over the peak %": Cell("; ".join(over) or "-"), "actions": _actions(run["schedule"]),
        "status": Cell(run["status"], quiet=run["status"] not in PROOFS, left=True),
    }  # fmt: skip


def _actions(text: str) -> str:
    counts: Counter[str] = Counter()
    for action in json.loads(text or "[]"):
        if isinstance(action, dict):
            counts[f"in {action['in']}" if "compute" in action else f"{action['from']} to {action['to']}"] += 1
    return ", ".join(f"{count:,} {what}" for what, count in counts.items()) or "-"
