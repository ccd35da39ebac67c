"""Files that a command writes: they replace nothing that it reads, and are there before anything is printed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from moccasin_mzn.errors import InputError

_WORDS = ("input", "topological", "free", "auto")
"""Not files, where an option takes a file or one of these."""

Job = tuple[Path, Callable[[], None]]
"""A file, and what writes it, whole or not at all; raises `InputError` where it cannot."""


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Any]) -> None:
    """Refuse before any work outputs that cannot be written, and those in whose place there is something to lose.

    Args:
        outputs: see `check_apart`; "--plot" is a picture.
        inputs: see `check_apart`.

    Raises:
        InputError: see `check_apart`; or a file cannot be written.
    """
    from moccasin_mzn.files import check_writable

    check_apart(outputs, inputs)
    for option, path in outputs.items():
        if path is not None and option == "--plot":
            from moccasin_mzn.report.plots.files import check_picture_file

            check_picture_file(path)
        elif path is not None:
            check_writable(path)


def check_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Any]) -> None:
    """Refuse outputs in whose place there is something to lose.

    Args:
        outputs: by option; None: not asked for.
        inputs: by what they are, such as "the graph"; what is no file's path is passed over.

    Raises:
        InputError: an output is an input, also by a link, or another output.
    """
    there = {what: Path(given) for what, given in inputs.items() if _may_be_file(given)}
    seen: dict[str, Path] = {}
    for option, path in outputs.items():
        if path is None or _is_special(path):
            continue
        for what, other in there.items():
            if _same(path, other):
                raise InputError(f"{path}: is {what}, and would be lost")
        for former, other in seen.items():
            if _same(path, other):
                raise InputError(f"{path}: {former} and {option} would be one file")
        seen[option] = path


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


def _may_be_file(given: Any) -> bool:
    return isinstance(given, Path) or (isinstance(given, str) and given not in _WORDS and not given.isdecimal())


def _is_special(path: Path) -> bool:
    """True for pipes and devices, in which nothing is lost."""
    return os.path.exists(path) and not os.path.isfile(path)


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there yet
        return os.path.realpath(one) == os.path.realpath(other)
