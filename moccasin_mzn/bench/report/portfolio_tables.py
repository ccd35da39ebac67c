"""Who is best, alone and together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from moccasin_mzn.bench.report.document import Cell, Row, Table
from moccasin_mzn.bench.report.portfolio import Portfolio, best_counts
from moccasin_mzn.bench.report.summary import Spread
from moccasin_mzn.bench.report.text import percent, seconds_text
from moccasin_mzn.formatting import count_text


def portfolio_table(result: Portfolio, attempted: int) -> Table:
    """The virtual best solver, and below it each method with what it contributes; the best score first."""
    members = sorted(result.members, key=lambda member: (member.par2, -member.solved))
    rows: list[Row] = [
        {
            "method": member.method,
            "solved": Cell(str(member.solved)),
            "PAR2, s": Cell(seconds_text(member.par2)),
            "fastest": Cell(str(member.best)),
            "unique wins": Cell(str(member.sole_best)),
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
    """How often each method (column) has the shortest schedule of a problem (row), and how far it is otherwise."""
    best, counts = durations.min(axis=1), best_counts(durations)
    rows: list[Row] = []
    for method in sorted(counts, key=lambda method: (-counts[method][0], -counts[method][1])):
        first, alone = counts[method]
        spread = Spread.of(100 * (durations[method] / best - 1))
        rows.append(
            {
                "method": method,
                "with a schedule": Cell(str(int(np.isfinite(durations[method]).sum()))),
                "shortest": Cell(str(first)),
                "alone shortest": Cell(str(alone), strong=alone > 0),
                "% longer than it: median": Cell(percent(spread.median) if spread else "-"),
                "at most": Cell(percent(spread.high) if spread else "-"),
            }
        )
    caption = (
        f"Schedules at the end, on {_share(len(durations), attempted)} that all of these methods ran on and one has a "
        "schedule for. A method's duration on a problem is the upper median over its runs; it has a schedule if more "
        "than half of them have. % longer: than the shortest of all methods, where it has a schedule."
    )
    return Table.of("quality", caption, rows)


def _share(problems: int, attempted: int) -> str:
    if problems == attempted:
        return f"the {count_text(problems, 'problem')}"
    return f"{problems} of {count_text(attempted, 'problem')}"
