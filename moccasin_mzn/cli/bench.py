"""The commands `bench ...`: experiments, from their files to tables."""

from __future__ import annotations

from moccasin_mzn.cli.bench_best_known import best_known
from moccasin_mzn.cli.bench_export import export
from moccasin_mzn.cli.bench_package import package
from moccasin_mzn.cli.bench_report import report
from moccasin_mzn.cli.bench_run import run
from moccasin_mzn.cli.strict import group


@group()
def bench() -> None:
    """Run an experiment, and export, report or package its results; keep what is best known."""


for command in (run, export, report, package, best_known):
    bench.add_command(command)
