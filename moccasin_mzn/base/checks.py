"""Checks of arguments: integers, numbers and sequences, also those of numpy; seconds, threads, seeds."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from moccasin_mzn.base.errors import InputError, shown

MOST_SECONDS = 10**9
"""Largest time limit, in seconds: some 30 years, well within what clocks and waiting functions accept."""
MOST_THREADS = 10_000
"""Largest number of threads; far more than any machine has cores."""


def plain(value: Any) -> Any:
    """Convert a number, flag or text of another type, such as numpy's, to Python's own.

    All else is returned unchanged; the function that it is for refuses it: a bool is no number, a float no integer.

    Floats of other widths count as what they are written as: a numpy.float32 of 0.8 is 0.8.
    """
    if value is None or type(value) in (int, float, bool, str):
        return value
    try:
        return operator.index(value)
    except Exception:  # whatever it does where it is no integer
        pass
    if type(value).__module__.partition(".")[0] != "numpy" or getattr(value, "ndim", None) != 0:
        return value
    own = value.item()
    return float(str(value)) if type(own) is float and not isinstance(value, float) else own


def plain_values(values: tuple[object, ...]) -> tuple[Any, ...]:
    """Convert each value by `plain`."""
    return values if set(map(type, values)) <= {int, str, float, bool} else tuple(map(plain, values))


def sequence(values: object, what: str, expected: str) -> tuple[Any, ...]:
    """Convert a list, tuple, range, array or other sequence to a tuple of Python's own values.

    Args:
        what, expected: what is wrong, and what is wanted instead, for a message.

    Raises:
        InputError: it is text, a mapping, a set, or nothing to go through.
    """
    if not isinstance(values, tuple | list):
        if hasattr(values, "tolist"):
            values = values.tolist()  # an array, of which elements and rows are Python's own then
        unordered = isinstance(values, str | bytes | Mapping | set | frozenset)
        if unordered or not isinstance(values, Iterable):
            raise InputError(f"{what}: expected {expected}, got {shown(values)}")
    try:
        return tuple(values)
    except Exception as error:  # whatever its own iterator raises
        raise InputError(f"{what}: expected {expected}, got {shown(values)}: {error}") from None


def check_time_limit(seconds: float | None) -> None:
    """Check a number of seconds; None: no limit.

    Raises:
        InputError: it is not positive, or no number.
    """
    limit = plain(seconds)
    if limit is not None and (type(limit) not in (int, float) or not 0 < limit < math.inf):  # NaN fails too
        raise InputError(f"time limit {shown(seconds)} is not a positive number of seconds")
    if limit is not None and limit > MOST_SECONDS:
        raise InputError(f"time limit {shown(seconds)} is over {MOST_SECONDS} seconds; without one there is no limit")


def check_threads(threads: int | None) -> None:
    """Check a number of threads; None: one per core.

    Raises:
        InputError: it is no positive integer.
    """
    count = plain(threads)
    if count is not None and (type(count) is not int or count < 1):
        raise InputError(f"threads {shown(threads)} is not a positive integer")
    if count is not None and count > MOST_THREADS:
        raise InputError(f"threads {shown(threads)} is over {MOST_THREADS}")


def check_seed(seed: int | None) -> None:
    """Check a random seed; None: any.

    Raises:
        InputError: it is no integer of 31 bits.
    """
    number = plain(seed)
    if number is not None and (type(number) is not int or not 0 <= number < 2**31):
        raise InputError(f"seed {shown(seed)} is not an integer in 0..2147483647")
