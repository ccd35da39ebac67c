"""The searches of `solve`, which run beside each other and meet in a `Record`.

::

    local search       incumbents from the first tenths of a second on          heuristics
    bounds             relaxations, refined where they go wrong                  bounds
    model              MiniZinc: the whole instance if it fits, else windows     model_search, window_search

For the general formulation all of that for `staged` as well, whose schedules are schedules of any order; only its
bounds mean nothing there. A free order has others beside them, see `free_order.search`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from moccasin_mzn.clock import POLL_SECONDS
from moccasin_mzn.formulations.model_size import READS_PER_SECOND, reads_by_copies, why_too_large
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.best_known import Record
from moccasin_mzn.search.conclusion import LOCAL_SEARCH, RELAXATION, conclude
from moccasin_mzn.search.model_search import ModelSearch
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Progress, Result, Seconds
from moccasin_mzn.search.threads import Beside
from moccasin_mzn.search.window_search import WindowSearch
from moccasin_mzn.solvers.minizinc.integers import check_integers
from moccasin_mzn.solvers.minizinc.run import Limits, Outcome, version_told
from moccasin_mzn.solvers.minizinc.solvers import Backend, find_backend

HEAD_START = 2.0
"""Seconds that local search and bounds have before the model is set up: they often end it all by themselves."""
LONGEST_WITHOUT_SCHEDULE = 10.0
"""Seconds after which the model begins even without a schedule to start from."""
HEAD_START_SHARE, LONGEST_SHARE = 0.1, 0.3
"""And neither is more than this share of the time limit."""
LONELY_SECONDS = 30.0
"""Without a time limit, local search ends so long after the latest improvement if nothing else is going on."""
STAGED = "staged search"
OTHERS = LOCAL_SEARCH, RELAXATION, STAGED
MOMENT = 0.01
_LONG = 1e9


@dataclass
class Search(Beside):
    """One call of `solve`: the threads, and how it ended."""

    instance: Instance
    options: Options
    record: Record
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
    drafts: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=8))
    """Sequences over the budget, but near good schedules, for the local search."""

    def _start(self) -> None:
        """Run the searches that can contribute, each in a thread.

        Raises:
            InputError: MiniZinc is missing or does not know the solver, or that has too narrow integers, even where
                none of them is needed after all.
        """
        if self.options.search != "only":
            self.backend = find_backend(self.options.solver)
            self._check_integers(self.backend)
        if self.options.search != "off" and self.options.form.staged:
            self._run_beside(self._local_search, LOCAL_SEARCH)
            self._run_beside(self._bounds, RELAXATION)
        elif self.options.search != "off":
            self._run_beside(self._staged, STAGED)
        backend = self.backend
        if backend is not None:
            self._run_beside(lambda: self._model(backend), backend.name)

    def _check_integers(self, backend: Backend) -> None:
        instance, form = self.instance, self.options.form
        check_integers([backend], lambda: form.sums(form.presolve(instance)), instance.graph.nodes)

    def _lonely(self) -> bool:
        """Is local search, which never ends by itself, all that is left, and of no more use?"""
        if self.options.time_limit is not None or self.record.sequence is None:
            return False
        alive = [thread.name for thread in self.threads if thread.is_alive()]
        latest = self.record.trace[-1].seconds if self.record.trace else 0.0
        return alive == [LOCAL_SEARCH] and self.record.seconds > latest + LONELY_SECONDS

    def _answered(self) -> bool:
        return self.record.sequence is not None or bool(self.record.infeasible_source)

    # The searches

    def _local_search(self) -> None:
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        search = LocalSearch(self.instance, self.options.seed or 0)
        search.run(
            lambda sequence: self.record.offer(sequence, LOCAL_SEARCH),
            self._over,
            self._better_than,
            self._take_draft,
            on_peak=lambda sequence: self.record.offer(sequence, LOCAL_SEARCH, "peak"),
        )

    def _note_draft(self, sequence: tuple[int, ...]) -> None:
        self.drafts.append(sequence)
        if self.record.sequence is None:
            self.record.offer(sequence, RELAXATION, "peak")

    def _take_draft(self) -> tuple[int, ...] | None:
        """What the relaxation suggested last and nobody has taken."""
        return self.drafts.pop() if self.drafts else None

    def _better_than(self, duration: int | None) -> tuple[int, ...] | None:
        """What is on record, if it is shorter."""
        simulation, sequence = self.record.simulation, self.record.sequence
        if simulation is None or (duration is not None and simulation.duration >= duration):
            return None
        return sequence

    def _staged(self) -> None:
        options = replace(self.options, formulation="staged", until_gap=0.0, time_limit=self._rest())
        self._search_along(self.instance.order, options, STAGED)

    def _rest(self) -> float | None:
        """Seconds left as the time limit of another search, which is never 0."""
        remaining = self._remaining()
        return None if remaining is None else max(MOMENT, remaining)

    def _search_along(
        self, order: tuple[int, ...], options: Options, source: str,
        overtaken: Callable[[Record], bool] | None = None, model_after: float = 0.0,
    ) -> None:  # fmt: skip
        """The staged search along an order, inside this one, which takes its schedules.

        It ends with this one, or when it cannot contribute any more.

        Args:
            overtaken: asked about its record, whether others have left it behind; None: they never do.

        Raises:
            SolverError: the solver failed before this search found anything.
        """
        instance = replace(self.instance, order=order, free_order=False)
        record, known = Record(instance, time.monotonic()), self.record.sequence
        if known is not None and first_out_of_stage(order, known) is None:
            record.offer(known, source)

        def enough() -> bool:
            best = self.record.duration
            settled = best is not None and record.bound >= best
            return self._over() or settled or (overtaken is not None and overtaken(record))

        def take(progress: Progress) -> None:
            if progress.sequence is not None:
                self.record.offer(progress.sequence, f"{source}, {progress.source}")
            elif progress.duration is None:
                self.record.note_peak(progress.peak, progress.recomputations, f"{source}, {progress.source}")

        Search(instance, options, record, model_after, enough=enough).run(take)

    def _bounds(self) -> None:
        from moccasin_mzn.bounds.duration import duration_bound

        remaining = self._remaining()
        proven = duration_bound(
            self.instance,
            time_limit=_LONG if remaining is None else max(0.0, remaining),
            seed=self.options.seed or 0,
            on_bound=lambda bound: self.record.improve_bound(bound, RELAXATION),
            on_schedule=lambda sequence: self.record.offer(sequence, RELAXATION),
            on_draft=self._note_draft,
            stop=self._over,
            incumbent=lambda: self.record.duration,
        )
        if proven.infeasible:
            self.record.refute(RELAXATION)

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
        limits = Limits(options.time_limit, threads, options.seed)
        if alone or not self._leave_out_whole_model():
            search = ModelSearch(self.record, options.form, backend, limits, self._over)
            self.outcomes = search.outcomes
            try:
                search.run(backend.is_cp_sat if options.two_phase is None else options.two_phase)
            finally:
                self.solution = search.latest_solution
        elif options.form.staged:
            self._wait_for_incumbent(forever=True)
            if self.record.sequence is not None and not self._over():
                search = WindowSearch(self.record, options.form, backend, limits, self._over)
                self.outcomes = search.outcomes
                search.run()

    def _leave_out_whole_model(self) -> bool:
        """Is the model of the whole instance too large for memory, or for the time? Then a note says so."""
        why = why_too_large(self.instance, self._remaining())
        if why is None:
            return False
        instead = "windows of it are improved instead" if self.options.form.staged else "nothing of it is solved"
        self.notes.append(f"{why}: {instead}")
        return True

    def _wait_for_incumbent(self, forever: bool = False) -> None:
        """Give the others a head start, longer while there is no schedule and the model is large."""
        limit = self.options.time_limit or _LONG
        head_start = min(HEAD_START, HEAD_START_SHARE * limit)
        compiling = reads_by_copies(self.instance) / READS_PER_SECOND
        longest = min(LONGEST_WITHOUT_SCHEDULE, LONGEST_SHARE * limit, HEAD_START + compiling)
        while not self._over() and any(thread.is_alive() for thread in self.threads if thread.name in OTHERS):
            found = self.record.sequence is not None
            if self.record.seconds > (head_start if found else longest) and (found or not forever):
                return
            self.stopping.wait(POLL_SECONDS)

    # The answer

    def result(self) -> Result:
        """What is found and proven."""
        record = self.record
        status, reason = conclude(record, self.options, self._ended_before("before the solver gave up"))
        flatten = sum(outcome.flatten_seconds for outcome in self.outcomes)
        seconds = Seconds(
            flatten=flatten,
            solve=sum(outcome.seconds for outcome in self.outcomes) - flatten,
            total=record.seconds,
        )
        return Result(
            self.instance, self.options.form, self.options.solver, status, reason, record.sequence, record.simulation,
            record.bound, seconds, self.interrupted, tuple(record.trace), tuple(self.notes),
            solution=self.solution or None, claim=record.claim,
            driver=self.backend.driver_title if self.backend else None,
            solver_version=version_told(self.backend, self.outcomes),
        )  # fmt: skip
