"""The command `bench report`."""

from __future__ import annotations

from pathlib import Path

import click

from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.outputs import check_apart
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import located, require

_FORMATS = ("html", "md", "tex")


@command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE.sqlite")
@click.option("--experiment", metavar="NAME", help="Which of the store's experiments.  [default: the only one]")
@click.option("--published", type=click.Path(path_type=Path), metavar="FILE.csv",
              help="CSV of published figures to show beside the results.")  # fmt: skip
@click.option("--best-known", type=click.Path(path_type=Path), metavar="FILE.csv",
              help="Table of best-known values, as of bench best-known, to compare with.")  # fmt: skip
@click.option("--output", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Where the files go.  [default: STORE-report, here]")  # fmt: skip
@click.option("--format", "formats", type=click.Choice(_FORMATS), multiple=True,
              help="What to write; may be given several times.  [default: all]")  # fmt: skip
def report(
    store: Path, experiment: str | None, published: Path | None, best_known: Path | None, output: Path | None,
    formats: tuple[str, ...],
) -> int:  # fmt: skip
    """Write tables, plots and statistics of the runs in STORE: an HTML page, Markdown and LaTeX."""
    require("bench", "sqlalchemy", "pandas", "matplotlib", "jinja2")
    from moccasin_mzn.bench.best_known import read_table
    from moccasin_mzn.bench.published import read_published
    from moccasin_mzn.bench.report.runs import read_runs
    from moccasin_mzn.bench.report.sections import document
    from moccasin_mzn.bench.report.writing import check_folder, write
    from moccasin_mzn.bench.store import Store

    folder = output if output is not None else Path(f"{store.stem}-report")
    check_apart(
        {name: folder / f"report.{name}" for name in _FORMATS},
        {"the store": store, "the CSV": published, "what is best known": best_known},
    )
    check_folder(folder)
    lines = read_published(published) if published is not None else ()
    known = read_table(best_known) if best_known is not None else ()
    with Store.open(store) as opened:
        frames = opened.runs(), opened.traces()
    with located(store):
        runs = read_runs(*frames, experiment)
    made = document(runs, lines, known)
    files = write(made, folder, formats or _FORMATS)
    for line in (*made.warnings, *made.summary):
        click.echo(line)
    click.echo(f"written: {', '.join(map(str, files))}")
    return EXIT_FOUND
