"""The clock of a search: when it ends, how much time is left, and how often to check that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

POLL_SECONDS = 0.05
"""Time between two checks whether to stop, in seconds, while waiting for a thread or a process."""


def own_seconds() -> Callable[[], float]:
    """Return a clock of the CPU time of this thread, in seconds from now; any thread may read it.

    Where the platform has no such clock, it is wall-clock time.
    """
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(threading.get_ident())
        spent = time.clock_gettime(clock)
        return lambda: time.clock_gettime(clock) - spent
    begin = time.monotonic()
    return lambda: time.monotonic() - begin


def never() -> bool:
    """Do not stop; the `stop` of a search that ends by itself."""
    return False


def nothing(*_: object) -> None:
    """Do nothing; the check of what has no time limit."""


@contextmanager
def halting(stop: Callable[[], bool], halt: Callable[[], object]) -> Iterator[None]:
    """Have a second thread call `stop` every 50 ms, and `halt` whenever that returns true, until this context ends."""
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(POLL_SECONDS):
            if stop():
                halt()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


@dataclass
class Turns:
    """Ends a search after a number of times that it asks whether to end, so that no clock decides."""

    most: int
    stop: Callable[[], bool]
    """Ends it before by returning true."""
    count: int = 0

    def __call__(self) -> bool:
        self.count += 1
        return self.count > self.most or self.stop()


def seconds_by(stop: Callable[[], bool], seconds: float) -> float | None:
    """Return the seconds of a part of a search; None: the search counts its turns, and asks no clock."""
    return None if isinstance(stop, Turns) else seconds


@dataclass(frozen=True)
class Deadline:
    """A time limit on the clock `time.monotonic`. ::

    begin        now                    begin + seconds
    |-- elapsed --|------ remaining -----|
    """

    seconds: float | None = None
    """Length of the time limit, from `begin`; None: there is no limit."""
    begin: float = field(default_factory=lambda: time.monotonic())

    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.begin

    def remaining(self, share: float = 1.0) -> float | None:
        """Seconds left of a share of the whole time, 0 or more; None: there is no limit."""
        return None if self.seconds is None else max(0.0, share * self.seconds - self.elapsed())

    def over(self, share: float = 1.0) -> bool:
        """Return whether such a share of the whole time is over; without a limit it never is."""
        return self.seconds is not None and self.elapsed() >= share * self.seconds

    def short_of(self, seconds: float) -> bool:
        """Return whether less than this many seconds are left; without a limit there never are."""
        left = self.remaining()
        return left is not None and left < seconds

    def share(self, share: float, most: float) -> float:
        """Seconds for a part: a share of the whole time, and no more than `most`, which it is without a limit."""
        return most if self.seconds is None else min(most, share * self.seconds)

    def part(self, share: float) -> Deadline:
        """Return a deadline that begins now and has a share of the time that remains."""
        left = self.remaining()
        return Deadline(None if left is None else share * left, time.monotonic())
