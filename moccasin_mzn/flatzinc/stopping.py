"""Signals and time limits that end a run."""

from __future__ import annotations

import _thread
import signal
import threading


class Interrupted(Exception):
    """A signal came, or the time was up, before there was anything to print."""


class StopFlag:
    """Set by SIGINT and SIGTERM. Until `armed` is true a signal raises `Interrupted` instead."""

    def __init__(self) -> None:
        self.requested = False
        self.armed = False
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def set_after(self, seconds: float) -> None:
        """Act as if SIGINT came after this time, which reading a large file and CP-SAT's presolve ignore."""
        timer = threading.Timer(max(seconds, 0.0), _thread.interrupt_main)
        timer.daemon = True
        timer.start()

    def _handle(self, number: int, frame: object) -> None:
        self.requested = True
        if not self.armed:
            raise Interrupted
