"""The caller of a search: who hears of progress, what ends the search, and when its time began.

::

    Call ── listener <── progress
       ├── stop ───────> ends the search, and every search inside it
       └── begin ──────> seconds, deadlines
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.search.result import Listener, ignore


@dataclass(frozen=True)
class Call:
    """What one call passes through all functions that search for it."""

    listener: Listener = ignore
    """Called with every new incumbent and bound, in the caller's thread."""
    stop: Callable[[], bool] = never
    """Ends the search by returning true, with the best that is found; asked many times a second by any thread."""
    begin: float = field(default_factory=time.monotonic)
    """Seconds and time limits count from here, by `time.monotonic()`."""

    def deadline(self, time_limit: float | None) -> Deadline:
        """Return the deadline of a time limit in seconds; None: there is none."""
        return Deadline(time_limit, self.begin)

    def after(self, seconds: float) -> Call:
        """Return the call with a beginning that is later, by seconds that do not count."""
        return replace(self, begin=self.begin + seconds)
