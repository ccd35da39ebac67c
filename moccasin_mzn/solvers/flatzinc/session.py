"""One run of a solver: it reads the file and works in a thread; this one listens to signals and reports bounds."""

from __future__ import annotations

import gc
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from moccasin_mzn.solvers.flatzinc.execution import Options, StopFlag, seconds_since_start
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.flatzinc.stream import Item, SolutionStream, Statistic, Values, peak_megabytes
from moccasin_mzn.solvers.flatzinc.syntax import FlatZinc, FlatZincError


def read(path: str) -> FlatZinc:
    """Read and parse a file; raises `FlatZincError` if it cannot be read, and as `parse` does."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:  # strings may hold any bytes
            text = file.read()
    except OSError as error:
        raise FlatZincError(f"{path}: {error.strerror}") from None
    return parse(text, path)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Reading makes millions of objects that stay: looking through them again and again takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


RESERVE = 0.1
"""Seconds of the time limit kept for printing."""
POLL = 0.05
"""Seconds between two looks at what the solver has told, and at signals."""


class Session(ABC):
    """A translated file together with its solver and its output, the `stream`.

    Attributes:
        failure: what has gone wrong in the solver's thread.
        sizes: statistics of the translated file.
        version: of the solver, with its name.
    """

    patience = 0.0
    """Seconds that the search may take to end once it is told to."""

    def __init__(
        self,
        options: Options,
        items: Sequence[Item],
        evaluate: Callable[[Values], int | float] | None,
        maximize: bool,
        sizes: dict[str, Statistic],
        version: str,
        identity: Callable[[Values], Hashable] | None = None,
    ) -> None:
        self.options = options
        self.stream = SolutionStream(items, options, sys.stdout, evaluate, maximize, identity)
        self.sizes = sizes
        self.version = version
        self.failure: BaseException | None = None
        self.initial_time = 0.0

    @abstractmethod
    def search(self) -> None:
        """Search to the end, in the solver's thread."""

    @abstractmethod
    def conclude(self) -> int:
        """Print what the search has come to; the exit status."""

    def interrupt(self) -> None:  # noqa: B027 (not every solver can be told)
        """Tell the search to end."""

    def run(self, stop: StopFlag) -> int:
        """Solve, print, and return the exit status, or end the process if the search does not stop when told to."""
        self.initial_time = seconds_since_start()
        if self.seconds_left() == 0:
            self.stream.finish("stopped", self.last_statistics())
            return 0
        # Python handles signals in the main thread only, which therefore has to stay out of the solver.
        stop.armed = True
        thread = threading.Thread(target=self._search, daemon=True)
        thread.start()
        try:
            while thread.is_alive() and self.failure is None:
                thread.join(POLL)
                self.stream.report_bound(self.statistics())
                if stop.requested:
                    self._abandon(thread)
            if self.failure is None:
                return self.conclude()
        except BrokenPipeError:  # nobody listens any more
            _leave(1)
        print(f"error: {self.failure}", file=sys.stderr)
        return _leave(1) if thread.is_alive() else 1

    def seconds_left(self) -> float | None:
        """Seconds left of the time limit; None: there is none."""
        limit = self.options.limit
        return None if limit is None else max(limit - seconds_since_start() - RESERVE, 0.0)

    def statistics(self, **counters: Statistic) -> dict[str, Statistic]:
        """What there is to tell at this moment, besides the objective."""
        return {
            **self.sizes,
            "initTime": self.initial_time,
            "solveTime": seconds_since_start() - self.initial_time,
            "peakMem": peak_megabytes(),
            "solverVersion": self.version,
            **counters,
        }

    def last_statistics(self) -> dict[str, Statistic]:
        """As `statistics`, when the run ends."""
        return self.statistics()

    def _search(self) -> None:
        try:
            self.search()
        except BaseException as error:  # reported by the main thread
            self.failure = self.failure or error

    def _abandon(self, thread: threading.Thread) -> None:
        """Stop the search; print the best solution and leave without waiting for it much longer."""
        self.interrupt()
        thread.join(self.patience)
        if thread.is_alive():
            self.stream.finish("stopped", self.last_statistics())
            _leave(0)


def run_session(make: Callable[[], Session], stop: StopFlag) -> int:
    """The exit status of a session, or of an error in the file that it is made of."""
    try:
        with without_garbage_collection():
            session = make()
    except FlatZincError as error:
        print(error, file=sys.stderr)
        return 1
    return session.run(stop)


def print_log(line: str) -> None:
    """Takes a line of the solver's log."""
    print(line, file=sys.stderr, flush=True)


def _leave(status: int) -> NoReturn:
    """End the process while the solver still works in another thread."""
    sys.stderr.flush()
    os._exit(status)
