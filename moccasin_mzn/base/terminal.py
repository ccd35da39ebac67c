"""Robustness against a terminal or a parent that stops reading stdout, closes it, or stops this process."""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterator
from typing import NoReturn, TextIO

from moccasin_mzn.base.interrupts import none_lost
from moccasin_mzn.base.temporary import own_folder

FAILED = 2
"""The exit status of a program that is interrupted, or whose stdout fails."""
_GONE = errno.EPIPE, errno.EIO
"""Errors that mean that the reader is gone: the end of a pipe is closed, a terminal has hung up."""


class _Lasting(io.FileIO):
    """A descriptor to write to; after the first error all else goes nowhere."""

    error: OSError | None = None

    def write(self, data: memoryview) -> int | None:  # type: ignore[override]
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return len(data)


def make_streams_last() -> None:
    """Have `sys.stdout` and `sys.stderr` swallow errors from now on; a closed one is /dev/null."""
    for descriptor in (0, 1, 2):  # else the next file that is opened takes the place of a closed one
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        setattr(sys, name, _opened(descriptor, getattr(sys, name)))


def _opened(descriptor: int, before: TextIO | None) -> io.TextIOWrapper:
    """A stream like the one before, which is None where the descriptor was closed."""
    raw = _Lasting(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),  # type: ignore[type-var]  # a raw file, as the class is
        encoding=getattr(before, "encoding", None) or "utf-8",
        errors="replace",
        line_buffering=descriptor != 1 or raw.isatty(),
        write_through=getattr(before, "write_through", False),
    )


@contextlib.contextmanager
def own_stderr() -> Iterator[None]:
    """Have `sys.stderr` go on as before while descriptor 2, which libraries and processes write to, leads nowhere."""
    before, kept, nowhere = sys.stderr, os.dup(2), os.open(os.devnull, os.O_WRONLY)
    before.flush()
    sys.stderr = _opened(kept, before)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        sys.stderr = before
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def is_read() -> bool:
    """Return False once something could not be printed on stdout."""
    return _error() is None


def complaint() -> str | None:
    """Return the error of stdout, if it matters: a reader that has stopped reading is no error."""
    sys.stdout.flush()
    error = _error()
    return None if error is None or error.errno in _GONE else f"stdout: {error.strerror or error}"


def _error() -> OSError | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, _Lasting) else None


def as_program(run: Callable[[], int]) -> NoReturn:
    """Run what this process is for, with streams that last and a folder of its own for temporary files, and exit.

    Args:
        run: returns the exit status.
    """
    try:
        make_streams_last()
        stack = contextlib.ExitStack()
        atexit.register(stack.close)  # the last to go: what libraries remove at the end is in this folder
        stack.enter_context(own_folder())
        with none_lost():
            status = run()
        failure = complaint()
        if failure is not None:
            print(f"error: {failure}", file=sys.stderr)
            status = FAILED
    except KeyboardInterrupt:  # while modules were loaded, or at the very end
        status = FAILED
    exec("")  # else Python ends by SIGINT if an interrupt, though caught, has left the latest exec of text
    sys.exit(status)
