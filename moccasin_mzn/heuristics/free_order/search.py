"""Annealing over sequences as one object: schedules in any order, as many as there is time for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from moccasin_mzn.heuristics.compiled_searches import Later, ignore, small_instance
from moccasin_mzn.heuristics.free_order.anneal import ADAPTION, BEST, BEST_PRICE, LEAST, PRICE, TEMPERATURE, anneal
from moccasin_mzn.heuristics.free_order.moves import Mix
from moccasin_mzn.heuristics.free_order.state import (
    DURATION,
    EXCESS,
    LENGTH,
    empty_state,
    enter,
    problem_of,
    sequence_of,
    slots_of,
)
from moccasin_mzn.problem.instance import Instance

CHUNK = 2_000
"""Moves between two looks at the clock; fewer on graphs of more than `NODES_PER_CHUNK` / `CHUNK` nodes, where a move
takes longer."""
NODES_PER_CHUNK = 10_000_000
LEAST_CHUNK = 20
FIRST_ROUND = 60_000
"""Moves of the first round, at least; later ones are longer and longer."""
MOVES_PER_NODE = 200
"""Moves of the first round, for each node."""
LONGEST = 3
"""Rounds get longer, doubling so often."""
PRICE_RANGE = 1e4
"""The price of memory over the budget stays within this factor of where it begins."""
HOT, WARM, COOL, COLD = 0.5, 0.2, 0.1, 0.03
"""Temperatures in mean durations: a long round from a draft begins hot, one from the best schedule warm, the first one
from a draft cool."""
ADAPTIONS = 10.0
"""The price of memory over the budget changes by so many factors of e at most in a round."""
LOWER = 5.0
"""A round from the best sequence begins with the price at which that was found, divided by this."""
_JOURNAL = 256


@dataclass(frozen=True)
class Round:
    """One cooling: where it begins and how many moves it takes."""

    best: bool
    """From the best sequence so far, rather than from a draft?"""
    temperature: float
    """At the beginning, in mean durations."""
    steps: int


def rounds(first: int) -> Iterator[Round]:
    """An endless schedule of longer and longer rounds.

    Args:
        first: moves of the first round.
    """
    yield Round(False, COOL, first)
    for cycle in itertools.count(1):
        steps = first * 2 ** min(LONGEST, cycle)
        yield Round(False, HOT, steps)
        yield Round(True, WARM, steps)


class OrderAnnealing:
    """Simulated annealing in rounds, from drafts: sequences to start from, within the budget or not.

    Args:
        instance: its input order numbers the nodes, and is the first draft.
        seed: of the random numbers.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        self.instance = instance
        self._problem = problem_of(instance)
        self._state = empty_state(self._problem)
        self._best = np.zeros(len(self._problem.slot_node) + 1, np.int64)
        self._chunk = max(LEAST_CHUNK, min(CHUNK, NODES_PER_CHUNK // len(instance.order)))
        self._unit = _mean_of_positive(self._problem.duration)
        self._price = self._unit / _mean_of_positive(self._problem.size) / 20
        self._control = np.array([0.0, self._price, 0.0, math.inf, math.inf, self._price])
        self._on_peak: Callable[[tuple[int, ...]], None] = lambda sequence: None
        self._generator = np.array([(seed * 0x9E3779B97F4A7C15 + 0xD1B54A32D192ED03) % 2**64 or 1], np.uint64)
        self._journal = np.zeros((_JOURNAL, 2), np.int64)
        self._room = np.zeros((Mix().depth + 1, 5), np.int64)
        self._drafts: list[np.ndarray] = [slots_of(instance, self._problem, instance.order)]

    @property
    def duration(self) -> int | None:
        """Of the best schedule so far, in the graph's duration unit."""
        return int(self._control[BEST]) if self._control[LEAST] == 0 else None

    def run(
        self,
        on_incumbent: Callable[[tuple[int, ...]], None],
        stop: Callable[[], bool],
        better: Callable[[int | None], Sequence[int] | None] = lambda duration: None,
        draft: Callable[[], Sequence[int] | None] = lambda: None,
        max_rounds: int | None = None,
        on_peak: Callable[[tuple[int, ...]], None] = lambda sequence: None,
    ) -> None:
        """Search until `stop()`, which is asked after every `CHUNK` moves, or fewer on large graphs.

        Args:
            on_incumbent: gets better and better schedules, positions in `graph.nodes`.
            better: asked before each round for a schedule from elsewhere that is shorter than the given duration (None:
                any); the search goes on from there.
            draft: asked before each round for a sequence to start from; later rounds start from all in turn.
            max_rounds: end after so many rounds, those from new drafts aside, for reproducible results.
            on_peak: gets sequences with less and less memory over the budget, while there is no schedule.
        """
        self._on_peak = on_peak
        first = max(FIRST_ROUND, MOVES_PER_NODE * len(self.instance.order))
        turn = 0
        for plan in itertools.islice(rounds(first), max_rounds):
            self._adopt(better(self.duration))
            fresh = [slots_of(self.instance, self._problem, near) for near in iter(draft, None)]
            self._drafts += fresh
            for start in fresh:
                if not self._round(Round(False, COOL, first), start, on_incumbent, stop):
                    return
            if plan.best:
                start = self._best[: self._best[-1]].copy()
            else:
                start = self._drafts[turn % len(self._drafts)]
                turn += 1
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
        self._note()
        self._control[TEMPERATURE] = plan.temperature * self._unit
        self._control[PRICE] = max(self._price, self._control[BEST_PRICE] / LOWER) if plan.best else self._price
        self._control[ADAPTION] = ADAPTIONS / plan.steps
        cooling = (COLD / plan.temperature) ** (1 / plan.steps)
        reported, done = self.duration if plan.best else None, 0
        least = self._control[LEAST] if plan.best else math.inf
        while done < plan.steps and not stop():
            anneal(
                self._problem, self._state, self._generator, Mix(), self._chunk, cooling, self._control, self._best,
                self._journal, self._room,
            )  # fmt: skip
            low, high = self._price / PRICE_RANGE, self._price * PRICE_RANGE  # able to move even if nothing fits
            self._control[PRICE] = min(max(self._control[PRICE], low), high)
            done += self._chunk
            if 0 < self._control[LEAST] < least:
                least = self._control[LEAST]
                self._on_peak(sequence_of(self.instance, self._problem, self._best[: self._best[-1]]))
            if self.duration != reported:
                reported = self.duration
                on_incumbent(sequence_of(self.instance, self._problem, self._best[: self._best[-1]]))
        return not stop()

    def _adopt(self, sequence: Sequence[int] | None) -> None:
        """Go on from a schedule from elsewhere, if it is better."""
        if sequence is not None:
            enter(self._problem, self._state, slots_of(self.instance, self._problem, sequence))
            self._note()

    def _note(self) -> None:
        """Keep what was loaded, if it is the best sequence so far: with less memory over the budget, or shorter."""
        totals = self._state.totals
        if (totals[EXCESS], totals[DURATION]) < (self._control[LEAST], self._control[BEST]):
            self._control[LEAST], self._control[BEST] = totals[EXCESS], totals[DURATION]
            self._best[: totals[LENGTH]] = self._state.seq[: totals[LENGTH]]
            self._best[-1] = totals[LENGTH]


def _mean_of_positive(values: np.ndarray) -> float:
    """1 if none is."""
    return float(values[values > 0].mean()) if np.any(values > 0) else 1.0


def compile_all() -> None:
    """Call every compiled function once."""
    OrderAnnealing(small_instance("free")).run(ignore, Later(1))
