"""What several commands share: arguments, exit statuses, signals."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from cloup import option

from moccasin_mzn.cli.outputs import Job, write_files
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError
from moccasin_mzn.terminal import stopped_by_signals

if TYPE_CHECKING:
    from moccasin_mzn.api.request import Request
    from moccasin_mzn.search.result import Listener, Progress

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
    from moccasin_mzn.report.progress_lines import ProgressLines

    lines = ProgressLines(request.problem, sys.stderr, named=len(getattr(request.options, "solvers", ())) > 1)

    def tell(progress: Progress) -> None:
        lines(progress)
        if also is not None:
            also(progress)

    with stopped_by_signals():
        yield tell
    lines.flush()


def told(
    result: Any, good: bool, files: Sequence[Job], as_json: bool, stream: Any,
    print_result: Callable[[Any, Any], None], what: str = "schedule",
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


def with_verdicts(result: Any, verdicts: Callable[[], Sequence[str]]) -> tuple[Any, bool]:
    """The result with what solution checkers say of it, and whether they all accept it: one that rejects it, or a
    MiniZinc that fails, is told on stderr, and takes no answer along."""
    try:
        return replace(result, checks=tuple(verdicts())), True
    except InputError as error:
        click.echo(f"error: {' '.join(str(error).split())}", err=True)
        return result, False


def json_line(result: Any) -> str:
    """What --json prints of a result, and --output writes."""
    return json.dumps(result.as_dict()) + "\n"


def file_jobs(*files: tuple[Path | None, Callable[[], str | bytes]]) -> list[Job]:
    """What writes the files that are asked for, each with its content, which is made only then."""
    from moccasin_mzn.files import replace_file

    def job(path: Path, content: Callable[[], str | bytes]) -> Job:
        return path, lambda: replace_file(path, content())

    return [job(path, content) for path, content in files if path is not None]


def pictures(path: Path | None, picture: Callable[[], Any]) -> list[Job]:
    """What draws a `Picture`, if that is asked for; it is made only then."""

    def draw() -> None:
        from moccasin_mzn.report.plots.files import write_picture

        assert path is not None
        write_picture(path, picture())
        click.echo(f"picture: {path}", err=True)

    return [] if path is None else [(path, draw)]
