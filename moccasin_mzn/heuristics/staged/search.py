"""Local search as one object: incumbents for an instance, as many as there is time for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.heuristics.compiled_searches import Later, ignore, small_instance
from moccasin_mzn.heuristics.staged.anneal import BEST, PRICE, TEMPERATURE, anneal
from moccasin_mzn.heuristics.staged.moves import Mix
from moccasin_mzn.heuristics.staged.state import (
    EXCESS,
    EXTRA,
    NONE,
    Problem,
    empty_state,
    enter,
    problem_of,
    sequence_of,
    stages_of,
)
from moccasin_mzn.problem.instance import Instance

CHUNK = 10_000
"""Moves between two looks at the clock."""
NODES_PER_CHUNK = 5_000
"""A schedule of so many nodes is told of after every chunk, one of twice as many after every second chunk ...: to judge
it takes time in proportion."""
FIRST_ROUND = 100_000
"""Moves of the first round, at least; later ones are longer and longer."""
PRICE_RANGE = 1e4
"""The price of memory over the budget stays within this factor of where it begins."""
LONGEST = 3
"""Rounds get longer, doubling so often."""
DRAFTS_PER_ROUND = 3
MOVES_PER_EDGE = 10
"""Moves of the first round, for each useful edge."""
HOT, WARM, COOL, CHILLY, COLD = 1.5, 0.4, 0.1, 0.05, 0.02
"""Temperatures in mean durations: a round from scratch begins hot, one from the incumbent warm, the first one cool, one
from a new draft chilly."""
_JOURNAL = 256


NOTHING, INCUMBENT, DRAFT = "nothing", "incumbent", "draft"


@dataclass(frozen=True)
class Round:
    """One cooling: where it begins and how many moves it takes."""

    start: str
    """Every node computed once, the best schedule so far, or the latest draft."""
    temperature: float
    """At the beginning, in mean durations."""
    steps: int
    most: int = Mix().most
    """How often a node is recomputed at most, within C_v."""


def rounds(first: int) -> Iterator[Round]:
    """An endless schedule: a quick one for a first incumbent, then longer and longer ones from everywhere in turn.

    Every second time a node is recomputed once at most: that often leads further, also where C_v allows more.

    Args:
        first: moves of the first round.
    """
    yield Round(NOTHING, COOL, first)
    for cycle in itertools.count(1):
        steps = first * 2 ** min(LONGEST, cycle)
        most = 1 if cycle % 2 else Mix().most
        yield Round(NOTHING, HOT, steps, most)
        yield Round(INCUMBENT, WARM, steps)
        yield Round(DRAFT, WARM, steps, most)


def rounds_within(first: int) -> Iterator[Round]:
    """The same where most of a schedule stays as it is."""
    for cycle in itertools.count():
        yield Round(INCUMBENT, COOL if cycle % 2 else WARM, first * 2 ** min(LONGEST, cycle))


class LocalSearch:
    """Simulated annealing in rounds. For a seed, the same incumbents in the same order; only how many depends on time.

    Args:
        instance: its input order gives the stages.
        seed: of the random numbers.
        within: first and last stage in which recomputations change; those of other stages stay as in the schedule that
            `run` asks `better` for at the beginning. None: all.
    """

    def __init__(self, instance: Instance, seed: int = 0, within: tuple[int, int] | None = None) -> None:
        self.instance = instance
        self.within = within
        self._problem = problem_of(instance)
        self._tail, self._head = _useful_edges(self._problem, instance)
        self._state = empty_state(self._problem)
        self._best_stage = self._state.stage.copy()
        mean = _mean_of_positive(self._problem.duration)
        self._unit = mean
        self._price = mean / _mean_of_positive(self._problem.size) / 20
        self._control = np.array([0.0, self._price, math.inf])
        self._least_peak = math.inf
        self._on_peak: Callable[[tuple[int, ...]], None] = lambda sequence: None
        self._chunks_per_report = 1 + len(instance.order) // NODES_PER_CHUNK
        self._generator = np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)
        self._journal = np.zeros((_JOURNAL, 2), np.int64)
        self._room = np.zeros((Mix().depth + 1, 5), np.int64)

    @property
    def duration(self) -> int | None:
        """Of the best schedule so far, in the graph's duration unit."""
        extra = self._control[BEST]
        return None if math.isinf(extra) else self.instance.baseline.duration + int(extra)

    @property
    def hopeless(self) -> bool:
        """True if no recomputation can be of use."""
        return len(self._tail) == 0

    def run(
        self,
        on_incumbent: Callable[[tuple[int, ...]], None],
        stop: Callable[[], bool],
        better: Callable[[int | None], Sequence[int] | None] = lambda duration: None,
        draft: Callable[[], Sequence[int] | None] = lambda: None,
        max_rounds: int | None = None,
        on_peak: Callable[[tuple[int, ...]], None] = lambda sequence: None,
    ) -> None:
        """Search until `stop()`, which is asked every few hundredths of a second (more often on small graphs).

        Args:
            on_incumbent: gets better and better schedules, positions in `graph.nodes`; at most one per `CHUNK` moves.
            better: asked before each round for a schedule from elsewhere, in stages of the input order, that is shorter
                than the given duration (None: any); the search goes on from there.
            draft: asked before each round for a sequence in stages of the input order that may be over the budget,
                but is near a good schedule: a short round starts from each, and later ones do again from the last.
            max_rounds: end after so many rounds, for reproducible results.
            on_peak: gets sequences over the budget with lower and lower peaks, while there is no schedule.
        """
        self._on_peak = on_peak
        if self.hopeless:
            return
        first = max(FIRST_ROUND, MOVES_PER_EDGE * len(self._tail))
        latest, plans = None, rounds(first) if self.within is None else rounds_within(first)
        for number, plan in enumerate(itertools.islice(plans, max_rounds)):
            self._adopt(better(self.duration))
            if self.within is not None and self.duration is None:
                return
            for near in itertools.islice(iter(draft, None), DRAFTS_PER_ROUND if number > 0 else 0):
                latest = stages_of(self.instance, self._problem, near)
                if not self._round(Round(DRAFT, CHILLY, 2 * first), latest, on_incumbent, stop):
                    return
            if plan.start == DRAFT and latest is None:
                continue
            nothing = np.full_like(self._best_stage, NONE)
            start = {NOTHING: nothing, INCUMBENT: self._best_stage, DRAFT: latest}[plan.start]
            if not self._round(plan, start, on_incumbent, stop):
                return

    def _round(
        self,
        plan: Round,
        start: np.ndarray,
        on_incumbent: Callable[[tuple[int, ...]], None],
        stop: Callable[[], bool],
    ) -> bool:
        """Cool down from `start`; False if stopped."""
        enter(self._problem, self._state, start)
        self._control[TEMPERATURE] = plan.temperature * self._unit
        cooling = (COLD / plan.temperature) ** (1 / plan.steps)
        mix = (
            Mix(most=plan.most)
            if self.within is None
            else Mix(most=plan.most, first=self.within[0], last=self.within[1])
        )
        done, reported = 0, self._control[BEST]
        while done < plan.steps or math.isinf(self._control[BEST]):
            if stop():
                break
            if done >= plan.steps:
                cooling = 1.0  # as cold as can be, until the first schedule within the budget
            anneal(
                self._problem, self._state, self._tail, self._head, self._generator, mix, CHUNK, cooling,
                self._control, self._best_stage, self._journal, self._room,
            )  # fmt: skip
            self._keep_price()
            self._note_peak()
            done += CHUNK
            due = math.isinf(reported) or done // CHUNK % self._chunks_per_report == 0
            if self._control[BEST] < reported and due:
                reported = self._report(on_incumbent)
            elif math.isinf(self._control[BEST]) and done >= 4 * plan.steps:
                break  # still none: begin anew
        if self._control[BEST] < reported:
            self._report(on_incumbent)
        return not stop()

    def _keep_price(self) -> None:
        """Within sensible limits, so that the search stays able to move while there is nothing within the budget."""
        low, high = self._price / PRICE_RANGE, self._price * PRICE_RANGE
        self._control[PRICE] = min(max(self._control[PRICE], low), high)

    def _note_peak(self) -> None:
        """Tell of the present sequence, if it is over the budget by less than any before and nothing is within it."""
        if math.isinf(self._control[BEST]) and (peak := int(self._state.peak.max())) < self._least_peak:
            self._least_peak = peak
            self._on_peak(sequence_of(self.instance, self._problem, self._state.stage))

    def _report(self, on_incumbent: Callable[[tuple[int, ...]], None]) -> float:
        """Tell of the best schedule; its extra duration."""
        on_incumbent(sequence_of(self.instance, self._problem, self._best_stage))
        return self._control[BEST]

    def _adopt(self, sequence: Sequence[int] | None) -> None:
        """Go on from a schedule from elsewhere, if it is better."""
        if sequence is None:
            return
        stages = stages_of(self.instance, self._problem, sequence)
        enter(self._problem, self._state, stages)
        if self._state.totals[EXCESS] == 0 and self._state.totals[EXTRA] < self._control[BEST]:
            self._control[BEST] = self._state.totals[EXTRA]
            self._best_stage[:] = stages


def _mean_of_positive(values: np.ndarray) -> float:
    """1 if none is."""
    return float(values[values > 0].mean()) if np.any(values > 0) else 1.0


def _useful_edges(problem: Problem, instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """Edges (u, x) such that u may be recomputed and some stage between the read before x and x is over the budget
    in the input order."""
    memory = np.array(instance.baseline.memory, dtype=object)
    over = np.concatenate([[0], np.cumsum(memory > instance.budget)]).astype(np.int64)
    n = len(problem.duration)
    tail = np.repeat(np.arange(n, dtype=np.int64), np.diff(problem.succ_ptr))
    head = problem.succ.astype(np.int64)
    previous = np.concatenate([tail[:1], head[:-1]])
    first = np.concatenate([[True], tail[1:] != tail[:-1]])[: len(tail)]
    previous = np.where(first, tail, previous)
    recomputable = np.diff(problem.slot_ptr)[tail] > 0
    useful = recomputable & (over[head] > over[previous + 1])
    return tail[useful], head[useful]


def compile_all() -> None:
    """Call every compiled function once."""
    LocalSearch(small_instance()).run(ignore, Later(1))
