"""One solver in a race: its request, its process, and what it contributed."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import psutil

from moccasin_mzn.api.process import Attempt, run_request
from moccasin_mzn.api.request import Request
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.search.conclusion import SEARCH
from moccasin_mzn.search.options import STOP, Options, Search, SearchOptions
from moccasin_mzn.search.result import RacerResult, RacerStatus

START_SECONDS = 0.3
"""Time from the start of a process until its own clock runs, in seconds."""
SLACK_SECONDS = 0.5
"""Time by which a racer may be late before it is stopped, in seconds."""
GRACE_SECONDS = 1.0
"""Time that a stopped racer may take before it is killed, in seconds: its schedules are known already."""
HARD_SECONDS = 5.0
"""Time beyond its limit after which a racer is killed in any case, in seconds."""


@dataclass
class Racer:
    """One contestant; all but its process is used by one thread only."""

    name: str
    """The solver, or "search"."""
    parallel: bool
    """True if it makes use of more than one thread."""
    search: Search
    """The `search` of its own request, see `SearchOptions`."""
    seed: int | None = None
    in_floating_point: bool = False
    """True if it computes in floating point, so that a schedule may refute its claims."""
    runs: int = 0
    threads: int = 0
    """Number of threads in its latest run."""
    seconds_given: float | None = None
    """The racer's slice in the latest run; None: no limit."""
    begin: float = 0.0
    """Beginning of the latest run, in seconds from the beginning of the record."""
    start_value: int | None = None
    """Value of the answer from which the latest run started."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Set when the race is over."""
    answers: int = 0
    """Number of improvements that it found itself."""
    value: int | None = None
    """Value of the best of them."""
    bound: int = 0
    status: RacerStatus = "not-started"
    ending: str = "not started"
    error_kind: str | None = None
    """Kind of the error that its latest run ended with, see `InputError`."""
    seconds: float = 0.0
    cpu_seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """True if it ended without an answer of its own."""
        return self.status == "failed"

    @property
    def best(self) -> int | None:
        """Value of the best answer that it knows: its own or the one it started from."""
        return min((known for known in (self.value, self.start_value) if known is not None), default=None)

    def credit(self, source: str | None) -> str:
        """Return the name to credit for a report: its own, and that of one of its searches if it has several."""
        return f"{self.name}, {source}" if self.search == "on" and source and source != self.name else self.name

    def note_answer(self, value: int) -> None:
        """Count an answer, unless it is the one it started from or no better."""
        if self.best is None or value < self.best:
            self.value = value
            self.answers += 1

    def note_end(self, attempt: Attempt, best: int | None) -> None:
        """Take note of the end of a run, when the best answer that anybody has is worth `best`.

        A bound that meets it is a proof, even if the race was over before its own result came; one above it is not: it
        was computed in floating point, and is refuted.
        """
        self.seconds += attempt.ending.seconds
        self.cpu_seconds += attempt.ending.cpu_seconds
        result, self.error_kind = attempt.result, (attempt.error or {}).get("kind")
        self.status = result["status"] if result else "unknown"
        late = self.seconds_given is not None and attempt.ending.seconds > self.seconds_given - SLACK_SECONDS
        if result is None and attempt.ending.how == "exited":  # even if it was just about to be stopped
            self.status, self.ending = "failed", failure(attempt)
        elif self.status in ("optimal", "infeasible") or self.bound == best:
            self.ending = "proof"
        elif self.stopping.is_set():
            self.ending = "stopped"
        elif late:
            self.ending = "time"
        elif result is None:
            self.status, self.ending = "failed", failure(attempt)
        else:
            self.ending = result["reason"] if result["failure"] else "gave up"

    def summary(self) -> RacerResult:
        """Return its entry in the result of the race."""
        return RacerResult(self.name, self.status, self.value, self.bound, self.seconds, self.cpu_seconds, self.ending)

    def note(self, least: int) -> str:
        """Return one line of text for people; `least` is the bound that everybody knows."""
        if self.runs == 0:
            return f"{self.name}: not started, the race was over before its turn"
        found = "no schedule" if self.value is None else f"{count_text(self.answers, 'schedule')}, {self.value:,}"
        bound = f"bound {self.bound:,}" if self.bound > least else "no bound"
        runs = "" if self.runs == 1 else f" in {self.runs} runs"
        spent = f"{self.seconds:.1f} s{runs} on {count_text(self.threads, 'thread')}, {self.cpu_seconds:.1f} CPU s"
        return f"{self.name}: {found}; {bound}; {spent}; {self.ending}"


def failure(attempt: Attempt) -> str:
    """Return why a process gave no answer, in one line."""
    ending = attempt.ending
    if attempt.error is not None:
        return attempt.error["message"]
    if ending.how == "lost":
        return "its supervisor died"
    if ending.exit_status is not None and ending.exit_status < 0:
        return f"it died by signal {-ending.exit_status}"
    lines = [line.strip() for line in ending.stderr.splitlines() if line.strip()]
    if not lines:
        return f"it ended with status {ending.exit_status}"
    return lines[-1]


def request_of(racer: Racer, request: Request, start: Sequence[object] | None) -> Request:
    """Make the request of the next run of a racer, which starts from the answer `start`."""
    given, options = racer.seconds_given, request.options
    assert isinstance(options, SearchOptions)
    limit = None if given is None else max(0.1, given - START_SECONDS)
    name = SearchOptions.solver if racer.search == "only" else racer.name
    options = replace(
        options, search=racer.search, solver=name, threads=racer.threads, seed=racer.seed, time_limit=limit
    )  # fmt: skip
    if isinstance(options, Options):
        options = replace(options, if_none=STOP)  # the race itself tries what would help
    return replace(request, options=options, start=None if start is None else tuple(start))


def run_racer(racer: Racer, request: Request, on_event: Callable[[JsonObject], None]) -> Attempt:
    """Run a racer until its time is up or the race is over.

    Args:
        on_event: called with each of its reports, in this thread.
    """
    given = racer.seconds_given
    end = None if given is None else time.monotonic() + given + SLACK_SECONDS
    return run_request(
        request,
        hard_limit=None if given is None else given + HARD_SECONDS,
        on_event=on_event,
        stop=lambda: racer.stopping.is_set() or (end is not None and time.monotonic() > end),
        grace=GRACE_SECONDS,
    )


def line_up(options: SearchOptions, parallel: dict[str, bool], alone: bool) -> list[Racer]:
    """Return the racers in the order of starting.

    Args:
        parallel: by solver, whether it makes use of more than one thread.
        alone: does each solver search on its own, because the whole model is too large? Then with seeds of their own.
    """
    if alone:
        first = options.seed or 0
        return [Racer(name, True, "on", (first + k) % 2**31) for k, name in enumerate(options.solvers)]
    racers = [Racer(name, parallel[name], "off", options.seed) for name in options.solvers]
    if options.search == "on":
        racers.insert(0, Racer(SEARCH, False, "only", options.seed))
    return racers


# --- How threads, time and cores are shared out among those that race -----------------------------------------


LOOK_SECONDS = 0.1
"""Time over which the load of each core is measured, in seconds."""


def usable_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_share(free: int, waiting: int, parallel: bool) -> int:
    """Threads for the next racer, at least one.

    Shared out to all at once, T threads make T // S for each of S racers, and one more for those first in line.

    Args:
        free: unused threads; may be negative where all run at once.
        waiting: racers that are to start, this one included.
        parallel: can it use more than one?
    """
    return max(1, -(-free // waiting)) if parallel else 1


def slice_seconds(remaining: float, waiting: int, slots: int) -> float:
    """Seconds for the next racer, so that all that wait, this one included, get as much on `slots` of them at once."""
    return remaining / -(-waiting // slots)


def least_busy_cores(count: int) -> frozenset[int] | None:
    """Return the `count` least busy of the cores that this process may use.

    None means all of them, or that processes cannot be pinned (macOS)."""
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
