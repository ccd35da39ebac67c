"""Tilings tried in turns, in each a schedule by construction; the best of them is for the search proper. ::

    tilings, fine to coarse ──> cut ──> streamed, some thousand plans ──> those that did best: more plans ──> one
                                        0.01 to 0.3 s each                while there is time

A tiling is done once it computes everything once within the budget. What is made and bounded keeps to the time limit:
a tiling that would take too long to be made, as the ones before it took, is left out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from moccasin_mzn.api.request import Request
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.tiling.choosing import MANY_NODES
from moccasin_mzn.heuristics.compiled_searches import STREAMING, ready
from moccasin_mzn.heuristics.orders.least_peak import Ordering, least_peak_order
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.placing import padded, placing_of
from moccasin_mzn.search.options import Options

PLANS = 2_000
"""Plans of the first turn of a tiling; those of later turns are twice as many as those of the one before."""
NO_LIMIT = 60.0
"""Seconds of the time limit, where there is none."""
MAKING_SHARE = 0.15
"""No tiling is made that takes more than this share of the time that is left."""
TRIAL_SHARE = 0.4
"""Share of the time limit in which tilings are tried."""
KEPT = 3
"""This many tilings at least have another turn, while there is time."""
TARGETS = 0.9, 0.98
"""Budgets that are tried for a lower peak, in peaks found: where the last one has been met, and otherwise."""
ORDER_TURNS = 4
"""Turns of the search for an order in which everything is computed once, before the first turn of a tiling."""
ORDER_SHARE, ORDER_SECONDS = 0.05, 1.0
"""Share of the time limit for an order of whole layers, and its most seconds."""
PLACING_SECONDS = 0.2
"""Most seconds of a search for offsets of a schedule; there is one each turn at most."""

Weigh = Callable[[ComputationGraph, Sequence[int]], int]
"""Bytes that a schedule of a graph of parts takes in addition to its arena."""


@dataclass
class Trial:
    """One tiling, and the best schedule of it so far."""

    request: Request
    weigh: Weigh | None = None
    best: tuple[int, ...] | None = field(default=None, init=False)
    """Within the budget."""
    nearest: tuple[int, ...] | None = field(default=None, init=False)
    """Over it, by the least amount."""
    duration: float = field(default=math.inf, init=False)
    over: float = field(default=math.inf, init=False)
    """Memory of the nearest over the budget."""
    more: int = field(default=0, init=False)
    """What the best takes in addition to its arena, beyond what is taken where everything is computed once."""

    def __post_init__(self) -> None:
        from moccasin_mzn.heuristics.streaming.layers import layers_of

        assert isinstance(self.request.problem, Instance)
        self.problem = self.request.problem
        self._padded = padded(self.problem.graph, self.request.alignment or 1)
        self._layers = layers_of(self.problem.graph, self.problem.order)
        self._aim, self._turns = self.problem.budget, 0
        self._once = self._weight(self.problem.graph.input_order())

    @property
    def done(self) -> bool:
        """Everything is computed once within the budget."""
        return self.best is not None and self.duration <= self.problem.graph.total_duration

    def _weight(self, sequence: Sequence[int]) -> int:
        return 0 if self.weigh is None else self.weigh(self.problem.graph, sequence)

    @property
    def rank(self) -> tuple[float, ...]:
        """The least is best: within the budget first."""
        nodes = len(self.problem.graph.nodes)
        return (1, self.over, nodes) if self.best is None else (0, self.duration, nodes)

    def turn(self, stop: Callable[[], bool]) -> None:
        """Search for a while, with twice the plans of the turn before; first for an order of little peak."""
        if self._turns == 0 and len(self.problem.graph.nodes) <= MANY_NODES:
            self.judge(_order(least_peak_order(self._padded, turns=ORDER_TURNS, stop=stop)))
        if self.done:
            return
        if (sequence := self.streamed(self._aim, stop)) is not None:
            self.judge(sequence)

    def streamed(self, budget: int, stop: Callable[[], bool]) -> tuple[int, ...] | None:
        """The best schedule that a turn finds by construction for a budget, or the one nearest to it."""
        from moccasin_mzn.heuristics.streaming.search import PlanAnnealing

        plans, options, found = PLANS << min(self._turns, 20), self.request.options, list[Sequence[int]]()
        seed = options.seed if isinstance(options, Options) and options.seed is not None else 0
        instance, once = replace(self.problem, graph=self._padded, budget=budget), self._padded.total_duration
        annealing = PlanAnnealing(instance, self._layers, seed + self._turns, first_round=plans // 2)

        def enough() -> bool:
            return annealing.moves >= plans or annealing.duration == once or stop()

        annealing.run(found.append, enough, on_peak=found.append)
        self._turns += 1
        return tuple(found[-1]) if found else None

    def judge(self, sequence: tuple[int, ...]) -> None:
        """Take a schedule, if it is better."""
        sequence = self.problem.graph.together(sequence)
        judged = simulate(self.problem.graph, sequence)
        more = self._weight(sequence) - self._once
        taken = judged.peak + more
        if self.request.alignment is not None and taken <= self.problem.budget:
            taken = self._arena(sequence) + more
            self._aim -= max(0, min(self._aim // 8, taken - self.problem.budget))
        if taken > self.problem.budget:
            if taken - self.problem.budget < self.over:
                self.over, self.nearest = taken - self.problem.budget, sequence
        elif judged.duration <= self.duration:
            self.best, self.duration, self.more = sequence, float(judged.duration), more

    def _arena(self, sequence: Sequence[int]) -> int:
        """The size of an arena with offsets."""
        from moccasin_mzn.machine.addresses import ADDRESSES
        from moccasin_mzn.machine.addresses.search import search_arena

        ready(ADDRESSES)
        placing = placing_of(self.problem.graph, simulate(self.problem.graph, sequence))
        limits = {"enough": self.problem.budget, "time_limit": PLACING_SECONDS}
        return search_arena(placing.buffers, self.request.alignment or 1, **limits).size  # type: ignore[arg-type]

    def started(self) -> Request:
        """The request, which starts from the best schedule, if there is one, and leaves what that takes in addition."""
        if self.best is None:
            return self.request
        within = replace(self.problem, budget=self.problem.budget - self.more)
        return replace(self.request, problem=within, start=self.best)


def _order(found: Ordering) -> tuple[int, ...]:
    """The order that was found; an interrupt, which ended that search, ends the trials as well."""
    if found.interrupted:
        raise KeyboardInterrupt
    return tuple(found.order)


CutsT = TypeVar("CutsT")


@dataclass
class Maker(Generic[CutsT]):
    """Makes tilings one after the other, as long as there is time for them."""

    cut: Callable[[CutsT], ComputationGraph]
    count: Callable[[CutsT], int]
    """About how many nodes a tiling has."""
    deadline: Deadline
    seconds: float = 2e-4
    """For each node, as the slowest tiling so far took."""

    def made(self, tilings: Sequence[CutsT], over: Callable[[], bool]) -> Iterator[ComputationGraph]:
        """The graphs, each once."""
        seen = set[tuple[object, ...]]()
        for each in tilings:
            if over() and seen:
                return
            left, nodes = self.deadline.remaining(), max(1, self.count(each))
            if left is not None and nodes * self.seconds > MAKING_SHARE * left and seen:
                continue
            begin = time.monotonic()
            graph = self.cut(each)
            self.seconds = max(self.seconds, (time.monotonic() - begin) / nodes)
            key = graph.nodes, graph.parts, graph.sizes  # nodes may be mere numbers
            if key not in seen:
                seen.add(key)
                yield graph


def of_whole_layers(request: Request, deadline: Deadline, weigh: Weigh | None) -> Trial:
    """The trial of a graph that is not cut: its input order, and one of least peak."""
    trial = Trial(request, weigh)
    trial.judge(trial.problem.order)
    if not trial.done:
        seconds = deadline.share(ORDER_SHARE, ORDER_SECONDS)
        trial.judge(_order(least_peak_order(trial.problem.graph, time_limit=seconds)))
    return trial


def chosen(
    requests: Iterator[Request], deadline: Deadline, stop: Callable[[], bool] = never, weigh: Weigh | None = None,
    known: Sequence[Trial] = (), on_interrupt: Callable[[], None] | None = None,
) -> list[Trial]:  # fmt: skip
    """Try tilings for their budget; the best one first. Empty: each has a part that is over the budget.

    Args:
        on_interrupt: called where an interrupt ends the trials; None: it is raised.
        known: trials that were made before.
        weigh: what a schedule takes in addition to its arena; then tilings come from coarse to fine, and the first one
            that is done ends it.
    """
    ready(STREAMING)

    def over() -> bool:
        return stop() or deadline.over(TRIAL_SHARE)

    trials = [*known]
    try:
        for request in requests:
            trials.append(trial := Trial(request, weigh))
            trial.turn(over if len(trials) > 1 else stop)  # one has its turn, whatever the limit
            if over() or (trial.done and weigh is not None):
                break
        _go_on(trials, over)
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
    return sorted(trials, key=lambda trial: trial.rank)


def _go_on(trials: Sequence[Trial], over: Callable[[], bool]) -> None:
    """More turns for those that did best, until one of them is done."""
    alive = [trial for trial in trials if not trial.done]
    while alive and not over() and not min(trials, key=lambda trial: trial.rank).done:
        alive = sorted(alive, key=lambda trial: trial.rank)[: max(KEPT, len(alive) // 2)]
        for trial in alive:
            if not over():
                trial.turn(over)
        alive = [trial for trial in alive if not trial.done]


@dataclass
class Lowest:
    """The lowest peak of all tilings that are tried: each for ever lower budgets, as long as that finds something."""

    over: Callable[[], bool]
    best: Request | None = field(default=None, init=False)
    """Starts from the schedule of that peak."""
    peak: float = field(default=math.inf, init=False)
    _met: dict[int, tuple[float, Trial]] = field(default_factory=dict, init=False)
    """By number of the tiling its lowest peak."""

    def take(self, trial: Trial) -> None:
        """Try a tiling."""
        least, factor = max(trial.problem.graph.working_sets), TARGETS[-1]
        while not self.over() and least < self.peak:
            aim = max(least, int(factor * min(self.peak, trial.problem.budget)))
            sequence = trial.streamed(aim, self.over)
            if sequence is None:
                return
            peak = simulate(trial.problem.graph, sequence).peak
            self._met[id(trial)] = min((peak, trial), self._met.get(id(trial), (math.inf, trial)), key=lambda x: x[0])
            if peak < self.peak:
                self.best, self.peak = replace(trial.request, start=sequence), peak
            if peak > aim and factor == TARGETS[-1]:
                return
            factor = TARGETS[0] if peak <= aim else TARGETS[-1]

    def take_again(self) -> None:
        """More turns for the tilings of least peak, until it is over."""
        while not self.over():
            near = [trial for _, trial in sorted(self._met.values(), key=lambda each: each[0])]
            near = [trial for trial in near if max(trial.problem.graph.working_sets) < self.peak][:KEPT]
            if not near:
                return
            for trial in near:
                self.take(trial)


def lowest(
    requests: Iterator[Request], deadline: Deadline, stop: Callable[[], bool] = never,
    on_interrupt: Callable[[], None] | None = None,
) -> Request | None:  # fmt: skip
    """Try tilings for a low peak; the request for the best one, which starts from its schedule.

    Args:
        requests: their budget is that of the whole layers.
        on_interrupt: called where an interrupt ends the trials; None: it is raised.
    """
    ready(STREAMING)
    found = Lowest(lambda: stop() or (found.best is not None and deadline.over()))
    try:
        for request in requests:
            found.take(Trial(request))
            if found.over():
                break
        found.take_again()
    except KeyboardInterrupt:
        if on_interrupt is None:
            raise
        on_interrupt()
    return found.best
