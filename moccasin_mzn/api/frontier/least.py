"""The least memory that a graph can be computed in: schedules of ever lower peak, and what is proven about them.

Budgets are halved as in `sweep.seek_least`: first with as few computations of a node as are asked for, then, if that
may be, with more. Local search that looks at memory alone finds most schedules at once; bounds and their schedules take
longer, and go further on large graphs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from moccasin_mzn.api.frontier.questions import WORKING_SETS, BudgetAnswer, BudgetQuestion, Knowledge, Variant
from moccasin_mzn.api.frontier.sweep import seek_least
from moccasin_mzn.api.frontier.variants import FITTING, Rematerialization, fitting_schedule
from moccasin_mzn.base.clock import Deadline, never
from moccasin_mzn.bounds.least_budget import retained_bound
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.construction import judged
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.conclusion import scope_of_all
from moccasin_mzn.search.counted import is_counted
from moccasin_mzn.search.options import MORE, STOP, Options

RETAINED = "what is retained"
"""Name of what proves a least peak in the input order without a search."""
_LONGEST = 600.0
"""Seconds, where there is no limit."""
_FIRST_SHARE, _PROOF_SHARE = 0.4, 0.2
"""Fractions of the time: before more computations are tried, and at the end, for the proof."""
_AT_ONCE_SHARE = 0.2
"""Fraction of the time for one budget that is for local search alone."""
_SHORTEST = 0.2
"""Seconds: a shorter search is not worth it."""


@dataclass(frozen=True)
class Least:
    """How little memory is enough, in the graph's size unit."""

    sequences: tuple[tuple[int, ...], ...]
    """Schedules found, that of least peak first; the input order is among them."""
    proven: int
    """No schedule of the scope takes less."""
    scope: str
    """The scope of that, to be read after "no schedule"; see `conclusion.scope`."""
    instance: Instance
    """With as many computations as were tried."""
    interrupted: bool
    """By the user."""


def with_computations(instance: Instance, schedule: Sequence[int]) -> Instance:
    """An instance that allows as many computations as a schedule has."""
    counts = Counter(schedule)
    fits = all(counts[v] <= most for v, most in enumerate(instance.max_computations))
    return instance if fits else instance.with_more_computations() or instance


def least_schedules(
    instance: Instance,
    options: Options,
    deadline: Deadline,
    stop: Callable[[], bool] = never,
    enough: int = 0,
    known: Sequence[int] | None = None,
) -> Least:
    """Schedules of ever less peak, until there is a proof, one of so little that it is enough, or time is over.

    An interrupt from the keyboard ends the search, not this function.

    Args:
        instance: its budget is of no meaning.
        options: more computations are tried if `if_none` is "more"; the time limit is not used.
        deadline: after some minutes all ends in any case.
        enough: a peak in the graph's size unit.
        known: a schedule to begin near; if it has more computations, so may others.
    """
    instance = instance if known is None else with_computations(instance, known)
    longest = None if is_counted(options) else _LONGEST
    seconds, begin = longest if deadline.seconds is None else deadline.seconds, deadline.begin
    search = _OfSchedules(Rematerialization(instance, replace(options, if_none=STOP)), stop, enough)
    if known is not None:
        start = judged(instance.graph, known, "start")
        search.knowledge.learn(start.peak, BudgetAnswer(((start.sequence, "start"),)))
    if options.search != "off":
        begin += ready(*compiled_for(instance.free_order))
        more = instance.with_more_computations() if options.if_none == MORE else None
        if more is not None:
            search.seek(_part(seconds, _FIRST_SHARE, begin))
            search = search.among(more)
        search.seek(_part(seconds, 1 - _PROOF_SHARE, begin))
    search.prove(Deadline(seconds, begin))
    found = tuple(each.schedule for each in search.knowledge.found)
    return Least(found, search.knowledge.least, search.scope, search.instance, search.interrupted)


def _part(seconds: float | None, share: float, begin: float) -> Deadline:
    """A deadline of a share of the time, if that has a limit."""
    return Deadline(None if seconds is None else share * seconds, begin)


def least_of(
    variant: Variant, deadline: Deadline, stop: Callable[[], bool] = never, known: BudgetAnswer | None = None
) -> LeastSearch:
    """Seek the least budget of any variant: first answers of ever less peak, then a proof. Its `knowledge` has both.

    An interrupt from the keyboard ends the search, not this function.
    """
    search = LeastSearch(variant, stop)
    if known is not None:
        search.knowledge.learn(variant.peak, replace(known, bound=None))
        search.interrupted = known.interrupted
    if search.interrupted:
        return search
    search.seek(_part(deadline.seconds, 1 - _PROOF_SHARE, deadline.begin))
    search.prove(deadline)
    return search


@dataclass
class LeastSearch:
    """A search for the least budget of any variant of the problem."""

    variant: Variant
    stop: Callable[[], bool] = never
    enough: int = 0
    interrupted: bool = False
    passes: int = field(default=0, init=False)
    knowledge: Knowledge = field(init=False)

    def __post_init__(self) -> None:
        self.variant.stop = self.stop
        self.knowledge = Knowledge(self.variant)

    @property
    def open(self) -> int:
        """Between what is proven and what is found, unless that is enough."""
        found = self.knowledge.least_found
        peak = self.variant.peak + 1 if found is None else found
        return 0 if found is not None and peak <= self.enough else max(0, peak - self.knowledge.least)

    def seek(self, deadline: Deadline) -> None:
        """Again and again, with other random numbers, as searches may be in vain; each time twice as near to the least
        peak found."""
        nearer = list[int]()
        while self.open > 0 and self._left(deadline):
            self._close_in(deadline, False, nearer)
            self.passes += 1
            if self.variant.same_again or not self.knowledge.found:
                return
            nearer = [self.knowledge.found[0].peak - self.open // 2**self.passes]

    def prove(self, deadline: Deadline) -> None:
        """Ask for budgets that nothing is known of, until one is proven to be too small."""
        self._close_in(deadline, True, [])

    def _close_in(self, deadline: Deadline, prove: bool, hopeless: Sequence[int]) -> None:
        try:
            seek_least(self.knowledge, self._ask, lambda: self._left(deadline), prove, hopeless)
        except KeyboardInterrupt:
            self.interrupted = True

    def _left(self, deadline: Deadline) -> float:
        """Seconds that are worth a search; counted ones take what they take."""
        left = deadline.remaining() or 0.0
        if self.variant.counted:
            left = 0.0 if deadline.over() else math.inf
        return 0.0 if self.interrupted or self.stop() or left < _SHORTEST or self.open <= 0 else left

    def _ask(self, question: BudgetQuestion) -> None:
        answer = self._answer(replace(question, attempt=self.passes))
        self.knowledge.learn(question.budget, answer)
        self.interrupted |= answer.interrupted

    def _answer(self, question: BudgetQuestion) -> BudgetAnswer:
        return self.variant.ask(question)


@dataclass
class _OfSchedules(LeastSearch):
    """The search of one memory: local search that looks at memory alone comes first."""

    variant: Rematerialization

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.instance.free_order:
            retained = retained_bound(self.instance)
            if retained > self.knowledge.least:
                self.knowledge.least, self.knowledge.least_source = retained, RETAINED

    @property
    def instance(self) -> Instance:
        return self.variant.problem

    @property
    def scope(self) -> str:
        """The scope of what is proven of the least peak."""
        of_all = self.knowledge.least_source == WORKING_SETS
        return scope_of_all(self.instance.graph) if of_all else self.variant.scope

    def among(self, instance: Instance) -> _OfSchedules:
        """The search among more schedules, which knows those found here."""
        variant = Rematerialization(instance, self.variant.options)
        wider = _OfSchedules(variant, self.stop, self.enough, self.interrupted)
        wider.knowledge.found = list(self.knowledge.found)
        return wider

    def _answer(self, question: BudgetQuestion) -> BudgetAnswer:
        if self.variant.counted:
            return self.variant.ask(question)
        deadline = Deadline(question.seconds)
        return self._at_once(question, deadline) or self.variant.ask(
            replace(question, seconds=max(_SHORTEST, deadline.remaining() or 0.0))
        )

    def _at_once(self, question: BudgetQuestion, deadline: Deadline) -> BudgetAnswer | None:
        if self.variant.options.search == "off" or self.instance.free_order:
            return None
        instance, seed = self.variant.at(question.budget), self.variant.seed(question) or 0
        found = fitting_schedule(instance, seed, lambda: deadline.over(_AT_ONCE_SHARE) or self.stop(), question.near)
        return None if found is None else BudgetAnswer(((found, FITTING),))
