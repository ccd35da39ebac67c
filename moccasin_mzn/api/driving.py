"""How a function of the package is driven: who hears of progress, what ends it, and how an interrupt is passed on.

::

    search ── progress ──> Drive.report ── on_progress ──> the caller's function
       │                      │ a criterion, Gap, an event, True or an error of that function
       └── stop? ──────────> Drive.over
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from moccasin_mzn.api.frontier.points import FrontierPoint
from moccasin_mzn.base.clock import POLL_SECONDS
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.log import LOGGER
from moccasin_mzn.base.stop import Criteria, State, name_of
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.heuristics.orders.least_peak import OrderProgress
from moccasin_mzn.problem.platform import computed_nodes
from moccasin_mzn.search.result import Progress as Found
from moccasin_mzn.search.result import SearchResult

Interrupts: TypeAlias = Literal["keep", "raise"]
"""What Ctrl-C does: "keep": the best answer so far is returned; "raise": `Interrupted` is raised, which has it."""
SIGN_SECONDS = 1.0
"""Longest time between two signs of life, in seconds, where they are given."""
Answered = TypeVar("Answered")


@dataclass(frozen=True)
class Progress:
    """A better answer or a better bound, or, with addresses, a sign of life, while a function of the package runs."""

    seconds: float
    """Seconds since the search began."""
    value: int | None
    """What is minimized, of the best answer so far: a duration or another objective, the peak of an order, the size of
    an arena; None while absent."""
    bound: int
    """Lower bound on the value of all answers."""
    peak: int | None = None
    """Peak memory of the best answer, in the graph's size unit, with several memories in the first one; before there is
    an answer within the budget, the least peak seen; None where nothing is known."""
    nodes: tuple[NodeId, ...] | None = None
    """Ids of the nodes in the order in which the new best answer computes them; None where only the bound is better."""
    source: str = ""
    """Name of who found the answer or proved the bound: a search, a solver, a strategy."""
    budget: int | None = None
    """In `frontier` and `compare`, the budget that this is about, in the graph's size unit."""
    method: str = ""
    """In `compare`, the name of the formulation or strategy."""
    peaks: Mapping[str, int] | None = None
    """With several memories the peak in each, by name."""
    unplaced: int | None = None
    """With addresses, the value of a schedule within the memory budgets whose offsets are searched for; it becomes a
    best answer if its arenas are within the budgets. None: this is about the best answer or the bound alone."""
    arenas: Mapping[str, int] | None = None
    """With addresses, sizes of the least arenas known of that schedule, or of the new best answer, by memory."""

    @property
    def gap(self) -> float | None:
        """(value - bound) / value, a fraction; None without an answer."""
        if self.value is None:
            return None
        return (self.value - self.bound) / self.value if self.value else 0.0

    def __str__(self) -> str:
        parts = [f"{self.seconds:.1f} s"]
        parts += [] if self.budget is None else [f"budget {self.budget:,}"]
        parts += [self.method] if self.method else []
        parts += ["no answer yet"] if self.value is None else [f"value {self.value:,}"]
        parts += [f"bound {self.bound:,}"]
        parts += [] if self.gap is None else [f"gap {100 * self.gap:.3f} %"]
        parts += [] if self.peak is None else [f"peak {self.peak:,}"]
        parts += [] if self.unplaced is None else [f"searching offsets for value {self.unplaced:,}"]
        return ", ".join(parts) + (f", {self.source}" if self.source else "")


OnProgress: TypeAlias = Callable[[Progress], object]
"""A function of the caller's; if it returns True or raises StopIteration, the search ends with its best answer."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, raised after everything has been stopped, with `interrupts="raise"`.

    Attributes:
        result: the best answer so far, as the function would have returned it with `interrupts="keep"`.
    """

    def __init__(self, result: object) -> None:
        super().__init__("interrupted; the best answer so far is its attribute result")
        self.result: Any = result  # of the class that the function returns


@dataclass
class Drive:
    """One call of a function of the package.

    Raises:
        InputError: unknown `interrupts`.
    """

    what: str
    """The function, for the log."""
    on_progress: OnProgress | None = None
    criteria: Criteria = Criteria()
    interrupts: str = "keep"
    gap: float | None = None
    """The search ends at this gap, where it does not see to that itself."""
    why: str = ""
    """Which criterion has ended the search; empty: none has."""
    best: int | None = None
    """Value of the best answer so far."""
    latest: float = 0.0
    """When it was found, by `time.monotonic()`."""
    errors: list[BaseException] = field(default_factory=list)
    """What the caller's function has raised."""
    doing: str = ""
    """What takes time now, for signs of life."""
    last: Progress | None = None
    """What was reported last."""
    last_at: float = 0.0
    """When that was, by `time.monotonic()`."""
    begin: float = field(default_factory=time.monotonic)
    """When the function was called, by `time.monotonic()`."""
    asked_at: float = 0.0
    """When the criteria were asked last, by `time.monotonic()`."""
    _asking: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """The criteria are asked by one thread at a time."""
    _reporting: threading.RLock = field(default_factory=threading.RLock, repr=False)
    """The caller's function is called by one thread at a time."""

    def __post_init__(self) -> None:
        if not isinstance(self.interrupts, str) or self.interrupts not in ("keep", "raise"):
            raise InputError(f"interrupts {shown(self.interrupts)}: expected one of keep, raise")
        LOGGER.info("%s: begins", self.what)

    def over(self) -> bool:
        """Return whether the search is to end; called from any thread."""
        if not self.why and any(event.is_set() for event in self.criteria.events):
            self.why = "an event of the caller's"
        if not self.why and self.criteria.asked and self._asking.acquire(blocking=False):
            try:
                self._ask(time.monotonic())
            finally:
                self._asking.release()
        return bool(self.why)

    def _ask(self, now: float) -> None:
        """Ask the criteria, unless that was a moment ago."""
        if now - self.asked_at < POLL_SECONDS:
            return
        self.asked_at, (best, latest) = now, (self.best, self.latest)
        bound = 0 if self.last is None else self.last.bound
        state = State(now - self.begin, best, bound, None if best is None else now - latest)
        for criterion in self.criteria.asked:
            if self._called(lambda state, ask=criterion: bool(ask(state)), state):
                self.why = self.why or name_of(criterion)

    def _called(self, function: Callable[..., object], about: object) -> object:
        """Call a function of the caller's, and return what it returns; True if it raises what ends the search."""
        try:
            return function(about)
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise
            self.errors.append(error)
        except StopIteration:
            pass
        except BaseException as error:
            self.errors.append(error)
        return True

    def ended_by(self, found: SearchResult) -> str:
        """Return the criterion, as in "Gap(0.02)", the event or the interrupt that ended a search; empty: none did."""
        limit, gap, iterations = self.criteria.time_limit, self.criteria.gap, self.criteria.iterations
        reached = found.gap_percent
        if found.interrupted:
            return "an interrupt"
        if found.status not in ("feasible", "unknown") or self.why:
            return self.why if found.status in ("feasible", "unknown") else ""
        if gap and reached is not None and reached <= 100 * gap:
            return f"Gap({gap:g})"
        if limit is not None and found.seconds.total >= limit:
            return f"TimeLimit({limit:g})"
        return "" if iterations is None else f"Iterations({iterations})"

    @contextmanager
    def signs_of_life(self, begin: float) -> Iterator[None]:
        """Meanwhile the caller's function is called once a second at least, by another thread where nothing is new.

        Args:
            begin: seconds count from here, by `time.monotonic()`.

        Raises:
            BaseException: what the caller's function has raised, in place of an error that there is no answer.
        """
        ended = threading.Event()

        def live() -> None:
            while not ended.wait(SIGN_SECONDS / 4):
                with self._reporting:
                    now = time.monotonic()
                    if now - self.last_at > SIGN_SECONDS / 3 and not ended.is_set():
                        self._sign(begin)

        thread = threading.Thread(target=live, name="signs of life", daemon=True)
        if self.on_progress is not None:
            thread.start()
        try:
            yield
        except Exception as error:
            if (own := self._own_error) is not None and own is not error:
                raise own from error
            raise
        finally:
            ended.set()
            if self.on_progress is not None:
                thread.join()

    def begins(self, doing: str, begin: float) -> None:
        """Report what takes time from now on."""
        self.doing = doing
        self._sign(begin)

    def _sign(self, begin: float) -> None:
        with self._reporting:
            seen = self.last or Progress(0.0, None, 0)
            self._report(replace(seen, seconds=time.monotonic() - begin, nodes=None, source=self.doing))

    def report(self, progress: Progress) -> None:
        """Pass an improvement on, in the caller's thread; errors of the caller's function wait until all is stopped."""
        with self._reporting:
            self._report(progress)

    def _report(self, progress: Progress) -> None:
        self.last, self.last_at = progress, time.monotonic()
        if progress.value is not None and (self.best is None or progress.value < self.best):
            self.best, self.latest = progress.value, time.monotonic()
        LOGGER.log(logging.DEBUG if progress.nodes is None else logging.INFO, "%s: %s", self.what, progress)
        if self.gap is not None and progress.gap is not None and progress.gap <= self.gap:
            self.why = self.why or f"Gap({self.gap:g})"
        if self.on_progress is None or self.errors:
            return
        if self._called(self.on_progress, progress) is True:
            self.why = self.why or "on_progress"

    def ended(self, answer: Answered, interrupted: bool) -> Answered:
        """Return the answer, unless something is to be raised now that everything has been stopped.

        Raises:
            BaseException: what the caller's function has raised.
            Interrupted: there was an interrupt from the keyboard, and the caller wants it raised.
        """
        status = getattr(answer, "status", "")
        LOGGER.info("%s: ends%s", self.what, f", {status}" if status else "")
        if (own := self._own_error) is not None:
            raise own
        if (interrupted or self.errors) and self.interrupts == "raise":
            raise Interrupted(answer)
        return answer

    @property
    def _own_error(self) -> BaseException | None:
        """What the caller's function has raised, but for an interrupt; None: nothing."""
        return next((error for error in self.errors if not isinstance(error, KeyboardInterrupt)), None)

    # Listeners for searches

    def heard(self, graph: ComputationGraph) -> Callable[[Found], None]:
        """Return a listener for searches for schedules and plans of a graph."""

        def listen(found: Found) -> None:
            figures = found.figures
            peaks = figures.get("peaks")
            peak = figures["peak"] if "peak" in figures else next(iter((peaks or {}).values()), None)
            nodes = None if found.answer is None else computed_nodes(graph, found.answer)
            self.report(Progress(
                found.seconds, found.value, found.bound, peak, nodes, found.source, peaks=peaks,
                unplaced=found.unplaced, arenas=found.arenas,
            ))  # fmt: skip

        return listen

    def heard_order(self, graph: ComputationGraph) -> Callable[[OrderProgress], None]:
        """Return a listener for searches for orders of a graph."""

        def listen(found: OrderProgress) -> None:
            nodes = None if found.order is None else computed_nodes(graph, found.order)
            self.report(Progress(found.seconds, found.peak, found.bound, found.peak, nodes, found.source))

        return listen

    def heard_point(self, graph: ComputationGraph) -> Callable[[FrontierPoint, float], None]:
        """Return a listener for points of a frontier."""

        def listen(point: FrontierPoint, seconds: float) -> None:
            nodes = None if point.sequence is None else computed_nodes(graph, point.sequence)
            source = point.source or point.bound_source
            self.report(Progress(seconds, point.duration, point.bound, point.peak, nodes, source, point.budget))

        return listen

    def heard_arena(self, seconds: float, size: int, bound: int, source: str) -> None:
        """Hear of a smaller arena."""
        self.report(Progress(seconds, size, bound, source=source))
