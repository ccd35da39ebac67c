"""Annealing over sequences as one object: schedules in any order, as many as there is time for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from moccasin_mzn.heuristics.annealing import (
    DRAFT,
    INCUMBENT,
    PENALTY,
    TEMPERATURE,
    TRAIL,
    Annealing,
    Round,
    mean_of_positive,
)
from moccasin_mzn.heuristics.compiled_searches import ignore, later, small_instance
from moccasin_mzn.heuristics.compiling import compiled
from moccasin_mzn.heuristics.free_order.moves import SequenceMix, move, refused, undo_to
from moccasin_mzn.heuristics.free_order.state import (
    DURATION,
    EXCESS,
    LENGTH,
    empty_state,
    enter,
    parts_alongside,
    problem_of,
    sequence_of,
    slots_of,
)
from moccasin_mzn.problem.instance import Instance

# --- Simulated annealing over sequences of computations, within and beyond the budget -------------------------


ADAPTION, LEAST, BEST, BEST_PENALTY = range(2, 6)


@compiled
def anneal(problem, state, generator, mix, steps, cooling, control, best, trail, stack):
    """Make `steps` moves, cooling by a factor after each.

    Args:
        control: temperature, in duration units; penalty of memory over the budget, in duration units per size unit and
            position; relative change of the penalty per step: up while the sequence is over the budget, down while it
            is not; least memory over the budget so far, least duration with that, and the penalty then. Kept up.
        best: the slots of the sequence that has those; its length stands in the last entry.
        trail, stack: see `moves.move`.
    """
    temperature, penalty, adaption = control[TEMPERATURE], control[PENALTY], control[ADAPTION]
    for _ in range(steps):
        temperature *= cooling
        duration, excess = state.totals[DURATION], state.totals[EXCESS]
        length = move(problem, state, generator, mix, penalty, temperature, trail, stack)
        if length > 0:
            if refused(state, duration, excess, penalty, temperature, generator):
                undo_to(problem, state, trail, length, 0)
            elif state.totals[EXCESS] < control[LEAST] or (
                state.totals[EXCESS] == control[LEAST] and state.totals[DURATION] < control[BEST]
            ):
                control[LEAST], control[BEST] = state.totals[EXCESS], state.totals[DURATION]
                control[BEST_PENALTY] = penalty
                best[len(best) - 1] = state.totals[LENGTH]
                for t in range(state.totals[LENGTH]):
                    best[t] = state.seq[t]
        penalty *= 1.0 + adaption if state.totals[EXCESS] > 0 else 1.0 - adaption
    control[TEMPERATURE], control[PENALTY] = temperature, penalty


# --- The search -----------------------------------------------------------------------------------------------


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
HOT, WARM, COOL, COLD = 0.5, 0.2, 0.1, 0.03
"""Temperatures in mean durations: a long round from a draft begins hot, one from the best schedule warm, the first one
from a draft cool."""
ADAPTIONS = 10.0
"""The penalty of memory over the budget changes by this many factors of e at most in a round."""
LOWER = 5.0
"""A round from the best sequence begins with the penalty at which that was found, divided by this."""


class OrderAnnealing(Annealing[Sequence[int], np.ndarray]):
    """Annealing from drafts: sequences to start from, within the budget or not.

    Args:
        first: the first of them; None: the input order.
    """

    cold = COLD

    def __init__(self, instance: Instance, seed: int = 0, first: Sequence[int] | None = None) -> None:
        self.instance = instance
        self._problem = problem_of(instance)
        self._state = empty_state(self._problem, parts_alongside(instance))
        self._best = np.zeros(len(self._problem.slot_node) + 1, np.int64)
        self._trail = np.zeros((TRAIL, 2), np.int64)
        self._stack = np.zeros((SequenceMix().depth + 1, 5), np.int64)
        self._drafts: list[np.ndarray] = [slots_of(instance, self._problem, first or instance.order)]
        self._turn = itertools.count()
        self._first = max(FIRST_ROUND, MOVES_PER_NODE * len(instance.order))
        chunk = max(LEAST_CHUNK, min(CHUNK, NODES_PER_CHUNK // len(instance.order)))
        unit = mean_of_positive(self._problem.duration)
        penalty = unit / mean_of_positive(self._problem.size) / 20
        super().__init__(seed, unit, [penalty], chunk, [0.0, math.inf, math.inf, penalty])

    @property
    def _value(self) -> float:
        return self._control[BEST] if self._control[LEAST] == 0 else math.inf

    def _rounds(self) -> Iterator[Round]:
        """Longer and longer ones, from a draft and from the best so far."""
        yield Round(DRAFT, COOL, self._first)
        for cycle in itertools.count(1):
            steps = self._first * 2 ** min(LONGEST, cycle)
            yield Round(DRAFT, HOT, steps)
            yield Round(INCUMBENT, WARM, steps)

    def _drafts_before(self, number: int) -> None:
        return None

    def _begin_with(self, near: Sequence[int]) -> tuple[Round, np.ndarray]:
        self._drafts.append(slots_of(self.instance, self._problem, near))
        return Round(DRAFT, COOL, self._first), self._drafts[-1]

    def _start(self, plan: Round) -> np.ndarray:
        if plan.start == INCUMBENT:
            return self._best_slots.copy()
        return self._drafts[next(self._turn) % len(self._drafts)]

    def _enter(self, plan: Round, start: np.ndarray) -> None:
        enter(self._problem, self._state, start)
        self._note()
        self._control[PENALTY] = self._penalties[0]
        if plan.start == INCUMBENT:
            self._control[PENALTY] = max(self._penalties[0], self._control[BEST_PENALTY] / LOWER)
        self._control[ADAPTION] = ADAPTIONS / plan.steps

    def _anneal(self, plan: Round, cooling: float) -> None:
        anneal(
            self._problem, self._state, self._generator, SequenceMix(), self._chunk, cooling, self._control, self._best,
            self._trail, self._stack,
        )  # fmt: skip

    def _over(self) -> float:
        return self._control[LEAST]

    def _found(self) -> tuple[int, ...]:
        return sequence_of(self.instance, self._problem, self._best_slots)

    _nearest = _found

    @property
    def _best_slots(self) -> np.ndarray:
        return self._best[: self._best[-1]]

    def adopt(self, known: Sequence[int]) -> None:
        enter(self._problem, self._state, slots_of(self.instance, self._problem, known))
        self._note()

    def _note(self) -> None:
        """Keep what was loaded, if it is the best sequence so far: with less memory over the budget, or shorter."""
        totals = self._state.totals
        if (totals[EXCESS], totals[DURATION]) < (self._control[LEAST], self._control[BEST]):
            self._control[LEAST], self._control[BEST] = totals[EXCESS], totals[DURATION]
            self._best[: totals[LENGTH]] = self._state.seq[: totals[LENGTH]]
            self._best[-1] = totals[LENGTH]


def compile_all() -> None:
    OrderAnnealing(small_instance("free")).run(ignore, later(1))
