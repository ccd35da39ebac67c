"""Questions put to the package, in one of three ways, and what comes back."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soaking.questions import API, PROCESS, Question

if TYPE_CHECKING:
    from moccasin_mzn import Progress

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "moccasin_mzn"]
HANG_SECONDS = 300
"""Beyond any limit of a question: what takes longer has come to a halt."""


@dataclass(frozen=True)
class Reply:
    """What the package answered."""

    status: int
    """Exit status; of a function what the command would have had, -1: a traceback."""
    text: str
    """What was printed on stdout."""
    errors: str
    """What was printed on stderr, or the traceback."""
    seconds: float
    steps: tuple[tuple[int | None, int, tuple[int, ...] | None], ...] = field(default=())
    """For a function: duration, bound and sequence of each progress it reported."""

    def document(self) -> dict[str, Any]:
        """The object printed.

        Raises:
            ValueError: it is no strict JSON object.
        """
        found = json.loads(self.text, parse_constant=_refuse)
        if not isinstance(found, dict):
            raise ValueError(f"{self.text[:80]!r} is no object")
        return found


def is_reported(reply: Reply) -> bool:
    """Is nothing on stdout but perhaps the error on stderr, as an object?"""
    if not reply.text.strip():
        return True
    reported = reply.errors.strip().splitlines()[-1:]
    try:
        error = json.loads(reply.text.strip().splitlines()[-1])
    except ValueError:
        return False
    return error.get("type") == "error" and reported == [f"error: {error['message']}"]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def ask(question: Question, folder: Path) -> Reply:
    """Put a question; its files go to the folder."""
    arguments = question.arguments(folder)
    if question.how == API and question.kind in ("solve", "race"):
        return _call(question)
    return run_process(arguments) if question.how == PROCESS else run_here(arguments)


def run_process(arguments: list[str]) -> Reply:
    """A command line in a process of its own."""
    begin = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        ended = subprocess.run(
            [*PROGRAM, *arguments], capture_output=True, timeout=HANG_SECONDS, env=environment, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as late:
        return Reply(-1, "", f"no end within {late.timeout} s", time.monotonic() - begin)
    text, errors = (stream.decode("utf-8", "replace") for stream in (ended.stdout, ended.stderr))
    return Reply(ended.returncode, text, errors, time.monotonic() - begin)


def run_here(arguments: list[str]) -> Reply:
    """A command line in this process, with a folder for temporary files as the command has it: what a MiniZinc that is
    ended leaves is in there."""
    from moccasin_mzn.base.temporary import own_folder
    from moccasin_mzn.cli.main import run

    begin, text, errors = time.monotonic(), io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(errors), own_folder():
            status = run(arguments)
    except Exception:
        return Reply(-1, text.getvalue(), traceback.format_exc(), time.monotonic() - begin)
    return Reply(status, text.getvalue(), errors.getvalue(), time.monotonic() - begin)


def _call(question: Question) -> Reply:
    """The function `solve`, with the reply of the command line."""
    from moccasin_mzn import solve
    from moccasin_mzn.base.errors import InputError

    begin, steps = time.monotonic(), []
    position = {node: at for at, node in enumerate(question.problem.graph.nodes)}

    def note(step: Progress) -> None:
        sequence = None if step.nodes is None else tuple(position[node] for node in step.nodes)
        steps.append((step.value, step.bound, sequence))

    try:
        result = solve(
            question.problem.graph, **_arguments(question),
            on_progress=note,
        )  # fmt: skip
        text = json.dumps(result.details.as_dict(), allow_nan=False)
    except InputError as error:
        return Reply(2, "", f"error: {' '.join(str(error).split())}\n", time.monotonic() - begin, tuple(steps))
    except Exception:
        return Reply(-1, "", traceback.format_exc(), time.monotonic() - begin, tuple(steps))
    return Reply(0 if result.valid else 1, text, "", time.monotonic() - begin, tuple(steps))


def _arguments(question: Question) -> dict[str, Any]:
    """The arguments of the function."""
    read = {"time-limit": float, "threads": int, "seed": int, "until-gap": float}
    given: dict[str, Any] = {
        name.replace("-", "_"): read.get(name, lambda value: value)(value) for name, value in question.options.items()
    }
    if given.pop("one_phase", None):
        given["two_phase"] = False
    given["order"] = "free" if question.free else question.problem.order
    given["max_computations"] = question.most
    given["warm_start"] = question.start
    return given
