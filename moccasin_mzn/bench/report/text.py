"""Numbers as they stand in tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from moccasin_mzn.bench.report.summary import Spread
from moccasin_mzn.formatting import BYTE_STEPS


def percent(value: float) -> str:
    """Three decimals; none that would be zeros from 100 on."""
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.1f}"


def seconds_text(value: float) -> str:
    """Three digits, hundredths at most."""
    if not math.isfinite(value):
        return "never"
    return ratio_text(value)


def ratio_text(value: float) -> str:
    """Three digits or more, hundredths at most."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def amount(value: float | None) -> str:
    """An integer with thousands separators; "-" for none."""
    return "-" if value is None else f"{value:,.0f}"


def spread_text(spread: Spread | None, form: Callable[[float], str] = percent) -> str:
    """The median, and the range where there is one that can be seen; "-" for none."""
    if spread is None:
        return "-"
    middle, low, high = form(spread.median), form(spread.low), form(spread.high)
    # A line may break only before the bracket.
    return middle if low == high else f"{middle} [{low}\u00a0to\u00a0{high}]"


def list_text(words: Iterable[object]) -> str:
    """Words with commas and a last "and"."""
    told = [str(word) for word in words]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}" if told else "none"


def bytes_text(value: float) -> str:
    """Bytes in binary multiples."""
    for step, name in BYTE_STEPS:
        if value >= step:
            return f"{value / step:.3g} {name}"
    return f"{value:.0f} B"
