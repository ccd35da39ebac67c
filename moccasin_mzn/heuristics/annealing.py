"""Simulated annealing in rounds, as all searches do it that anneal; the moves are compiled code of each.

A round begins with nothing, with the best found so far or with a draft, and makes moves while it cools::

    temperature   |\\              |\\                          from one to `cold`, in mean costs
                  | `-._          | `-._
                  |     ``--..__  |     ``--..__             a round after the other, mostly longer and longer
    moves         |.............. |.......................   a dot: a chunk, between two looks at the clock

What is over a budget may be, for a penalty in proportion, which goes up step by step while it is and down while it is
not: so the search goes to and fro across the border, where the best is.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from moccasin_mzn.heuristics.compiling import generator_of

TEMPERATURE, PENALTY = 0, 1
"""Where they stand in the control array of compiled code; more penalties may follow the first."""
PENALTY_RANGE = 1e4
"""Penalties stay within this factor of where they begin, so that the search stays able to move where nothing fits."""
TRAIL = 256
"""Changes of one move that can be noted, to be undone."""
NOTHING, INCUMBENT, DRAFT = "nothing", "incumbent", "draft"

Found = TypeVar("Found")
"""The answers of a search: schedules, plans."""
Start = TypeVar("Start")
"""What the search's rounds begin with."""


@dataclass(frozen=True)
class Round:
    """One cooling: where it begins and how many moves it takes."""

    start: str
    """Nothing but what must be, the best so far, or a draft."""
    temperature: float
    """At the beginning, in mean costs."""
    steps: int
    most: int = 2**30
    """How often a node is recomputed at most, within what is allowed; for searches to which that matters."""


class Annealing(ABC, Generic[Found, Start]):
    """A search in rounds. For a seed, the same incumbents in the same order; only how many depends on time.

    Args:
        unit: the mean cost.
        penalties: to begin with, in cost units per unit of excess.
        chunk: moves between two looks at the clock.
        kept: what compiled code keeps in its control array after temperature and penalties, to begin with.
    """

    cold: float
    """Temperature at the end of a round, in mean costs."""
    patience = 1
    """A round that finds nothing within the budget goes on until it has made this many times its moves."""
    chunks_per_report = 1
    """After a round's first incumbent, better ones are reported after this many chunks."""

    def __init__(self, seed: int, unit: float, penalties: Sequence[float], chunk: int, kept: Sequence[float]) -> None:
        self._unit, self._chunk = unit, chunk
        self.moves = 0
        """Number of moves made so far: a `stop` that counts them gets the same answers for a seed."""
        self._penalties = np.array(penalties)
        self._control = np.array([0.0, *penalties, *kept])
        self._generator = generator_of(seed)
        self._least_over = math.inf
        self._on_peak: Callable[[Found], object] = lambda sequence: None

    def run(
        self, on_incumbent: Callable[[Found], object], stop: Callable[[], bool],
        better: Callable[[int | None], Found | None] = lambda duration: None,
        draft: Callable[[], Found | None] = lambda: None, max_rounds: int | None = None,
        on_peak: Callable[[Found], object] = lambda sequence: None,
    ) -> None:  # fmt: skip
        """Search until `stop()`, which is asked every few hundredths of a second (more often on small graphs).

        Args:
            on_incumbent: gets better and better answers; schedules are positions in `graph.nodes`.
            better: asked before each round for an answer from elsewhere that is better than one of the given value
                (None: any); the search goes on from there.
            draft: asked before rounds for something to start from, over the budget or not; a short round starts from
                each, and later ones do again.
            max_rounds: end after this many rounds, those from new drafts aside, for reproducible results.
            on_peak: gets what is over the budget by less and less, while nothing is within it.
        """
        self._on_peak = on_peak
        plans = self._rounds()
        for number in itertools.count() if max_rounds is None else range(max_rounds):
            if (known := better(self.duration)) is not None:
                self.adopt(known)
            for near in itertools.islice(iter(draft, None), self._drafts_before(number)):
                if not self._round(*self._begin_with(near), on_incumbent, stop):
                    return
            plan = next(plans, None)
            if plan is None:
                return
            start = self._start(plan)
            if start is not None and not self._round(plan, start, on_incumbent, stop):
                return

    def _round(
        self, plan: Round, start: Start, on_incumbent: Callable[[Found], object], stop: Callable[[], bool]
    ) -> bool:  # fmt: skip
        """Cool down from `start`; False if stopped."""
        reported, done, penalties = self._value, 0, self._control[PENALTY : PENALTY + len(self._penalties)]
        self._enter(plan, start)
        self._control[TEMPERATURE] = plan.temperature * self._unit
        cooling = (self.cold / plan.temperature) ** (1 / plan.steps)
        while done < (self.patience if math.isinf(self._value) else 1) * plan.steps and not stop():
            self._anneal(plan, cooling if done < plan.steps else 1.0)  # in the end as cold as can be
            np.clip(penalties, self._penalties / PENALTY_RANGE, self._penalties * PENALTY_RANGE, out=penalties)
            if math.isinf(self._value) and (over := self._over()) < self._least_over:
                self._least_over = over
                self._on_peak(self._nearest())
            done += self._chunk
            self.moves += self._chunk
            due = math.isinf(reported) or done // self._chunk % self.chunks_per_report == 0
            if self._value < reported and due:
                reported = self._value
                on_incumbent(self._found())
        if self._value < reported:
            on_incumbent(self._found())
        return not stop()

    @property
    def duration(self) -> int | None:
        """The duration of the best schedule so far, in the graph's duration unit; of other answers, what they are
        judged by."""
        return None if math.isinf(self._value) else int(self._value)

    @property
    @abstractmethod
    def _value(self) -> float:
        """What the best so far is judged by; infinite while nothing is within the budget."""

    @abstractmethod
    def _rounds(self) -> Iterator[Round]:
        """One after the other, each asked for when the one before is over."""

    @abstractmethod
    def _start(self, plan: Round) -> Start | None:
        """What a round begins with; None if it is to be left out."""

    @abstractmethod
    def _enter(self, plan: Round, start: Start) -> None:
        """Make that the present state."""

    @abstractmethod
    def _anneal(self, plan: Round, cooling: float) -> None:
        """Make a chunk of moves, each a factor cooler."""

    @abstractmethod
    def _found(self) -> Found:
        """The best so far, as an answer."""

    @abstractmethod
    def adopt(self, known: Found) -> None:
        """Go on from an answer from elsewhere, if it is better."""

    def _drafts_before(self, number: int) -> int | None:
        """How many drafts are asked for before a round; None: all."""
        return 0

    def _begin_with(self, near: Found) -> tuple[Round, Start]:
        """A draft's own round, and what it begins with."""
        raise NotImplementedError

    def _over(self) -> float:
        """How far the answer of `_nearest` is over the budget, in a measure of the search's own."""
        return math.inf

    def _nearest(self) -> Found:
        """What is to be reported while nothing is within the budget."""
        raise NotImplementedError


def mean_of_positive(values: np.ndarray) -> float:
    """1 if none is."""
    return float(values[values > 0].mean()) if np.any(values > 0) else 1.0
