"""A worker that improves a lower bound on the duration of staged schedules: relaxations refined where they go wrong.

The block relaxation (see `relaxation`) is solved with few stages; its solution suggests a schedule (see `realise`).
Where that schedule exceeds the budget, the relaxation does not see enough: a stage is added there, or a recomputation
that it watches, or moments, while no schedule is known. A schedule that exceeds nothing is as good as its bound.

A relaxation that is not solved at once is asked for a solution little over the bound (see `SolutionBelow`). Mostly
there is none, which is proven sooner than an optimum is, and lifts the bound; otherwise the solution shows what to
refine. Where that takes long, all starts again with the stages that matter to the linear relaxation (see
`first_stages`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.bounds.first_stages import first_stages
from moccasin_mzn.bounds.relaxation import YES, Literal, Relaxation
from moccasin_mzn.heuristics.compiled_searches import ignore
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.stages import Stages, highest_maxima, sums_of_ranges

if TYPE_CHECKING:
    from moccasin_mzn.solvers.cpsat.branching import Branched


@dataclass(frozen=True)
class Computation:
    """One computation of the suggested sequence."""

    node: int
    stage: int
    """From 0; the computation is the first of its node if it is the stage's node."""
    memory: int
    """In use, in the unit of `Stages`."""


def realise(relaxation: Relaxation, solution: Sequence[bool]) -> list[Computation]:
    """Everything recomputed as late in its block as its readers allow; within a stage in input order."""
    sequence: list[tuple[int, int]] = []  # (stage, node)
    for j in range(len(relaxation.chosen) + 1):
        stage = _places(relaxation, solution, j)
        sequence += sorted((k, v) for v, k in stage.items())
    sequence += [(k, k) for k in range(relaxation.stages.n)]
    sequence.sort()
    memory = _memory(relaxation, [v for _, v in sequence])
    return [Computation(v, k, used) for (k, v), used in zip(sequence, memory, strict=True)]


def _places(relaxation: Relaxation, solution: Sequence[bool], j: int) -> dict[int, int]:
    """The stage of each recomputation in block j that is of use."""
    s, last = relaxation.stages, relaxation.last(j)
    ends = relaxation.retained[j] if j < len(relaxation.chosen) else {}

    def true(literal: Literal) -> bool:
        return literal == YES or (literal is not None and solution[literal])

    place: dict[int, int] = {}
    for u in sorted((u for u, again in relaxation.again[j].items() if true(again)), reverse=True):
        at_end = [last] if true(ends.get(u)) else []
        if true(relaxation.at_start(j, u)):
            reads = at_end  # earlier ones are served by the copy that is there
        else:
            firsts = [x for x in s.readers[u] if relaxation.before(j) < x <= last]
            reads = firsts + [place[x] for x in s.readers[u] if x in place] + at_end
        if reads:
            place[u] = min(reads)
    return place


def _memory(relaxation: Relaxation, sequence: Sequence[int]) -> list[int]:
    s = relaxation.stages
    latest: dict[int, int] = {}
    end = list(range(len(sequence)))
    for t, v in enumerate(sequence):
        for u in s.inputs[v]:
            end[latest[u]] = t
        latest[v] = t
    retained = sums_of_ranges([s.size[v] for v in sequence], enumerate(end))
    return [memory + s.workspace[v] for memory, v in zip(retained, sequence, strict=True)]


# --- What a block relaxation sees, finer and finer ------------------------------------------------------------


@dataclass
class Refinement:
    """Stages, moments and watched recomputations (see `relaxation`)."""

    stages: Stages
    chosen: set[int]
    moments: set[int] = field(default_factory=set)
    watched: set[tuple[int, int]] = field(default_factory=set)
    step: int | None = None
    """How much more than the bound is asked for; None: anything."""
    exhausted: bool = False
    """There is nothing to refine."""
    _latest: Relaxation | None = field(default=None, repr=False)

    def relaxation(self) -> Relaxation:
        """The relaxation that sees all this."""
        if self._latest is None:
            self._latest = Relaxation.of(self.stages, self.chosen, self.moments, self.watched)
        return self._latest

    def refine(self, seen: Relaxation, computations: Iterable[Computation], unanswered: bool) -> bool:
        """See more of what exceeds the budget most, first computations first; False if that is all.

        Args:
            seen: whose solution suggested the computations.
            unanswered: perhaps there is no schedule: stages and moments show that soonest.
        """
        self._latest = None
        over = sorted((c for c in computations if c.memory > self.stages.budget), key=lambda c: -c.memory)
        unseen = [c.stage for c in over if c.node == c.stage and c.stage not in self.chosen]
        for c in over:
            block = seen.block(c.stage)
            firsts = [k for k in unseen if unanswered or seen.block(k) == block]
            if firsts:  # of a narrower block a watch excludes more
                self.chosen.add(firsts[0])
                return True
            if c.node != c.stage and unanswered and seen.last(block) not in self.moments:
                self.moments.add(seen.last(block))  # of all nodes at once
                return True
            if c.node != c.stage and not seen.watches(c.node, c.stage):
                self.watched.add((c.node, c.stage))
                return True
        for k in (k for c in over for k in (c.stage, c.stage - 1)):
            if k not in self.chosen:
                self.chosen.add(k)
                return True
        return False


# --- One question to a relaxation -----------------------------------------------------------------------------


PATIENCE = 1.0
"""Seconds after which a relaxation is not solved to the end any more, if it is small."""
CLAUSES_PER_SECOND = 10_000
"""Large relaxations get more time, one second for this many clauses."""
NEARLY_ALL = 0.05
"""If the bound lacks no more than this fraction of itself to the best schedule, all of it is asked for."""


@dataclass(frozen=True, eq=False)
class SolutionBelow:
    """Is there a solution that costs at most `most`?"""

    seen: Refinement
    relaxation: Relaxation
    """What is seen."""
    most: int | None
    """Solutions that cost more are of no interest; None: all are."""
    begun: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, seen: Refinement, bound: int, known: int | None) -> SolutionBelow:
        """What to ask next.

        Args:
            bound: on what recomputations cost in any schedule.
            known: what they cost in the best known one.
        """
        relaxation, most = seen.relaxation(), _asked_for(seen.step, bound, known)
        if known is None and most is not None and most >= sum(relaxation.cost):
            most = None  # any solution will do: if there is none, there is no schedule
        return cls(seen, relaxation, most)

    def lasts(self) -> bool:
        """Has it taken so long that an answer in part will do?"""
        return time.monotonic() > self.begun + max(PATIENCE, len(self.relaxation.clauses) / CLAUSES_PER_SECOND)

    def is_enough(self, found: bool) -> bool:
        """Need it be answered no further, with a solution found or none?"""
        return (found or self.seen.step is None) and not self.seen.exhausted and self.lasts()


def _asked_for(step: int | None, bound: int, known: int | None) -> int | None:
    """The most that a solution may cost: less than is known, and little over the bound, unless that is nearly all
    there is."""
    if step is None:
        return None if known is None else known - 1
    nearly = max(step * 5 // 4, int(NEARLY_ALL * bound))
    return (known if known is not None and known <= bound + nearly else bound + step) - 1


# --- The worker -----------------------------------------------------------------------------------------------

ANEW_SHARE, ANEW_SECONDS, ANEW_LATEST = 0.05, 4.0, 12.0
"""Part of the time limit after which it starts again, but after 4 s at the soonest and 12 s at the latest."""
FIRST_SHARE = 0.15
"""How much of the time that is left then choosing stages may take."""
STEP, SHARE = 0.08, 0.3
"""How much more than the bound is asked for where a relaxation is not solved at once: as a fraction of the bound, or of
what it lacks to the best schedule, if that is less."""
CLOSE = 4
"""Solutions that cost at most this many times `STEP` more than the bound show what to refine."""


@dataclass
class BoundState:
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
        found = tuple(self.instance.order[c.node] for c in computations)
        sequence = self.instance.together(found)
        extra = sum(self.stages.duration[c.node] for c in computations) - self.stages.baseline
        if not judge(self.instance.graph, sequence, self.instance.budget).feasible:
            if sequence != found:
                self.on_draft(sequence)
                return
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
        """Is it time to end? Then `reason` is why."""
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

    state: BoundState
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
        """Is it time to start again?"""
        elapsed = self.state.deadline.elapsed()
        return elapsed > ANEW_SECONDS and (self.state.deadline.over(ANEW_SHARE) or elapsed > ANEW_LATEST)

    def begin_anew(self) -> None:
        """Take the stages that matter to the linear relaxation instead of those of so far."""
        state, some, self.begun_anew = self.state, self.state.deadline.part(FIRST_SHARE), True
        state.begin(first_stages(state.stages, some, state.over, state.improve))

    def ask(self) -> None:
        """Is there a schedule that is little over the bound? The answer improves the bound or refines."""
        state, seen = self.state, self.state.seen
        asked = SolutionBelow.of(seen, state.bound, state.known())
        solved = self.solve(asked)
        if solved.infeasible and asked.most is None:
            state.end("infeasible")
        elif asked.most is not None and solved.infeasible:
            state.improve(asked.most + 1, asked.relaxation)
            if seen.step and not self.lasts(asked, solved):
                seen.step *= 2
        else:
            state.improve(solved.bound, asked.relaxation)
            self.learn(asked.relaxation, solved, seen)

    def lasts(self, asked: SolutionBelow, solved: Branched) -> bool:
        """Has the answer taken so long that one in part will do?"""
        return asked.lasts()

    def solve(self, asked: SolutionBelow) -> Branched:
        """The answer to the question, but not to the end if that takes long.

        One that is being looked for when further threads may join is looked for from scratch, by all of them.
        """
        from moccasin_mzn.solvers.cpsat.branching import branch  # not before it is asked: OR-Tools are slow to load

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


# --- The same by counted work ---------------------------------------------------------------------------------


FIRST_WORK, QUICK_WORK = 0.5, 0.25
"""CP-SAT's deterministic seconds for a question, at first: doubled when they led to nothing; an answer that took fewer
than the second came at once."""
LEAST_WORK, CLAUSES_PER_WORK = 1e-3, 1_000_000
"""What a question takes besides: this much, and one unit for this many clauses."""


@dataclass(kw_only=True)
class CountedWorker(Worker):
    """A worker that asks no clock: for a seed it does the same, whatever else the machine does."""

    work: float
    """CP-SAT's deterministic seconds that are left."""
    patience: float = FIRST_WORK

    def run(self) -> None:
        while self.work > 0 and not self.state.over():
            self.ask()

    def lasts(self, asked: SolutionBelow, solved: Branched) -> bool:
        return solved.work > QUICK_WORK

    def solve(self, asked: SolutionBelow) -> Branched:
        from moccasin_mzn.solvers.cpsat.branching import branch

        solved = branch(
            asked.relaxation, least=self.state.bound, most=asked.most, deadline=Deadline(), seed=self.seed,
            on_bound=ignore, stop=lambda found: self.state.stop(), work=min(self.work, self.patience),
        )  # fmt: skip
        self.work -= max(solved.work, LEAST_WORK) + len(asked.relaxation.clauses) / CLAUSES_PER_WORK
        if not solved.ended and solved.solution is None:
            self.patience *= 2
        return solved
