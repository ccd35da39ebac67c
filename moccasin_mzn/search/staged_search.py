"""The searches for a schedule of one memory, which run beside each other and meet in a `BestKnown`.

::

    local search       incumbents from the first tenths of a second on          heuristics
    bounds             relaxations, refined where they go wrong                  bounds
    model              MiniZinc: the whole instance if it fits, else windows     model_search, window_search

For the general formulation all of that for `staged` as well, whose schedules are schedules of any order; only its
bounds mean nothing there, and flow covers take their place. A free order has others beside them, see `free_search`.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from moccasin_mzn.formulations import Formulation
from moccasin_mzn.formulations.model_size import why_too_large
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.best_known import BestKnown
from moccasin_mzn.search.conclusion import FLOW_COVERS, LOCAL_SEARCH, MOMENTS, RELAXATION
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.portfolio import LONG, Portfolio
from moccasin_mzn.search.progress import Progress
from moccasin_mzn.search.window_search import WindowSearch
from moccasin_mzn.solvers.minizinc.run import Limits
from moccasin_mzn.solvers.minizinc.solvers import Backend

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

STAGED = "staged search"
MOMENT = 0.01
SETTLED_SECONDS, SETTLED_TIMES, SETTLED_GAP = 4.0, 4.0, 0.01
"""Local search has settled after so long, and so many times what its best schedule took besides, once the gap is no
wider than this fraction: a wider one may be the schedule's as well as the bound's."""
JOIN_SHARE = 0.35
"""Of the time, after which the bounds need not wait for that, but for the gap."""
BOUND_WORKERS = 4
"""Threads for bounds, at most: one until all may join."""


@dataclass
class Search(Portfolio):
    """One call of `solve`."""

    options: Options
    formulation: Formulation = field(init=False)
    drafts: deque[tuple[int, ...]] = field(default_factory=lambda: deque(maxlen=8))
    """Sequences over the budget, but near good schedules, for the local search."""
    settled: bool = False
    """Does the local search let the bounds go first?"""
    flow_bounds: FreeOrderBound | None = None
    """Of the graph, from an earlier search; None: they are begun anew."""

    waited_for: ClassVar[tuple[str, ...]] = (LOCAL_SEARCH, RELAXATION, STAGED)
    endless: ClassVar[str] = LOCAL_SEARCH

    def __post_init__(self) -> None:
        self.formulation = self.options.form

    @property
    def instance(self) -> Instance:
        """What is to be solved."""
        return self.record.instance

    def _start_searches(self) -> None:
        if self.formulation.staged:
            self._run_beside(self._local_search, LOCAL_SEARCH)
            self._run_beside(self._bounds, RELAXATION)
        else:
            self._run_beside(self._staged, STAGED)
            self._run_beside(self._flow_covers, FLOW_COVERS)

    def _solve(self, backend: Backend, limits: Limits) -> None:
        """The model of the whole instance, or, where that is too large, of windows."""
        if self.options.search == "off" or not self._leave_out_whole_model():
            super()._solve(backend, limits)
        elif self.formulation.staged and self.instance.graph.overwritable is None:
            self._wait_for_incumbent(forever=True)
            if self.record.answer is not None and not self._over():
                search = WindowSearch(self.record, self.formulation, backend, limits, self._over)
                self.outcomes = search.outcomes
                search.run()

    def _leave_out_whole_model(self) -> bool:
        """Is the model of the whole instance too large for memory, or for the time? Then a note says so."""
        why = why_too_large(self.instance, self.deadline.remaining())
        if why is None:
            return False
        windows = self.formulation.staged and self.instance.graph.overwritable is None
        instead = "windows of it are improved instead" if windows else "nothing of it is solved"
        self.notes.append(f"{why}: {instead}")
        return True

    # The searches

    def _local_search(self) -> None:
        from moccasin_mzn.heuristics.staged.search import LocalSearch

        search = LocalSearch(self.instance, self.options.seed or 0)
        search.run(
            lambda sequence: self.record.offer(sequence, LOCAL_SEARCH),
            self._over,
            self._better_elsewhere,
            self._take_draft,
            on_peak=lambda sequence: self.record.offer(sequence, LOCAL_SEARCH, "peak"),
        )

    def _better_elsewhere(self, duration: int | None) -> tuple[int, ...] | None:
        """`_better_than` for the thread of the local search, which gives way once a better schedule is not likely."""
        record = self.record
        if not self.settled and self._is_narrow():
            self.settled = record.seconds > SETTLED_SECONDS + SETTLED_TIMES * record.found_at
            if self.settled:
                self._give_way()
        return self._better_than(duration)

    def _bounds_may_join(self) -> bool:
        """May the bounds have more than one thread? The local search does not give way before it has settled."""
        return self.settled or (self.deadline.over(JOIN_SHARE) and self._is_narrow())

    def _is_narrow(self) -> bool:
        """Is the gap so narrow that bounds are what closes it?"""
        gap = self.record.gap
        return gap is not None and gap <= SETTLED_GAP

    def _note_draft(self, sequence: tuple[int, ...]) -> None:
        self.drafts.append(sequence)
        if self.record.answer is None:
            self.record.offer(sequence, RELAXATION, "peak")

    def _take_draft(self) -> tuple[int, ...] | None:
        """What the relaxation suggested last and nobody has taken."""
        return self.drafts.pop() if self.drafts else None

    def _better_than(self, duration: int | None) -> tuple[int, ...] | None:
        """What is on record, if it is shorter."""
        simulation, sequence = self.record.simulation, self.record.answer
        if simulation is None or (duration is not None and simulation.duration >= duration):
            return None
        return sequence

    def _staged(self) -> None:
        options = replace(self.options, formulation="staged", until_gap=0.0, time_limit=self._rest())
        self._search_along(self.instance.order, options, STAGED)

    def _rest(self) -> float | None:
        """Seconds left as the time limit of another search, which is never 0."""
        remaining = self.deadline.remaining()
        return None if remaining is None else max(MOMENT, remaining)

    def _search_along(
        self, order: tuple[int, ...], options: Options, source: str,
        overtaken: Callable[[BestKnown], bool] | None = None, model_after: float = 0.0,
    ) -> BestKnown:  # fmt: skip
        """The staged search along an order, inside this one, which takes its schedules; what it has found and proven.

        It ends with this one, or when it cannot contribute any more.

        Args:
            overtaken: asked about its record, whether others have left it behind; None: they never do.

        Raises:
            SolverError: the solver failed before this search found anything.
        """
        instance = replace(self.instance, order=order, free_order=False)
        record, known = BestKnown(instance, time.monotonic()), self.record.answer
        if known is not None and first_out_of_stage(order, known) is None:
            record.offer(known, source)

        def enough() -> bool:
            best = self.record.value
            settled = best is not None and record.bound >= best
            return self._over() or settled or (overtaken is not None and overtaken(record))

        def take(progress: Progress) -> None:
            if progress.answer is not None:
                self.record.offer(progress.answer, f"{source}, {progress.source}")
            elif progress.value is None:
                self.record.note_peak(progress.figures, f"{source}, {progress.source}")

        Search(record, options, model_after=model_after, enough=enough).run(take)
        return record

    def _bounds(self) -> None:
        from moccasin_mzn.bounds.duration import duration_bound

        remaining = self.deadline.remaining()
        proven = duration_bound(
            self.instance,
            time_limit=LONG if remaining is None else remaining,
            workers=min(BOUND_WORKERS, self.options.threads or os.cpu_count() or 1),
            may_join=self._bounds_may_join,
            seed=self.options.seed or 0,
            on_bound=lambda bound: self.record.improve_bound(bound, RELAXATION),
            on_schedule=lambda sequence: self.record.offer(sequence, RELAXATION),
            on_draft=self._note_draft,
            stop=self._over,
            incumbent=lambda: self.record.value,
        )
        if proven.infeasible:
            self.record.refute(RELAXATION)

    def _flow_covers(self) -> None:
        """Bounds that hold in any order, and most of them for any number of computations."""
        from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

        bounds = self.flow_bounds or FreeOrderBound.of(self.instance.graph)
        if bounds is None:
            return
        remaining = self.deadline.remaining()
        bounds.improve(
            self.instance.budget, time_limit=LONG if remaining is None else remaining,
            most=self.instance.max_computations,
            on_bound=lambda bound, limited: self.record.improve_bound(bound, MOMENTS if limited else FLOW_COVERS),
            stop=self._over, incumbent=lambda: self.record.value, seed=self.options.seed or 0,
        )  # fmt: skip
