"""The one exception for bad input, and how values are shown in its message."""

from __future__ import annotations

from collections.abc import Iterable

from moccasin_mzn.extras import install_command

_SHOWN_CHARACTERS = 60
_SHOWN_BITS = 256


class InputError(ValueError):
    """Bad input. The message is one clear line saying what is wrong and where.

    The command line prints the message and exits with status 2.
    """


def missing(package: str, extra: str) -> InputError:
    """What to raise where a package is not installed that comes with an extra of this one."""
    return InputError(f"{package} is missing: {install_command(extra)}")


def some_of(names: Iterable[object], most: int = 5) -> str:
    """The first of many names, for use in a message."""
    names = list(names)
    return ", ".join(map(str, names[:most])) + (", ..." if len(names) > most else "")


def shown(value: object) -> str:
    """`value` as a short piece of one line, for use in a message."""
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS:
        return f"an integer of {value.bit_length()} bits"  # repr refuses integers of many digits
    text = " ".join(repr(value).split())
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[: _SHOWN_CHARACTERS - 4]} ..."
    return text
