"""A lower bound on the duration of staged schedules, better and better: relaxations refined where they go wrong.

The block relaxation (see `relaxation`) is solved with few stages; its solution suggests a schedule (see `realise`).
Where that schedule exceeds the budget, the relaxation does not see enough: a stage is added there, or a recomputation
that it watches, or moments, while no schedule is known. A schedule that exceeds nothing is as good as its bound.

A relaxation that is not solved at once is asked for a solution little over the bound. Mostly there is none, which is
proven sooner than an optimum is, and lifts the bound; otherwise the solution shows what to refine. Where that takes
long, all begins anew with the stages that matter to the linear relaxation (see `first_stages`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from moccasin_mzn.bounds.cover import cover_bound
from moccasin_mzn.bounds.first_stages import first_stages
from moccasin_mzn.bounds.moment import moment_bound, moments_bounds
from moccasin_mzn.bounds.realise import Computation, realise
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.clock import Deadline
from moccasin_mzn.graphs.arrays import graph_arrays
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.stages import Stages, highest_maxima
from moccasin_mzn.solvers.cpsat.branching import Branched, branch

PATIENCE = 1.0
"""Seconds after which a relaxation is not solved to the end any more, if it is small."""
CLAUSES_PER_SECOND = 10_000
"""Large relaxations get more time, one second for so many clauses."""
MOMENTS, MOMENTS_SHARE = 4, 0.02
"""Stages that bounds come from before any relaxation, but no more are begun after this share of the time limit."""
TOGETHER_SHARE, LARGE = 0.5, 500
"""Of graphs with so many edges for each second, the share for bounds from several stages together."""
ANEW_SHARE, ANEW_SECONDS, FIRST_SHARE = 0.05, 4.0, 0.1
"""Part of the time limit, and seconds, after which it begins anew; of what is left then, how much choosing stages may
take."""
STEP, SHARE = 0.04, 0.15
"""How much more than the bound is asked for then: as a fraction of the bound, or of what it lacks to the best schedule,
if that is less."""
NEARLY_ALL = 0.05
"""If it lacks no more than this fraction of the bound, all of it is asked for."""
CLOSE = 4
"""Solutions that cost at most so many times `STEP` more than the bound show what to refine."""


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
    """Which proved the bound: no solution of it costs less. None: it is the instant bound."""


@dataclass
class _State:
    """What all workers know. Durations of recomputations are in the unit of `stages`."""

    instance: Instance
    stages: Stages
    deadline: Deadline
    on_bound: Callable[[int], None]
    on_schedule: Callable[[tuple[int, ...]], None]
    on_draft: Callable[[tuple[int, ...]], None]
    stop: Callable[[], bool]
    incumbent: Callable[[], int | None]
    bound: int = -1
    """On the duration of recomputations."""
    relaxation: Relaxation | None = None
    """Which proved it."""
    own: int | None = None
    """Duration of the recomputations of `sequence`."""
    sequence: tuple[int, ...] | None = None
    reason: str | None = None
    """Why all is over, if it is."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def value(self) -> int:
        """The bound in the graph's unit."""
        return (self.stages.baseline + max(0, self.bound)) * self.stages.duration_scale

    def improve(self, bound: int, relaxation: Relaxation | None = None) -> None:
        with self.lock:
            if bound > self.bound:
                self.bound, self.relaxation = bound, relaxation
                self.on_bound(self.value)

    def offer(self, computations: list[Computation]) -> None:
        """Take notice of a schedule within the budget, if the simulator agrees that it is one."""
        sequence = tuple(self.instance.order[c.node] for c in computations)
        extra = sum(self.stages.duration[c.node] for c in computations) - self.stages.baseline
        if not judge(self.instance.graph, sequence, self.instance.budget).feasible:
            raise RuntimeError("the simulator rejects a schedule that fits by its own account")
        with self.lock:
            if self.own is None or extra < self.own:
                self.own, self.sequence = extra, sequence
                self.on_schedule(sequence)

    def known(self) -> int | None:
        """What the recomputations of the best known schedule cost."""
        duration = self.incumbent()
        if duration is None:
            return self.own
        extra = duration // self.stages.duration_scale - self.stages.baseline
        return extra if self.own is None else min(self.own, extra)

    def over(self) -> bool:
        """Is it time to end? Then `reason` says why."""
        if self.reason is None:
            known = self.known()
            if known is not None and self.bound >= known:
                self.end("schedule" if known == self.own else "incumbent")
            elif self.stop():
                self.end("stopped")
            elif self.deadline.over():
                self.end("time")
        return self.reason is not None

    def end(self, reason: str) -> None:
        with self.lock:
            self.reason = self.reason or reason


def duration_bound(
    instance: Instance, *, time_limit: float, workers: int = 1, seed: int = 0,
    on_bound: Callable[[int], None] = ignore, on_schedule: Callable[[tuple[int, ...]], None] = ignore,
    on_draft: Callable[[tuple[int, ...]], None] = ignore, stop: Callable[[], bool] = lambda: False,
    incumbent: Callable[[], int | None] = lambda: None,
) -> DurationBound:  # fmt: skip
    """Improve the bound until it is met by a schedule, time is up or somebody says so.

    Recomputations may be anywhere after the first computation, in any order. Of a graph that runs in place it is the
    bound of `Instance.relaxed`, whose schedules may be over the budget of the instance: then they are drafts.

    Args:
        time_limit: seconds from now.
        workers: threads that search, each its own way.
        on_bound: called with each better bound, in the graph's duration unit, from some thread.
        on_schedule: called with each better schedule that is met on the way, positions in `graph.nodes`.
        on_draft: called with what a relaxed solution suggests, a sequence in stages that is over the budget, but near a
            good schedule.
        stop: asked every 50 ms from some thread.
        incumbent: the duration of the best known schedule of this instance, or None; asked as often. The search
            ends as soon as the bound meets it.
    """
    deadline, asked, instance = Deadline(time_limit), instance, instance.relaxed

    def meets(sequence: tuple[int, ...] | None) -> bool:
        return sequence is not None and (asked is instance or asked.judge(sequence).feasible)

    def offer(sequence: tuple[int, ...]) -> None:
        (on_schedule if meets(sequence) else on_draft)(sequence)

    state = _State(instance, Stages.of(instance), deadline, on_bound, offer, on_draft, stop, incumbent)
    instant = cover_bound(state.stages)
    if instant is None:
        state.end("infeasible")
    else:
        state.improve(instant)
        _see_moments(state)
        if len(instance.graph.edges) > CLAUSES_PER_SECOND * (deadline.remaining() or 0.0):
            state.end("time")  # not even one relaxation would be solved
        _search_all([_Search(state, seed + worker) for worker in range(workers)])
    infeasible, reason = state.reason == "infeasible", state.reason or ""
    sequence = state.sequence if meets(state.sequence) else None
    return DurationBound(state.value, infeasible, sequence, reason, state.relaxation)


def _see_moments(state: _State) -> None:
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


def _search_all(searches: list[_Search]) -> None:
    """Run all searches, the first in this thread; an error in any of them ends all and is raised."""

    def guarded(search: _Search) -> None:
        try:
            search.run()
        except BaseException:
            search.state.end("stopped")
            raise

    with ThreadPoolExecutor(len(searches)) as pool:
        others = [pool.submit(guarded, search) for search in searches[1:]]
        guarded(searches[0])
    for other in others:
        other.result()


@dataclass
class _Search:
    """One worker: a relaxation that gets finer."""

    state: _State
    seed: int
    step: int | None = None
    """How much more than the bound is asked for; None: anything."""
    exhausted: bool = False
    """There is nothing to refine."""
    begun_anew: bool = False
    """Has it taken the stages that matter to the linear relaxation?"""

    def run(self) -> None:
        state = self.state
        self.begin(set(highest_maxima(state.stages.memory, state.stages.budget, 1)))
        while not state.over():
            relaxation = Relaxation.of(state.stages, self.chosen, self.moments, self.watched)
            started, known = time.monotonic(), state.known()
            most = self.asked_for(known)
            if known is None and most is not None and most >= sum(relaxation.cost):
                most = None  # any solution will do: if there is none, there is no schedule
            solved = self.solve(relaxation, most, started)
            if solved.infeasible and most is None:
                state.end("infeasible")
            elif most is not None and solved.infeasible:
                state.improve(most + 1, relaxation)
                if self.step and time.monotonic() < started + patience(relaxation):
                    self.step *= 2
            else:
                state.improve(solved.bound, relaxation)
                self.learn(relaxation, solved)
            due = state.deadline.over(ANEW_SHARE) and state.deadline.elapsed() > ANEW_SECONDS
            if known is not None and not self.begun_anew and due:
                self.begin_anew()

    def begin(self, chosen: set[int]) -> None:
        """With these stages, and nothing refined."""
        self.chosen, self.moments, self.watched = chosen, set[int](), set[tuple[int, int]]()
        self.step, self.exhausted = None, False

    def begin_anew(self) -> None:
        """Take the stages that matter to the linear relaxation instead of those of so far."""
        some, self.begun_anew = self.state.deadline.part(FIRST_SHARE), True
        self.begin(first_stages(self.state.stages, some, self.state.over, self.state.improve))

    def asked_for(self, known: int | None) -> int | None:
        """The most that a solution may cost: less than is known, and little over the bound, unless that is nearly all
        there is."""
        if self.step is None:
            return None if known is None else known - 1
        enough = self.state.bound + self.step
        nearly = max(self.step * 5 // 4, int(NEARLY_ALL * self.state.bound))
        return (known if known is not None and known <= self.state.bound + nearly else enough) - 1

    def solve(self, relaxation: Relaxation, most: int | None, started: float) -> Branched:
        """The relaxation with solutions of cost up to `most`; not to the end if that takes long."""

        def stop(found: bool) -> bool:
            enough = (found or self.step is None) and not self.exhausted
            return self.state.over() or (enough and time.monotonic() > started + patience(relaxation))

        return branch(
            relaxation, least=self.state.bound, most=most, deadline=self.state.deadline, seed=self.seed,
            on_bound=partial(self.state.improve, relaxation=relaxation), stop=stop,
        )  # fmt: skip

    def learn(self, relaxation: Relaxation, solved: Branched) -> None:
        """Refine where the solution goes wrong; if it is not good enough for that, ask for a better one."""
        if solved.solution is not None:
            computations = realise(relaxation, solved.solution)
            if all(c.memory <= self.state.stages.budget for c in computations):
                return self.state.offer(computations)
            self.state.on_draft(tuple(self.state.instance.order[c.node] for c in computations))
            cost = sum(cost for cost, true in zip(relaxation.cost, solved.solution, strict=True) if true)
            if self.exhausted and cost <= solved.bound:
                return self.state.end("exhausted")
            if cost <= self.state.bound + CLOSE * (1 + int(STEP * self.state.bound)) and not self.exhausted:
                self.exhausted = not self.refine(relaxation, computations)
                self.step = None if self.exhausted else self.step and self.little()
                return None
        self.step = self.little()
        return None

    def little(self) -> int:
        known, bound = self.state.known(), self.state.bound
        return max(1, int(STEP * bound if known is None else min(STEP * bound, SHARE * (known - bound))))

    def refine(self, relaxation: Relaxation, computations: list[Computation]) -> bool:
        """See more of what exceeds the budget most, first computations first; False if that is all."""
        over = sorted((c for c in computations if c.memory > self.state.stages.budget), key=lambda c: -c.memory)
        unseen = [c.stage for c in over if c.node == c.stage and c.stage not in self.chosen]
        unanswered = self.state.known() is None  # perhaps there is no schedule: stages and moments show that soonest
        for c in over:
            block = relaxation.block(c.stage)
            firsts = [k for k in unseen if unanswered or relaxation.block(k) == block]
            if firsts:  # of a narrower block a watch tells more
                self.chosen.add(firsts[0])
                return True
            if c.node != c.stage and unanswered and relaxation.last(block) not in self.moments:
                self.moments.add(relaxation.last(block))  # of all nodes at once
                return True
            if c.node != c.stage and not relaxation.watches(c.node, c.stage):
                self.watched.add((c.node, c.stage))
                return True
        for k in (k for c in over for k in (c.stage, c.stage - 1)):
            if k not in self.chosen:
                self.chosen.add(k)
                return True
        return False


def patience(relaxation: Relaxation) -> float:
    """In seconds."""
    return max(PATIENCE, len(relaxation.clauses) / CLAUSES_PER_SECOND)
