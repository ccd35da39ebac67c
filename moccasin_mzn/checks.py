"""Checks of what people give: integers, numbers, sequences, those of numpy too; seconds, threads, seeds."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

from moccasin_mzn.errors import InputError, shown


def integer(value: Any) -> Any:
    """An integer of any type, such as numpy's, as an int. All else, a bool too, is left as it is, to be refused."""
    if isinstance(value, bool) or type(value) is int:
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def number(value: Any) -> Any:
    """A real number of any type as an int or a float; all else, a bool too, is left as it is, to be refused.

    Floats of other widths count as what they are written as: a numpy.float32 of 0.8 is 0.8.
    """
    value = integer(value)
    if type(value) in (int, float, bool) or not isinstance(value, Real):
        return value
    try:
        return float(value) if isinstance(value, float) else float(str(value))
    except (ValueError, OverflowError):
        return value


def sequence(values: Any, what: str, expected: str) -> tuple[Any, ...]:
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
            raise InputError(f"{what}: {shown(values)} is not {expected}")
    try:
        return tuple(values)
    except Exception as error:  # whatever its own iterator raises
        raise InputError(f"{what}: {shown(values)} is not {expected}: {error}") from None


def check_time_limit(seconds: float | None) -> None:
    """Check a number of seconds; None: no limit.

    Raises:
        InputError: it is not positive, or no number.
    """
    if seconds is not None and (type(seconds) not in (int, float) or not 0 < seconds < math.inf):  # NaN fails too
        raise InputError(f"time limit {shown(seconds)} is not a positive number of seconds")


def check_threads(threads: int | None) -> None:
    """Check a number of threads; None: one per core.

    Raises:
        InputError: it is no positive integer.
    """
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"threads {shown(threads)} is not a positive integer")


def check_seed(seed: int | None) -> None:
    """Check a random seed; None: any.

    Raises:
        InputError: it is no integer of 31 bits.
    """
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**31):
        raise InputError(f"seed {shown(seed)} is not an integer in 0..2147483647")
