"""Checks of what people give: integers, numbers, sequences, those of numpy too; seconds, threads, seeds."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from moccasin_mzn.errors import InputError, shown

MOST_SECONDS = 10**9
"""Some 30 years; clocks and waiting take no more than some powers of ten of it."""
MOST_THREADS = 10_000


def plain(value: Any) -> Any:
    """A number, flag or text of another type, such as numpy's, as Python's own. All else is left as it is, to be
    refused by whom it is for: a bool is no number, a float no integer.

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
    """The values as `plain` has them."""
    return values if set(map(type, values)) <= {int, str, float, bool} else tuple(map(plain, values))


def sequence(values: object, what: str, expected: str) -> tuple[Any, ...]:
    """A list, tuple, range, array or whatever else has values one after the other, as a tuple of Python's own.

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
    told = plain(seconds)
    if told is not None and (type(told) not in (int, float) or not 0 < told < math.inf):  # NaN fails too
        raise InputError(f"time limit {shown(seconds)} is not a positive number of seconds")
    if told is not None and told > MOST_SECONDS:
        raise InputError(f"time limit {shown(seconds)} is over {MOST_SECONDS} seconds; without one there is no limit")


def check_threads(threads: int | None) -> None:
    """Check a number of threads; None: one per core.

    Raises:
        InputError: it is no positive integer.
    """
    told = plain(threads)
    if told is not None and (type(told) is not int or told < 1):
        raise InputError(f"threads {shown(threads)} is not a positive integer")
    if told is not None and told > MOST_THREADS:
        raise InputError(f"threads {shown(threads)} is over {MOST_THREADS}")


def check_seed(seed: int | None) -> None:
    """Check a random seed; None: any.

    Raises:
        InputError: it is no integer of 31 bits.
    """
    told = plain(seed)
    if told is not None and (type(told) is not int or not 0 <= told < 2**31):
        raise InputError(f"seed {shown(seed)} is not an integer in 0..2147483647")
