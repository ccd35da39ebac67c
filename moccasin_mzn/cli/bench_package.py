"""The command `bench package`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import click

from moccasin_mzn.cli.bench_run import planned, run_missing
from moccasin_mzn.cli.common import EXIT_FOUND
from moccasin_mzn.cli.making import command_line
from moccasin_mzn.cli.strict import command
from moccasin_mzn.errors import InputError
from moccasin_mzn.formatting import count_text


@command()
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT.toml")
@click.option("--output", "-o", type=click.Path(path_type=Path), required=True, metavar="FOLDER", help="A new folder.")
@click.option("--instances", "count", type=click.IntRange(1), default=20, show_default=True, metavar="N",
              help="How many, over all grades of difficulty.")  # fmt: skip
@click.option(
    "--grade-by",
    metavar="METHOD",
    help="The method whose seconds to a proof are the difficulty.  [default: the fastest with search off]",
)
@click.option(
    "--models/--no-models",
    default=True,
    show_default=True,
    help="Model, checker and licence beside the instances, or instances alone.",
)
@click.option("--csplib", is_flag=True, help="In the folder csplib, an entry of CSPLib as well.")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FILE.sqlite",
    help="Results, as of bench run; those that are there are not run again.  [default: EXPERIMENT.sqlite]",
)
@click.option(
    "--graphs",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FOLDER",
    help="Where else to look for the experiment's graphs; may be given several times.",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that share the cores and memory of this machine.",
)
def package(
    experiment: Path, output: Path, count: int, grade_by: str | None, models: bool, csplib: bool, store: Path | None,
    folders: tuple[Path, ...], workers: int,
) -> int:  # fmt: skip
    """Make a submission to the MiniZinc Challenge of the graphs and budgets of EXPERIMENT.

    A model in one file, graded instances, what is known of them, README and licence. Runs what is missing of the
    experiment's methods of the staged formulation, first; after an interruption the same command goes on.
    """
    from moccasin_mzn.bench.export import empty_folder
    from moccasin_mzn.bench.package import (
        Package,
        chosen,
        grade_text,
        graded,
        grading_methods,
        is_of_package,
        package_files,
    )
    from moccasin_mzn.bench.store import Store
    from moccasin_mzn.files import replace_file

    graphs, runs = planned(experiment, folders)
    runs = [run for run in runs if is_of_package(run.row)]
    rows = [run.row for run in runs]
    methods = grading_methods(rows, grade_by)
    empty_folder(output)
    path = store if store is not None else Path(f"{experiment.stem}.sqlite")
    status = run_missing(runs, path, workers=workers)
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
    texts = package_files(made, methods, grading, whole=models, csplib=csplib)
    for name, text in texts.items():
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        replace_file(output / name, text)
    grades = Counter(grade_text(one.grade) for one in made.instances)
    told = ", ".join(f"{number} {grade}" for grade, number in grades.items())
    click.echo(f"{output}: {count_text(len(texts), 'file')}, {count_text(len(made.instances), 'instance')}: {told}")
    return EXIT_FOUND
