"""Time since the process started, which is when MiniZinc started to count."""

from __future__ import annotations

import os
import time
from functools import cache

_LOADED = time.monotonic()


def seconds_since_start() -> float:
    """Seconds since the operating system created the process; where it does not say, since this module was loaded."""
    return time.monotonic() - _LOADED + _age_when_loaded()


@cache
def _age_when_loaded() -> float:
    """Seconds between the creation of the process and the loading of this module, 0 if unknown."""
    try:
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - started - (time.monotonic() - _LOADED))
    except (OSError, AttributeError, ValueError, IndexError):
        return 0.0
