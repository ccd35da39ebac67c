"""A lower bound on the duration of staged schedules, better and better: at once, from moments, then by a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, islice

from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.bounds.instant import cover_bound, moment_bound, moments_bounds
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.bounds.worker import CLAUSES_PER_SECOND, BoundState, CountedWorker, Worker
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.stages import Stages, highest_maxima

MOMENTS, MOMENTS_SHARE = 4, 0.02
"""Stages that bounds come from before any relaxation, but no more are begun after this share of the time limit."""
COUNTED_MOMENTS = 24
"""Bounds from several stages together where work is counted."""
TOGETHER_SHARE, LARGE = 0.5, 500
"""Share of the time for bounds from several stages together, on graphs with at least this many edges per second."""


@dataclass(frozen=True)
class DurationBound:
    """What is proven of all schedules whose first computations are in the input order, within the budget and C_v."""

    value: int
    """None is shorter; in the graph's duration unit. Of no meaning if `infeasible`."""
    infeasible: bool
    """There is none at all."""
    sequence: tuple[int, ...] | None
    """The best schedule that the relaxations led to, positions in `graph.nodes`; accepted by the simulator."""
    reason: str
    """Why the search ended: "infeasible"; "schedule" or "incumbent", a schedule as good as the bound; "time" or
    "stopped"; "exhausted", the finest relaxation is solved."""
    relaxation: Relaxation | None
    """The latest that took part in proving the bound, of all schedules. None: it is the instant bound."""


@dataclass(frozen=True)
class Alongside:
    """The search that a bound is improved alongside: what is passed to it, and what it is asked."""

    on_bound: Callable[[int], None] = ignore
    """Called with each better bound, in the graph's duration unit, from some thread."""
    on_schedule: Callable[[tuple[int, ...]], None] = ignore
    """Called with each better schedule that is met on the way, positions in `graph.nodes`."""
    on_draft: Callable[[tuple[int, ...]], None] = ignore
    """Called with what a relaxed solution suggests, a sequence in stages that is over the budget, but near a good
    schedule."""
    stop: Callable[[], bool] = never
    """Ends it by returning true; asked every 50 ms from some thread."""
    incumbent: Callable[[], int | None] = lambda: None
    """The duration of the best known schedule of this instance, or None; asked as often. It ends as soon as the bound
    meets that."""
    may_join: Callable[[], bool] = lambda: True
    """Asked until it is true: then all threads search for the bound, before it one alone."""


def duration_bound(
    instance: Instance, *, time_limit: float | None, workers: int = 1, seed: int = 0, work: float | None = None,
    alongside: Alongside = Alongside(),  # noqa: B008 (frozen)
) -> DurationBound:  # fmt: skip
    """Improve the bound until it is met by a schedule, time is up or a caller stops it.

    Recomputations may be anywhere after the first computation, in any order. Of a graph that runs in place it is the
    bound of `Instance.relaxed`, whose schedules may be over the budget of the instance: then they are drafts.

    Args:
        time_limit: seconds from now; None: `work` is given.
        workers: threads that search.
        work: CP-SAT's deterministic seconds instead of a time limit: no clock is asked, and one thread searches.
    """
    deadline, asked, instance = Deadline(time_limit), instance, instance.relaxed

    def meets(sequence: tuple[int, ...] | None) -> bool:
        return sequence is not None and (asked is instance or asked.judge(sequence).feasible)

    def offer(sequence: tuple[int, ...]) -> None:
        (alongside.on_schedule if meets(sequence) else alongside.on_draft)(sequence)

    state = BoundState(
        instance, Stages.of(instance), deadline, alongside.on_bound, offer, alongside.on_draft, alongside.stop,
        alongside.incumbent,
    )  # fmt: skip
    instant = cover_bound(state.stages)
    if instant is None:
        state.end("infeasible")
    else:
        state.improve(instant)
        if work is None:
            _see_moments(state)
        else:
            _see_counted_moments(state)
        if len(instance.graph.edges) > CLAUSES_PER_SECOND * ((deadline.remaining() or 0.0) if work is None else work):
            state.end("time")  # not even one relaxation would be solved
        if work is None:
            Worker(state, seed, workers, alongside.may_join).run()
        else:
            CountedWorker(state, seed, 1, alongside.may_join, work=work).run()
    infeasible, reason = state.reason == "infeasible", state.reason or ""
    sequence = state.sequence if meets(state.sequence) else None
    return DurationBound(state.value, infeasible, sequence, reason, state.relaxation)


def _see_moments(state: BoundState) -> None:
    """Bounds from the stages with most memory, one after the other and together, as long as they take little of the
    time; or more of it where relaxations will hardly be solved."""
    stages, instance, limit = state.stages, state.instance, state.deadline.seconds or 0.0
    arrays, first = graph_arrays(instance.graph, instance.order), state.deadline.elapsed()
    high = highest_maxima(stages.memory, stages.budget, MOMENTS)
    large = len(instance.graph.edges) > LARGE * limit

    def over(share: float = MOMENTS_SHARE) -> bool:
        return state.over() or state.deadline.elapsed() > first + share * limit

    for k in high:
        if over():
            break
        bound = moment_bound(instance, arrays, k, state.over)
        state.improve(-(-bound // stages.duration_scale))
    share = TOGETHER_SHARE if large else MOMENTS_SHARE
    for bound in moments_bounds(instance, arrays, lambda: over(share)) if high else ():
        state.improve(-(-bound // stages.duration_scale))


def _see_counted_moments(state: BoundState) -> None:
    """The same for as many stages and prices, whatever time they take."""
    stages, instance = state.stages, state.instance
    arrays = graph_arrays(instance.graph, instance.order)
    high = highest_maxima(stages.memory, stages.budget, MOMENTS)
    alone = (moment_bound(instance, arrays, k, state.over) for k in high)
    together = islice(moments_bounds(instance, arrays, state.over) if high else iter(()), COUNTED_MOMENTS)
    for bound in chain(alone, together):
        if state.over():
            return
        state.improve(-(-bound // stages.duration_scale))
