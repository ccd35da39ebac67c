"""The command `bench best-known`."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.cli.bench_run import generated, planned
from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.cli.typed import effort
from moccasin_mzn.terminal import stopped_by_signals

if TYPE_CHECKING:
    from moccasin_mzn.bench.best_known import Known
    from moccasin_mzn.bench.matrix import BenchGraph, Run


@command("best-known")
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT.toml")
@click.option("--table", type=click.Path(path_type=Path), default=Path("best_known.csv"), show_default=True,
              metavar="FILE.csv", help="What is known; it and its files are made if they are not there.")  # fmt: skip
@click.option("--only", default="*", metavar="PATTERN", help="Only questions such as `*n100* 0.9, order input*`.")
@click.option("--again", is_flag=True, help="Also what is proven and certified in full.")
@click.option("--list", "listing", is_flag=True, help="List the questions and what is known, and search nothing.")
@effort("For each question; as long again for its certificate.", time_limit=60.0)
def best_known(
    experiment: Path, table: Path, only: str, again: bool, listing: bool, time_limit: float, threads: int | None,
    seed: int | None,
) -> int:  # fmt: skip
    """Make or improve the table of best-known values, of the graphs, budgets, orders and C of EXPERIMENT.

    Each question starts from the schedule that is known, and nothing is ever replaced by anything worse. What is
    found is in the table as soon as it is certified; after an interruption the same command goes on.
    """
    from moccasin_mzn.bench.best_known import improve, merged, read_table, summary
    from moccasin_mzn.search.options import STOP, Options

    rows = read_table(table) if table.exists() else []
    graphs, runs = planned(experiment, ())
    questions = dict.fromkeys(_question(run, graphs, experiment.parent, table.parent) for run in runs)
    options = Options.of({"time_limit": time_limit, "threads": threads, "seed": seed, "if_none": STOP})
    chosen = [row for row in questions if fnmatchcase(row.label, only)]
    with stopped_by_signals():
        for row in chosen:
            rows = merged(rows, row)
            row = next(one for one in rows if one.question == row.question)
            done = row.file and row.status in ("optimal", "infeasible") and row.certified == row.bound
            if not listing and (again or not done):
                click.echo(f"{row.label} ...", err=True)
                rows = improve(rows, row, table, generated, options, lambda result: click.echo(result.reason, err=True))
                row = next(one for one in rows if one.question == row.question)
            click.echo(_told(row))
    click.echo(summary(rows))
    return EXIT_FOUND


def _question(run: Run, graphs: list[BenchGraph], folder: Path, beside: Path) -> Known:
    """What a run of the experiment asks, without an answer."""
    from moccasin_mzn.bench.best_known import GENERATE, asked

    graph = next(one for one in graphs if one.source.label == run.row["graph"])
    assert graph.graph is not None
    words = graph.source.generate
    path = "" if words else os.path.relpath((folder / str(graph.source.path)).resolve(), beside.resolve())
    told = f"{GENERATE}{' '.join(words)}" if words else Path(path).as_posix()
    return asked(told, graph.graph, run.row["budget"], run.order, run.row["max_computations"] or "auto")


def _told(row: Known) -> str:
    if not row.file:
        return f"{row.label}: not searched yet"
    tdi = (
        "no schedule known"
        if row.tdi_percent is None
        else f"TDI {row.tdi_percent:.3f} %, gap {row.gap_percent or 0:.3f} %"
    )
    return f"{row.label}: {row.status}, {tdi}, certified {row.certified_percent:.1f} %"
