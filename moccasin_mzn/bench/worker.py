"""What dask loads first in each worker of this machine (see `cluster._local`)."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from multiprocessing import resource_tracker

HELD = tuple(getattr(signal, name) for name in ("SIGINT", "SIGHUP") if hasattr(signal, name))
"""Signals of a terminal, which are for `bench run` alone: it stops its workers in good order."""


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Hold back the terminal's signals, in this process until the end of the block, in those it starts for good."""
    resource_tracker.ensure_running()  # else the first child starts it, which lets signals through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(worker: object) -> None:
    """Leave the terminal's process group, and take signals again, also for the runs that this worker will start."""
    os.setpgid(0, 0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
