"""The searches of one call, each in a thread of its own, which meet on a board; the first proof ends all of them.

::

    Runner ── starts ──> every Searcher of a list that applies to the problem
       │                     │ offers answers and bounds
       │                     ▼
       └── progress <──── Board: judged on arrival, the best is kept

A searcher knows the runner, and nothing of the others but what these leave it in `Shared`. `searchers` has the list.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from moccasin_mzn.base.clock import POLL_SECONDS, Deadline
from moccasin_mzn.base.errors import OutOfMemoryError, out_of_memory
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text
from moccasin_mzn.base.log import LOGGER
from moccasin_mzn.formulations.complexity import READS_PER_SECOND, reads_by_copies
from moccasin_mzn.formulations.searched import Searched
from moccasin_mzn.graphs.wording import node_text
from moccasin_mzn.heuristics.compiled_searches import CompiledSearch, is_kept, join
from moccasin_mzn.problem.features import OF_ONE_MEMORY, SEVERAL_MEMORIES, Component, Features, lacking
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import conclude
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.solvers.minizinc.run import Outcome, SolverError, reported_version
from moccasin_mzn.solvers.minizinc.solvers import Backend, check_integers, find_backend

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

BEARABLE = SolverError, OutOfMemoryError
"""Errors of one search after which the others go on, and what they find counts."""
HEAD_START = 2.0
"""Time in seconds that our own searches have before the model is set up: they often end it all by themselves."""
LONGEST_WITHOUT_ANSWER = 10.0
"""Seconds after which the model begins even without an answer to start from."""
HEAD_START_SHARE, LONGEST_SHARE = 0.1, 0.3
"""Largest shares of the time limit for the head start and for the wait without an answer."""
LONELY_SECONDS = 30.0
"""If there is no time limit, endless searches end so long after the latest improvement if nothing else is going on."""
GIVE_WAY = 5
"""Steps of priority; each is a quarter more or less of a busy core."""
MOMENT = 0.01
"""Least time limit of a search inside another one, in seconds."""
LONG = 1e9
"""Time limit that stands for none, in seconds."""


class Searcher(ABC):
    """One of the searches of a call: an entry of the list of `searchers`."""

    name: ClassVar[str]
    """Name of the search, of its thread, and in the credit for what it finds."""
    handles: ClassVar[Features] = OF_ONE_MEMORY
    """The features of problems that it takes into account; to a problem with others it is not applied."""
    is_model: ClassVar[bool] = False
    """True for the model itself, which runs even where no other search is wanted."""
    awaited: ClassVar[bool] = False
    """True if the model waits for an answer to start from while this search goes on."""

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        """Return what has to be compiled before it can search."""
        return ()

    @abstractmethod
    def applies(self, runner: Runner) -> bool:
        """Return whether it is for such a question, whatever else the problem has."""

    @abstractmethod
    def search(self, runner: Runner) -> None:
        """Search until there is nothing left to do, or `runner.over()`.

        Raises:
            Exception: what ends the whole call, unless it is one of `BEARABLE`.
        """

    def endless(self, runner: Runner) -> bool:
        """Return whether it does not end by itself, so that it is not waited for once it finds nothing more."""
        return False


@dataclass
class Shared:
    """Data that searchers leave for each other."""

    drafts: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=8))
    """Sequences of the relaxation for the local search: over the budget, but near good schedules."""
    settled: bool = False
    """True if the local search lets the bounds go first."""
    starts: deque[Sequence[int]] = field(default_factory=lambda: deque(maxlen=16))
    """Sequences to start from that the annealing has not taken yet."""
    all_starts: list[Sequence[int]] = field(default_factory=list)
    orders_done: set[tuple[int, ...]] = field(default_factory=set)
    """Orders along which a staged search has been."""
    model_failed: bool = False
    """True if the model has failed; staged searches then go on without it."""


@dataclass(kw_only=True)
class Runner:
    """One call: its searches, and how it ended."""

    board: Board
    options: SearchOptions
    form: Searched
    searchers: tuple[Searcher, ...]
    call: Call = field(default_factory=Call)
    """The caller; of a search inside another one that other. Its time began when that of the board did."""
    without: frozenset[str] = frozenset()
    """Names of searchers that are of no use."""
    model_after: float = 0.0
    """Seconds before which the model is not set up."""
    flow_bounds: FreeOrderBound | None = None
    """Bounds by flows of the graph, from an earlier search; None: they are started again."""
    shared: Shared = field(default_factory=Shared)
    backend: Backend | None = None
    """The solver of the model; None without the model."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Outcomes of MiniZinc's runs."""
    solution: JsonObject = field(default_factory=dict)
    """Data and arrays of the whole model's latest solution."""
    notes: list[str] = field(default_factory=list)
    """Notes on what was left undone, and why."""
    skipped: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Parts that were left out, each with the features of the problem that it does not handle."""
    interrupted: bool = False
    errors: list[Exception] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)
    threads: list[tuple[Searcher, threading.Thread]] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    """Names of searchers that wait for what has to be compiled."""

    # For searchers

    @property
    def instance(self) -> Instance:
        """Graph, input order, budget and C_v."""
        return self.board.instance

    @property
    def several_memories(self) -> bool:
        """True if there are several memories; the searches of one memory do not apply then."""
        return not SEVERAL_MEMORIES.isdisjoint(self.board.problem.features)

    @property
    def chooses_order(self) -> bool:
        """True if the order is chosen as well as a schedule, by searches along orders."""
        return self.instance.free_order and self.form.staged

    @property
    def streams(self) -> bool:
        """True if the graph is one of parts, in which case schedules stream layers through memory."""
        return self.chooses_order and not self.several_memories and self.instance.graph.parts is not None

    @property
    def seed(self) -> int:
        return self.options.seed or 0

    @property
    def deadline(self) -> Deadline:
        """The deadline of the whole call."""
        return Deadline(self.options.time_limit, self.board.begin)

    @property
    def remaining(self) -> float:
        """Seconds that are left, many without a time limit."""
        remaining = self.deadline.remaining()
        return LONG if remaining is None else remaining

    @property
    def remaining_limit(self) -> float | None:
        """Seconds that are left, as the time limit of another search, which is never 0."""
        remaining = self.deadline.remaining()
        return None if remaining is None else max(MOMENT, remaining)

    def over(self) -> bool:
        """Return whether it is time to end."""
        return self.board.ended.is_set() or self.stopping.is_set() or self.deadline.over() or self.call.stop()

    def alive(self, name: str) -> bool:
        """Return whether the searcher of this name still goes on, or will."""
        return any(thread.is_alive() for searcher, thread in self.threads if searcher.name == name)

    def others_alive(self, searcher: Searcher) -> bool:
        """Return whether any other searcher still goes on."""
        return any(thread.is_alive() for one, thread in self.threads if one is not searcher)

    def pause(self) -> None:
        """Wait a moment, or until it is to end."""
        self.stopping.wait(POLL_SECONDS)

    def better_than(self, value: int | None) -> tuple[int, ...] | None:
        """Return the best answer, if its value is less than `value`; else None."""
        best = self.board.value
        return None if best is None or (value is not None and best >= value) else self.board.answer

    def wait_for_answer(self, forever: bool = False) -> None:
        """Give the others a head start, longer while there is no answer and the model is large."""
        head_start = self.deadline.share(HEAD_START_SHARE, HEAD_START)
        compiling = reads_by_copies(self.instance) / READS_PER_SECOND
        longest = min(self.deadline.share(LONGEST_SHARE, LONGEST_WITHOUT_ANSWER), HEAD_START + compiling)
        while not self.over() and self._awaited():
            found = self.board.answer is not None
            if self.board.seconds > (head_start if found else longest) and (found or not forever):
                return
            self.pause()

    def _awaited(self) -> bool:
        """Return whether an answer may come soon: not while one of the searches has to be compiled first."""
        awaited = [(each, thread) for each, thread in self.threads if each.awaited]
        return any(thread.is_alive() for _, thread in awaited) and not any(
            each.name in self.waiting for each, _ in awaited
        )

    @staticmethod
    def give_way() -> None:
        """On Linux: let other threads go first, from this one and what it starts, where cores are too few for all."""
        if sys.platform == "linux":  # where a priority is a thread's own
            with contextlib.suppress(OSError):
                thread = threading.get_native_id()
                os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + GIVE_WAY)

    def handled(self, part: Component) -> bool:
        """Return whether a part handles all features of the problem; what it lacks is noted if not."""
        missing = lacking(part, self.board.problem.features)
        if missing:
            self.skipped[part.name] = missing
            LOGGER.debug("%s: left out, does not handle %s", part.name, " and ".join(missing))
        return not missing

    # The call

    def run(self) -> None:
        """Run all searches until one of them settles it, time is up or the user has had enough.

        An interrupt from the keyboard, at whatever moment, ends the search with what is found.

        Raises:
            InputError: MiniZinc is missing or does not know the solver, or that has too narrow integers, even where
                none of them is needed after all; a solver failed before there was an answer; or the judge contradicts
                one.
        """
        try:
            self._start()
            while any(thread.is_alive() for _, thread in self.threads) and not self.over() and not self._lonely():
                self._pass_on(POLL_SECONDS)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            self._join()
        try:
            self._pass_on(None)
        except KeyboardInterrupt:
            self.interrupted = True
        answered = self.board.answer is not None or bool(self.board.infeasible_source) or self.interrupted
        for error in self.errors:  # an interrupt from the keyboard reaches the solver too
            if not isinstance(error, BEARABLE) or not answered:
                raise error

    def _start(self) -> None:
        if self.options.search != "only":
            self.backend = find_backend(self.options.solver)
            problem, form = self.board.problem, self.form
            check_integers([self.backend], lambda: form.sums(form.data(problem)), partial(node_text, problem.graph))
        if self.over():
            return
        for searcher in self.searchers:
            wanted = searcher.is_model or self.options.search != "off"
            if wanted and searcher.name not in self.without and searcher.applies(self) and self.handled(searcher):
                self._begin(searcher)

    def _begin(self, searcher: Searcher) -> None:
        thread = threading.Thread(target=self._guarded, args=(searcher,), name=searcher.name, daemon=True)
        try:
            thread.start()
        except RuntimeError as failure:
            self.errors.append(out_of_memory(failure) or failure)
            return
        self.threads.append((searcher, thread))  # only now: an interrupt may come before it has begun
        LOGGER.debug("%s: begins", searcher.name)

    def _guarded(self, searcher: Searcher) -> None:
        """An error in any thread ends the search and is raised in the caller's."""
        try:
            if self._compiled(searcher):
                searcher.search(self)
        except Exception as failure:
            error = out_of_memory(failure) or failure
            self.errors.append(error)
            if not isinstance(error, BEARABLE):  # without the solver the others go on
                self.stopping.set()

    def _compiled(self, searcher: Searcher) -> bool:
        """Wait until what a searcher needs is compiled and loaded; return False if there is no time for that."""
        needed = searcher.compiled(self)
        if needed and not all(map(is_kept, needed)):
            self.waiting.add(searcher.name)
        try:
            return join(self.over, lambda: self.remaining, *needed)
        finally:
            self.waiting.discard(searcher.name)

    def _lonely(self) -> bool:
        """Return whether all that still runs is endless, and of no more use."""
        alive = [searcher for searcher, thread in self.threads if thread.is_alive()]
        return bool(alive) and all(searcher.endless(self) for searcher in alive) and self._stale()

    def _stale(self) -> bool:
        """Return whether, without a time limit, the latest improvement is long ago.

        A search that has not met the budget yet may take its time."""
        board = self.board
        if self.options.time_limit is not None or (board.answer is None and not self.several_memories):
            return False
        return board.seconds > (board.trace[-1].seconds if board.trace else 0.0) + LONELY_SECONDS

    def _pass_on(self, patience: float | None) -> None:
        """Pass news on; wait for the first so long, or, for None, pass on only what is there."""
        try:
            progress = self.board.news.get(timeout=patience) if patience else self.board.news.get_nowait()
            while True:
                self.call.listener(progress)
                progress = self.board.news.get_nowait()
        except queue.Empty:
            pass

    def _join(self) -> None:
        self.stopping.set()
        while True:
            try:
                for _, thread in self.threads:
                    thread.join()
                return
            except KeyboardInterrupt:
                self.interrupted = True

    # The answer

    def result(self) -> Result:
        """Return what is found and proven."""
        board = self.board
        status, reason = conclude(board, self.form, self._ending())
        parts = [outcome.flatten_seconds for outcome in self.outcomes]
        flatten = None if None in parts else sum(part or 0.0 for part in parts)
        spent = sum(outcome.seconds for outcome in self.outcomes)
        seconds = Seconds(flatten=flatten, solve=spent - (flatten or 0.0), total=board.seconds)
        return Result(
            board.problem, self.form, self.options.solver, status, reason, board.answer, board.simulation,
            board.bound, seconds, self.interrupted, tuple(board.trace), tuple(self.notes),
            solution=self.solution or None, claim=board.claim,
            driver=self.backend.driver_title if self.backend else None,
            solver_version=reported_version(self.backend, self.outcomes),
            failure=str(self.errors[0]) if self.errors else "", found_by=board.found_by,
            proved_by=board.proved_by(status), skipped=self.skipped,
        )  # fmt: skip

    def _ending(self) -> str:
        """Return how the search ended if not by a proof."""
        if self.interrupted:
            return "before the user stopped the search"
        if self.errors:
            return f"before the solver failed: {self.errors[0]}"
        remaining = self.deadline.remaining()
        if self.call.stop() and not self.deadline.over():
            return "before the search was stopped"
        iterations = getattr(self.options, "iterations", None)
        if iterations is not None and not self.deadline.over():
            return f"within {count_text(iterations, 'iteration')}"
        gave_up = f"before the {'search' if self.several_memories else 'solver'} gave up"
        return "within the time limit" if remaining is not None and remaining < 1 else gave_up
