"""Problems within the least budget for which a schedule is found: first its peak, then its duration. ::

graph ── frontier.least ──> a schedule of little peak ──> that peak is the budget; the search starts from there
         60 % of the time                                 what is left of it
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch

from moccasin_mzn.api.frontier.least import Least, least_of, least_schedules
from moccasin_mzn.api.frontier.questions import WORKING_SETS, BudgetAnswer, Variant
from moccasin_mzn.api.frontier.variants import SWEPT, Arranged, Plans, variant_of
from moccasin_mzn.api.modes import refuse_ways
from moccasin_mzn.api.request import Request, StrategyOptions
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.base.formatting import memory_text
from moccasin_mzn.heuristics.compiled_searches import STREAMING, ready
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
from moccasin_mzn.problem.construction import judged
from moccasin_mzn.problem.features import Feature
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.platform import plan_of_sequence
from moccasin_mzn.search.board import WARM_START
from moccasin_mzn.search.counted import is_counted
from moccasin_mzn.search.options import Options

LEAST = "least"
"""A budget: the smallest for which a schedule is found."""
STREAMED = "streaming"
"""Name of what makes schedules of parts here."""
PEAK_SHARE, PEAK_SECONDS = 0.6, 60.0
"""Share of the time limit in which the least peak is sought, and seconds where there is no limit."""
ORDER_SHARE, STREAMED_SHARE = 0.3, 0.8
"""Share of that in which an order of least peak is sought, where the order may be chosen, and share of the rest in
which tiled graphs are streamed."""
TARGET, NEARER, NEAREST, TURN_SHARE = 0.7, 0.5, 0.99, 0.3
"""Budget that is tried next, in least peaks found; what remains of the distance after a turn in vain, where that ends,
and the share of what is left of the time that a turn has."""
ALONE, ALONE_SHARE = "the first memory alone", 0.4
"""Name of what makes plans that use no other memory, and its share of the time in which a least budget is sought."""
ORDER_TURNS = 30
"""Turns of the search for an order of least peak, where searches count their work."""
_LEFT = 0.1
"""Share of the time limit that is left in any case."""
AFTER_INTERRUPT = 0.01
"""Seconds for the duration where an interrupt has ended the search for the least peak."""


def is_least(budget: object) -> bool:
    """Return whether this is asked for."""
    return isinstance(budget, str) and budget == LEAST


@dataclass(frozen=True)
class Smallest:
    """The least peak that was found of a problem."""

    peak: int
    """In the graph's size unit, without fixed memory."""
    request: Request
    """The problem with that peak as its budget, which starts from the schedule that was found."""
    proven: int
    """No schedule of the scope takes less."""
    scope: str
    """The scope of that, to be read after "no schedule"; see `conclusion.scope`."""
    interrupted: bool
    """By the user."""
    found: bool = True
    """False: nothing is known within that peak, which is that of the input order."""

    def text(self) -> str:
        """What was found, and what is proven."""
        instance = self.request.problem.instance
        amounts = [memory_text(amount + instance.fixed, instance.graph.size_unit) for amount in self._amounts]
        if not self.found:
            return f"budget: {amounts[0]}, the peak of the input order, as nothing was found within less"
        if self.peak <= self.proven:
            return f"budget: {amounts[0]}, the least that any schedule {self.scope} needs{self._of}"
        found = f"budget: {amounts[0]}, the least that was found"
        return f"{found}; {amounts[1]} are proven to be needed {self.scope.rstrip(',')}{self._of}"

    @property
    def _amounts(self) -> tuple[int, int]:
        return self.peak, min(self.peak, self.proven)

    @property
    def _of(self) -> str:
        graph = self.request.problem.graph
        return " by these parts" if graph.parts is not None else ""


def smallest(request: Request, seconds: float, stop: Callable[[], bool] = never) -> Smallest:
    """Seek the least peak of a problem.

    Raises:
        InputError: the question is asked in a way that does not handle it.
    """
    if request.formulation or request.alignment or isinstance(request.options, StrategyOptions):
        refuse_ways(request.features | {Feature.LEAST})
        return _smallest_of(variant_of(request), request, seconds, stop)
    (problem, options), deadline, known = _checked(request), Deadline(seconds), request.start
    interrupted = False
    if is_counted(options):
        return _counted(request, problem, options, stop)
    if problem.free_order and options.search != "off":
        if known is None:
            found = least_peak_order(problem.graph, time_limit=ORDER_SHARE * seconds, seed=options.seed or 0, stop=stop)
            known, interrupted = found.order, found.interrupted
        if problem.graph.parts and not interrupted:
            known, interrupted = _streamed(problem, known, deadline.part(STREAMED_SHARE), options.seed or 0, stop)
    least = least_schedules(problem, options, deadline, lambda: interrupted or stop(), known=known)
    return _within(request, least, interrupted)


def _counted(request: Request, problem: Instance, options: Options, stop: Callable[[], bool]) -> Smallest:
    """The least peak that searches find which count their work: nothing here asks the clock but for a time limit."""
    deadline, known, interrupted = Deadline(options.time_limit), request.start, False

    def over() -> bool:
        return interrupted or stop() or deadline.over()

    if problem.free_order and known is None:
        found = least_peak_order(
            problem.graph, time_limit=None, seed=options.seed or 0, stop=over, start=problem.order, turns=ORDER_TURNS
        )  # fmt: skip
        known, interrupted = found.order, found.interrupted
    return _within(request, least_schedules(problem, options, Deadline(), over, known=known), interrupted)


def _smallest_of(variant: Variant, request: Request, seconds: float, stop: Callable[[], bool]) -> Smallest:
    """The least budget of plans, of arenas, or of a strategy; that of the input order if nothing is found."""
    deadline = Deadline(request.options.time_limit if variant.counted else seconds)
    if isinstance(variant, Arranged) and request.start is not None:
        raise InputError("warm start: the least arena is sought from the input order on, leave the schedule out")

    def over() -> bool:
        return stop() or (variant.counted and deadline.over())

    search = least_of(variant, deadline, over, _known_first(variant, request, deadline, over))
    best = search.knowledge.found[0] if search.knowledge.found else None
    budget = variant.peak if best is None else best.peak
    problem = variant.settled_at(budget)
    start, known = (None, None) if best is None else (best.schedule, variant.results.get(best.schedule))
    options = replace(request.options, time_limit=AFTER_INTERRUPT) if search.interrupted else request.options
    strategy = isinstance(options, StrategyOptions)
    made = replace(request, problem=problem, options=options, start=None if strategy else start, known=known)
    scope = variant.least_scope if search.knowledge.least_source == WORKING_SETS else variant.scope
    return Smallest(budget, made, search.knowledge.least, scope, search.interrupted, best is not None)


@singledispatch
def _known_first(
    variant: Variant, request: Request, deadline: Deadline, stop: Callable[[], bool]
) -> BudgetAnswer | None:  # fmt: skip
    """What the search for the least budget begins with; None: the input order."""
    return None


@_known_first.register(Plans)
def _in_the_first_memory(
    variant: Plans, request: Request, deadline: Deadline, stop: Callable[[], bool]
) -> BudgetAnswer:  # fmt: skip
    """Plans that leave the other memories alone: schedules of little peak of the first, if it computes all."""
    problem, options = variant.problem, variant.options
    start = None if request.start is None else tuple(request.start)
    fits_one = start is not None and variant.at(variant.peak).judge(start).feasible
    given = ((start, WARM_START),) if start is not None and fits_one else ()
    place, nodes = problem.platform.memories[SWEPT], range(len(problem.graph.nodes))
    if not all(map(place.computes, nodes)) or options.search == "off":
        return BudgetAnswer(given)
    how = Options(search="only", threads=options.threads, seed=options.seed, iterations=options.iterations)
    least = least_schedules(problem.instance, how, deadline.part(ALONE_SHARE), stop)
    plans = [plan_of_sequence(sequence, SWEPT) for sequence in least.sequences]
    fit = [plan for plan in plans if variant.at(variant.peak).judge(plan).feasible]
    starts = (variant.start(variant.at(variant.peak), plan) for plan in fit)
    alone = tuple((plan, ALONE) for plan in starts if plan is not None)
    return BudgetAnswer((*given, *alone), interrupted=least.interrupted)


def _within(request: Request, least: Least, interrupted: bool = False) -> Smallest:
    problem, options, interrupted = request.problem, request.options, interrupted or least.interrupted
    assert isinstance(problem, Instance)
    sequence = least.sequences[0]
    peak = judged(problem.graph, sequence, LEAST).peak
    limited = AFTER_INTERRUPT if interrupted else options.time_limit
    within = replace(least.instance, budget=peak, fixed=problem.fixed)
    return Smallest(
        peak, replace(request, problem=within, start=sequence, options=replace(options, time_limit=limited)),
        least.proven, least.scope, interrupted,
    )  # fmt: skip


def _streamed(
    problem: Instance, known: Sequence[int], deadline: Deadline, seed: int, stop: Callable[[], bool]
) -> tuple[Sequence[int], bool]:
    """Schedules of parts by construction, for ever smaller budgets; the one of least peak, and whether an interrupt
    ended that."""
    ready(STREAMING)
    from moccasin_mzn.heuristics.streaming.layers import layers_of
    from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

    layers, target = layers_of(problem.graph, problem.order), TARGET
    best = judged(problem.graph, known, "start")

    def take(sequence: Sequence[int]) -> None:
        nonlocal best
        best = min(best, judged(problem.graph, sequence, STREAMED), key=lambda one: one.peak)

    try:
        while target < NEAREST and not stop() and not deadline.over():
            turn, budget = deadline.part(TURN_SHARE), int(target * best.peak)
            seed += 1
            annealing = PlanAnnealing(replace(problem, budget=budget), layers, seed)
            annealing.run(take, lambda: best.peak <= budget or turn.over() or stop(), on_peak=take)  # noqa: B023
            target = TARGET if best.peak <= budget else 1 - NEARER * (1 - target)
    except KeyboardInterrupt:
        return best.sequence, True
    return best.sequence, False


def _checked(request: Request) -> tuple[Instance, Options]:
    problem, options = request.problem, request.options
    refuse_ways(request.features | {Feature.LEAST})
    assert isinstance(problem, Instance) and isinstance(options, Options)
    return problem, options


def within_least(
    request: Request, on_note: Callable[[str], None], stop: Callable[[], bool] = never, begin: float | None = None
) -> Request:
    """Return the request within the least budget for which a schedule is found.

    Args:
        request: within any budget.
        on_note: called with a line on that budget and what is proven.
        stop: ends the search for it.
        begin: the time limit counts from here; default: from now.

    Raises:
        InputError: as `smallest`.
    """
    begin, limit = time.monotonic() if begin is None else begin, request.options.time_limit
    left = None if limit is None else max(_LEFT * limit, begin + PEAK_SHARE * limit - time.monotonic())
    found = smallest(request, PEAK_SECONDS if left is None else left, stop)
    on_note(found.text())
    return with_rest(found.request, begin)


def with_rest(request: Request, begin: float) -> Request:
    """The request, whose time limit counts from `begin` on; a tenth of it is left in any case, a second at most."""
    limit = request.options.time_limit
    if limit is None or limit <= AFTER_INTERRUPT:
        return request
    enough = max(limit, time.monotonic() - begin + min(1.0, _LEFT * limit))
    return replace(request, options=replace(request.options, time_limit=enough))
