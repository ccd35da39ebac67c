"""Progress of a search with addresses: a schedule counts as soon as its arenas are within the budgets, not before.

::

    search within memory budgets ── heard ──┐
    search for offsets ── trying, arena ────┼──> the listener
    schedule with its arenas ── placed ─────┘    over, which all of them ask, repeats the latest line every two seconds
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.result import ADDRESSES, Progress, Result

SILENT_SECONDS = 2.0
"""Time after which progress is reported again while nothing improves, in seconds."""
SOURCE = "search for offsets"
"""The source of progress in which neither the schedule nor the bound is new."""


@dataclass
class Reports:
    """What one call reports to its listener."""

    problem: Problem
    call: Call = field(default_factory=Call)
    bound: int = field(init=False)
    """Lower bound on the value of schedules at the budgets proper."""
    _best: Result | None = field(default=None, init=False)
    """The best schedule whose arenas are within the budgets."""
    _tried: tuple[int, JsonObject] | None = field(default=None, init=False)
    """Value and figures of the schedule whose offsets are searched for."""
    _arenas: dict[str, int] = field(default_factory=dict, init=False)
    """Sizes of the least arenas that are known for it, by memory."""
    _latest: float = field(default=0.0, init=False)
    _thread: threading.Thread = field(default_factory=threading.current_thread, init=False)

    def __post_init__(self) -> None:
        self.bound = self.problem.least_value()

    def over(self) -> bool:
        """Return whether everything is to end; any thread may ask, and the caller's reports a sign of life."""
        if (
            self._tried is not None
            and time.monotonic() > self._latest + SILENT_SECONDS
            and threading.current_thread() is self._thread
        ):
            self._report(SOURCE)
        return self.call.stop()

    def heard(self, progress: Progress) -> None:
        """Pass on the progress of a search at the budgets proper, whose schedules have no arenas yet."""
        self.bound = max(self.bound, progress.bound)
        if progress.value is not None:
            self._tried, self._arenas = (progress.value, progress.figures), {}
            self._report(progress.source)
        elif self._best is None:
            self._send(replace(progress, seconds=self.seconds))

    def trying(self, result: Result) -> None:
        """Note the schedule whose offsets are searched for from now on."""
        figures = self.problem.figures(result.simulation)
        assert figures is not None
        self._tried, self._arenas = (result.value, figures), {}

    def arena(self, name: str, size: int) -> None:
        """Note the size of a smaller arena of that schedule in a memory."""
        self._arenas[name] = size

    def over_budget(self) -> None:
        """Report that the arenas of the schedule are over the budgets, while no other schedule counts."""
        if self._best is None and self._tried is not None:
            self._report(SOURCE)

    def placed(self, result: Result, bound: int) -> None:
        """Report a schedule that counts: the best one whose arenas are within the budgets."""
        self._best, self.bound = result, max(self.bound, bound)
        figures = self.problem.figures(result.simulation)
        assert figures is not None
        arenas = self.problem.arenas_with_limits(result.arenas)
        sizes = dict(zip(self._names(), (arena.size for arena, *_ in arenas), strict=True))
        self._send(Progress(
            self.seconds, self.problem.objective, result.value, self.bound, figures, result.answer, result.found_by,
            arenas=sizes,
        ))  # fmt: skip

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return time.monotonic() - self.call.begin

    def _names(self) -> list[str]:
        return [memory.name for memory in self.problem.platform.memories]

    def _report(self, source: str) -> None:
        assert self._tried is not None
        (unplaced, figures), value = self._tried, None
        if self._best is not None:
            value, figures = self._best.value, self.problem.figures(self._best.simulation) or figures
        else:
            figures = {name: None if name in OBJECTIVES else figure for name, figure in figures.items()}
        arenas = dict(self._arenas) or None
        self._send(Progress(self.seconds, ADDRESSES, value, self.bound, figures, None, source, unplaced, arenas))

    def _send(self, progress: Progress) -> None:
        self._latest = time.monotonic()
        self.call.listener(progress)
