"""Schedules with offsets: the budget is the size of an arena.

An arena takes at least the peak, so that what is proven about schedules within a memory budget, a bound or that there
are none, holds for arenas all the more. Where the arena of the best schedule does not fit::

    more allocation effort      the model of the least arena, if there are few buffers
    the joint model             schedule and offsets at once, if there are few computations
    a lower memory budget       searched again near the schedule at hand, by bisection, until the arena is within the
                                budget proper
    the budget proper again     in one window of stages after the other, wherever the arena has room; see `release`
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.attach import buffers_of, carried_over
from moccasin_mzn.extensions.addresses.exact import least_arena
from moccasin_mzn.extensions.addresses.joint import MOST_COMPUTATIONS, JointAnswer, solve_jointly
from moccasin_mzn.extensions.addresses.release import Reserved, Window, near_by, released, runs, windows
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.arena import Arena, check_buffers
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.result import Result
from moccasin_mzn.solvers.minizinc.run import Limits
from moccasin_mzn.words import memory_text, over_text

FIRST_SHARE, ALLOCATION_SHARE, LAST_SHARE = 0.15, 0.1, 0.05
"""Of the time limit: for the first search, for the first allocation, and to make the arena of the answer smaller."""
MORE_SHARE = 0.5
"""Of what remains, for another search where the first one found nothing."""
EFFORT_SECONDS, LAST_SECONDS = 60.0, 5.0
"""Of an allocation, and of the last one, at most."""
EXACT_BUFFERS = 100
"""The model of the least arena is tried for no more."""
MODEL_SECONDS, AGAIN_SECONDS = 60.0, 60.0
"""Without a time limit: of each model here, and of each search at a lower budget."""
ROUNDS, SEARCH_SHARE = 3, 0.2
"""Searches at lower budgets, at most, and what share of a round is for the search; the rest is for its allocation."""
STEPS = 0.8, 1.0, 1.5
"""Before each round, what the arena is over the budget is taken from the memory budget times this: in the end boldly,
since no arena that fits is worse than any."""
RELEASE_SHARE = 0.6
"""Of the time for lower budgets, for windows of stages with the budget proper."""
WINDOW_SECONDS, PLACING_SECONDS, WINDOW_SHARE = 4.0, 8.0, 0.1
"""Of the search with a window of all stages, and of an allocation then, at most; and the most of what remains."""
NARROW, PLACINGS, PROMISING = 0.25, 3, 0.004
"""The search with a window takes as much of that as it has of all stages, at least such a share; and where an arena is
over the budget by no more than such a share of it, so many allocations are made."""
NEAR = "local search near a schedule"
JOINT = "the joint model of schedule and offsets"
CLOSE = 0.002
"""Bisection ends when two budgets are as near as this, as a share of the larger one, and no step down is less."""

Search = Callable[[Instance, float | None], Result]
"""Solves an instance, in so many seconds; None: until proven."""


def solve_with_addresses(
    instance: Instance,
    search: Search,
    alignment: int = 1,
    *,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    search_again: bool = True,
) -> Result:
    """The best schedule whose arena is within the budget of `instance`, with that arena.

    Args:
        search: finds schedules within a memory budget; called again with lower budgets where needed.
        time_limit: seconds for everything; None: the first search has no limit, the rest is as long as it is useful.
        search_again: whether lower budgets are tried.

    Returns:
        Status "optimal": proven within the arena. "unknown" ("over-budget" for a strategy): the schedule is within the
        budget, but its arena, the smallest found, is not.

    Raises:
        InputError: see `solve` and `Arena`.
    """
    check_buffers(buffers_of(instance.graph, instance.baseline), alignment)  # before the search: it finds more of them
    ready(ADDRESSES, *compiled_for(instance.free_order))
    return _Arrangement(instance, search, alignment, time_limit, threads, seed, search_again).run()


@dataclass
class _Arrangement:
    """One call."""

    instance: Instance
    search: Search
    alignment: int
    time_limit: float | None
    threads: int | None
    seed: int
    search_again: bool
    begin: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    best: Result | None = None
    """The shortest schedule whose arena fits."""
    bound: int = 0
    """On the duration of such schedules."""
    proven: str = ""
    """Who proved that there is none; empty if nobody has."""
    kept: float = 0.0
    """Seconds that are left to later steps."""

    def run(self) -> Result:
        limit = self.time_limit
        first = self._first()
        if not first.found:
            return first
        self.interrupted, self.bound = first.interrupted, first.bound
        effort = EFFORT_SECONDS if limit is None else ALLOCATION_SHARE * limit
        arena = self._allocate(first, self._seconds(effort if first.simulation.feasible else LAST_SECONDS))
        first = replace(first, arenas=arena)
        if not first.simulation.feasible:
            return first
        self._take(first)
        if self.best is None:
            self._more_effort(first)
        if self.best is None and not self._over():
            self._jointly(first)
        if not self._settled() and self.search_again and not self._over():
            self._lower_then_release(first)
        return self._answer(first)

    def _first(self) -> Result:
        """Of the budget proper: with a share of the time, and where that ends without an answer, with more of it."""
        if self.time_limit is None:
            return self.search(self.instance, None)
        seconds = FIRST_SHARE * self.time_limit
        while True:
            begin = time.monotonic()
            result = self.search(self.instance, seconds)
            gave_up = time.monotonic() - begin < seconds / 2
            if result.found or result.status != "unknown" or result.interrupted or gave_up or self._over():
                return result
            seconds = self._seconds(self.time_limit, MORE_SHARE)

    # Time

    def _remaining(self) -> float | None:
        return None if self.time_limit is None else self.time_limit - self.kept - (time.monotonic() - self.begin)

    def _over(self) -> bool:
        remaining = self._remaining()
        return self.interrupted or (remaining is not None and remaining <= 0)

    def _seconds(self, most: float, share: float = 1.0) -> float:
        """A share of what remains, at most `most`; a moment if nothing does."""
        remaining = self._remaining()
        return most if remaining is None else max(0.1, min(most, share * remaining))

    # Steps

    def _allocate(self, result: Result, seconds: float, near: Result | None = None, attempt: int = 0) -> Arena:
        """An arena within the budget, or as near to it as can be; the search begins with the arena of `near`."""
        buffers, offsets = buffers_of(self.instance.graph, result.simulation), None
        if near is not None:
            offsets = carried_over(near.arenas, near.simulation, buffers, result.simulation, self.alignment)
        return search_arena(
            buffers, self.alignment, enough=self.instance.budget, seed=self.seed + attempt, begin_with=offsets,
            time_limit=0.1 if self._over() else seconds, on_interrupt=self._interrupt,
        )  # fmt: skip

    def _shrink(self, result: Result) -> Result:
        """The same schedule with a smaller arena, if a short search finds one."""
        arena = result.arenas
        if arena.is_least or self.interrupted:
            return result
        seconds = LAST_SECONDS if self.time_limit is None else min(LAST_SECONDS, LAST_SHARE * self.time_limit)
        arena = search_arena(
            arena.buffers, self.alignment, seed=self.seed, begin_with=arena.offsets, time_limit=seconds,
            on_interrupt=self._interrupt,
        )  # fmt: skip
        return replace(result, arenas=arena)

    def _interrupt(self) -> None:
        self.interrupted = True

    def _take(self, result: Result) -> None:
        fits = result.arenas.size <= self.instance.budget
        if fits and (self.best is None or result.duration < self.best.duration):
            self.best = result

    def _settled(self) -> bool:
        return bool(self.proven) or (self.best is not None and self.best.duration <= self.bound)

    def _more_effort(self, result: Result) -> None:
        """The model of the least arena, for the schedule at hand."""
        fixed = result.arenas.bound > self.instance.budget  # at this alignment there is no arena
        if fixed or self._over() or len(result.arenas.buffers) > EXACT_BUFFERS:
            return
        limits = Limits(self._seconds(MODEL_SECONDS, 0.25), self.threads, self.seed)
        arena, outcome = least_arena(result.arenas.buffers, self.alignment, limit=self.instance.budget, limits=limits)
        self.interrupted |= outcome.interrupted
        if arena is not None:
            self._take(replace(result, arenas=arena))

    def _jointly(self, first: Result) -> None:
        """Schedule and offsets in one model, if that is small and the formulation has one."""
        form = first.formulation
        if form is None or not form.limited or form.index != "affine":
            return
        if sum(self.instance.max_computations) > MOST_COMPUTATIONS:
            return
        limits = Limits(self._seconds(MODEL_SECONDS, 0.5), self.threads, self.seed)
        staged = form.staged and not self.instance.free_order
        answer = solve_jointly(self.instance, self.alignment, staged=staged, limits=limits)
        self.interrupted |= answer.interrupted
        self._learn(answer, first)

    def _learn(self, answer: JointAnswer, first: Result) -> None:
        self.bound = max(self.bound, answer.bound)
        if answer.status == "infeasible":
            self.proven = JOINT
        if answer.sequence is None:
            return
        simulation = judge(self.instance.graph, answer.sequence, self.instance.budget)
        self._take(
            replace(
                first, answer=answer.sequence, simulation=simulation, arenas=answer.arena, solution=None, found_by=JOINT
            )
        )
        if answer.status == "optimal":
            self.bound = simulation.duration

    def _lower_then_release(self, first: Result) -> None:
        """A schedule from a lower budget, and what can be had of the budget proper again."""
        if not self._is_staged(first):
            return self._lower(first, ROUNDS)
        self.kept = RELEASE_SHARE * (self._remaining() or 0.0)
        self._lower(first, 2 * ROUNDS)
        self.kept = 0.0
        if self.best is not None:
            self._release()

    def _is_staged(self, result: Result) -> bool:
        """Are schedules in stages of the input order, as local search wants them?"""
        return result.formulation is not None and result.formulation.staged and not self.instance.free_order

    def _lower(self, first: Result, rounds: int) -> None:
        """Search at lower memory budgets: the highest one whose schedule has an arena that fits is bisected for; where
        memory can be released, any will do, and time kept for that is spent if `ROUNDS` do not find one."""
        budget, least = self.instance.budget, self.instance.graph.largest_working_set().memory
        fails, fits, latest = budget, None, first
        target = max(least, budget - round(STEPS[0] * (first.arenas.size - budget)))
        for number in range(rounds):
            if number == ROUNDS:
                self.kept = 0.0
            if self._over() or self._settled() or not least <= target < fails:
                return
            share = 1 / (ROUNDS - number % ROUNDS)
            rest = share * (1 - SEARCH_SHARE) / (1 - share * SEARCH_SHARE)  # of what the search leaves
            result = self._search_at(target, latest, self._seconds(AGAIN_SECONDS, share * SEARCH_SHARE))
            if result is None:
                fits = target  # too low: the next one is between
            else:
                result = self._placed(result, latest, self._seconds(EFFORT_SECONDS, rest))
                self._take(result)
                latest, over = result, result.arenas.size - budget
                if over <= 0 and rounds > ROUNDS:
                    return
                if over <= 0:
                    fits = target
                else:
                    step = STEPS[min(number + 1, ROUNDS - 1)]
                    fails, target = target, max(least, target - max(round(step * over), round(CLOSE * budget), 1))
                    if fits is None or target > fits:
                        continue
            if fits is None or fails - fits <= CLOSE * fails:
                return
            target = (fits + fails) // 2

    def _search_at(self, target: int, near: Result, seconds: float) -> Result | None:
        """A schedule at a lower memory budget, judged at the budget proper; None if none is found.

        Where schedules are in stages, local search alone begins near another schedule, so that most buffers and their
        offsets stay; else all is searched again.
        """
        lower = replace(self.instance, budget=target)
        if self._is_staged(near):
            return self._near(Reserved(lower, ()), near, seconds)
        result = self.search(lower, seconds)
        self.interrupted |= result.interrupted
        return self._judged(result, result.sequence) if result.valid else None

    def _near(self, reserved: Reserved, near: Result, seconds: float, within: Window | None = None) -> Result | None:
        """The best schedule that local search finds near another one; None if it finds none."""
        seed = self.seed + reserved.instance.budget
        try:
            sequence = near_by(reserved, near.sequence, seconds, seed, self._over, within)
        except KeyboardInterrupt:
            self.interrupted, sequence = True, None
        return None if sequence is None else self._judged(near, sequence)

    def _judged(self, result: Result, sequence: tuple[int, ...]) -> Result:
        """A result with another schedule, judged at the budget proper."""
        simulation = judge(self.instance.graph, sequence, self.instance.budget)
        return replace(
            result, problem=self.instance, answer=sequence, simulation=simulation, solution=None, found_by=NEAR
        )

    def _release(self) -> None:
        """The budget proper in one window of stages after the other, near the best schedule, while the arena fits."""
        amount, count = self.instance.budget - self.best.peak, len(self.instance.order)
        reserved, seen, again, waiting = [amount] * count, set(), None, windows(self.instance)
        while amount > 0 and not self._over() and not self._settled():
            window = again or next(waiting, None)
            if window is None:
                return
            again, trial = None, released(reserved, window)
            if len(runs(trial)) * amount + self.instance.graph.total_size > TOTAL_LIMIT:
                continue  # more than a graph may hold
            seconds = self._seconds(max(NARROW, window.count / count) * WINDOW_SECONDS, WINDOW_SHARE)
            result = self._near(Reserved(self.instance, runs(trial)), self.best, seconds, window)
            if result is None:
                continue
            over = amount
            if result.sequence not in seen:
                seen.add(result.sequence)
                result = self._placed(result, self.best, self._seconds(PLACING_SECONDS, WINDOW_SHARE))
                over = result.arenas.size - self.instance.budget
            if over <= 0:
                reserved = trial
                self._take(result)
            again = window.tighter(over, amount) if over > 0 else window.looser(amount)

    def _placed(self, result: Result, near: Result, seconds: float) -> Result:
        """With an arena that may be near another one; where it nearly fits, it is tried again."""
        budget = self.instance.budget
        for attempt in range(PLACINGS):
            near = result = replace(result, arenas=self._allocate(result, seconds, near, attempt))
            if not budget < result.arenas.size <= (1 + PROMISING) * budget:
                break
            seconds = self._seconds(PLACING_SECONDS, WINDOW_SHARE)
        return result

    def _answer(self, first: Result) -> Result:
        if self.best is None:
            return self._without(first)
        best = replace(
            self._shrink(self.best),
            bound=self.bound,
            interrupted=self.interrupted,
            trace=first.trace,
            notes=first.notes,
        )
        if best.duration <= self.bound:
            if first.status == "optimal" and best.sequence == first.sequence:
                return best
            reason = "no schedule is shorter, and its arena is within the budget"
            return replace(best, status="optimal", reason=reason, proved_by=first.proved_by or best.found_by)
        if best.sequence == first.sequence:
            return best
        reason = "the best schedule found whose arena is within the budget; a shorter one is not ruled out"
        return replace(best, status="feasible", reason=reason, proved_by="")

    def _without(self, first: Result) -> Result:
        size, unit = first.arenas.size, self.instance.graph.size_unit
        over = over_text(size, self.instance.budget, unit)
        text = f"the arena of the schedule takes {memory_text(size, unit)}, {over}"
        first = replace(first, interrupted=self.interrupted, bound=self.bound)
        if self.proven:
            reason = f"{self.proven} proves that no schedule has an arena within the budget"
            return replace(
                first, status="infeasible", reason=reason, answer=None, simulation=None, arenas=None, found_by="",
                proved_by=self.proven,
            )  # fmt: skip
        status = "over-budget" if first.strategy else "unknown"
        return replace(first, status=status, reason=f"{text}; none within it was found", proved_by="")
