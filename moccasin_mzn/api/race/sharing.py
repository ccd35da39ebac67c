"""How threads, time and cores are shared out among those that race."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import psutil

LOOK_SECONDS = 0.1
"""How long the load of each core is looked at."""


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_share(free: int, waiting: int, parallel: bool) -> int:
    """Threads for the next racer, at least one.

    Shared out to all at once, T threads make T // S for each of S racers, and one more for those first in line.

    Args:
        free: threads that nobody uses; may be negative where all run at once.
        waiting: racers that are to start, this one included.
        parallel: can it use more than one?
    """
    return max(1, -(-free // waiting)) if parallel else 1


def slice_seconds(remaining: float, waiting: int, slots: int) -> float:
    """Seconds for the next racer, so that all that wait, this one included, get as much on `slots` of them at once."""
    return remaining / -(-waiting // slots)


def least_busy_cores(count: int) -> frozenset[int] | None:
    """So many of the cores that this process may use, those least busy just now; None where that is all of them, or
    where processes cannot be pinned (macOS)."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    allowed = sorted(os.sched_getaffinity(0))
    if count >= len(allowed):
        return None
    load = psutil.cpu_percent(LOOK_SECONDS, percpu=True)
    return frozenset(sorted(allowed, key=lambda core: load[core] if core < len(load) else 0.0)[:count])


@contextlib.contextmanager
def pinned(cores: frozenset[int] | None) -> Iterator[None]:
    """Keep this thread, and all threads and processes that it starts meanwhile, on some cores; None: anywhere."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
