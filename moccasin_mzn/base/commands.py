"""Command lines as messages and files show them: they run as printed, in a shell."""

from __future__ import annotations

import shlex
from pathlib import Path

PROGRAM = "moccasin-mzn"
"""The command that the package installs; `python -m moccasin_mzn` is the same."""


def command(*words: object) -> str:
    """Return a command line of this program for a POSIX shell, in which each word is quoted where it has to be."""
    return shlex.join([PROGRAM, *map(word, words)])


def word(part: object) -> str:
    """Return a word of a command line; a path that would be taken for an option begins with its folder."""
    text = str(part)
    return f"./{text}" if isinstance(part, Path) and text.startswith("-") else text
