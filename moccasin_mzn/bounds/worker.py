"""A worker that improves a lower bound on the duration of staged schedules: relaxations refined where they go wrong.

The block relaxation (see `relaxation`) is solved with few stages; its solution suggests a schedule (see `realise`).
Where that schedule exceeds the budget, the relaxation does not see enough: a stage is added there, or a recomputation
that it watches, or moments, while no schedule is known. A schedule that exceeds nothing is as good as its bound.

A relaxation that is not solved at once is asked for a solution little over the bound (see `question`). Mostly there is
none, which is proven sooner than an optimum is, and lifts the bound; otherwise the solution shows what to refine. Where
that takes long, all begins anew with the stages that matter to the linear relaxation (see `first_stages`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from moccasin_mzn.bounds.first_stages import first_stages
from moccasin_mzn.bounds.question import Question
from moccasin_mzn.bounds.realise import Computation, realise
from moccasin_mzn.bounds.refinement import Refinement
from moccasin_mzn.bounds.relaxation import Relaxation
from moccasin_mzn.clock import Deadline
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.stages import Stages, highest_maxima
from moccasin_mzn.solvers.cpsat.branching import Branched, branch

ANEW_SHARE, ANEW_SECONDS, ANEW_LATEST = 0.05, 4.0, 12.0
"""Part of the time limit after which it begins anew, but after 4 s at the soonest and 12 s at the latest."""
FIRST_SHARE = 0.15
"""How much of the time that is left then choosing stages may take."""
STEP, SHARE = 0.08, 0.3
"""How much more than the bound is asked for where a relaxation is not solved at once: as a fraction of the bound, or of
what it lacks to the best schedule, if that is less."""
CLOSE = 4
"""Solutions that cost at most so many times `STEP` more than the bound show what to refine."""


@dataclass
class State:
    """What is known. Durations of recomputations are in the unit of `stages`."""

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
    seen: Refinement = field(init=False)
    """What the relaxation sees."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.begin(set(highest_maxima(self.stages.memory, self.stages.budget, 1)))

    def begin(self, chosen: set[int]) -> None:
        """With these stages, and nothing refined."""
        self.seen = Refinement(self.stages, chosen)

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


@dataclass
class Worker:
    """Asks one question after the other, of one thread until it may use all."""

    state: State
    seed: int
    threads: int
    may_join: Callable[[], bool]
    """May all threads be used?"""
    begun_anew: bool = False
    """Has it taken the stages that matter to the linear relaxation?"""

    def run(self) -> None:
        """Until all is over."""
        state = self.state
        while not state.over():
            self.ask()
            if not self.begun_anew and self.is_late() and state.known() is not None:
                self.begin_anew()

    def is_late(self) -> bool:
        """Is it time to begin anew?"""
        elapsed = self.state.deadline.elapsed()
        return elapsed > ANEW_SECONDS and (self.state.deadline.over(ANEW_SHARE) or elapsed > ANEW_LATEST)

    def begin_anew(self) -> None:
        """Take the stages that matter to the linear relaxation instead of those of so far."""
        state, some, self.begun_anew = self.state, self.state.deadline.part(FIRST_SHARE), True
        state.begin(first_stages(state.stages, some, state.over, state.improve))

    def ask(self) -> None:
        """Is there a schedule that is little over the bound? The answer improves the bound or refines."""
        state, seen = self.state, self.state.seen
        asked = Question.of(seen, state.bound, state.known())
        solved = self.solve(asked)
        if solved.infeasible and asked.most is None:
            state.end("infeasible")
        elif asked.most is not None and solved.infeasible:
            state.improve(asked.most + 1, asked.relaxation)
            if seen.step and not asked.lasts():
                seen.step *= 2
        else:
            state.improve(solved.bound, asked.relaxation)
            self.learn(asked.relaxation, solved, seen)

    def solve(self, asked: Question) -> Branched:
        """The answer to the question, but not to the end if that takes long.

        One that is being looked for when further threads may join is looked for anew, by all of them.
        """
        state, together = self.state, self.threads > 1 and self.may_join()

        def joined() -> bool:
            return not together and self.threads > 1 and self.may_join()

        solved = branch(
            asked.relaxation, least=state.bound, most=asked.most, deadline=state.deadline, seed=self.seed,
            on_bound=lambda bound: state.improve(bound, asked.relaxation),
            stop=lambda found: state.over() or asked.is_enough(found) or joined(),
            workers=self.threads if together else 1,
        )  # fmt: skip
        if solved.ended or solved.solution is not None or state.over() or not joined():
            return solved
        return self.solve(asked)

    def learn(self, relaxation: Relaxation, solved: Branched, seen: Refinement) -> None:
        """Refine where the solution goes wrong; if it is not good enough for that, ask for a better one."""
        state = self.state
        if solved.solution is not None:
            computations = realise(relaxation, solved.solution)
            if all(c.memory <= state.stages.budget for c in computations):
                return state.offer(computations)
            state.on_draft(tuple(state.instance.order[c.node] for c in computations))
            cost = sum(cost for cost, true in zip(relaxation.cost, solved.solution, strict=True) if true)
            if seen.exhausted and cost <= state.bound:
                return state.end("exhausted")
            if cost <= state.bound + CLOSE * (1 + int(STEP * state.bound)) and not seen.exhausted:
                seen.exhausted = not seen.refine(relaxation, computations, state.known() is None)
                seen.step = None if seen.exhausted else seen.step and self.little()
                return None
        seen.step = self.little()
        return None

    def little(self) -> int:
        """How much more than the bound to ask for."""
        known, bound = self.state.known(), self.state.bound
        return max(1, int(STEP * bound if known is None else min(STEP * bound, SHARE * (known - bound))))
