"""Parts that several commands share: output files, arguments, exit statuses, progress and answers.

Files that a command writes replace nothing that it reads, and are there before anything is printed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeGuard

import click

from moccasin_mzn.base.commands import command
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.interrupts import stopped_by_signals
from moccasin_mzn.cli.options import problem_options
from moccasin_mzn.problem.options import BUDGET_HELP, INPUT_ORDER_HELP

if TYPE_CHECKING:
    from moccasin_mzn.api.json_lines import JsonStream
    from moccasin_mzn.api.request import Request
    from moccasin_mzn.graphs.graph import ComputationGraph
    from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
    from moccasin_mzn.report.plots.picture import Picture
    from moccasin_mzn.search.result import Listener, Progress, Result


_WORDS = ("input", "topological", "free", "auto")
"""Words that are not files, where an option takes a file or one of them."""

Job = tuple[Path, Callable[[], None]]
"""A file, and a function that writes it, all or nothing, and raises `InputError` where it cannot."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, object]) -> None:
    """Refuse, before any work, outputs that cannot be written or would overwrite an input or each other.

    Args:
        outputs: see `check_apart`; "--plot" is a picture.
        inputs: see `check_apart`.

    Raises:
        InputError: see `check_apart`; or a file cannot be written.
    """
    from moccasin_mzn.base.files import check_writable

    check_apart(outputs, inputs)
    for name, path in outputs.items():
        if path is not None and name == "--plot":
            from moccasin_mzn.report.plots.files import check_picture_file

            check_picture_file(path)
        elif path is not None:
            check_writable(path)


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, object]) -> None:
    """Refuse outputs that would overwrite an input or each other.

    Args:
        outputs: files to write, by option; None: the option is not given.
        inputs: files to read, by description, such as "the graph"; values that are no file's path are ignored.

    Raises:
        InputError: an output is an input, also by a link, or another output.
    """
    there = {what: Path(given) for what, given in inputs.items() if _may_be_file(given)}
    seen: dict[str, Path] = {}
    for name, path in outputs.items():
        if path is None or _is_special(path):
            continue
        for what, other in there.items():
            if _same(path, other):
                raise InputError(f"{path}: is {what}, and would be lost")
        for former, other in seen.items():
            if _same(path, other):
                raise InputError(f"{path}: {former} and {name} would be one file")
        seen[name] = path


def write_files(jobs: Sequence[Job]) -> bool:
    """Do all jobs, print a line on stderr for each that fails, and return whether none failed."""
    all_done = True
    for path, write in jobs:
        try:
            write()
            continue
        except InputError as error:
            complaint = str(error)
        except MemoryError as error:
            complaint = f"{path}: cannot write: {error or 'out of memory'}"
        except KeyboardInterrupt:  # the answer is still to be printed
            complaint = f"{path}: not written: interrupted"
        click.echo(f"error: {' '.join(complaint.split())}", err=True)
        all_done = False
    return all_done


def _may_be_file(given: object) -> TypeGuard[str | Path]:
    return isinstance(given, Path) or (isinstance(given, str) and given not in _WORDS and not given.isdecimal())


def _is_special(path: Path) -> bool:
    """True for pipes and devices, in which nothing is lost."""
    return os.path.exists(path) and not os.path.isfile(path)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)


# --- Arguments, exit statuses, progress and answers -----------------------------------------------------------


EXIT_FOUND, EXIT_NONE, EXIT_BAD_INPUT = 0, 1, 2


def graph_there(context: click.Context, parameter: click.Parameter, path: Path | None) -> Path | None:
    """Take - for standard input, and refuse the name of a network, with the command that makes its file."""
    if path is None or os.path.exists(path):
        return path
    if str(path) == "-":
        return Path("/dev/stdin")
    from moccasin_mzn.graphs.generators.catalogue import NETWORKS

    if (name := str(path).casefold()) in NETWORKS:
        made = command("generate", "network", name, "-o", f"{name}.json")
        raise InputError(f"{path}: there is no such file; the network of this name is made by: {made}")
    return path


def graphs_there(context: click.Context, parameter: click.Parameter, paths: Sequence[Path]) -> tuple[Path, ...]:
    """Take graphs as `graph_there` does."""
    return tuple(graph_there(context, parameter, path) or path for path in paths)


GRAPH = click.argument("graph", type=click.Path(path_type=Path), callback=graph_there)


def _not_free(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "free":
        raise InputError(f"--order free is for searches: {context.info_name} needs a given order")
    return value


(BUDGET,) = problem_options("budget", metavar="0.8|80%|BYTES|1.5GiB", help=f"{BUDGET_HELP}.")
BUDGET_OR_LEAST, MAX_COMPUTATIONS, ORDER_OR_FREE = problem_options("budget", "max_computations", "order")
IN_PLACE, ZERO_COPY_CONCAT, COUNT_FIXED = problem_options("in_place", "zero_copy_concat", "count_fixed")
(ORDER,) = problem_options("order", metavar="input|topological|FILE", callback=_not_free, help=INPUT_ORDER_HELP)


def graph_read(path: Path, in_place: bool = False, zero_copy: bool = False, alignment: int = 1) -> ComputationGraph:
    """The graph of a file, run in place or without concatenations, which are counted in a line on stderr.

    Raises:
        InputError: see `read_graph` and `zero_copy_concat`.
    """
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.graphs.zero_copy import changed_graph

    return changed_graph(read_graph(path), in_place, alignment if zero_copy else None, partial(click.echo, err=True))


@contextlib.contextmanager
def progress_lines(request: Request, also: Listener | None = None) -> Iterator[Listener]:
    """Print progress on stderr while a request is answered, and let signals stop the search.

    Args:
        also: a second listener for the same progress.

    Yields:
        The listener for the search.
    """
    from moccasin_mzn.report.tables import ProgressLines

    lines = ProgressLines(request.problem, sys.stderr, named=len(getattr(request.options, "solvers", ())) > 1)

    def listener(progress: Progress) -> None:
        lines(progress)
        if also is not None:
            also(progress)

    with stopped_by_signals():
        yield listener
    lines.flush()


def write_answer(
    result: Result, good: bool, files: Sequence[Job], as_json: bool, stream: JsonStream | None,
    print_result: Callable[[Result, TextIO], None], what: str = "schedule",
) -> int:  # fmt: skip
    """Write the files of an answer if it is good, print it, and return the exit status.

    Args:
        good: True if the result is an answer to the request.
        files: the files to write if it is.
        stream: gets the result instead of stdout; None if absent.
        print_result: prints the result for people.
        what: the kind of answer, for the message that there is none.
    """
    all_written = write_files(files if good else ())
    text = json_line(result)
    if stream is not None:
        stream.result(result)
    elif as_json:
        sys.stdout.write(text)
    else:
        print_result(result, sys.stdout)
    sys.stdout.flush()
    if not good:  # the table has the reason already
        why = f": {result.reason}" if as_json or stream is not None else ""
        click.echo(Page.INFEASIBLE.after(f"no {what}{why}"), err=True)
        return EXIT_NONE
    return EXIT_FOUND if all_written else EXIT_BAD_INPUT


def with_checks(result: Result, check: Callable[[], Sequence[str]]) -> tuple[Result, bool]:
    """Add the verdicts of solution checkers to a result.

    Returns:
        The result with the verdicts, True; or, with a line on stderr, the result as it was, False: a checker rejects
        it, or MiniZinc fails.
    """
    try:
        return replace(result, checks=tuple(check())), True
    except InputError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        return result, False


def json_line(result: Result) -> str:
    """Return the line of JSON that --json prints of a result, and --output writes."""
    return result.as_json()


def file_jobs(*files: tuple[Path | None, Callable[[], str | bytes]]) -> list[Job]:
    """Return the jobs that write these files, without those that are None; contents are made when they are written."""
    from moccasin_mzn.base.files import replace_file

    def job(path: Path, content: Callable[[], str | bytes]) -> Job:
        return path, lambda: replace_file(path, content())

    return [job(path, content) for path, content in files if path is not None]


def pictures(path: Path | None, picture: Callable[[], Picture | FrontierPicture]) -> list[Job]:
    """Return the job that draws a picture, none without a path; the picture is made when it is drawn."""

    def draw() -> None:
        from moccasin_mzn.report.plots.files import write_picture

        assert path is not None
        write_picture(path, picture())
        click.echo(f"picture: {path}", err=True)

    return [] if path is None else [(path, draw)]
