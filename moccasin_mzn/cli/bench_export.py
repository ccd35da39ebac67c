"""The command `bench export`."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError
from moccasin_mzn.formatting import count_text

FORMATS = ("csv", "parquet", "mzn-bench", "aslib")


@command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE.sqlite")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE.csv|FILE.parquet|FOLDER",
              help="The runs; traces go beside it, into FILE-traces.csv.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by the name of the output.")
@click.option("--experiment", metavar="NAME", help="For aslib: whose runs, if there are several in STORE.")
def export(store: Path, output: Path, form: str | None, experiment: str | None) -> int:
    """Write the results in STORE as tables, in the layout of MiniZinc's mzn-bench, or as a scenario of ASlib."""
    from moccasin_mzn.bench.export import export_aslib, export_mzn_bench, export_tables
    from moccasin_mzn.bench.store import Store

    if form is None:
        form = output.suffix.removeprefix(".")
        if form not in FORMATS:
            raise InputError(f"{output}: of which format? give --format, one of {', '.join(FORMATS)}")
    if experiment is not None and form != "aslib":
        raise InputError("--experiment is for --format aslib: other formats have all runs")
    with Store.open(store) as opened:
        if form in ("mzn-bench", "aslib"):
            paths = (
                export_mzn_bench(opened, output) if form == "mzn-bench" else export_aslib(opened, output, experiment)
            )
            click.echo(f"{output}: {count_text(len(paths), 'file')}")
        else:
            for path in export_tables(opened, output, form):
                click.echo(str(path))
    return EXIT_FOUND
