"""Checks of what people give: numbers of seconds, threads, seeds."""

from __future__ import annotations

import math

from moccasin_mzn.errors import InputError, shown


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
