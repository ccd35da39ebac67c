"""Processes that are waited for until they end, or somebody says to end them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Mapping

from moccasin_mzn.clock import POLL_SECONDS


class StoppedError(Exception):
    """A process was stopped before it was done."""


def ended(
    command: list[str], stop: Callable[[], bool], environment: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of a command, which is killed if this function does not return.

    Raises:
        StoppedError: `stop`, asked twenty times a second, said so.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, encoding="utf-8", errors="replace", env=environment
    ) as process:
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    output, complaints = process.communicate(timeout=POLL_SECONDS)
                    return process.returncode, output, complaints
                if stop():
                    raise StoppedError
        except BaseException:
            process.kill()
            raise
