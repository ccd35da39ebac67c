"""The commands `bench ...`: experiments, from their files to tables."""

from __future__ import annotations

from moccasin_mzn.cli.bench_export import export
from moccasin_mzn.cli.bench_package import package
from moccasin_mzn.cli.bench_report import report
from moccasin_mzn.cli.bench_run import run
from moccasin_mzn.cli.strict import group


@group()
def bench() -> None:
    """Run an experiment, and export, report or package its results."""


for command in (run, export, report, package):
    bench.add_command(command)
