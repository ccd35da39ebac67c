"""The order chosen together with the recomputations, as one call of `solve`.

Several searches run beside each other and meet in a `Record`::

    annealing    over any sequences, from several drafts                   annealing
    starts       orders of low peak, tree decompositions; a bound on the
                 peak where nothing may be computed again                  starts
    orders       the staged search: first along the input order, for its share of the time, then along the order of
                 first computations of the best schedule, again and again, or, without one, those of the drafts
    proof        the general formulation, where the graph is small enough  model_search
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.beside import POLL_SECONDS
from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.warm_start import first_out_of_stage
from moccasin_mzn.free_order.starts import starts
from moccasin_mzn.instance import Instance
from moccasin_mzn.minizinc.run import Limits, SolverError
from moccasin_mzn.minizinc.solvers import Backend, find_backend
from moccasin_mzn.model_search import ModelSearch
from moccasin_mzn.options import Options
from moccasin_mzn.record import Record
from moccasin_mzn.result import Progress
from moccasin_mzn.search import LONELY_SECONDS, Search

ANNEALING, STARTS, ORDERS, PROOF = "annealing", "starts", "orders", "proof"
FIRST_SHARE = 0.3
"""Of the time limit, for the staged search along the input order, unless it ends before by a proof."""
LATER_SHARE = 0.15
"""Of the time limit, for the staged search along an order of the best schedule."""
LONGEST_SLICE = 30.0
"""Seconds of each of them, without a time limit."""
STARTS_SHARE, LONGEST_STARTS = 0.1, 10.0
"""Of the time limit, and seconds, for drafts."""
PROOF_NODES = 24
"""Graphs of more nodes are beyond the general formulation."""
HEAD_START = 0.5
"""Seconds for which a proof waits for a first schedule: with one it takes one run of the solver instead of two."""
PATIENCE, PATIENCE_SHARE = 10.0, 0.2
"""Seconds, and share of the time limit, for which a proof that may be quick comes before the staged searches."""
SMALL_ROUNDS = 6
"""Where a proof may be quick, the annealing leaves the cores to it after so many rounds."""


def check_free_order(instance: Instance, options: Options) -> None:
    """Check that options go with a free order, if that is asked for.

    Raises:
        InputError: they do not.
    """
    if not instance.free_order:
        return
    form = options.form
    if not form.limited:
        raise InputError(f"order free: {form.name} keeps to stages of the input order")
    if form.staged and options.search == "off":
        raise InputError("order free: search off leaves only a model, and that is the formulation general")
    if form.staged and len(options.solvers) > 1:
        raise InputError(f"order free: {len(options.solvers)} solvers cannot race on it, name one")


@dataclass
class FreeSearch(Search):
    """One call of `solve` with a free order."""

    sequences: deque[Sequence[int]] = field(default_factory=lambda: deque(maxlen=16))
    """Drafts that the annealing has not taken yet."""
    drafts_made: list[Sequence[int]] = field(default_factory=list)
    orders_done: set[tuple[int, ...]] = field(default_factory=set)
    """Orders along which the staged search has been."""
    model_failed: bool = False
    """Then the staged search goes on without the model."""

    def _start(self) -> None:
        backend = None
        if self.options.search != "only":
            backend = self.backend = find_backend(self.options.solver)
            self._check_integers(backend)
        small = backend is not None and len(self.instance.graph.nodes) <= PROOF_NODES
        self._run_beside(lambda: self._anneal(SMALL_ROUNDS if small else None), ANNEALING)
        self._run_beside(self._begin, STARTS)
        if small:
            self._run_beside(lambda: self._prove(backend), PROOF)
        limit = self.options.time_limit
        patience = PATIENCE if limit is None else min(PATIENCE, PATIENCE_SHARE * limit)
        self._run_beside(lambda: self._along_orders(patience if small else 0.0), ORDERS)

    def _lonely(self) -> bool:
        """Without a time limit: is no proof on the way, and the latest improvement long ago?"""
        if self.options.time_limit is not None or self.record.sequence is None:
            return False
        latest = self.record.trace[-1].seconds if self.record.trace else 0.0
        proving = any(thread.is_alive() for thread in self.threads if thread.name == PROOF)
        return not proving and self.record.seconds > latest + LONELY_SECONDS

    def _anneal(self, max_rounds: int | None) -> None:
        from moccasin_mzn.free_order.annealing import OrderAnnealing

        search = OrderAnnealing(self.instance, self.options.seed or 0)
        search.run(
            lambda sequence: self.record.offer(sequence, ANNEALING), self._over, self._better_than,
            self._take_sequence, max_rounds,
        )  # fmt: skip

    def _take_sequence(self) -> Sequence[int] | None:
        return self.sequences.popleft() if self.sequences else None

    def _begin(self) -> None:
        limit = self.options.time_limit
        seconds = LONGEST_STARTS if limit is None else min(LONGEST_STARTS, STARTS_SHARE * limit)
        for sequence, fits in starts(self.instance, seconds, self.options.seed or 0, self._over, self._take_bound):
            if fits:
                self.record.offer(sequence, STARTS)
            self.sequences.append(sequence)
            self.drafts_made.append(sequence)

    def _take_bound(self, peak: int) -> None:
        """Of orders that compute every node once: all there is, if nothing may be computed again."""
        if peak > self.instance.budget and max(self.instance.max_computations) == 1:
            self.record.refute(STARTS)

    def _prove(self, backend: Backend) -> None:
        begin = time.monotonic()
        while self.record.sequence is None and time.monotonic() < begin + HEAD_START and not self._over():
            self.stopping.wait(POLL_SECONDS)
        form = find_formulation("general", self.options.precedence)
        limits = Limits(self.options.time_limit, self.options.threads, self.options.seed)
        search = ModelSearch(self.record, form, backend, limits, self._over)
        self.outcomes = search.outcomes
        search.run(backend.is_cp_sat if self.options.two_phase is None else self.options.two_phase)

    def _along_orders(self, patience: float) -> None:
        """The staged search along the input order, then along one order after the other."""
        begin = time.monotonic()
        while time.monotonic() < begin + patience and not self._over():
            self.stopping.wait(POLL_SECONDS)
        if not self._over():
            self._along(self.instance.order, FIRST_SHARE)
        while not self._over():
            order = self._next_order()
            if order is not None:
                self._along(order, LATER_SHARE)
            self.stopping.wait(POLL_SECONDS)

    def _next_order(self) -> tuple[int, ...] | None:
        """That of the best schedule, or, while there is none, of a draft, if the staged search has not been there."""
        best = self.record.sequence
        near = [best] if best is not None else list(self.drafts_made)
        orders = (tuple(dict.fromkeys(sequence)) for sequence in near)
        return next((order for order in orders if order not in self.orders_done), None)

    def _along(self, order: tuple[int, ...], share: float) -> None:
        """The staged search along one order."""
        self.orders_done.add(order)
        instance = replace(self.instance, order=order, free_order=False)
        if instance.baseline.peak <= instance.budget:
            self.record.offer(order, ORDERS)
            return
        limit = self.options.time_limit
        seconds = LONGEST_SLICE if limit is None else share * limit
        search = "only" if self.model_failed else self.options.search
        options = replace(self.options, time_limit=seconds, until_gap=0.0, search=search)
        record = Record(instance, time.monotonic())
        best = self.record.sequence
        if best is not None and first_out_of_stage(order, best) is None:
            record.offer(best, ORDERS)
        try:
            Staged(instance, options, record, outer_over=self._over, outer_record=self.record).run(self._take)
        except SolverError as error:
            self.errors.append(error)
            self.model_failed = True

    def _take(self, progress: Progress) -> None:
        if progress.sequence is not None:
            self.record.offer(progress.sequence, f"{ORDERS}, {progress.source}")


@dataclass
class Staged(Search):
    """A staged search inside of another search: it ends with that, or when it cannot contribute any more."""

    outer_record: Record = field(kw_only=True)
    outer_over: Callable[[], bool] = field(kw_only=True)

    def _over(self) -> bool:
        best = self.outer_record.duration
        return super()._over() or self.outer_over() or (best is not None and self.record.bound >= best)
