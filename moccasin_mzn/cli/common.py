"""Files that a command writes: they replace nothing that it reads, and are there before anything is printed."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeGuard

import click
from cloup import option

from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError
from moccasin_mzn.terminal import stopped_by_signals

if TYPE_CHECKING:
    from moccasin_mzn.api.json_lines import JsonStream
    from moccasin_mzn.api.request import Request
    from moccasin_mzn.report.plots.frontier_picture import FrontierPicture
    from moccasin_mzn.report.plots.picture import Picture
    from moccasin_mzn.search.result import Listener, Progress, Result


_WORDS = ("input", "topological", "free", "auto")
"""Not files, where an option takes a file or one of these."""

Job = tuple[Path, Callable[[], None]]
"""A file, and what writes it, whole or not at all; raises `InputError` where it cannot."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, object]) -> None:
    """Refuse before any work outputs that cannot be written, and those in whose place there is something to lose.

    Args:
        outputs: see `check_apart`; "--plot" is a picture.
        inputs: see `check_apart`.

    Raises:
        InputError: see `check_apart`; or a file cannot be written.
    """
    from moccasin_mzn.files import check_writable

    check_apart(outputs, inputs)
    for name, path in outputs.items():
        if path is not None and name == "--plot":
            from moccasin_mzn.report.plots.files import check_picture_file

            check_picture_file(path)
        elif path is not None:
            check_writable(path)


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, object]) -> None:
    """Refuse outputs in whose place there is something to lose.

    Args:
        outputs: by option; None: not asked for.
        inputs: by what they are, such as "the graph"; what is no file's path is passed over.

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
    """Do all jobs that can be done, and tell of each of the others in a line; True if there are none of these."""
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


# --- What several commands share: arguments, exit statuses, signals -------------------------------------------


EXIT_FOUND, EXIT_NONE, EXIT_BAD_INPUT = 0, 1, 2

GRAPH = click.argument("graph", type=click.Path(path_type=Path))


def _not_free(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if value == "free":
        raise InputError(f"--order free is for searches: {context.info_name} is told an order")
    return value


BUDGET = option(
    "--budget", metavar="0.8|80%|BYTES|1.5GiB",
    help="Most memory: a fraction of the input order's peak, or an amount.",
)  # fmt: skip
MAX_COMPUTATIONS = option(
    "--max-computations", metavar="C|auto|FILE",
    help="How often a node may be computed; a JSON file may say it for each.  [default: 2]",
)  # fmt: skip
_ORDER_HELP = "Input order: the graph file's (else a topological one), a topological one, or a file of node ids."
ORDER = click.option(
    "--order", default="input", show_default=True, metavar="input|topological|FILE", callback=_not_free,
    help=_ORDER_HELP,
)  # fmt: skip
ORDER_OR_FREE = option(
    "--order", default="input", show_default=True, metavar="input|topological|free|FILE",
    help=f"{_ORDER_HELP} free: search for the order too; fractions and TDI refer to the input order.",
)  # fmt: skip
IN_PLACE = option(
    "--in-place", is_flag=True,
    help="Outputs overwrite inputs where the graph says that they may, and nobody reads those later.",
)  # fmt: skip
COUNT_FIXED = option(
    "--count-fixed", is_flag=True, help="The budget is for the graph's fixed memory too (parameters, optimizer state)."
)


@contextlib.contextmanager
def progress_lines(request: Request, also: Listener | None = None) -> Iterator[Listener]:
    """While a request is answered: gives what writes lines about it on stderr; being told to end stops the search.

    Args:
        also: gets what the lines tell.
    """
    from moccasin_mzn.report.tables import ProgressLines

    lines = ProgressLines(request.problem, sys.stderr, named=len(getattr(request.options, "solvers", ())) > 1)

    def tell(progress: Progress) -> None:
        lines(progress)
        if also is not None:
            also(progress)

    with stopped_by_signals():
        yield tell
    lines.flush()


def told(
    result: Result, good: bool, files: Sequence[Job], as_json: bool, stream: JsonStream | None,
    print_result: Callable[[Result, TextIO], None], what: str = "schedule",
) -> int:  # fmt: skip
    """Write the answer if it is good, and print it; the exit status.

    Args:
        result: has `as_dict` and `reason`.
        good: is there what was asked for?
        files: to write if so.
        stream: gets the result instead of stdout; None: there is none.
        print_result: prints it for people.
        what: was asked for.
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
    if not good:
        click.echo(Page.INFEASIBLE.after(f"no {what}: {result.reason}"), err=True)
        return EXIT_NONE
    return EXIT_FOUND if all_written else EXIT_BAD_INPUT


def with_verdicts(result: Result, verdicts: Callable[[], Sequence[str]]) -> tuple[Result, bool]:
    """The result with what solution checkers say of it, and whether they all accept it: one that rejects it, or a
    MiniZinc that fails, is told on stderr, and takes no answer along."""
    try:
        return replace(result, checks=tuple(verdicts())), True
    except InputError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        return result, False


def json_line(result: Result) -> str:
    """What --json prints of a result, and --output writes."""
    return json.dumps(result.as_dict()) + "\n"


def file_jobs(*files: tuple[Path | None, Callable[[], str | bytes]]) -> list[Job]:
    """What writes the files that are asked for, each with its content, which is made only then."""
    from moccasin_mzn.files import replace_file

    def job(path: Path, content: Callable[[], str | bytes]) -> Job:
        return path, lambda: replace_file(path, content())

    return [job(path, content) for path, content in files if path is not None]


def pictures(path: Path | None, picture: Callable[[], Picture | FrontierPicture]) -> list[Job]:
    """What draws a `Picture`, if that is asked for; it is made only then."""

    def draw() -> None:
        from moccasin_mzn.report.plots.files import write_picture

        assert path is not None
        write_picture(path, picture())
        click.echo(f"picture: {path}", err=True)

    return [] if path is None else [(path, draw)]
