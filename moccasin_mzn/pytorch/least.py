"""The least memory that a graph can be computed in: schedules of ever lower peak, and what is proven about them.

Budgets are halved as in `extensions.frontier.least`: first with as few computations of a node as are asked for, then,
if that may be, with more.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from moccasin_mzn.bounds.least_budget import held_bound
from moccasin_mzn.clock import Deadline
from moccasin_mzn.extensions.frontier.knowledge import Knowledge
from moccasin_mzn.extensions.frontier.least import seek_least
from moccasin_mzn.extensions.frontier.questions import Question
from moccasin_mzn.extensions.frontier.solving import Rematerialization
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.options import MORE, STOP, Options

_LONGEST = 600.0
"""Seconds, where there is no limit."""
_FIRST_SHARE, _PROOF_SHARE = 0.3, 0.3
"""Of the time: before more computations are tried, and at the end, for the proof."""
_SHORTEST = 0.2
"""Seconds: a shorter search is not worth it."""


@dataclass(frozen=True)
class Least:
    """How little memory is enough, in the graph's size unit."""

    sequences: tuple[tuple[int, ...], ...]
    """Schedules found, that of least peak first; the input order is among them."""
    proven: int
    """No schedule with first computations in the input order, and as many computations as were tried, takes less."""
    instance: Instance
    """With as many computations as were tried."""
    interrupted: bool
    """By the user."""


def least_schedules(instance: Instance, options: Options, deadline: Deadline) -> Least:
    """Schedules of ever less peak, until it is known to within a 400th of the input order's, or time is over.

    An interrupt from the keyboard ends the search, not this function.

    Args:
        instance: its budget is of no meaning.
        options: more computations are tried if `if_none` says "more"; the time limit is not used.
        deadline: after some minutes all ends in any case.
    """
    seconds = _LONGEST if deadline.seconds is None else deadline.seconds
    begin = deadline.begin + (ready(*compiled_for(free_order=False)) if options.search != "off" else 0.0)
    more = instance.with_more_computations() if options.if_none == MORE else None
    options = replace(options, if_none=STOP)
    alone = replace(options, search="only", solver=options.solvers[0]) if options.search == "on" else options
    search = _Search(instance, alone)  # a model takes longer to begin with than most of these searches
    if more is not None:
        search.run(Deadline(_FIRST_SHARE * seconds, begin), once=True)
        search = search.among(more)
    search.run(Deadline((1 - _PROOF_SHARE) * seconds, begin))
    search.variant.options = options
    search.run(Deadline(seconds, begin), prove=True, once=True)
    found = tuple(each.schedule for each in search.knowledge.found)
    return Least(found, search.knowledge.least, search.instance, search.interrupted)


@dataclass
class _Search:
    instance: Instance
    options: Options
    interrupted: bool = False
    attempt: int = 0
    passes: int = 0
    """Each begins twice as near to the least peak found."""
    variant: Rematerialization = field(init=False)
    knowledge: Knowledge = field(init=False)

    def __post_init__(self) -> None:
        self.variant = Rematerialization(self.instance, self.options)
        self.knowledge = Knowledge(self.variant)
        self.knowledge.least = max(self.knowledge.least, held_bound(self.instance))

    @property
    def open(self) -> int:
        """Between what is proven and what is found."""
        return self.knowledge.found[0].peak - self.knowledge.least

    def among(self, instance: Instance) -> _Search:
        """The search among more schedules, which knows those found here."""
        wider = _Search(instance, self.options, self.interrupted, self.attempt)
        wider.knowledge.found = list(self.knowledge.found)
        return wider

    def run(self, deadline: Deadline, *, prove: bool = False, once: bool = False) -> None:
        """Close in on the least budget: again and again, with other random numbers, as searches may be in vain."""

        def remaining() -> float:
            left = deadline.remaining() or 0.0
            return 0.0 if self.interrupted or left < _SHORTEST else left

        while remaining() and self.open > 0:
            nearer = [self.knowledge.found[0].peak - self.open // 2**self.passes] if self.passes and not prove else []
            try:
                seek_least(self.knowledge, self._ask, remaining, prove, nearer)
            except KeyboardInterrupt:
                self.interrupted = True
            self.attempt, self.passes = self.attempt + 1, self.passes + 1
            if once:
                return

    def _ask(self, question: Question) -> None:
        answer = self.variant.ask(replace(question, attempt=self.attempt))
        self.knowledge.learn(question.budget, answer)
        self.interrupted |= answer.interrupted
