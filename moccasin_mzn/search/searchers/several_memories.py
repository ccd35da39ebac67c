"""Several memories: the search that a formulation has of its own, and staged searches along one order after the other.

::

    low peak          an order that fits a memory with every node computed once is a best schedule at once
    input order       for the largest share of the time
    proof             the general formulation, where the graph is small: its proofs are for any order
    other orders      of first computations in the best schedule; of the best schedule in the first memory alone, in any
                      order; of low peaks. Then all again, with other random numbers

Proofs along an order imply nothing for others. So with a free order a schedule is proven best only if it has no more
than every node computed once, or by the general formulation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import ClassVar

from moccasin_mzn.formulations import in_any_order
from moccasin_mzn.heuristics.compiled_searches import LOCAL, ORDERS, CompiledSearch
from moccasin_mzn.heuristics.orders.least_peak import good_orders, least_peak_order
from moccasin_mzn.problem.features import OF_PLANS, Features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import SEARCH, known_at_once
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.result import Progress
from moccasin_mzn.search.runner import Runner, Searcher
from moccasin_mzn.search.searchers.along import board_inside, search_along
from moccasin_mzn.solvers.minizinc.run import SolverError

FIRST_SHARE, LATER_SHARE, ALONE_SHARE, ORDERING_SHARE = 0.4, 0.15, 0.15, 0.05
"""Shares of the time limit: for the input order and for each other one, for the schedules of one memory, and for the
order of least peak."""
PROOF_SHARE = 0.5
"""Share of the time that is left after the input order, for the general formulation."""
LONGEST_SLICE, LONGEST_PROOF = 20.0, 600.0
"""Seconds of each search, and of the proof, without a time limit."""
PROOF_INTERVALS = 32
"""The general formulation is tried for no more possible intervals, all memories together."""
LONGEST_WAIT = 10.0
"""Seconds, at most, for an order to search along that is not known yet."""
MOST_ORDERS = 4
"""Orders besides the input order, without a time limit."""
LEAST_SLICE = 0.5
"""Shortest search that is worth it, in seconds."""
LOW_PEAK, ALONE, GENERAL = "order of low peak", "one memory alone", "general formulation"
_SEEDS = 2**31


class OwnSearch(Searcher):
    """The search of the formulation, see `PlanFormulation.search`."""

    name: ClassVar[str] = SEARCH
    handles: ClassVar[Features] = OF_PLANS
    awaited: ClassVar[bool] = True

    def applies(self, runner: Runner) -> bool:
        return runner.several_memories and not runner.chooses_order

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (LOCAL, *runner.form.compiled)

    def endless(self, runner: Runner) -> bool:
        return True

    def search(self, runner: Runner) -> None:
        board = runner.board
        runner.form.search(
            board.problem, runner.seed, lambda plan: board.offer(plan, SEARCH), runner.over, lambda: board.answer
        )


class OrderByOrder(Searcher):
    """Staged searches, one order after the other, as time allows."""

    name: ClassVar[str] = "order by order"
    handles: ClassVar[Features] = OF_PLANS

    def applies(self, runner: Runner) -> bool:
        return runner.several_memories and runner.chooses_order

    def compiled(self, runner: Runner) -> tuple[CompiledSearch, ...]:
        return (ORDERS,)

    def search(self, runner: Runner) -> None:
        search = _OrderSearch(runner, runner.board.problem)
        try:
            search.run()
        except _EndedError:
            pass
        runner.notes.append(f"searched along {len(search.done)} order{'s' if len(search.done) != 1 else ''}")


class _EndedError(Exception):
    """There is no time left, or nothing to search for."""


class _OrderSearch:
    def __init__(self, runner: Runner, problem: Problem) -> None:
        self.runner, self.problem = runner, problem
        self.done: dict[tuple[int, ...], None] = {}
        """Orders that have been searched along, the first one first."""
        self.proven: set[tuple[int, ...]] = set()
        """Orders along which nothing more can be found."""
        self.round = 0
        """Number of rounds in which all orders were searched along again."""

    def run(self) -> None:
        problem, options, start = self.problem, self.runner.options, self.runner.board.answer
        low = self._order_of_low_peak()
        if start is not None:
            self._along(problem.order_of(start), self._slice(FIRST_SHARE), "order of the warm start")
        elif problem.graph.parts is not None:
            self._along(low, self._slice(FIRST_SHARE), LOW_PEAK)
        if problem.instance.order not in self.done:
            self._along(problem.instance.order, self._slice(LATER_SHARE if self.done else FIRST_SHARE), "input order")
        intervals = len(problem.platform.memories) * sum(problem.instance.max_computations)
        if options.search != "only" and intervals <= PROOF_INTERVALS:
            self._prove()
        for order, source in self._orders(low):
            if order not in self.done:
                self._along(order, self._slice(LATER_SHARE), source)
            self._along_best()
        while options.time_limit is not None and not set(self.done) <= self.proven:
            self.round += 1
            for order in [order for order in self.done if order not in self.proven]:
                self._along(order, self._slice(LATER_SHARE), "an order again")
                self._along_best()

    def _slice(self, share: float, longest: float = LONGEST_SLICE) -> float:
        """Seconds for a search.

        Raises:
            _EndedError: none are left, or there is nothing to search for.
        """
        remaining, limit = self.runner.deadline.remaining(), self.runner.options.time_limit
        if self.runner.over() or (remaining is not None and remaining < LEAST_SLICE):
            raise _EndedError
        return longest if limit is None or remaining is None else max(LEAST_SLICE, min(remaining, share * limit))

    def _along(self, order: tuple[int, ...], seconds: float, source: str) -> None:
        """The staged search along one order; a failure of the solver ends it only where nothing is found."""
        self.done[order] = None
        runner = self.runner
        seed = runner.options.seed if not self.round else (runner.seed + self.round) % _SEEDS
        options = replace(runner.options, time_limit=seconds, until_gap=0.0, seed=seed)
        try:
            board = search_along(runner, order, runner.form, options, source)
        except SolverError:
            if runner.board.answer is None:
                raise
            self.proven.add(order)
            return
        if board.infeasible_source or (board.value is not None and board.value <= board.bound):
            self.proven.add(order)

    def _along_best(self) -> None:
        """The staged search along the order of the best schedule, if that is a new one."""
        best = self.runner.board.answer
        if best is not None and (order := self.problem.order_of(best)) not in self.done:
            self._along(order, self._slice(LATER_SHARE), "order of the best schedule")

    def _prove(self) -> None:
        runner, general = self.runner, in_any_order(self.runner.form)
        assert general is not None
        seconds = self._slice(1.0, LONGEST_PROOF) * (1.0 if runner.options.time_limit is None else PROOF_SHARE)
        board = board_inside(runner, self.problem, general, GENERAL)

        def take(progress: Progress) -> None:
            runner.board.improve_bound(progress.bound, GENERAL)
            if progress.answer is not None:
                runner.board.offer(progress.answer, f"{GENERAL}, {progress.source}")

        options = replace(runner.options, time_limit=seconds, until_gap=0.0)
        inner = Runner(
            board=board, options=options, form=general, call=Call(take, runner.over), searchers=runner.searchers,
            outcomes=runner.outcomes,
        )  # fmt: skip
        try:
            inner.run()
        except SolverError:
            if runner.board.answer is None:
                raise
            return
        if board.infeasible_source:
            runner.board.refute(GENERAL)
        runner.board.improve_bound(board.bound, GENERAL)

    # Orders

    def _order_of_low_peak(self) -> tuple[int, ...]:
        """An order that may fit a memory with every node computed once, and is then a best schedule at once."""
        instance, seconds = self.problem.instance, min(LONGEST_WAIT, self._slice(ORDERING_SHARE))
        ordering = least_peak_order(
            instance.graph, time_limit=seconds, seed=self.runner.seed, stop=self.runner.over, start=instance.order
        )  # fmt: skip
        self._offer_sequence(ordering.order, LOW_PEAK)
        return ordering.order

    def _orders(self, low: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
        """Orders to search along, each with what it is; with a time limit as many as there are."""
        alone = self._alone()
        if alone is not None:
            yield alone, ALONE
        yield low, LOW_PEAK
        instance = self.problem.instance
        orders = good_orders(instance.graph, seed=self.runner.seed, stop=self._idle_over(), start=instance.order)
        for order in orders if self.runner.options.time_limit is not None else islice(orders, MOST_ORDERS):
            yield order, LOW_PEAK

    def _idle_over(self) -> Callable[[], bool]:
        """Ends the search for another order when it takes too long: then there may be none."""
        since, known = time.monotonic(), len(self.done)

        def over() -> bool:
            nonlocal since, known
            if len(self.done) != known:
                since, known = time.monotonic(), len(self.done)
            longest = self.runner.deadline.share(LATER_SHARE, LONGEST_WAIT)
            return self.runner.over() or time.monotonic() > since + longest

        return over

    # The first memory alone

    def _alone(self) -> tuple[int, ...] | None:
        """The order of the best schedule found in the first memory alone; None without one."""
        instance = instance_alone(self.problem)
        if instance is None:
            return None
        runner, seconds = self.runner, self._slice(ALONE_SHARE)
        known, board = known_at_once(instance), Board(instance, time.monotonic())
        if known is not None and known[2] is not None:
            board.offer(known[2], ALONE)
        elif known is None:
            options = Options(
                search="only", time_limit=seconds, threads=runner.options.threads, seed=runner.options.seed
            )  # fmt: skip
            call = Call(self._take_sequence, runner.over)
            Runner(board=board, options=options, form=options.form, call=call, searchers=runner.searchers).run()
        if is_alone_of_use(self.problem):
            if board.infeasible_source or (known is not None and known[0] == "infeasible"):
                runner.board.refute(ALONE)
            runner.board.improve_bound(board.bound, ALONE)
        if board.answer is None:
            return None
        self._offer_sequence(board.answer, ALONE)
        return instance.order_of(board.answer)

    def _take_sequence(self, progress: Progress) -> None:
        if progress.answer is not None:
            self._offer_sequence(progress.answer, ALONE)

    def _offer_sequence(self, sequence: tuple[int, ...], source: str) -> None:
        """Offer a sequence of computations in one memory, wherever that is a schedule."""
        for plan in self.problem.in_one_memory(sequence):
            self.runner.board.offer(plan, source)


def instance_alone(problem: Problem) -> Instance | None:
    """The problem in the first memory alone, in any order; None if that cannot compute every node."""
    place, graph = problem.platform.memories[0], problem.platform.graph
    costs = place.energies if problem.objective == "energy" else place.durations
    known = tuple(cost for cost in costs or () if cost is not None)
    if len(known) < len(graph.nodes):
        return None
    budget = graph.total_size + max(graph.workspace_of) if place.budget is None else place.budget
    return replace(problem.instance, graph=replace(graph, durations=known), budget=budget, free_order=True)


def is_alone_of_use(problem: Problem) -> bool:
    """Return whether the first memory is the only one that is of use. Then what is proven of it alone is proven."""
    platform = problem.platform
    elsewhere = any(memory.durations is not None for memory in platform.memories[1:])
    copied_in = any(link.target == 0 for link in platform.links)
    return problem.objective != "traffic" and not elsewhere and not copied_in


SEARCHERS = (OwnSearch(), OrderByOrder())
