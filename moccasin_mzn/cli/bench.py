"""The commands `bench ...`: experiments, from their files to tables."""

from __future__ import annotations

import os
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from moccasin_mzn.base.errors import InputError, located, require
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.cli.bench_run import generated, planned, run, run_missing
from moccasin_mzn.cli.common import EXIT_FOUND, check_apart
from moccasin_mzn.cli.invocation import command_line
from moccasin_mzn.cli.options import Choice, effort, group

if TYPE_CHECKING:
    from moccasin_mzn.bench.best_known import Known
    from moccasin_mzn.bench.matrix import BenchGraph, Run
    from moccasin_mzn.bench.package import Package


@group()
def bench() -> None:
    """Run experiments; report, export and package their results; maintain a table of best-known values."""


bench.add_command(run)


# --- bench report ---------------------------------------------------------------------------------------------


REPORT_FORMATS = ("html", "md", "tex")


@bench.command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE.sqlite")
@click.option("--experiment", metavar="NAME", help="The experiment, if there are several in STORE.")
@click.option("--published", type=click.Path(path_type=Path), metavar="FILE.csv",
              help="CSV of published results, to show alongside.")  # fmt: skip
@click.option("--best-known", type=click.Path(path_type=Path), metavar="FILE.csv",
              help="Table of best-known values to compare with, made by `bench best-known`.")  # fmt: skip
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FOLDER",
              help="Folder for the report.  [default: STORE-report in the current folder]")  # fmt: skip
@click.option("--format", "formats", type=Choice(REPORT_FORMATS), multiple=True,
              help="A format to write; may be given several times.  [default: all]")  # fmt: skip
def report(
    store: Path, experiment: str | None, published: Path | None, best_known: Path | None, output: Path | None,
    formats: tuple[str, ...],
) -> int:  # fmt: skip
    """Write tables, plots and statistics of the runs in STORE: an HTML page, Markdown and LaTeX."""
    require("bench", "sqlalchemy", "pandas", "matplotlib", "jinja2")
    from moccasin_mzn.api.published import read_published
    from moccasin_mzn.bench.best_known import read_table
    from moccasin_mzn.bench.report.runs import read_runs
    from moccasin_mzn.bench.report.sections import document
    from moccasin_mzn.bench.report.writing import check_folder, write
    from moccasin_mzn.bench.store import Store

    folder = output if output is not None else Path(f"{store.stem}-report")
    check_apart(
        {name: folder / f"report.{name}" for name in REPORT_FORMATS},
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
    files = write(made, folder, formats or REPORT_FORMATS)
    for line in (*made.warnings, *made.summary):
        click.echo(line)
    click.echo(f"written: {', '.join(map(str, files))}")
    return EXIT_FOUND


# --- bench export ---------------------------------------------------------------------------------------------


EXPORT_FORMATS = ("csv", "parquet", "mzn-bench", "aslib")


@bench.command()
@click.argument("store", type=click.Path(path_type=Path), metavar="STORE.sqlite")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FILE.csv|FILE.parquet|FOLDER",
              help="The file for the runs; FILE-traces.csv next to it gets the traces. Or a folder.")  # fmt: skip
@click.option("--format", "form", type=Choice(EXPORT_FORMATS), help="The format.  [default: by the name of the output]")
@click.option(
    "--experiment", metavar="NAME", help="With --format aslib: the experiment, if there are several in STORE."
)
def export(store: Path, output: Path, form: str | None, experiment: str | None) -> int:
    """Write the results in STORE as tables, in the layout of MiniZinc's mzn-bench, or as a scenario of ASlib."""
    from moccasin_mzn.bench.export import export_aslib, export_mzn_bench, export_tables
    from moccasin_mzn.bench.store import Store

    if form is None:
        form = output.suffix.removeprefix(".")
        if form not in EXPORT_FORMATS:
            raise InputError(f"{output}: of which format? give --format, one of {', '.join(EXPORT_FORMATS)}")
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


# --- bench package --------------------------------------------------------------------------------------------


@bench.command()
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT.toml")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="A new folder.")
@click.option("--instances", "count", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="Number of instances, spread over all grades of difficulty.")  # fmt: skip
@click.option(
    "--grade-by",
    metavar="METHOD",
    help="The method whose time to a proof is the difficulty of an instance.  [default: the fastest with search off]",
)
@click.option(
    "--models/--no-models",
    default=True,
    show_default=True,
    help="Write model, checker and licence along with the instances, or the instances alone.",
)
@click.option("--csplib", is_flag=True, help="Also write an entry for CSPLib, in the folder csplib.")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE.sqlite",
    help="Results of `bench run`; runs that it has are not repeated.  [default: EXPERIMENT.sqlite]",
)
@click.option(
    "--graphs",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FOLDER",
    help="Another folder with graphs of the experiment; may be given several times.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of processes that share the cores and memory of this machine.",
)
def package(
    experiment: Path, output: Path, count: int, grade_by: str | None, models: bool, csplib: bool, store: Path | None,
    folders: tuple[Path, ...], workers: int,
) -> int:  # fmt: skip
    """Make a submission to the MiniZinc Challenge from the graphs and budgets of EXPERIMENT.

    The package has a model in one file, graded instances, what is known of them, README and licence. Missing runs of
    the experiment's methods of the staged formulation are done first; after an interruption the same command continues.
    """
    from moccasin_mzn.bench.export import empty_folder
    from moccasin_mzn.bench.package import Package, chosen, graded, grading_methods, is_of_package, package_files
    from moccasin_mzn.bench.store import Store

    graphs, runs = planned(experiment, folders)
    runs = [run for run in runs if is_of_package(run.row)]
    rows = [run.row for run in runs]
    methods = grading_methods(rows, grade_by)
    empty_folder(output)
    path = store if store is not None else Path(f"{experiment.stem}.sqlite")
    status = run_missing(graphs, runs, path, workers=workers)
    if status != EXIT_FOUND:
        return status
    with Store.open(path) as opened:
        candidates, left_out = graded(graphs, rows, opened, methods)
        grading = [row for row in opened.rows() if row["method"] in methods]
    for reason, number in left_out.items():
        click.echo(f"left out: {count_text(number, 'instance')}: {reason}")
    if not candidates:
        raise InputError(f"{experiment}: there is no instance for a package")
    made = Package(chosen(candidates, count), command_line())
    _write_package(output, made, package_files(made, methods, grading, whole=models, csplib=csplib))
    return EXIT_FOUND


def _write_package(folder: Path, made: Package, texts: dict[str, str]) -> None:
    """Write the files of a package, and print how many there are and the grades of its instances."""
    from moccasin_mzn.base.files import replace_file
    from moccasin_mzn.bench.package import grade_text

    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(folder / name, text)
    grades = Counter(grade_text(one.grade) for one in made.instances)
    counts = ", ".join(f"{number} {grade}" for grade, number in grades.items())
    click.echo(f"{folder}: {count_text(len(texts), 'file')}, {count_text(len(made.instances), 'instance')}: {counts}")


# --- bench best-known -----------------------------------------------------------------------------------------


@bench.command("best-known")
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT.toml")
@click.option("--table", "--output", "-o", "table", type=click.Path(path_type=Path), metavar="FILE.csv",
              default=Path("best_known.csv"), show_default=True,
              help="The table, made with its files if it is not there.")  # fmt: skip
@click.option(
    "--only", default="*", metavar="PATTERN", help="Only the instances that match, such as `*n100* 0.9, order input*`."
)
@click.option("--again", is_flag=True, help="Also search instances that are proven and certified in full.")
@click.option("--list", "listing", is_flag=True, help="List the instances and what is known of them, without a search.")
@effort("Seconds for each instance, and as many again for its certificate.", time_limit=60.0)
def best_known(
    experiment: Path, table: Path, only: str, again: bool, listing: bool, time_limit: float, threads: int | None,
    seed: int | None,
) -> int:  # fmt: skip
    """Make or improve a table of best-known values for the graphs, budgets, orders and limits of EXPERIMENT.

    Each search starts from the schedule that is known, and nothing is ever replaced by anything worse. What is found
    is in the table as soon as it is certified; after an interruption the same command continues.
    """
    from moccasin_mzn.bench.best_known import improve, merged, read_table, summary
    from moccasin_mzn.search.options import STOP, Options

    rows = read_table(table) if table.exists() else []
    graphs, runs = planned(experiment, ())
    lines = dict.fromkeys(_line_of(run, graphs, experiment.parent, table.parent) for run in runs)
    options = Options.of({"time_limit": time_limit, "threads": threads, "seed": seed, "if_none": STOP})
    chosen = [row for row in lines if fnmatchcase(row.label, only)]
    with stopped_by_signals():
        for row in chosen:
            rows = merged(rows, row)
            row = next(one for one in rows if one.instance == row.instance)
            done = row.file and row.status in ("optimal", "infeasible") and row.certified == row.bound
            if not listing and (again or not done):
                click.echo(f"{row.label} ...", err=True)
                rows = improve(rows, row, table, generated, options, lambda result: click.echo(result.reason, err=True))
                row = next(one for one in rows if one.instance == row.instance)
            click.echo(_status_line(row))
    click.echo(summary(rows))
    return EXIT_FOUND


def _line_of(run: Run, graphs: list[BenchGraph], folder: Path, table_folder: Path) -> Known:
    """Make the line of a run's instance, about which nothing is known yet; `folder` is that of the experiment."""
    from moccasin_mzn.bench.best_known import GENERATE, new_line

    graph = next(one for one in graphs if one.source.label == run.row["graph"])
    assert graph.graph is not None
    words = graph.source.generate
    path = "" if words else os.path.relpath((folder / str(graph.source.path)).resolve(), table_folder.resolve())
    label = f"{GENERATE}{' '.join(words)}" if words else Path(path).as_posix()
    return new_line(label, graph.graph, run.row["budget"], run.order, run.row["max_computations"] or "auto")


def _status_line(row: Known) -> str:
    if not row.file:
        return f"{row.label}: not searched yet"
    tdi = (
        "no schedule known"
        if row.tdi_percent is None
        else f"TDI {row.tdi_percent:.3f} %, gap {row.gap_percent or 0:.3f} %"
    )
    return f"{row.label}: {row.status}, {tdi}, certified {row.certified_percent:.1f} %"
