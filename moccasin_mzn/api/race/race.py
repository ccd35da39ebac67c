"""The race: who runs when, on how many threads and for how long, and what becomes of their reports.

All racers meet in one `Board`, in the caller's thread: every schedule is judged here, from any racer, and a racer that
starts later starts from the best of them. The first proof ends the race: an answer of one racer, or a bound of one that
a schedule of another reaches.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from moccasin_mzn.api.process import Attempt
from moccasin_mzn.api.race.racer import (
    Racer,
    least_busy_cores,
    line_up,
    pinned,
    request_of,
    run_racer,
    slice_seconds,
    thread_share,
    usable_cores,
)
from moccasin_mzn.api.request import Request
from moccasin_mzn.base.clock import POLL_SECONDS, Deadline
from moccasin_mzn.base.errors import InputError, JudgeError, RefutedError
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.complexity import COMPILING_SHARE, READS_PER_SECOND, reads_by_copies, why_too_large
from moccasin_mzn.formulations.searched import PlanFormulation, Searched
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import SEARCH, conclude
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.solvers.minizinc.run import SolverError
from moccasin_mzn.solvers.minizinc.solvers import Backend, check_integers, find_backend

HEAD_START, HEAD_START_SHARE = 10.0, 0.3
"""Seconds, and share of the time limit, for which the solvers wait at most for a first schedule of the local search."""
RESERVE, RESERVE_SHARE = 1.0, 0.05
"""Seconds, and share of the time limit, that are kept for stopping the racers that run at the end."""
LEAST_SLICE = 3.0
"""No racer gets fewer seconds, those for compiling aside, unless fewer are left: a process takes one to begin."""
FIRST_SECONDS, FIRST_SHARE = 10.0, 0.5
"""Seconds, and share of the time left, that local search gets first where it shares a single thread with the others."""
OVERTAKEN_SECONDS, OVERTAKEN_SHARE = 60.0, 0.5
"""Seconds, and share of its time, after which a local search that others have overtaken begins again from the best."""


def race(record: Board, form: Searched, options: SearchOptions, call: Call) -> Result:
    """Have the solvers of `options` race on the problem of a record, and our own searches with them.

    At most as many racers run at once as there are threads, if there is a time limit. Local search and bounds have one
    thread to themselves, as with a single solver; the solvers share the others: each gets a fair slice of the time,
    and who has used up its slice waits for another one. Where the model is too large for this, each solver has a local
    search of its own, and the first of them runs all the time. On a single thread all take turns, local search first.
    Without a limit all run at once. On Linux, where there are fewer threads than cores, all of them share as many cores
    as there are threads; elsewhere only numbers of threads limit them.

    Raises:
        InputError: an unknown solver, or one of too narrow integers, before anything starts; all racers failed without
            a schedule; one is contradicted by the simulator or by another one (`JudgeError`).
    """
    contest = _Race(record, form, options, options.threads or usable_cores(), call)
    try:
        backends = [find_backend(name) for name in options.solvers]
        problem = record.problem
        check_integers(backends, lambda: form.sums(form.data(problem)), partial(node_text, problem.graph))
        contest.line_up(backends)
        with pinned(least_busy_cores(contest.threads)):
            contest.run()
    except KeyboardInterrupt:  # just before it began, or just after its end
        contest.interrupted = True
    return contest.result()


@dataclass
class _Race:
    record: Board
    form: Searched
    options: SearchOptions
    threads: int
    call: Call = field(default_factory=Call)
    racers: list[Racer] = field(default_factory=list)
    waiting: deque[Racer] = field(default_factory=deque)
    running: dict[str, tuple[Racer, threading.Thread]] = field(default_factory=dict)
    events: queue.SimpleQueue[tuple[Racer, JsonObject | Attempt | Exception]] = field(default_factory=queue.SimpleQueue)
    """Reports of the threads that watch the processes: an event, the attempt at its end, or an error."""
    start: tuple[object, ...] | None = None
    """The best answer that the formulation has as a solution."""
    start_value: int | None = None
    interrupted: bool = False
    stopped: bool = False
    notes: list[str] = field(default_factory=list)
    backends: list[Backend] = field(default_factory=list)
    request: Request = field(init=False)
    """The same for all racers, but for who they are; its nodes go by their positions."""

    def __post_init__(self) -> None:
        form = self.form if isinstance(self.form, PlanFormulation) else None
        self.request = Request(self.record.problem.by_position(), self.options, form)

    def line_up(self, backends: list[Backend]) -> None:
        """Decide who races."""
        self.backends, why = backends, None
        if self.options.search == "on" and isinstance(self.form, Formulation):
            why = why_too_large(self.record.instance, self.deadline.remaining())
        if why is not None:
            self.notes.append(f"{why}: each racer improves windows of it, from a local search of its own")
        parallel = {backend.name: "-p" in backend.solver.stdFlags for backend in backends}
        self.racers = line_up(self.options, parallel, alone=why is not None)
        in_floating_point = {backend.name for backend in backends if backend.in_floating_point}
        for racer in self.racers:
            racer.in_floating_point = racer.name in in_floating_point
        self.waiting.extend(self.racers)
        self._keep_start()

    def run(self) -> None:
        """Run until it is settled, time is up, no racer is left or the user has had enough.

        Raises:
            InputError: see `race`.
        """
        try:
            while not self._over():
                self._start_those_that_may()
                if not self.running:
                    break
                self._take_news(POLL_SECONDS)
                self._end_if_overtaken()
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._stop_all()
        self._pass_on()
        started = [racer for racer in self.racers if racer.runs]
        answered = self.record.answer is not None or self.record.infeasible_source or self.interrupted
        if not answered and started and all(racer.failed for racer in started):
            raise SolverError("every solver failed: " + "; ".join(f"{one.name}: {one.ending}" for one in started))

    # When it ends

    @property
    def deadline(self) -> Deadline:
        """The deadline of the racers: some time is kept for stopping them."""
        limit = self.options.time_limit
        seconds = None if limit is None else limit - min(RESERVE, RESERVE_SHARE * limit)
        return Deadline(seconds, self.record.begin)

    def _over(self) -> bool:
        return self.record.ended.is_set() or self.deadline.over() or self.call.stop()

    def _stop_all(self) -> None:
        """Stop all that run, and take their reports up to their end.

        Raises:
            JudgeError: one of them is contradicted.
        """
        self.stopped, first_error = True, None
        for racer in self.racers:
            racer.stopping.set()
        while self.running:
            try:
                self._take(*self.events.get(timeout=POLL_SECONDS))
            except queue.Empty:  # an interrupt may have come between an event and its effect
                alive = {name: pair for name, pair in self.running.items() if pair[1].is_alive()}
                if self.events.empty():  # all reports of those that ended are taken
                    self.running = alive
            except KeyboardInterrupt:
                self.interrupted = True
            except Exception as error:
                first_error = first_error or error
        if first_error is not None:
            raise first_error

    # Who starts

    def _start_those_that_may(self) -> None:
        while self.waiting and self._may_start(self.waiting[0]):
            self._start(self.waiting.popleft())

    def _may_start(self, racer: Racer) -> bool:
        if self.options.time_limit is not None and self._free() < 1:
            return False
        if racer.runs:
            remaining = self.deadline.remaining()
            return remaining is None or remaining >= LEAST_SLICE
        return racer.name == SEARCH or not self._is_head_start()

    def _is_head_start(self) -> bool:
        """Return whether the others still wait for a first schedule of the local search to start from."""
        wait = Deadline(self.options.time_limit).share(HEAD_START_SHARE, HEAD_START)
        return SEARCH in self.running and self.start is None and self.record.seconds < wait

    def _free(self) -> int:
        return self.threads - sum(racer.threads for racer, _ in self.running.values())

    def _start(self, racer: Racer) -> None:
        """Start the next run of a racer, which has just left the line."""
        remaining, again = self.deadline.remaining(), racer.runs > 0
        line = [racer, *(other for other in self.waiting if again or not other.runs)]  # newcomers come first
        racer.threads = thread_share(self._free(), len(line), racer.parallel)
        if remaining is not None:
            racer.seconds_given = min(remaining, self._slice(racer, remaining, len(line)))
        racer.runs += 1
        racer.begin, racer.start_value = self.record.seconds, self.start_value
        request = request_of(racer, self.request, self.start)
        thread = threading.Thread(target=self._watch, args=(racer, request), name=racer.name, daemon=True)
        self.running[racer.name] = racer, thread
        thread.start()

    def _slice(self, racer: Racer, remaining: float, waiting: int) -> float:
        """Seconds for the next run of a racer, itself one of those waiting; may be more than remain."""
        steady = self._steady()
        if racer is steady:
            return remaining
        slots = min(self.threads, len(self.racers)) - (steady is not None and steady.name in self.running)
        least = LEAST_SLICE
        if racer.search == "off":
            compiling = reads_by_copies(self.record.instance) / READS_PER_SECOND
            least += min(compiling, COMPILING_SHARE * remaining)
        elif racer is self.racers[0] and not racer.runs:
            least = max(FIRST_SECONDS, FIRST_SHARE * remaining)
        return max(least, slice_seconds(remaining, waiting, slots))

    def _steady(self) -> Racer | None:
        """Return who runs all the time while others take turns: the first local search, if there is a thread for it."""
        return self.racers[0] if self.options.search == "on" and self.threads > 1 else None

    def _end_if_overtaken(self) -> None:
        """Stop a steady racer that others have been ahead of for long; it begins again from the best schedule."""
        racer = self._steady()
        if racer is None or racer.name not in self.running or self.start_value is None:
            return
        given, best = racer.seconds_given, racer.best
        patience = OVERTAKEN_SECONDS if given is None else OVERTAKEN_SHARE * given
        if (best is None or self.start_value < best) and self.record.seconds - racer.begin > patience:
            racer.stopping.set()

    def _watch(self, racer: Racer, request: Request) -> None:
        """Run a racer; the body of its thread."""
        try:
            attempt = run_racer(racer, request, lambda event: self.events.put((racer, event)))
            self.events.put((racer, attempt))
        except Exception as error:
            self.events.put((racer, error))

    # Reports

    def _take_news(self, patience: float) -> None:
        """Wait at most `patience` seconds for reports of racers, and pass on what is new."""
        try:
            self._take(*self.events.get(timeout=patience))
            while not self._over():
                self._take(*self.events.get_nowait())
        except queue.Empty:
            pass
        self._pass_on()

    def _pass_on(self) -> None:
        while not self.record.news.empty():
            self.call.listener(self.record.news.get())

    def _take(self, racer: Racer, report: JsonObject | Attempt | Exception) -> None:
        """Take one report of a racer.

        Raises:
            JudgeError: the simulator contradicts a schedule, or a schedule a proof.
        """
        if isinstance(report, dict):
            self._take_event(racer, report)
            return
        self.running.pop(racer.name, None)
        if isinstance(report, Exception):
            raise report
        racer.note_end(report, self.record.value)
        if racer.failed and racer.error_kind in (JudgeError.kind, RefutedError.kind):
            found = f", found by {self.record.found_by}" if racer.error_kind == RefutedError.kind else ""
            raise JudgeError(f"{racer.name}: {racer.ending}{found}")
        if self.stopped:
            return
        if racer.ending == "stopped":  # overtaken
            racer.stopping.clear()
            self.waiting.appendleft(racer)
        elif racer.ending == "time":
            self.waiting.append(racer)

    def _take_event(self, racer: Racer, event: JsonObject) -> None:
        record, who = self.record, racer.credit(event.get("source"))
        if event["type"] == "result":
            who = racer.credit(event["proved_by"])
            if event.get("shortfall"):
                record.raise_floor(event["shortfall"]["scope_floor"])
            if event["status"] == "infeasible":
                record.refute(who, in_floating_point=racer.in_floating_point)
                return
            record.claim = event["claim"] or record.claim
            self._take_bound(racer, event["bound"], who)
            if event["valid"]:
                self._take_answer(racer, event, racer.credit(event["found_by"]))
        elif event[record.problem.objective] is None and "peak" in event:  # over the budget: only its peak is reported
            if record.answer is None:
                record.note_peak({name: event[name] for name in ("peak", "recomputations")}, who)
        else:
            self._take_answer(racer, event, who)
            self._take_bound(racer, event["bound"], who)

    def _take_answer(self, racer: Racer, event: JsonObject, who: str) -> None:
        """Have the answer judged that an event brings, if it does."""
        answer = self.request.problem.answer_in(event)
        if answer is None:
            return
        simulation = self.record.offer(answer, who)
        racer.note_answer(self.record.problem.value(simulation))
        if self.record.simulation is simulation:
            self._keep_start()

    def _take_bound(self, racer: Racer, bound: int, who: str) -> None:
        racer.bound = max(racer.bound, bound)
        self.record.improve_bound(bound, who, in_floating_point=racer.in_floating_point)

    def _keep_start(self) -> None:
        """Keep the best answer for those that start later, if it is a solution of the formulation."""
        if self.record.answer is not None:
            try:
                self.start = self.form.check_start(self.record.problem, self.record.answer)
                self.start_value = self.record.value
            except InputError:
                pass  # a solver's answer after it was pruned; the one before it will do

    # The answer

    def result(self) -> Result:
        """Return what is found and proven, and by which racers."""
        record, options = self.record, self.options
        status, reason = conclude(record, self.form, self._ending(), racing=True)
        least = record.problem.least_value()
        return Result(
            record.problem, self.form, ",".join(options.solvers), status, reason, record.answer,
            record.simulation, record.bound, Seconds(total=record.seconds), self.interrupted, tuple(record.trace),
            (*self.notes, *(racer.note(least) for racer in self.racers)),
            racers=tuple(racer.summary() for racer in self.racers),
            claim=record.claim,
            driver=", ".join(dict.fromkeys(backend.driver_title for backend in self.backends)),
            solver_version=", ".join(backend.solver_version for backend in self.backends),
            found_by=record.found_by, proved_by=record.proved_by(status),
        )  # fmt: skip

    def _ending(self) -> str:
        if self.interrupted:
            return "before the user stopped the race"
        remaining = self.deadline.remaining()
        in_time = remaining is not None and remaining < LEAST_SLICE
        return "within the time limit" if in_time else "before the solvers gave up"
