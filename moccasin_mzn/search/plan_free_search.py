"""Plans with the order chosen as well: the staged search along one order after the other.

::

    low peak          an order that fits a memory with every node computed once is a best plan at once
    input order       for the largest share of the time
    proof             the general formulation, where the graph is small: its proofs are for any order
    other orders      of first computations in the best plan; of the best schedule in the first memory alone, in any
                      order; of low peaks. Then all again, with other random numbers

Proofs along an order say nothing of others. So a plan is proven best only if it has no more than every node computed
once, or by the general formulation.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from moccasin_mzn.clock import Deadline
from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.platform import Plan, plan_of_sequence
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.conclusion import conclude, no_plan
from moccasin_mzn.search.options import Options, SearchOptions
from moccasin_mzn.search.result import Listener, Progress, Result, Seconds, ignore
from moccasin_mzn.solvers.minizinc.run import SolverError
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

FIRST_SHARE, LATER_SHARE, ALONE_SHARE, ORDERING_SHARE = 0.4, 0.15, 0.15, 0.05
"""Of the time limit: for the input order and for each other one, for the schedules of one memory, and for the order of
least peak."""
PROOF_SHARE = 0.5
"""Of the time that is left after the input order."""
LONGEST_SLICE, LONGEST_PROOF = 20.0, 600.0
"""Seconds of each without a time limit; then the proof has the second."""
PROOF_COMPUTATIONS = 32
"""The general formulation is tried for no more possible intervals, all memories together."""
LONGEST_WAIT = 10.0
"""Seconds, at most, for an order to search along that is not known yet."""
MOST_ORDERS = 4
"""Without a time limit, besides the input order."""
LOW_PEAK, ALONE = "order of low peak", "one memory alone"
_SEEDS = 2**31
LEAST_SLICE = 0.5
"""Seconds: a shorter search is not worth it."""


class _EndedError(Exception):
    """There is nothing left to search for."""


def solve_plan_in_any_order(
    problem: PlanProblem,
    formulation: PlanFormulation,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Listener = ignore,
    begin: float | None = None,
    warm_start: Plan | None = None,
    *,
    along: Callable[..., Result],
    alone: Callable[..., Result],
) -> Result:
    """Find the best plan, whatever the order of first computations.

    Args:
        problem: the order of its instance is what the search begins with.
        formulation: a staged one, which is solved along several orders.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        warm_start: a plan within budgets and limits, in any order.
        along: `solve_plan`, which solves a problem in its order.
        alone: `solve_instance`, which solves one of one memory.

    Returns:
        See `solve_plan`; the bound holds for any order.

    Raises:
        InputError: see `solve_plan`; a formulation that cannot leave the order open; search "off", which leaves only a
            model, and that is the general formulation.
    """
    general = formulation.in_any_order()
    if general is None:
        raise InputError(f"order free: {formulation.name} keeps to stages of the input order")
    if options.search == "off":
        raise InputError("order free: search off leaves only a model, and that is the formulation general")
    if len(options.solvers) > 1:
        raise InputError(f"order free: {len(options.solvers)} solvers cannot race on it, name one")
    begin = time.monotonic() if begin is None else begin
    check_solvers(options.solvers)  # the first searches do without
    record = Board(problem, begin, options.until_gap, general)
    search = _FreeSearch(problem, formulation, general, options, record, on_progress, along, alone)
    if warm_start is not None:
        record.take_warm_start(warm_start, general)
    return search.run()


@dataclass
class _FreeSearch:
    """One call."""

    problem: PlanProblem
    staged: PlanFormulation
    general: PlanFormulation
    options: SearchOptions
    record: Board
    on_progress: Listener
    along: Callable[..., Result]
    alone: Callable[..., Result]
    interrupted: bool = False
    latest: Result | None = None
    """Of the latest search, for what it says of the solver."""
    flatten: float = 0.0
    """Seconds of MiniZinc's compilation, in all searches."""
    solving: float = 0.0
    """Seconds of the solver."""
    done: dict[tuple[int, ...], None] = field(default_factory=dict)
    """Orders that have been searched along, the first one first."""
    proven: set[tuple[int, ...]] = field(default_factory=set)
    """Those along which nothing more can be found."""
    round: int = 0
    """How often all orders have been searched along again."""

    def run(self) -> Result:
        """Search along all orders, as time allows; an interrupt from the keyboard ends it with the best plan."""
        impossible = why_impossible(self.problem)
        if impossible is not None:
            return no_plan(self.record, self.staged, self.options, impossible)
        try:
            self._tell()
            self._search()
        except _EndedError:
            pass
        except KeyboardInterrupt:
            self.interrupted = True
        self._tell()
        return self._result()

    def _search(self) -> None:
        low = self._order_of_low_peak()
        self._along(self.problem.instance.order, self._slice(FIRST_SHARE, LONGEST_SLICE), "input order")
        intervals = len(self.problem.platform.memories) * sum(self.problem.instance.max_computations)
        if self.options.search != "only" and intervals <= PROOF_COMPUTATIONS:
            self._prove()
        for order, source in self._orders(low):
            if order not in self.done:
                self._along(order, self._slice(LATER_SHARE, LONGEST_SLICE), source)
            self._along_best()
        while self.options.time_limit is not None and not set(self.done) <= self.proven:
            open_orders = [order for order in self.done if order not in self.proven]
            self.round += 1
            for order in open_orders:
                self._along(order, self._slice(LATER_SHARE, LONGEST_SLICE), "an order again")
                self._along_best()

    # Time

    @property
    def deadline(self) -> Deadline:
        """Of the whole call."""
        return Deadline(self.options.time_limit, self.record.begin)

    def _slice(self, share: float, most: float) -> float:
        """Seconds for a search.

        Raises:
            _EndedError: none are left, or there is nothing to search for.
        """
        remaining = self.deadline.remaining()
        if self.record.ended.is_set() or self.interrupted or (remaining is not None and remaining < LEAST_SLICE):
            raise _EndedError
        if remaining is None or self.options.time_limit is None:
            return most
        return max(LEAST_SLICE, min(remaining, share * self.options.time_limit))

    def _over(self) -> bool:
        return self.record.ended.is_set() or self.deadline.over()

    # Searches

    def _along(self, order: tuple[int, ...], seconds: float, source: str) -> None:
        """The staged search along one order."""
        self.done[order] = None
        problem = replace(self.problem, instance=replace(self.problem.instance, order=order, free_order=False))
        result = self._solve(problem, self.staged, seconds, source, lambda progress: None)
        if result is None or result.status in ("optimal", "infeasible"):
            self.proven.add(order)

    def _along_best(self) -> None:
        """The staged search along the order of the best plan, if that is a new one."""
        best = self.record.answer
        if best is not None and (order := order_of(best)) not in self.done:
            self._along(order, self._slice(LATER_SHARE, LONGEST_SLICE), "order of the best plan")

    def _prove(self) -> None:
        remaining = self.deadline.remaining()
        seconds = self._slice(1.0, LONGEST_PROOF) * (1.0 if remaining is None else PROOF_SHARE)
        source = "general formulation"
        result = self._solve(
            self.problem, self.general, seconds, source,
            lambda progress: self.record.improve_bound(progress.bound, source),
        )  # fmt: skip
        if result is None:
            return
        if result.status == "infeasible":
            self.record.refute(source)
        self.record.improve_bound(result.bound, source)

    def _solve(
        self, problem: PlanProblem, formulation: PlanFormulation, seconds: float, source: str,
        learn: Callable[[Progress], None],
    ) -> Result | None:  # fmt: skip
        """One search, whose plans go on record; None if the solver failed, but a plan is there."""

        def listen(progress: Progress) -> None:
            learn(progress)
            if progress.answer is not None:
                self.record.offer(progress.answer, f"{source}, {progress.source}")
            self._tell()
            if self.record.ended.is_set():
                raise _EndedError

        best = self.record.answer
        if best is not None and formulation.out_of_scope(problem, best) is not None:
            best = None
        seed = self.options.seed if not self.round else ((self.options.seed or 0) + self.round) % _SEEDS
        options = replace(self.options, time_limit=seconds, until_gap=0.0, seed=seed)
        try:
            result = self.along(problem, formulation, options, listen, warm_start=best)
        except SolverError:
            if self.record.answer is None:
                raise
            return None
        self.latest = result
        self.flatten += result.seconds.flatten
        self.solving += result.seconds.solve
        if result.found:
            self.record.offer(result.plan, f"{source}, {result.found_by}")
        self.interrupted |= result.interrupted
        if self.interrupted:
            raise _EndedError
        return result

    def _tell(self) -> None:
        """Pass news of the record on."""
        try:
            while True:
                self.on_progress(self.record.news.get_nowait())
        except queue.Empty:
            pass

    # Orders

    def _order_of_low_peak(self) -> tuple[int, ...]:
        """An order that may fit a memory with every node computed once, and is then a best plan at once."""
        from moccasin_mzn.heuristics.orders.least_peak import least_peak_order

        instance, seconds = self.problem.instance, self._slice(ORDERING_SHARE, LONGEST_WAIT)
        ordering = least_peak_order(
            instance.graph, time_limit=seconds, seed=self.options.seed or 0, start=instance.order
        )  # fmt: skip
        for m in range(len(self.problem.platform.memories)):
            self._offer_sequence(ordering.order, m, LOW_PEAK)
        return ordering.order

    def _orders(self, low: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], str]]:
        """Orders to search along, each with what it is; with a time limit as many as there are."""
        from moccasin_mzn.heuristics.orders.least_peak import good_orders

        alone = self._alone()
        if alone is not None:
            yield alone, ALONE
        yield low, LOW_PEAK
        instance, seed = self.problem.instance, self.options.seed or 0
        orders = good_orders(instance.graph, seed=seed, stop=self._idle_over(), start=instance.order)
        for order in orders if self.options.time_limit is not None else islice(orders, MOST_ORDERS):
            yield order, LOW_PEAK

    def _idle_over(self) -> Callable[[], bool]:
        """Ends the search for another order when it takes too long: then there may be none."""
        since, known = time.monotonic(), len(self.done)

        def over() -> bool:
            nonlocal since, known
            if len(self.done) != known:
                since, known = time.monotonic(), len(self.done)
            return self._over() or time.monotonic() > since + self.deadline.share(LATER_SHARE, LONGEST_WAIT)

        return over

    def _alone(self) -> tuple[int, ...] | None:
        """The order of the best schedule found in the first memory alone, which is a plan as well; None without one."""
        instance = self._instance_alone()
        if instance is None:
            return None
        seconds = self._slice(ALONE_SHARE, LONGEST_SLICE)
        options = Options(search="only", time_limit=seconds, threads=self.options.threads, seed=self.options.seed)
        result = self.alone(instance, options, self._take_sequence)
        self.interrupted |= result.interrupted
        if self._one_memory():
            self._take_proof(result)
        if not result.valid:
            return None
        self._offer_sequence(result.sequence, 0, ALONE)
        return tuple(dict.fromkeys(result.sequence))

    def _instance_alone(self) -> Instance | None:
        """The problem in the first memory alone; None if that cannot compute every node."""
        place, graph, instance = self.problem.platform.memories[0], self.problem.platform.graph, self.problem.instance
        costs = place.energies if self.problem.goal.objective == "energy" else place.durations
        known = tuple(cost for cost in costs or () if cost is not None)
        if len(known) < len(graph.nodes):
            return None
        budget = graph.total_size + max(graph.workspace_of) if place.budget is None else place.budget
        return replace(instance, graph=replace(graph, durations=known), budget=budget, free_order=True)

    def _one_memory(self) -> bool:
        """Is the first memory the only one that is of use? Then what is proven of it alone is proven."""
        platform = self.problem.platform
        elsewhere = any(memory.durations is not None for memory in platform.memories[1:])
        copied_in = any(link.target == 0 for link in platform.links)
        return self.problem.goal.objective != "traffic" and not elsewhere and not copied_in

    def _take_proof(self, alone: Result) -> None:
        if alone.status == "infeasible":
            self.record.refute(ALONE)
        else:
            self.record.improve_bound(alone.bound, ALONE)

    def _take_sequence(self, progress: Progress) -> None:
        if progress.answer is not None:
            self._offer_sequence(progress.answer, 0, ALONE)

    def _offer_sequence(self, sequence: tuple[int, ...], memory: int, source: str) -> None:
        """Offer a schedule of one memory, if it is a plan."""
        plan = plan_of_sequence(sequence, memory)
        if judge_plan(self.problem.platform, plan, self.problem.goal).feasible:
            self.record.offer(plan, source)
            self._tell()

    # The answer

    def _result(self) -> Result:
        record, latest = self.record, self.latest
        ending = "before the search gave up"
        if self.interrupted:
            ending = "before the user stopped the search"
        elif (remaining := self.deadline.remaining()) is not None and remaining < 1:
            ending = "within the time limit"
        along = f"; searched along {len(self.done)} order{'s' if len(self.done) != 1 else ''}"
        status, reason = conclude(record, self.general, ending + along)
        seconds = Seconds(flatten=self.flatten, solve=self.solving, total=record.seconds)
        return Result(
            self.problem, self.staged, self.options.solver, status, reason, record.answer, record.simulation,
            record.bound, seconds, self.interrupted, tuple(record.trace), driver=latest.driver if latest else None,
            solver_version=latest.solver_version if latest else None, claim=record.claim,
            found_by=record.found_by, proved_by=record.proved_by(status),
        )  # fmt: skip


def order_of(plan: Plan) -> tuple[int, ...]:
    """The order of first computations in a plan."""
    return tuple(dict.fromkeys(action.node for action in plan if action.source is None))
