"""Statistics in the form that MiniZinc reads."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping

from moccasin_mzn.solvers.flatzinc.intset import HIGHEST, LOWEST

Statistic = int | float | str | None


def statistics_block(values: Mapping[str, Statistic]) -> str:
    """`%%%mzn-stat: name=value` lines with their end mark.

    MiniZinc 2.6 gives up on a value that it cannot read, so None, infinities and integers past 64 bits are left out,
    floats have a point and strings quotes.
    """
    lines = []
    for name, value in values.items():
        text = _text(value)
        if text is not None:
            lines.append(f"%%%mzn-stat: {name}={text}\n")
    return "".join(lines) + "%%%mzn-stat-end\n"


def peak_megabytes() -> float | None:
    """The most memory that this process has held, None where the operating system does not say."""
    try:
        import resource  # not on Windows
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def _text(value: Statistic) -> str | None:
    if isinstance(value, int):
        return str(value) if LOWEST < value < HIGHEST else None
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return None
    return f"{float(value):.6f}" if math.isfinite(value) and abs(value) < 1e15 else None
