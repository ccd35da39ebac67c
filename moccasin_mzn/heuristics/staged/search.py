"""Local search as one object: incumbents for an instance, as many as there is time for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from moccasin_mzn.heuristics.annealing import (
    DRAFT,
    INCUMBENT,
    NOTHING,
    PENALTY,
    TEMPERATURE,
    TRAIL,
    Annealing,
    Round,
    mean_of_positive,
)
from moccasin_mzn.heuristics.compiled_searches import ignore, later, small_instance
from moccasin_mzn.heuristics.compiling import compiled, unit
from moccasin_mzn.heuristics.staged.construct import FEW_STAGES, MOST_STAGES, construct, stages_seen
from moccasin_mzn.heuristics.staged.merge import Merger
from moccasin_mzn.heuristics.staged.moves import Mix, move, undo_to
from moccasin_mzn.heuristics.staged.state import (
    EXCESS,
    EXTRA,
    NONE,
    PLAIN,
    empty_state,
    enter,
    problem_of,
    sequence_of,
    stages_of,
    useful_edges,
)
from moccasin_mzn.problem.instance import Instance

# --- Simulated annealing over sets of recomputations, within and beyond the budget ----------------------------


ADAPTION = 3e-4
"""Relative change per step of the penalty of memory over the budget: up while the state is over it, else down."""
USUAL = 3000
"""On graphs of more nodes it changes as much less: there it takes as many more steps until the state has answered."""

BEST = 2
UNKNOWN = -1


@compiled
def _note(changed, trail, length):
    """Add the slots of a trail to those that have changed."""
    count = changed[0]
    if count == UNKNOWN or count + length >= len(changed):
        changed[0] = UNKNOWN
        return
    for at in range(length):
        changed[1 + count + at] = trail[at, 0]
    changed[0] = count + length


@compiled
def _keep(state, best_stage, changed):
    """Make `best_stage` the state's, slot by slot where it is known which have changed: of many, few have."""
    if changed[0] == UNKNOWN:
        for slot in range(len(best_stage)):
            best_stage[slot] = state.stage[slot]
    for at in range(changed[0]):
        best_stage[changed[1 + at]] = state.stage[changed[1 + at]]
    changed[0] = 0


@compiled
def anneal(problem, state, tail, head, generator, mix, steps, cooling, control, best_stage, changed, trail, stack):
    """Make `steps` moves, cooling by a factor after each.

    Args:
        tail, head: edges (u, x) such that recomputing u before x can be of use.
        control: temperature, in duration units; penalty of memory over the budget, in duration units per size unit and
            event; least extra duration of a state within the budget so far. Kept up.
        best_stage: the state that has it.
        changed: how many slots differ since then, and which; `UNKNOWN`: not counted.
        trail, stack: see `moves.move`.
    """
    temperature, penalty = control[TEMPERATURE], control[PENALTY]
    adaption = ADAPTION * min(1.0, USUAL / len(problem.duration))
    for _ in range(steps):
        temperature *= cooling
        extra, excess = state.totals[EXTRA], state.totals[EXCESS]
        length = move(problem, state, tail, head, generator, mix, penalty, temperature, trail, stack)
        if length > 0:
            delta = (state.totals[EXTRA] - extra) + penalty * (state.totals[EXCESS] - excess)
            if delta > 0 and unit(generator) >= np.exp(-delta / temperature):
                undo_to(problem, state, trail, length, 0)
            else:
                _note(changed, trail, length)
                if state.totals[EXCESS] == 0 and state.totals[EXTRA] < control[BEST]:
                    control[BEST] = state.totals[EXTRA]
                    _keep(state, best_stage, changed)
        penalty *= 1.0 + adaption if state.totals[EXCESS] > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty


# --- The search -----------------------------------------------------------------------------------------------


NEW_SETS = 2
"""Local optima from one merger to the next."""
SLOWLY, SELDOM = 10, 4
"""Cycles until rounds whose results are merged get longer, and from one round that begins with the incumbent to the
next."""
CHUNK = 10_000
"""Moves between two looks at the clock."""
NODES_PER_CHUNK = 5_000
"""A schedule of this many nodes is reported after every chunk, one of twice as many after every second chunk ...: to
judge it takes time in proportion."""
FIRST_ROUND = 100_000
"""Moves of the first round, at least; later ones are longer and longer."""
LONGEST = 5
"""Rounds get longer, doubling so often."""
DRAFTS_PER_ROUND, FEW_CYCLES = 3, 1
"""Drafts per round in the first cycles, and how many cycles those are; later it is one draft."""
MOVES_PER_EDGE = 10
"""Moves of the first round, for each useful edge."""
DEARER = 10
"""Penalty of memory over the budget, to begin with, by the price of memory in the first choice."""
HOT, WARM, COOL, CHILLY, COLD = 1.5, 0.4, 0.1, 0.05, 0.02
"""Temperatures in mean durations: a round from scratch begins hot, one from the incumbent warm, the first one cool, one
from a new draft chilly."""
HOTTER = 4.0
"""So begins a round from scratch that is to be merged."""


class LocalSearch(Annealing[tuple[int, ...], np.ndarray]):
    """Annealing over sets of recomputations; `better` and `draft` of `run` give sequences in stages of the input order.

    Args:
        instance: its input order gives the stages.
        within: first and last stage in which recomputations change; those of other stages stay as in the schedule that
            `run` asks `better` for at the beginning. None: all.
    """

    cold, patience = COLD, 4

    def __init__(self, instance: Instance, seed: int = 0, within: tuple[int, int] | None = None) -> None:
        self.instance = instance
        self.within = within
        self._problem = problem_of(instance)
        self._tail, self._head = useful_edges(self._problem, instance)
        self._state = empty_state(self._problem)
        self._best_stage = self._state.stage.copy()  # of the present round, with its value in control[BEST]
        self._incumbent, self._least = self._state.stage.copy(), math.inf
        noted = len(self._best_stage) // 8 if len(self._best_stage) > PLAIN else 0  # a short array is copied whole
        self._changed = np.full(1 + noted, UNKNOWN, np.int64)
        self._latest: np.ndarray | None = None
        self._stop: Callable[[], bool] = lambda: False
        self._first = max(FIRST_ROUND, MOVES_PER_EDGE * len(self._tail))
        self.chunks_per_report = 1 + len(instance.order) // NODES_PER_CHUNK
        self._trail = np.zeros((TRAIL, 2), np.int64)
        self._stack = np.zeros((Mix().depth + 1, 5), np.int64)
        unit = mean_of_positive(self._problem.duration)
        super().__init__(seed, unit, [unit / mean_of_positive(self._problem.size) / 20], CHUNK, [math.inf])
        plain = instance.graph.output_of is None and not instance.graph.runs_in_place
        merges = plain and not (self.large or within)
        self._merger = Merger(self._problem, seed) if merges else None

    @property
    def duration(self) -> int | None:
        extra = super().duration
        return None if extra is None else self.instance.baseline.duration + extra

    def run(
        self, on_incumbent: Callable[[tuple[int, ...]], object], stop: Callable[[], bool],
        better: Callable[[int | None], tuple[int, ...] | None] = lambda duration: None,
        draft: Callable[[], tuple[int, ...] | None] = lambda: None, max_rounds: int | None = None,
        on_peak: Callable[[tuple[int, ...]], object] = lambda sequence: None,
    ) -> None:  # fmt: skip
        """See `Annealing.run`. On a graph so large that the first round would take long, cuts come before it."""
        if self.large and not self.hopeless and self.within is None:
            self._stop = stop
            if self._keep_best(self._construct(FEW_STAGES)):
                on_incumbent(self._found())
        super().run(on_incumbent, stop, better, draft, max_rounds, on_peak)

    def _construct(self, stages: int) -> np.ndarray:
        """The latest draft: from cuts that see a number of stages."""
        enter(self._problem, self._state, np.full_like(self._best_stage, NONE))
        self._latest, price = construct(self._problem, self._state, self._stop, stages)
        if price is not None:
            self._penalties[0] = self._control[PENALTY] = DEARER * price
        return self._latest

    @property
    def large(self) -> bool:
        """Is a first round of the usual length too short?"""
        return self._first > FIRST_ROUND

    @property
    def hopeless(self) -> bool:
        """True if no recomputation can be of use."""
        return len(self._tail) == 0

    @property
    def _value(self) -> float:
        return min(self._least, self._control[BEST])

    def _rounds(self) -> Iterator[Round]:
        """A quick one for a first incumbent, then longer and longer ones from everywhere in turn; or, to be merged,
        many short ones, mostly from nothing, whose local optima differ.

        Every second time a node is recomputed once at most: that often leads further, also where C_v allows more.
        """
        if self.hopeless or self.within is not None:
            yield from () if self.hopeless else self._rounds_within()
            return
        yield Round(NOTHING, COOL, self._first) if self._latest is None else Round(DRAFT, CHILLY, self._first)
        if self._latest is not None and stages_seen(self._problem, MOST_STAGES) > FEW_STAGES:
            self._construct(MOST_STAGES)
            yield Round(DRAFT, CHILLY, self._first)
        for cycle in itertools.count(1):
            merges = self._merger is not None and self.duration is not None
            steps = self._first * (2 + cycle // SLOWLY if merges else 2 ** min(LONGEST, cycle))
            if self._latest is not None and self.large and self.duration is not None:  # to begin anew is hopeless
                yield Round(INCUMBENT, CHILLY, steps)
                continue
            most = (1,) if cycle % 2 else ()
            yield Round(NOTHING, HOTTER if merges else HOT, steps, *most)
            if not merges or cycle % SELDOM == 0:
                yield Round(INCUMBENT, WARM, steps)
            if cycle <= FEW_CYCLES:  # later ones take longer, and where there is time to begin anew, that leads further
                yield Round(DRAFT, WARM, steps, *most)

    def _rounds_within(self) -> Iterator[Round]:
        """The same where most of a schedule stays as it is; none if there is no schedule."""
        for cycle in itertools.count() if self.duration is not None else ():
            steps = self._first * 2 ** min(LONGEST, cycle)
            yield Round(INCUMBENT, COOL if cycle % 2 else WARM, steps)

    def _drafts_before(self, number: int) -> int:
        return 0 if number == 0 else DRAFTS_PER_ROUND if number <= 3 * FEW_CYCLES else 1

    def _begin_with(self, near: Sequence[int]) -> tuple[Round, np.ndarray]:
        self._latest = stages_of(self.instance, self._problem, near)
        if self._merger is not None:
            self._merger.suggest(self._latest)
        return Round(DRAFT, CHILLY, 2 * self._first), self._latest

    def _start(self, plan: Round) -> np.ndarray | None:
        nothing = np.full_like(self._best_stage, NONE)
        return {NOTHING: nothing, INCUMBENT: self._incumbent, DRAFT: self._latest}[plan.start]

    def _enter(self, plan: Round, start: np.ndarray) -> None:
        enter(self._problem, self._state, start)
        self._changed[0] = UNKNOWN
        if self._merger is not None:
            self._control[BEST] = math.inf

    def _round(
        self, plan: Round, start: np.ndarray, on_incumbent: Callable[[tuple[int, ...]], object],
        stop: Callable[[], bool],
    ) -> bool:  # fmt: skip
        goes_on = super()._round(plan, start, on_incumbent, stop)
        self._take_best()
        if self._merger is not None and not math.isinf(self._control[BEST]):
            self._merger.note(self._best_stage)
            if goes_on and self._merger.new >= NEW_SETS:
                merged = self._merger.merged(stop)
                if merged is not None and self._keep_best(merged):
                    on_incumbent(self._found())
                goes_on = not stop()
        return goes_on

    def _take_best(self) -> None:
        """Make the best of the present round the incumbent, if it is better."""
        if self._control[BEST] < self._least:
            self._least = self._control[BEST]
            self._incumbent[:] = self._best_stage

    def _anneal(self, plan: Round, cooling: float) -> None:
        first, last = self.within or (Mix().first, Mix().last)
        nearest = Mix().depth if math.isinf(self._value) else Mix().nearest  # to get within the budget: far
        mix = Mix(most=plan.most, first=first, last=last, nearest=nearest)
        anneal(
            self._problem, self._state, self._tail, self._head, self._generator, mix, self._chunk, cooling,
            self._control, self._best_stage, self._changed, self._trail, self._stack,
        )  # fmt: skip

    def _over(self) -> int:
        return int(self._state.peak.max())

    def _nearest(self) -> tuple[int, ...]:
        return sequence_of(self.instance, self._problem, self._state.stage)

    def _found(self) -> tuple[int, ...]:
        self._take_best()
        return sequence_of(self.instance, self._problem, self._incumbent)

    def adopt(self, known: Sequence[int]) -> None:
        stages = stages_of(self.instance, self._problem, known)
        self._keep_best(stages)

    def _keep_best(self, stages: np.ndarray) -> bool:
        """Make it the state, and the best so far if it is better; is it?"""
        enter(self._problem, self._state, stages)
        self._changed[0] = UNKNOWN
        better = self._state.totals[EXCESS] == 0 and self._state.totals[EXTRA] < self._value
        if better:
            self._least = float(self._state.totals[EXTRA])
            self._incumbent[:] = self._state.stage
            if self._merger is not None:
                self._merger.note(stages)
        return bool(better)


def compile_all() -> None:
    search = LocalSearch(small_instance())
    construct(search._problem, search._state, later(50))
    search.run(ignore, later(1))
