"""The search for a plan: the shortest within an amount of memory, or that of least peak. ::

    start      the shortest schedule by blocks or on demand that is within the amount, see `starts`
    search     from there on, for the shortest schedule
    moved      where that is enough or there is no such start: gradients earlier or later, see `moved_gradients`
    least      where none is found: schedules of less and less peak, until one is within the amount; search from there

What is within an amount is up to `peaks`: copies of gradients and of what is overwritten are not part of the graph. A
search ends with the first schedule that takes more by them, and goes on within as much less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from moccasin_mzn.api.driving import Drive
from moccasin_mzn.api.frontier.least import with_computations
from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.vocabulary import Status
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import AUTO_COMPUTATIONS, Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.pytorch.errors import NoPlanError
from moccasin_mzn.pytorch.infeasibility import (
    LeastFound,
    bound_within,
    infeasible_with_copies,
    least_in_time,
    left,
    proven_however_moved,
    unlimited,
    why_impossible,
    why_none,
)
from moccasin_mzn.pytorch.instructions import Peaks, peaks
from moccasin_mzn.pytorch.memories import Memories, OneMemory, Search
from moccasin_mzn.pytorch.moved_gradients import moved
from moccasin_mzn.pytorch.plans import Plan
from moccasin_mzn.pytorch.starts import NO_LIMIT, least_start, start_within
from moccasin_mzn.pytorch.tracing import Traced
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import MORE
from moccasin_mzn.search.result import Listener, Progress, Result

LEAST_SHARE = 0.6
"""Fraction of the time to seek the least peak; the rest is for a shorter plan of the same peak."""
_PATIENCE_SHARE, _PATIENCE = 0.5, 60.0
"""Fraction of the time, and seconds where there is no limit, after which a search without a schedule ends."""
_SEEK_SHARE, _SEEK_LONGEST = 0.6, 30.0
"""Fraction of the time that is left then, and most seconds, to seek a schedule of less peak."""
_MOVED_SHARE, _MOVED_LONGEST = 0.4, 10.0
"""Fraction of the time that is left then, and most seconds, to seek other orders of the backward pass."""
_MOVED_LESS = 0.95
"""Where no plan is known, another order is searched if schedules begin there at so much of the trace's, or less."""
_TRIES = 6
_AT_ONCE = 1e-3
"""Seconds for a search that is over before it begins."""


@dataclass(frozen=True)
class Searching:
    """A search for plans of a traced step."""

    traced: Traced
    memory: Memories
    most: int
    """How often anything may be computed, if that is enough."""
    drive: Drive
    begin: float
    """The time limit counts from here, by `time.monotonic()`."""
    eager_peak: int | None = None
    """Measured of the step as it is."""
    end: Deadline = NO_LIMIT
    """The deadline of the whole call, until which schedules to begin with are made."""

    origin: Traced | None = None
    """The step in the order of the trace, where this is a search in another one."""

    @cached_property
    def unplanned(self) -> Peaks:
        """What the step takes without recomputation, in the order of the trace."""
        return self.plain if self.origin is None else peaks(self.origin.linear(self.origin.problem.graph.input_order()))

    @cached_property
    def plain(self) -> Peaks:
        """What the step takes without recomputation."""
        return self._taken(self.traced.problem.graph.input_order())

    @cached_property
    def others(self) -> tuple[Searching, ...]:
        """Searches in other orders of the backward pass, that for the smallest budgets first."""
        if not isinstance(self.memory, OneMemory) or self.most < 2 or self.memory.options.search == "off":  # noqa: PLR2004
            return ()
        limit = Deadline(min(_MOVED_LONGEST, _MOVED_SHARE * left(self.deadline)))
        problems = moved(self.traced.problem, self.drive.over, lambda: left(limit))
        return tuple(
            replace(self, traced=replace(self.traced, problem=problem), origin=self.traced) for problem in problems
        )

    @property
    def deadline(self) -> Deadline:
        """The deadline of the search."""
        memory = self.memory
        return Deadline(memory.options.time_limit if isinstance(memory, OneMemory) else None, self.begin)

    def over(self) -> bool:
        """Is the search to end?"""
        return self.drive.over() or self.deadline.over()

    def refuse_impossible(self, amount: int, at_once: bool = True) -> None:
        """End it where it is known without a search that no plan is within an amount.

        Args:
            at_once: leave out what takes longer to prove.

        Raises:
            NoPlanError: it is.
        """
        if self.unplanned.whole <= amount:
            return
        if not isinstance(self.memory, OneMemory):
            instance = unlimited(self.traced, self.most)
            if instance.graph.largest_working_set().memory > amount:
                raise NoPlanError(infeasible_with_copies(self.traced.problem, instance, amount))
            return
        instance = unlimited(self.traced, self._counts(self.memory)[-1])
        why = why_impossible(self.traced, instance, amount, self.eager_peak, at_once)
        if why:
            raise NoPlanError(why)

    def within(self, budget: Budget) -> tuple[Plan, bool]:
        """The shortest plan that is found within a budget, and whether an interrupt has ended the search.

        Raises:
            NoPlanError: none is found.
        """
        traced, before = self.traced, self.eager_peak
        amount = budget.resolve(self.unplanned.whole if before is None else before)
        if self.plain.whole <= amount:
            return self._without_recomputation(amount), False
        self.refuse_impossible(amount)
        instance = Instance.build(traced.problem.graph, amount, max_computations=traced.problem.counts(self.most))
        if not isinstance(self.memory, OneMemory):
            result = self._tried(instance, amount)
            if result is None or result.answer is None:
                raise NoPlanError(infeasible_with_copies(traced.problem, unlimited(traced, self.most), amount))
            return self._plan(result, amount), result.interrupted
        if (moved_plan := self._moved_alone(amount)) is not None:
            return moved_plan, False
        start = self._start(self.memory, amount)
        if start is None:
            self.refuse_impossible(amount, at_once=False)
            if (found := self._moved_within(self.memory, amount)) is not None:
                return found
        else:
            instance = with_computations(instance, start)
        result = self._tried(instance, amount, start)
        if result is None or result.answer is None:
            return self._by_least(self.memory, amount, result)
        return self._plan(result, amount), result.interrupted

    def of_least_peak(self) -> tuple[Plan, bool]:
        """The plan of least peak that is found, as short as is found then, and whether an interrupt has ended it."""
        assert isinstance(self.memory, OneMemory)
        deadline = self.deadline.part(LEAST_SHARE)
        searching, known = self._of_least_start(self.memory, deadline)
        return searching._least_plan(self.memory, deadline, known)

    def _least_plan(
        self, memory: OneMemory, deadline: Deadline, known: tuple[int, ...] | None
    ) -> tuple[Plan, bool]:  # fmt: skip
        instance = unlimited(self.traced, self.most)
        found = least_in_time(instance, memory.options, deadline, self.drive.over, known=known)
        least = LeastFound.of(self.traced, found, self.over)
        result = self._from(least, least.peaks.whole)
        plan = self._plan(result, least.peaks.whole)
        problem = self.traced.problem
        proven = proven_however_moved(problem, found.instance) if problem.reordered else found.proven
        return replace(plan, least_proven=min(proven, plan.peaks.whole)), result.interrupted

    # --- steps of the search ------------------------------------------------------------------------------------------

    def _taken(self, sequence: Sequence[int]) -> Peaks:
        return peaks(self.traced.linear(sequence))

    def _counts(self, memory: OneMemory) -> tuple[int, ...]:
        """How often anything may be computed, and how often if that is not enough."""
        more = memory.options.if_none == MORE and self.most < AUTO_COMPUTATIONS
        return (self.most, AUTO_COMPUTATIONS) if more else (self.most,)

    def _least_start(self, memory: OneMemory, limit: Deadline) -> tuple[int, ...] | None:
        """A schedule of little peak to begin with, made without a search."""
        if self.most < 2:  # noqa: PLR2004
            return None
        return least_start(self.traced.problem, self._counts(memory)[-1], self.drive.over, limit)

    def _without_recomputation(self, amount: int) -> Plan:
        figures = self.plain, self.unplanned, amount, Status.OPTIMAL, 0.0, 0.0, self.eager_peak
        return Plan(self.origin or self.traced, self.traced.problem.graph.input_order(), *figures)

    def _moved_alone(self, amount: int) -> Plan | None:
        """A plan in another order of the backward pass that recomputes nothing; None: none is found, or can be, as the
        forward pass takes more."""
        graph = self.traced.problem.graph
        stages = zip(graph.input_order(), simulate(graph, graph.input_order()).memory, strict=True)
        if max(memory for v, memory in stages if not self.traced.problem.is_backward(v)) > amount:
            return None
        fits = (other for other in self.others if other.plain.whole <= amount)
        return next((other._without_recomputation(amount) for other in fits), None)

    def _moved_within(self, memory: OneMemory, amount: int) -> tuple[Plan, bool] | None:
        """A plan in another order of the backward pass, where one is made without a search; None if absent."""
        for other in self.others:
            start = other._start(memory, amount)
            if start is not None:
                instance = with_computations(replace(unlimited(other.traced, self.most), budget=amount), start)
                result = other._tried(instance, amount, start)
                assert result is not None
                return other._plan(result, amount), result.interrupted
        return None

    def _of_least_start(self, memory: OneMemory, limit: Deadline) -> tuple[Searching, tuple[int, ...] | None]:
        """The search in the order in which a schedule made without a search has the least peak, and that schedule."""
        others, best, known = self.others, self, self._least_start(memory, limit)
        if known is None:
            return best, known
        least = _MOVED_LESS * best._taken(known).whole
        for other in others:
            start = other._least_start(memory, limit)
            if start is not None and (peak := other._taken(start).whole) < least:
                best, known, least = other, start, peak
        return best, known

    def _by_least(self, memory: OneMemory, amount: int, result: Result | None) -> tuple[Plan, bool]:
        """A plan by schedules of less and less peak, after a search that has found none.

        Raises:
            NoPlanError: none is found.
        """
        seconds = min(_SEEK_LONGEST, _SEEK_SHARE * left(self.deadline))
        deadline = Deadline(0.0 if (result is not None and result.interrupted) or self.drive.over() else seconds)
        searching, known = self._of_least_start(memory, deadline)
        least = searching._least(memory, amount, deadline, known)
        if least.peaks.whole > amount:
            before = self.eager_peak or self.unplanned.whole
            raise NoPlanError(why_none(searching.traced, least, amount, result, before))
        result = searching._from(least, amount)
        return searching._plan(result, amount), result.interrupted

    def _start(self, memory: OneMemory, amount: int) -> tuple[int, ...] | None:
        """A schedule within an amount to begin with, made without a search; None if absent."""
        if self.most < 2 or memory.options.search == "off":  # noqa: PLR2004
            return None
        asked = amount
        for _ in range(_TRIES):
            start = start_within(self.traced.problem, asked, self._counts(memory), self.drive.over, self.end)
            more = 0 if start is None else self._taken(start).whole - amount
            if more <= 0 or more >= asked:
                return start if more <= 0 else None
            asked -= more
        return None

    def _tried(self, instance: Instance, amount: int, start: Sequence[int] | None = None) -> Result | None:
        """The shortest schedule found whose plan is within an amount, at the worst the one to start with.

        Without one the latest search; None: there was none.
        """
        graph, one = self.traced.problem.graph, isinstance(self.memory, OneMemory)
        known = graph.input_order() if start is None else start
        asked = amount - max(0, self._taken(known).whole - simulate(graph, known).peak)
        search: Search = self.memory.search(self.traced.device, graph.duration_unit, self.unplanned.whole)
        deadline = self.deadline if isinstance(self.memory, OneMemory) else None
        result: Result | None = None
        for _ in range(_TRIES):
            if asked < 1:
                break
            tried = replace(instance, budget=asked)
            fits = start is not None and simulate(graph, start).peak <= asked
            judge = _Judge(self, amount, self.drive.heard(graph), deadline, fits)
            result = search(tried, Call(judge.hear, judge.over, self.begin), start if fits else None)
            if result.answer is None:
                break
            more = self._taken(result.answer).whole - amount
            if more <= 0:
                return result
            if result.interrupted or self.drive.over():
                break
            asked = (min(asked, result.peak) if one else asked) - more
        if start is None or result is None:
            return None if result is None else replace(result, answer=None)
        return replace(result, answer=tuple(start), simulation=simulate(graph, start), status="feasible")

    def _least(
        self, memory: OneMemory, amount: int, deadline: Deadline, known: tuple[int, ...] | None
    ) -> LeastFound:  # fmt: skip
        """A schedule within an amount, or of as little memory as is found until a deadline."""
        instance = unlimited(self.traced, self.most)
        copied = max(0, self.plain.whole - simulate(instance.graph, instance.order).peak)
        least = least_in_time(instance, memory.options, deadline, self.drive.over, enough=amount - copied, known=known)
        return LeastFound.of(self.traced, least, self.over)

    def _from(self, known: LeastFound, amount: int) -> Result:
        """The shortest schedule that is found within an amount, from one on that is."""
        if known.least.interrupted:
            assert isinstance(self.memory, OneMemory)
            options = replace(self.memory.options, time_limit=_AT_ONCE)
            searching = replace(self, memory=OneMemory(options), begin=time.monotonic())
            result = searching._tried(known.least.instance, amount, known.sequence)
        else:
            result = self._tried(known.least.instance, amount, known.sequence)
        assert result is not None
        return replace(result, interrupted=result.interrupted or known.least.interrupted)

    def _plan(self, result: Result, amount: int) -> Plan:
        least = result.instance.baseline.duration
        if self.traced.problem.reordered:
            bound = least
        else:
            bound = bound_within(result, amount, self.memory, self.begin, self.drive.over)
        increase, proven = ((value - least) / least if least else 0.0 for value in (result.duration, bound))
        status = Status.OPTIMAL if result.duration <= bound else Status.FEASIBLE
        answer = tuple(result.answer or ())
        figures = self._taken(answer), self.unplanned, amount, status, increase, max(0.0, proven), self.eager_peak
        copied = not all(isinstance(each, int) for each in answer)
        computed = tuple(action.node for action in answer if action.source is None) if copied else answer
        return Plan(self.origin or self.traced, computed, *figures, actions=answer if copied else ())


@dataclass
class _Judge:
    """Hears of schedules, and ends the search at one whose plan takes more than it may, or when none is found."""

    searching: Searching
    amount: int
    listener: Listener
    deadline: Deadline | None
    """The search's own; None: it is to go on to its end."""
    found: bool
    beyond: bool = False
    patience: Deadline = field(init=False)

    def __post_init__(self) -> None:
        left = None if self.deadline is None else self.deadline.remaining()
        self.patience = Deadline(_PATIENCE if left is None else _PATIENCE_SHARE * left)

    def hear(self, progress: Progress) -> None:
        """Judge a new schedule, and pass it on if it is within the amount."""
        if progress.answer is not None:
            self.found = True
            self.beyond |= self.searching._taken(progress.answer).whole > self.amount
        if not self.beyond:
            self.listener(progress)

    def over(self) -> bool:
        """Is the search to end?"""
        given_up = self.deadline is not None and not self.found and self.patience.over()
        return self.beyond or given_up or self.searching.drive.over()
