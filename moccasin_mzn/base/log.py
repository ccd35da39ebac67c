"""What the package logs: `logging.getLogger("moccasin_mzn")`.

`moccasin_mzn` has searches with their ends and incumbents (INFO), bounds and threads (DEBUG); `moccasin_mzn.notes` has
what the command line shows on stderr. Nothing is shown until the caller configures logging.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer

LOGGER = logging.getLogger("moccasin_mzn")
LOGGER.addHandler(logging.NullHandler())
_NOTES = LOGGER.getChild("notes")
_noted: set[str] = set()


def note_once(line: str, level: int = logging.INFO) -> None:
    """Log a line for people, once in this process."""
    if line not in _noted:
        _noted.add(line)
        _NOTES.log(level, "%s", line)


def note(line: str) -> None:
    """Log what is being done, for people."""
    _NOTES.info("%s", line)


@contextmanager
def underway(line: str) -> Iterator[None]:
    """Log what is being done, if it is not done within a second."""
    timer = Timer(1.0, note, [line])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class _Lines(logging.Handler):
    """Prints messages on what is `sys.stderr` at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr, flush=True)


@contextmanager
def notes_on_stderr() -> Iterator[None]:
    """Have notes printed on stderr, as commands do."""
    lines, level = _Lines(), _NOTES.level
    _NOTES.addHandler(lines)
    _NOTES.setLevel(logging.INFO)
    try:
        yield
    finally:
        _NOTES.setLevel(level)
        _NOTES.removeHandler(lines)
