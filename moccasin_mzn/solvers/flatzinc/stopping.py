"""Signals and time limits that end a run."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from importlib import import_module

from moccasin_mzn.solvers.flatzinc.clock import seconds_since_start
from moccasin_mzn.solvers.flatzinc.options import Options


class Interrupted(BaseException):
    """A signal came, or the time was up, before there was anything to print; nothing that catches errors catches it."""


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


def execute(options: Options, module: str) -> int:
    """The exit status of the module's `run`: 0 too if a signal or the time limit ends it before there is a solution.

    Importing the module takes time, in which signals already count. Some libraries swallow what is raised meanwhile, or
    turn it into errors of their own.
    """
    stop = StopFlag()
    try:
        if options.limit is not None:
            stop.set_after(options.limit - seconds_since_start())
        run = import_module(module).run
        if stop.requested:
            raise Interrupted
        return run(options, stop)
    except BrokenPipeError:  # nobody listens any more
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  (open until the end)
        return 1
    except (Interrupted, Exception):
        if not stop.requested or stop.armed:
            raise
        print("=====UNKNOWN=====", flush=True)
        return 0
