"""The order chosen together with the recomputations, as one call of `solve`.

Several searches run beside each other and meet in a `BestKnown`::

    annealing    over any sequences, from several drafts                   annealing
    starts       orders of low peak, tree decompositions; a bound on the
                 peak where nothing may be computed again                  starts
    input order  the staged search, as long as others do not leave it behind: a free order is no worse than a given one
    orders       the staged search along the order of first computations of the best schedule, again and again, or,
                 without one, those of the drafts
    flow covers  bounds on what must be computed again in any order        bounds.flow_covers
    proof        the general formulation, where the graph is small enough  model_search
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from moccasin_mzn.clock import POLL_SECONDS
from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.search.best_known import BestKnown
from moccasin_mzn.search.conclusion import FLOW_COVERS, RELAXATION
from moccasin_mzn.search.model_search import ModelSearch
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.staged_search import Search
from moccasin_mzn.search.starts import starts
from moccasin_mzn.solvers.minizinc.run import Limits, SolverError
from moccasin_mzn.solvers.minizinc.solvers import Backend

ANNEALING, STARTS, INPUT_ORDER, ORDERS, PROOF = "annealing", "starts", "input order", "orders", "proof"
FIRST_SHARE = 0.3
"""Of the time limit, for the staged search along the input order before other orders have their turn."""
LEAST_FIRST, CLOSE = 5.0, 0.9
"""The search along the input order is left behind if others, after its share and so many seconds, add less than this
part of what it adds to the duration."""
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
"""Seconds, and share of the time limit, for which a proof that may be quick precedes staged searches with the model."""
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
    if form.model:
        raise InputError(f"order free: {form.file.name} is a model of one's own, for a given order")
    if not form.limited:
        raise InputError(f"order free: {form.name} keeps to stages of the input order")
    if form.staged and options.search == "off":
        raise InputError("order free: search off leaves only a model, and that is the formulation general")
    if form.staged and len(options.solvers) > 1:
        raise InputError(f"order free: {len(options.solvers)} solvers cannot race on it, name one")


@dataclass
class FreeSearch(Search):
    """One call of `solve` with a free order."""

    input_order: bool = True
    """Is the staged search along the input order of use?"""
    sequences: deque[Sequence[int]] = field(default_factory=lambda: deque(maxlen=16))
    """Drafts that the annealing has not taken yet."""
    drafts_made: list[Sequence[int]] = field(default_factory=list)
    orders_done: set[tuple[int, ...]] = field(default_factory=set)
    """Orders along which the staged search has been."""
    model_failed: bool = False
    """Then the staged search goes on without the model."""

    def _start(self) -> None:
        backend = self._backend()
        small = backend is not None and len(self.instance.graph.nodes) <= PROOF_NODES
        self._run_beside(lambda: self._anneal(SMALL_ROUNDS if small else None), ANNEALING)
        self._run_beside(self._begin, STARTS)
        self._run_beside(self._flow_covers, FLOW_COVERS)
        if small and backend is not None:
            self._run_beside(lambda: self._prove(backend), PROOF)
        patience = min(PATIENCE, self._slice(PATIENCE_SHARE)) if small else 0.0
        if self.input_order:
            self._run_beside(lambda: self._along_input_order(patience), INPUT_ORDER)
        self._run_beside(lambda: self._along_orders(patience), ORDERS)

    def _lonely(self) -> bool:
        """Without a time limit: is no proof on the way, and the latest improvement long ago?"""
        return self._stale() and not any(thread.is_alive() for thread in self.threads if thread.name == PROOF)

    def _anneal(self, max_rounds: int | None) -> None:
        from moccasin_mzn.heuristics.free_order.search import OrderAnnealing

        search = OrderAnnealing(self.instance, self.options.seed or 0)
        search.run(
            lambda sequence: self.record.offer(sequence, ANNEALING), self._over, self._better_than,
            self._take_sequence, max_rounds, lambda sequence: self.record.offer(sequence, ANNEALING, "peak"),
        )  # fmt: skip

    def _take_sequence(self) -> Sequence[int] | None:
        return self.sequences.popleft() if self.sequences else None

    def _begin(self) -> None:
        seconds = self.deadline.share(STARTS_SHARE, LONGEST_STARTS)
        for sequence, fits in starts(self.instance, seconds, self.options.seed or 0, self._over, self._take_bound):
            self.record.offer(sequence, STARTS, "duration" if fits else "peak")
            self.sequences.append(sequence)
            self.drafts_made.append(sequence)

    def _take_bound(self, peak: int) -> None:
        """Of orders that compute every node once: all there is, if nothing may be computed again."""
        if max(self.instance.max_computations) == 1:
            self.record.raise_floor(peak)
            if peak > self.instance.budget:
                self.record.refute(STARTS)

    def _prove(self, backend: Backend) -> None:
        begin = time.monotonic()
        while self.record.answer is None and time.monotonic() < begin + HEAD_START and not self._over():
            self.stopping.wait(POLL_SECONDS)
        own = {name: value for name, value in self.options.own.items() if name == "precedence"}
        form = find_formulation("general", **own)
        limits = Limits(self.options.time_limit, self.options.threads, self.options.seed)
        search = ModelSearch(self.record, form, backend, limits, self._over)
        self.outcomes = search.outcomes
        search.run(self.options.two_phase)

    def _slice(self, share: float) -> float:
        """Seconds."""
        limit = self.options.time_limit
        return LONGEST_SLICE if limit is None else share * limit

    def _along_input_order(self, patience: float) -> None:
        """The staged search along the input order, whose model waits where a proof has the cores."""
        self._along(self.instance.order, self._rest(), None if self.only_order else self._left_behind, patience)

    @cached_property
    def only_order(self) -> bool:
        """Is there no other order than the input order? Then what is proven of first computations in it is proven."""
        edges = set(self.instance.graph.edges)
        return all(pair in edges for pair in pairwise(self.instance.order))

    def _take_proof(self, record: BestKnown) -> None:
        """Of a search along the only order there is, what is proven of all schedules with these first computations."""
        if record.bound_source == RELAXATION:
            self.record.improve_bound(record.bound, RELAXATION)
        if record.infeasible_source == RELAXATION:
            self.record.refute(RELAXATION)

    def _left_behind(self, record: BestKnown) -> bool:
        """Are others, when their turn has come, far ahead of the search along the input order?"""
        best, own, least = self.record.value, record.value, self.instance.baseline.duration
        if best is None or record.seconds < max(LEAST_FIRST, self._slice(FIRST_SHARE)):
            return False
        return own is None or best - least < CLOSE * (own - least)

    def _along_orders(self, patience: float) -> None:
        """The staged search along one order after the other, once that along the input order has had its time."""
        begin, first = time.monotonic(), self._slice(FIRST_SHARE)
        while not self._over():
            waited = time.monotonic() - begin
            alone = any(thread.is_alive() for thread in self.threads if thread.name == INPUT_ORDER)
            order = self._next_order() if waited > patience + (first if alone else 0.0) else None
            if order is not None:
                self._along(order, self._slice(LATER_SHARE))
            self.stopping.wait(POLL_SECONDS)

    def _next_order(self) -> tuple[int, ...] | None:
        """That of the best schedule, or, while there is none, of a draft, if the staged search has not been there."""
        best = self.record.answer
        near = [best] if best is not None else list(self.drafts_made)
        orders = (tuple(dict.fromkeys(sequence)) for sequence in near)
        return next((order for order in orders if order not in self.orders_done), None)

    def _along(
        self, order: tuple[int, ...], seconds: float | None, overtaken: Callable[[BestKnown], bool] | None = None,
        model_after: float = 0.0,
    ) -> None:  # fmt: skip
        """The staged search along one order, see `_search_along`."""
        self.orders_done.add(order)
        if simulate(self.instance.graph, order).peak <= self.instance.budget:
            self.record.offer(order, ORDERS)
            return
        search = "only" if self.model_failed else self.options.search
        options = replace(self.options, time_limit=seconds, until_gap=0.0, search=search)
        try:
            record = self._search_along(order, options, ORDERS, overtaken, model_after)
            if self.only_order:
                self._take_proof(record)
        except SolverError as error:
            self.errors.append(error)
            self.model_failed = True
