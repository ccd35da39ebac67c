"""Annealing over plans as one object: streaming schedules, as many as there is time for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from moccasin_mzn.heuristics.annealing import DRAFT, INCUMBENT, NOTHING, PENALTY, Annealing, Round
from moccasin_mzn.heuristics.compiled_searches import ignore, later, small_instance
from moccasin_mzn.heuristics.streaming.generator import ROLE, SIZE, STRIP, TARGET, room_for, sequence_of
from moccasin_mzn.heuristics.streaming.layers import Layers, single_layers, stream_arrays
from moccasin_mzn.heuristics.streaming.moves import ADAPTION, BEST, BEST_PENALTY, LEAST, ROUND_BEST, ROUND_LEAST, anneal
from moccasin_mzn.problem.instance import Instance

PARTS_PER_CHUNK = 400_000
"""Plans between two looks at the clock, times nodes."""
FIRST_ROUND = 4_000
"""Plans of the first round; later ones are longer and longer."""
HOTS, WARM, COLD = (0.1, 1.0, 0.3), 0.02, 1e-4
"""Temperatures in durations of everything once: a round from nothing begins hot, one from the best plan warm."""
FACTORS = 5.0, 20.0, 1.0, 5.0, 1.0
"""A peak this many times the budget costs, at first, as much as everything, times this factor."""
ONCE_EVERY = 3
"""One round from nothing in this many computes every node once."""
ADAPTIONS = 3.0
"""The penalty of memory over the budget changes by this many factors of e at most in a round."""


class PlanAnnealing(Annealing[Sequence[int], np.ndarray]):
    """Annealing over plans: from nothing (what is read streams, and is kept), from the best plan of that round, and now
    and then from the best of all.

    Args:
        once: computes every node once, whatever the instance allows.
        on_round: gets the best sequence of each round from nothing, made better, within the budget or not.
        first_round: plans of the first round.
    """

    cold = COLD

    def __init__(
        self, instance: Instance, layers: Layers, seed: int = 0, once: bool = False,
        on_round: Callable[[Sequence[int]], object] = ignore, first_round: int = FIRST_ROUND,
    ) -> None:  # fmt: skip
        self._first_round = first_round
        self.order, self._streams = stream_arrays(instance, layers)
        self._room = room_for(self._streams)
        self._budget, self._once, self._spread = max(1, instance.budget), once, False
        count = len(self._streams.last)
        self._nothing = np.zeros((4, count), np.int64)
        self._nothing[SIZE], self._nothing[STRIP] = 1, self._streams.width
        self._nothing[ROLE, self._streams.last] = TARGET
        self._plan, self._tried, self._best, self._round_best = (self._nothing.copy() for _ in range(4))
        self._on_round, self._cycles, self._keeps_all = on_round, itertools.count(), once
        unit = float(max(1, self._streams.duration.sum()))
        self._factor = FACTORS[0]
        penalty = self._factor * unit / self._budget
        chunk = max(1, min(first_round, PARTS_PER_CHUNK // len(self.order)))
        super().__init__(seed, unit, [penalty], chunk, [0.0, math.inf, math.inf, penalty, math.inf, math.inf])

    @property
    def _value(self) -> float:
        return self._control[BEST] if self._control[LEAST] == 0 else math.inf

    def _rounds(self) -> Iterator[Round]:
        for cycle in self._cycles:
            self._keeps_all = self._once or cycle % ONCE_EVERY == ONCE_EVERY - 1
            steps = self._first_round * (1 + cycle // 2)
            self._spread = cycle % 2 == 1
            self._factor = FACTORS[cycle % len(FACTORS)]
            yield Round(NOTHING, HOTS[cycle // len(FACTORS) % len(HOTS)], steps)
            yield Round(DRAFT, WARM, steps)
            self._on_round(self._sequence_of(self._round_best))
            self._keeps_all = self._once
            if cycle % 2:
                yield Round(INCUMBENT, WARM, steps)

    def _start(self, plan: Round) -> np.ndarray:
        return {NOTHING: self._nothing, DRAFT: self._round_best, INCUMBENT: self._best}[plan.start]

    def _enter(self, plan: Round, start: np.ndarray) -> None:
        self._plan[:] = start
        if plan.start == NOTHING:
            self._control[[ROUND_LEAST, ROUND_BEST]] = math.inf
        self._control[ADAPTION] = ADAPTIONS / plan.steps
        self._control[PENALTY] = (
            self._control[BEST_PENALTY] if plan.start == INCUMBENT else self._penalties[0] * self._factor / FACTORS[0]
        )

    def _anneal(self, plan: Round, cooling: float) -> None:
        anneal(
            self._streams, self._room, self._plan, self._tried, self._best, self._round_best, self._generator,
            self._budget, self._keeps_all, self._spread, self._chunk, cooling, self._control,
        )  # fmt: skip

    def _over(self) -> float:
        return self._control[LEAST]

    def _found(self) -> tuple[int, ...]:
        return self._sequence_of(self._best)

    def _sequence_of(self, plan: np.ndarray) -> tuple[int, ...]:
        return tuple(self.order[k] for k in sequence_of(self._streams, plan, self._room))

    _nearest = _found

    def adopt(self, known: Sequence[int]) -> None:
        """Go on with what is there: a sequence from elsewhere has no plan."""


def compile_all() -> None:
    instance = small_instance("free")
    PlanAnnealing(instance, single_layers(instance.order)).run(ignore, later(1))
