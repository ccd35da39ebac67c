"""Searches that run beside each other, each in a thread, and meet in a record; the first proof ends all of them."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from moccasin_mzn.clock import POLL_SECONDS, Deadline
from moccasin_mzn.errors import OutOfMemoryError, out_of_memory
from moccasin_mzn.search.processes.guarded import never
from moccasin_mzn.solvers.minizinc.run import SolverError

BEARABLE = SolverError, OutOfMemoryError
"""Without what failed so the others go on, and what they find counts."""


@dataclass(kw_only=True)
class Beside(ABC):
    """The threads of one call, and how it ended. A subclass has `options`, with a time limit, and `record`."""

    if TYPE_CHECKING:  # fields there

        @property
        def options(self) -> Any: ...
        @property
        def record(self) -> Any: ...

    enough: Callable[[], bool] = never
    """Asked as often as the time: True ends it. So ends a search inside another one."""
    interrupted: bool = False
    errors: list[Exception] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    threads: list[threading.Thread] = field(default_factory=list)

    @abstractmethod
    def _start(self) -> None:
        """Run the searches that can contribute, each in a thread.

        Raises:
            InputError: MiniZinc is missing or does not know the solver, even where neither is needed after all.
        """

    @abstractmethod
    def _lonely(self) -> bool:
        """Is what is left a search that never ends by itself, and of no more use?"""

    @abstractmethod
    def _answered(self) -> bool:
        """Is anything found or proven?"""

    def run(self, on_progress: Callable[[Any], None]) -> None:
        """Run all searches until one of them settles it, time is up or the user has had enough.

        An interrupt from the keyboard, at whatever moment, ends the search with what is found.

        Raises:
            InputError: see `_start`; a solver failed before there was an answer; or the judge contradicts one.
        """
        try:
            self._start()
            while any(thread.is_alive() for thread in self.threads) and not self._over() and not self._lonely():
                self._tell(on_progress, POLL_SECONDS)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._join()
        self._tell(on_progress, None)
        answered = self._answered() or self.interrupted
        for error in self.errors:  # an interrupt from the keyboard reaches the solver too
            if not isinstance(error, BEARABLE) or not answered:
                raise error

    def _run_beside(self, job: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=self._guarded, args=(job,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as failure:
            self.errors.append(out_of_memory(failure) or failure)
            return
        self.threads.append(thread)  # only now: an interrupt may come before it has begun

    def _guarded(self, job: Callable[[], None]) -> None:
        """An error in any thread ends the search and is raised in the caller's."""
        try:
            job()
        except Exception as failure:
            error = out_of_memory(failure) or failure
            self.errors.append(error)
            if not isinstance(error, BEARABLE):  # without the solver the others go on
                self.stopping.set()

    def _over(self) -> bool:
        """Is it time to end?"""
        return self.record.ended.is_set() or self.stopping.is_set() or self.deadline.over() or self.enough()

    @property
    def deadline(self) -> Deadline:
        """Of the whole call."""
        return Deadline(self.options.time_limit, self.record.begin)

    def _tell(self, on_progress: Callable[[Any], None], patience: float | None) -> None:
        """Pass news on; wait for the first so long, or, for None, pass on only what is there."""
        try:
            progress = self.record.news.get(timeout=patience) if patience else self.record.news.get_nowait()
            while True:
                on_progress(progress)
                progress = self.record.news.get_nowait()
        except queue.Empty:
            pass

    def _join(self) -> None:
        self.stopping.set()
        while True:
            try:
                for thread in self.threads:
                    thread.join()
                return
            except KeyboardInterrupt:
                self.interrupted = True

    def _ended_before(self, gave_up: str) -> str:
        """How the search ended if not by a proof; `gave_up`: the words if nobody stopped it."""
        if self.interrupted:
            return "before the user stopped the search"
        if self.errors:
            return f"before the solver failed: {self.errors[0]}"
        remaining = self.deadline.remaining()
        return "within the time limit" if remaining is not None and remaining < 1 else gave_up
