"""stdout and stderr that never stop a command: whoever does not read along, or cannot, misses only what is printed."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

_GONE = errno.EPIPE, errno.EIO
"""Errors that say that nobody reads any more: the end of a pipe is closed, a terminal has hung up."""


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
    """False once something could not be printed on stdout."""
    return _error() is None


def complaint() -> str | None:
    """What went wrong with stdout, if it matters: that whoever read it has had enough is no error."""
    sys.stdout.flush()
    error = _error()
    return None if error is None or error.errno in _GONE else f"stdout: {error.strerror or error}"


def _error() -> OSError | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.error if isinstance(raw, _Lasting) else None
