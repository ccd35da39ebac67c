"""The command `bench export`."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError
from moccasin_mzn.words import count_text

FORMATS = ("csv", "parquet", "mzn-bench")


@command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE.sqlite")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE.csv|FILE.parquet|FOLDER",
              help="The runs; traces go beside it, into FILE-traces.csv.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(FORMATS), help="Default: by the name of the output.")
def export(store: Path, output: Path, form: str | None) -> int:
    """Write the results in STORE as tables, or in the layout of MiniZinc's mzn-bench."""
    from moccasin_mzn.bench.export import export_mzn_bench, export_tables
    from moccasin_mzn.bench.store import Store

    if form is None:
        form = output.suffix.removeprefix(".")
        if form not in FORMATS:
            raise InputError(f"{output}: of which format? give --format, one of {', '.join(FORMATS)}")
    with Store.open(store) as opened:
        if form == "mzn-bench":
            paths = export_mzn_bench(opened, output)
            click.echo(f"{output}: {count_text(len(paths), 'file')}")
        else:
            for path in export_tables(opened, output, form):
                click.echo(str(path))
    return EXIT_FOUND
