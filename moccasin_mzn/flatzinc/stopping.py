"""Signals that end a run."""

from __future__ import annotations

import signal


class Interrupted(Exception):
    """A signal came before there was anything to print."""


class StopFlag:
    """Set by SIGINT and SIGTERM. Until `armed` is true a signal raises `Interrupted` instead."""

    def __init__(self) -> None:
        self.requested = False
        self.armed = False
        signal.signal(signal.SIGINT, self._handle)
        signal.signal(signal.SIGTERM, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        self.requested = True
        if not self.armed:
            raise Interrupted
