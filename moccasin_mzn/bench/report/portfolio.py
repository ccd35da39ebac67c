"""The virtual best solver, and what each method adds to it.

The virtual best solver (VBS) takes, for every problem, the method that is best there; the single best solver (SBS) is
the method with the best score over all. The marginal contribution of a method is what the VBS loses without it (Xu,
Hutter, Hoos and Leyton-Brown, Evaluating Component Solver Contributions to Portfolio-Based Algorithm Selectors, SAT
2012).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.bench.report.document import Cell, Row, Table, percent, seconds_text
from moccasin_mzn.bench.report.statistics import Spread, par2


@dataclass(frozen=True)
class Member:
    """A method in a portfolio."""

    method: str
    solved: int
    par2: float
    """The mean score over the problems, in seconds."""
    wins: int
    """The number of solved problems on which no method is faster."""
    unique_wins: int
    """The number of solved problems on which all other methods are slower."""
    lost_solved: int
    """The number of problems that the virtual best solver does not solve without the method."""
    lost_par2: float
    """The increase of the virtual best solver's score without the method, in seconds."""


@dataclass(frozen=True)
class Portfolio:
    """Methods compared on problems that all of them ran on."""

    problems: int
    solved: int
    """The number of problems that the virtual best solver solves."""
    par2: float
    """The virtual best solver's mean score over the problems, in seconds."""
    members: tuple[Member, ...]

    @property
    def single_best(self) -> Member:
        """The member with the best score; among ties, the one that solves more, then the first."""
        return min(self.members, key=lambda member: (member.par2, -member.solved))


def virtual_best(values: pd.DataFrame) -> pd.Series:
    """Return the least value of each problem (row) over the methods (columns); infinite if none has one."""
    return values.min(axis=1).fillna(np.inf) if len(values.columns) else pd.Series(np.inf, index=values.index)


def portfolio(seconds: pd.DataFrame, limits: pd.DataFrame) -> Portfolio:
    """Compute the scores of each method and of their virtual best.

    Args:
        seconds: times to proof, infinite if not solved; no NaN.
        limits: time limits; a problem's is the largest of those of the methods.
    """
    limit = limits.max(axis=1)
    scores = par2(seconds, limit)

    def score(of: pd.DataFrame) -> float:
        return float(par2(virtual_best(of).to_frame("VBS"), limit)["VBS"].mean())

    whole, solved, counts = score(seconds), _solved(virtual_best(seconds)), best_counts(seconds)
    members = []
    for method in seconds.columns:
        rest = seconds.drop(columns=method)
        members.append(
            Member(
                method=method,
                solved=_solved(seconds[method]),
                par2=float(scores[method].mean()),
                wins=counts[method][0],
                unique_wins=counts[method][1],
                lost_solved=solved - _solved(virtual_best(rest)),
                lost_par2=max(0.0, score(rest) - whole),
            )
        )
    return Portfolio(len(seconds), solved, whole, tuple(members))


def _solved(seconds: pd.Series) -> int:
    return int(np.isfinite(seconds).sum())


def best_counts(values: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Count for each method (column) its wins and unique wins over problems (rows).

    A win is a least value, a unique win one that no other method has; infinite and NaN never win.
    """
    best = virtual_best(values)
    counts = {}
    for method in values.columns:
        wins = np.isfinite(values[method]) & (values[method] == best)
        unique = virtual_best(values.drop(columns=method)) > best
        counts[method] = int(wins.sum()), int((wins & unique).sum())
    return counts


# --- The tables of the report ---------------------------------------------------------------------------------


def portfolio_table(result: Portfolio, attempted: int) -> Table:
    """Make a row for the virtual best solver, and below it for each method with its contribution, best score first."""
    members = sorted(result.members, key=lambda member: (member.par2, -member.solved))
    rows: list[Row] = [
        {
            "method": member.method,
            "solved": Cell(str(member.solved)),
            "PAR2, s": Cell(seconds_text(member.par2)),
            "fastest": Cell(str(member.wins)),
            "unique wins": Cell(str(member.unique_wins)),
            "contribution: solved": Cell(str(member.lost_solved), strong=member.lost_solved > 0),
            "contribution: PAR2, s": Cell(seconds_text(member.lost_par2), strong=member.lost_par2 >= 0.005),
        }
        for member in members
    ]
    together: Row = {
        "method": Cell("virtual best solver", strong=True, left=True),
        "solved": Cell(str(result.solved)),
        "PAR2, s": Cell(seconds_text(result.par2)),
    }
    caption = (
        f"Proofs on {_share(result.problems, attempted)} that all of these methods ran on, each for the method's own "
        "formulation. PAR2: mean time to the proof, twice the time limit where there is none. Contribution: what the "
        "virtual best solver, which takes the fastest method for every problem, loses without this one."
    )
    return Table.of("portfolio", caption, [together, *rows])


def quality_table(durations: pd.DataFrame, attempted: int) -> Table:
    """Make a row for each method (column): how often it has the shortest schedule of a problem (row), and how much
    longer its schedules are otherwise."""
    best, counts = durations.min(axis=1), best_counts(durations)
    rows: list[Row] = []
    for method in sorted(counts, key=lambda method: (-counts[method][0], -counts[method][1])):
        wins, unique_wins = counts[method]
        spread = Spread.of(100 * (durations[method] / best - 1))
        rows.append(
            {
                "method": method,
                "with a schedule": Cell(str(int(np.isfinite(durations[method]).sum()))),
                "shortest": Cell(str(wins)),
                "unique wins": Cell(str(unique_wins), strong=unique_wins > 0),
                "% longer: median": Cell(percent(spread.median) if spread else "-"),
                "at most": Cell(percent(spread.high) if spread else "-"),
            }
        )
    caption = (
        f"Schedules at the end, on {_share(len(durations), attempted)} that all of these methods ran on and one has a "
        "schedule for. A method's duration on a problem is the upper median over its runs; it has a schedule if more "
        "than half of them have. Unique wins: problems on which all other schedules are longer. % longer: than the "
        "shortest schedule of all methods, where the method has a schedule."
    )
    return Table.of("quality", caption, rows)


def _share(problems: int, attempted: int) -> str:
    if problems == attempted:
        return f"the {count_text(problems, 'problem')}"
    return f"{problems} of {count_text(attempted, 'problem')}"
