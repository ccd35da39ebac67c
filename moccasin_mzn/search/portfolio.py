"""Searches of our own beside the model of one solver: what every such call has in common, whatever the problem.

::

    our own searches    incumbents from the first tenths of a second on, bounds
    model               MiniZinc: the whole problem, from the best answer there is after a head start

All of them meet in a `BestKnown`. A subclass says which searches there are.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

from moccasin_mzn.clock import POLL_SECONDS
from moccasin_mzn.formulations.model_size import READS_PER_SECOND, reads_by_copies
from moccasin_mzn.search.best_known import BestKnown
from moccasin_mzn.search.conclusion import conclude
from moccasin_mzn.search.model_search import ModelSearch
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.search.threads import Beside
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, version_told
from moccasin_mzn.solvers.minizinc.solvers import Backend, check_integers, find_backend

HEAD_START = 2.0
"""Seconds that our own searches have before the model is set up: they often end it all by themselves."""
LONGEST_WITHOUT_ANSWER = 10.0
"""Seconds after which the model begins even without an answer to start from."""
HEAD_START_SHARE, LONGEST_SHARE = 0.1, 0.3
"""And neither is more than this share of the time limit."""
LONELY_SECONDS = 30.0
"""Without a time limit, an endless search ends so long after the latest improvement if nothing else is going on."""
GIVE_WAY = 5
"""Steps of priority, of which each is a quarter more or less of a busy core."""
LONG = 1e9


@dataclass
class Portfolio(Beside):
    """One call: the threads, and how it ended."""

    record: BestKnown
    options: SearchOptions
    formulation: Any
    model_after: float = 0.0
    """Seconds before which the model is not set up."""
    backend: Backend | None = None
    """None without the model."""
    outcomes: list[Outcome] = field(default_factory=list)
    """Of MiniZinc's runs."""
    solution: dict[str, Any] = field(default_factory=dict)
    """Data and arrays of the whole model's latest solution."""
    notes: list[str] = field(default_factory=list)
    """What was left undone, and why."""

    waited_for: ClassVar[tuple[str, ...]]
    """Names of searches: while one of them goes on, the model waits for an answer to start from."""
    endless: ClassVar[str]
    """Name of the search that does not end by itself."""
    gave_up: ClassVar[str] = "before the solver gave up"
    """How it ended if nobody stopped it."""

    @abstractmethod
    def _start_searches(self) -> None:
        """Run our own searches, each in a thread."""

    def _start(self) -> None:
        """Run the searches that can contribute, each in a thread.

        Raises:
            InputError: MiniZinc is missing or does not know the solver, or that has too narrow integers, even where
                none of them is needed after all.
        """
        backend = self._backend()
        if self._over():
            return
        if self.options.search != "off":
            self._start_searches()
        if backend is not None:
            self._run_beside(lambda: self._model(backend), backend.name)

    def _backend(self) -> Backend | None:
        """What solves the model; None without it."""
        if self.options.search != "only":
            self.backend = find_backend(self.options.solver)
            form, problem = self.formulation, self.record.problem
            check_integers([self.backend], lambda: form.sums(form.data(problem)), problem.graph.nodes)
        return self.backend

    def _lonely(self) -> bool:
        """Is a search that never ends by itself all that is left, and of no more use?"""
        alive = [thread.name for thread in self.threads if thread.is_alive()]
        return alive == [self.endless] and self._stale()

    def _stale(self) -> bool:
        """Without a time limit: is the latest improvement long ago? A search nearing the budget may take its time."""
        record = self.record
        if self.options.time_limit is not None or (record.answer is None and record.problem.seeks_peak):
            return False
        return record.seconds > (record.trace[-1].seconds if record.trace else 0.0) + LONELY_SECONDS

    def _answered(self) -> bool:
        return self.record.answer is not None or bool(self.record.infeasible_source)

    # The model

    def _model(self, backend: Backend) -> None:
        options = self.options
        alone = options.search == "off"
        while self.record.seconds < self.model_after and not self._over():
            self.stopping.wait(POLL_SECONDS)
        if not alone:
            self._wait_for_incumbent()
        if self._over():
            return
        threads = options.threads
        if not alone:
            threads = max(1, (threads or os.cpu_count() or 1) - 1)
            self._give_way()  # local search and bounds are what gets a large graph on
        self._solve(backend, Limits(options.time_limit, threads, options.seed))

    @staticmethod
    def _give_way() -> None:
        """On Linux: let other threads go first, from this one and what it starts, where cores are too few for all."""
        if sys.platform == "linux":  # where a priority is a thread's own
            with contextlib.suppress(OSError):
                thread = threading.get_native_id()
                os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + GIVE_WAY)

    def _solve(self, backend: Backend, limits: Limits) -> None:
        """The model of the whole problem."""
        search = ModelSearch(self.record, self.formulation, backend, limits, self._over)
        self.outcomes = search.outcomes
        two_phase = getattr(self.options, "two_phase", None)
        try:
            search.run(two_phase)
        finally:
            self.solution = search.latest_solution

    def _wait_for_incumbent(self, forever: bool = False) -> None:
        """Give the others a head start, longer while there is no answer and the model is large."""
        head_start = self.deadline.share(HEAD_START_SHARE, HEAD_START)
        compiling = reads_by_copies(self.record.instance) / READS_PER_SECOND
        longest = min(self.deadline.share(LONGEST_SHARE, LONGEST_WITHOUT_ANSWER), HEAD_START + compiling)
        while not self._over() and any(thread.is_alive() for thread in self.threads if thread.name in self.waited_for):
            found = self.record.answer is not None
            if self.record.seconds > (head_start if found else longest) and (found or not forever):
                return
            self.stopping.wait(POLL_SECONDS)

    # The answer

    def result(self) -> Result:
        """What is found and proven."""
        record = self.record
        status, reason = conclude(record, self.formulation, self._ended_before(self.gave_up))
        flatten = sum(outcome.flatten_seconds for outcome in self.outcomes)
        spent = sum(outcome.seconds for outcome in self.outcomes)
        return Result(
            record.problem, self.formulation, self.options.solver, status, reason, record.answer, record.simulation,
            record.bound, Seconds(flatten=flatten, solve=spent - flatten, total=record.seconds), self.interrupted,
            tuple(record.trace), tuple(self.notes), solution=self.solution or None, claim=record.claim,
            driver=self.backend.driver_title if self.backend else None,
            solver_version=version_told(self.backend, self.outcomes),
            failure=str(self.errors[0]) if self.errors else "", found_by=record.found_by,
            proved_by=record.proved_by(status),
        )  # fmt: skip
