"""Schedules with offsets: the budget is the size of an arena.

Where the arena of the best schedule does not fit::

    more allocation effort      the model of the least arena, if there are few buffers
    the joint model             schedule and offsets at once, if there are few computations
    a lower memory budget       searched again near the schedule at hand, by bisection, until the arena is within the
                                budget proper
    the budget proper again     in one window of stages after the other, wherever the arena has room; see `release`

What schedules and plans with offsets have in common: the clock, allocations, and the status of the best answer.

An arena takes at least the peak, so that what is proven within memory budgets, a bound or that there is nothing, is
proven for arenas all the more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from moccasin_mzn.base.clock import Deadline
from moccasin_mzn.base.formatting import memory_text, over_text
from moccasin_mzn.formulations import Formulation
from moccasin_mzn.graphs.graph import TOTAL_LIMIT
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.allocate import least_arena
from moccasin_mzn.machine.addresses.joint import MOST_COMPUTATIONS, WITH_PLACES, is_modelled, solve_jointly
from moccasin_mzn.machine.addresses.release import Reserved, Window, near_by, released, runs, windows
from moccasin_mzn.machine.addresses.reports import Reports
from moccasin_mzn.machine.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, Buffer, check_buffers
from moccasin_mzn.problem.features import graph_features
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.board import INSTANT
from moccasin_mzn.search.conclusion import scope, scope_of_all
from moccasin_mzn.search.counted import is_counted
from moccasin_mzn.search.options import Effort
from moccasin_mzn.search.result import Result, Status, TracePoint
from moccasin_mzn.solvers.minizinc.run import Limits

MOMENT = 0.1
"""Seconds for a step where none are left."""


@dataclass
class Arrangement:
    """One call: the best answer whose arenas are within the budgets."""

    problem: Instance | PlanProblem
    search: Callable[..., Result]
    alignment: int
    effort: Effort
    reports: Reports
    """What is reported on the way; its `over` ends everything by returning true."""
    interrupted: bool = field(default=False, init=False)
    best: Result | None = field(default=None, init=False)
    """The answer of least value whose arenas fit."""
    placed: tuple[TracePoint, ...] = field(default=(), init=False)
    """Every one of those on the way."""
    bound: int = field(default=0, init=False)
    """On the value of such answers."""
    prover: str = field(default="", init=False)
    """Name of who proved it; empty: every search begins with it."""
    kept: float = field(default=0.0, init=False)
    """Seconds that are left to later steps."""

    @property
    def deadline(self) -> Deadline:
        return self.reports.call.deadline(self.effort.time_limit)

    @property
    def seed(self) -> int:
        return self.effort.seed or 0

    def answered(self) -> Result:
        """Search, and return the best answer with all whose arenas fit on the way."""
        found = self.run()
        return replace(found, placed=self.placed, seconds=replace(found.seconds, total=self.deadline.elapsed()))

    def run(self) -> Result:
        raise NotImplementedError

    def remaining(self) -> float | None:
        left = self.deadline.remaining()
        return None if left is None else left - self.kept

    def over(self) -> bool:
        left = self.remaining()
        return self.interrupted or self.reports.over() or (left is not None and left <= 0)

    def seconds(self, most: float, share: float = 1.0) -> float:
        """A share of what remains, at most `most`; a moment if nothing does."""
        left = self.remaining()
        return most if left is None else max(MOMENT, min(most, share * left))

    def allocate(
        self, buffers: tuple[Buffer, ...], enough: int | None, seconds: float, near: Sequence[int] | None = None,
        attempt: int = 0, memory: int = 0,
    ) -> Arena:  # fmt: skip
        """An arena of at most `enough`, or as near to it as can be; the search begins with offsets `near`, if any."""
        name = self.problem.platform.memories[memory].name
        return search_arena(
            buffers, self.alignment, enough=enough, seed=self.seed + attempt, begin_with=near,
            time_limit=MOMENT if self.over() else seconds, stop=self.reports.over, on_interrupt=self.interrupt,
            on_arena=partial(self.reports.arena, name),
        )  # fmt: skip

    def least(self, arena: Arena, budget: int, most: int, seconds: float, enough: int | None = None) -> Arena | None:
        """The least one within the budget, or one of at most `enough`, by a model, for no more than `most` buffers."""
        if arena.bound > budget or len(arena.buffers) > most or self.over():
            return None
        limits = Limits(seconds, self.effort.threads, self.seed)
        found, outcome = least_arena(
            arena.buffers, self.alignment, limit=budget, enough=enough, limits=limits, stop=self.reports.over
        )
        self.interrupted |= outcome.interrupted
        return found

    def interrupt(self) -> None:
        self.interrupted = True

    def searched(self, *request: object) -> Result:
        """Run a search within memory budgets."""
        result = self.search(*request)
        self.interrupted |= result.interrupted
        return result

    def raise_bound(self, bound: int, prover: str) -> None:
        """Take a bound, if it is better than the one at hand."""
        if bound > self.bound:
            self.bound, self.prover = bound, prover

    def take(self, result: Result) -> None:
        """Keep a result, if its arenas fit and it is the best, and report where they do not."""
        if result.valid and (self.best is None or result.value < self.best.value):
            self.best = result
            point = TracePoint(self.deadline.elapsed(), result.value, self.bound, result.found_by, result.answer)
            self.placed = (*self.placed, point)
            self.reports.placed(result, self.bound)
        elif not result.valid:
            self.reports.over_budget()

    def settled(self) -> bool:
        return self.best is not None and self.best.value <= self.bound

    def concluded(self, first: Result, best: Result, optimal: str, feasible: str) -> Result:
        """Return the best answer with its status and reason, which may be that of the first search.

        Args:
            optimal, feasible: why the status is that, if it is not as the first search left it.
        """
        reached = best.value <= self.bound
        if best.answer == first.answer and (first.status == "optimal" or not reached):
            return best
        if reached:
            return replace(best, status="optimal", reason=optimal, proved_by=self.prover or INSTANT)
        return replace(best, status="feasible", reason=feasible, proved_by="")


@dataclass
class Counting(Arrangement):
    """Steps that end by themselves: searches that count their work, and allocations without a limit, each the same for
    a seed."""

    def allocate(
        self, buffers: tuple[Buffer, ...], enough: int | None, seconds: float, near: Sequence[int] | None = None,
        attempt: int = 0, memory: int = 0,
    ) -> Arena:  # fmt: skip
        return search_arena(
            buffers, self.alignment, enough=enough, seed=self.seed + attempt, begin_with=near,
            time_limit=self.remaining(), stop=self.reports.over, on_interrupt=self.interrupt,
        )  # fmt: skip


# --- Offsets of one schedule carried over to another ----------------------------------------------------------


def carried_over(
    arena: Arena, before: Simulation, buffers: tuple[Buffer, ...], after: Simulation, alignment: int
) -> list[int]:
    """Offsets for a schedule that is near another one: the order from below stays, and each buffer rests on others.

    Args:
        arena: of the schedule before.
        buffers: of the schedule after; each begins where the copy of the node is whose stage is nearest.
    """
    from moccasin_mzn.machine.addresses.insertion import settle

    known: dict[int, list[tuple[int, int]]] = {}
    for (node, stage), offset in zip(_stages(before), arena.offsets, strict=True):
        known.setdefault(node, []).append((stage, offset))
    place = [min(known[node], key=lambda at: abs(at[0] - stage))[1] for node, stage in _stages(after)]
    rows = [(b.start, b.end, b.size, alignment) for b in buffers]
    start, end, size, step = np.array(rows, np.int64).T.copy()
    offsets, top = np.zeros(len(rows), np.int64), np.zeros(int(end.max()), np.int64)
    settle(np.argsort(np.array(place), kind="stable"), start, end, size, step, top, offsets)
    return offsets.tolist()


def _stages(simulation: Simulation) -> list[tuple[int, int]]:
    """Node of each retention interval, and how many nodes have been computed before it begins."""
    seen: set[int] = set()
    stages = []
    for interval in simulation.intervals:
        stages.append((interval.node, len(seen)))
        seen.add(interval.node)
    return stages


# --- Schedules with offsets: the budget is the size of an arena -----------------------------------------------


FIRST_SHARE, ALLOCATION_SHARE, LAST_SHARE = 0.15, 0.1, 0.05
"""Shares of the time limit: for the first search, the first allocation, and to make the arena of the answer smaller."""
MORE_SHARE = 0.5
"""The share of what remains for another search where the first one found nothing."""
EFFORT_SECONDS, LAST_SECONDS = 60.0, 5.0
"""The most seconds of an allocation, and of the last one."""
EXACT_BUFFERS = 100
"""The model of the least arena is tried for no more."""
MODEL_SECONDS, AGAIN_SECONDS = 60.0, 60.0
"""Seconds if there is no time limit: of each model here, and of each search at a lower budget."""
ROUNDS, SEARCH_SHARE = 3, 0.2
"""Searches at lower budgets, at most, and what share of a round is for the search; the rest is for its allocation."""
STEPS = 0.8, 1.0, 1.5
"""Before each round, what the arena is over the budget is taken from the memory budget times this: in the end boldly,
since no arena that fits is worse than any."""
RELEASE_SHARE = 0.6
"""The share of the time for lower budgets that is for windows of stages with the budget proper."""
WINDOW_SECONDS, PLACING_SECONDS, WINDOW_SHARE = 4.0, 8.0, 0.1
"""The most seconds of a search with a window of all stages and of an allocation then; the share of what remains."""
NARROW, PLACINGS, PROMISING = 0.25, 3, 0.004
"""The search with a window takes as much of that as it has of all stages, at least such a share; and where an arena is
over the budget by no more than this share of it, this many allocations are made."""
NEAR = "local search near a schedule"
JOINT = "the joint model of schedule and offsets"
CLOSE = 0.002
"""Bisection ends when two budgets are as near as this, as a share of the larger one, and no step down is less."""

Search = Callable[[Instance, float | None], Result]
"""Solves an instance, in a number of seconds; None: until proven."""


def solve_with_addresses(
    instance: Instance, search: Search, alignment: int = 1, effort: Effort = Effort(),  # noqa: B008 (frozen)
    reports: Reports | None = None,
) -> Result:  # fmt: skip
    """The best schedule whose arena is within the budget of `instance`, with that arena.

    Args:
        search: finds schedules within a memory budget; called again with lower budgets where needed.
        effort: without a time limit the first search has none, and the rest is as long as it is useful; if it counts
            iterations, no other step asks a clock.
        reports: get what is found on the way; their `over` ends everything, `search` has to ask it too.

    Returns:
        Status "optimal": proven within the arena. "unknown" ("over-budget" for a strategy): the schedule is within the
        budget, but its arena, the smallest found, is not.

    Raises:
        InputError: see `solve` and `Arena`.
    """
    check_buffers(
        placing_of(instance.graph, instance.baseline).buffers, alignment
    )  # before the search: it finds more of them
    reports = reports or Reports(instance)
    reports.call = reports.call.after(ready(ADDRESSES, *compiled_for(instance.free_order)))
    kind = _Counted if is_counted(effort) else _Schedules
    return kind(instance, search, alignment, effort, reports).answered()


@dataclass
class _Schedules(Arrangement):
    problem: Instance
    proven: str = ""
    """Who proved that there is no schedule with such an arena; empty if not proven."""

    def run(self) -> Result:
        limit = self.deadline.seconds
        first = self._first()
        if not first.found:
            return first
        self.raise_bound(first.bound, first.bound_source)
        effort = EFFORT_SECONDS if limit is None else ALLOCATION_SHARE * limit
        first = self._allocated(first, self.seconds(effort if first.simulation.feasible else LAST_SECONDS))
        if not first.simulation.feasible:
            return first
        self.take(first)
        if self.best is None:
            arena = self.least(first.arenas, self.problem.budget, EXACT_BUFFERS, self.seconds(MODEL_SECONDS, 0.25))
            if arena is not None:
                self.take(replace(first, arenas=arena))
        if self.best is None and not self.over():
            self._jointly(first)
        if not self.settled() and not self.over():
            self._lower_then_release(first)
        return self._answer(first)

    def _first(self) -> Result:
        """Search with the budget proper in a share of the time, and in more of it where that ends without an answer."""
        limit = self.deadline.seconds
        if limit is None:
            return self.searched(self.problem, None)
        seconds = FIRST_SHARE * limit
        while True:
            turn = Deadline(seconds)
            result = self.searched(self.problem, seconds)
            if result.found or result.status != "unknown" or not turn.over(0.5) or self.over():
                return result
            seconds = self.seconds(limit, MORE_SHARE)

    def _allocated(self, result: Result, seconds: float, near: Result | None = None, attempt: int = 0) -> Result:
        """Return a result with an arena; the search for it begins with that of `near`."""
        if self.problem.graph.output_of is not None:  # all outputs have a place, retained or not
            whole = self.problem.graph.with_all_outputs(result.sequence)
            result = self._judged(result, whole, result.found_by)
        buffers, offsets = placing_of(self.problem.graph, result.simulation).buffers, None
        if near is not None and self._is_plain:
            offsets = carried_over(near.arenas, near.simulation, buffers, result.simulation, self.alignment)
        self.reports.trying(result)
        return replace(result, arenas=self.allocate(buffers, self.problem.budget, seconds, offsets, attempt))

    def settled(self) -> bool:
        return bool(self.proven) or super().settled()

    def _jointly(self, first: Result) -> None:
        """Schedule and offsets in one model, if that is small and the formulation has one."""
        form = first.formulation
        if not isinstance(form, Formulation) or not form.limited or form.index != "affine":
            return
        if sum(self.problem.max_computations) > MOST_COMPUTATIONS or not is_modelled(self.problem.graph):
            return
        limits = Limits(self.seconds(MODEL_SECONDS, 0.5), self.effort.threads, self.seed)
        staged = form.staged and not self.problem.free_order
        answer = solve_jointly(self.problem, self.alignment, staged=staged, limits=limits, stop=self.reports.over)
        self.interrupted |= answer.interrupted
        self.raise_bound(answer.bound, JOINT)
        if answer.status == "infeasible":
            self.proven = JOINT
        if answer.sequence is not None:
            found = replace(self._judged(first, answer.sequence, JOINT), arenas=answer.arena)
            self.take(found)
            if answer.status == "optimal":
                self.raise_bound(found.value, JOINT)

    def _lower_then_release(self, first: Result) -> None:
        """A schedule from a lower budget, and what can be had of the budget proper again."""
        if not self._is_staged(first):
            return self._lower(first, ROUNDS)
        self.kept = RELEASE_SHARE * (self.remaining() or 0.0)
        self._lower(first, 2 * ROUNDS)
        self.kept = 0.0
        self._release()

    def _is_staged(self, result: Result) -> bool:
        """True if schedules are in stages of the input order, as local search needs them."""
        staged = result.formulation is not None and result.formulation.staged and not self.problem.free_order
        return staged and self._is_plain

    @property
    def _is_plain(self) -> bool:
        """True if each retention interval has a buffer of its own, and there are no others."""
        return not graph_features(self.problem.graph) & WITH_PLACES

    def _lower(self, first: Result, rounds: int) -> None:
        """Search at lower memory budgets: the highest one whose schedule has an arena that fits is bisected for; where
        memory can be released, any will do, and time kept for that is spent if `ROUNDS` do not find one."""
        budget, least = self.problem.budget, self.problem.graph.largest_working_set().memory
        fails, fits, latest = budget, None, first
        target = max(least, budget - round(STEPS[0] * (first.arenas.size - budget)))
        for number in range(rounds):
            if number == ROUNDS:
                self.kept = 0.0
            if self.over() or self.settled() or not least <= target < fails:
                return
            share = 1 / (ROUNDS - number % ROUNDS)
            rest = share * (1 - SEARCH_SHARE) / (1 - share * SEARCH_SHARE)  # of what the search leaves
            result = self._search_at(target, latest, self.seconds(AGAIN_SECONDS, share * SEARCH_SHARE))
            if result is None:
                fits = target  # too low: the next one is between
            else:
                result = self._placed(result, latest, self.seconds(EFFORT_SECONDS, rest))
                self.take(result)
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
        lower = replace(self.problem, budget=target)
        if self._is_staged(near):
            return self._near(Reserved(lower, ()), near, seconds)
        result = self.searched(lower, seconds)
        return self._judged(result, result.sequence, NEAR) if result.valid else None

    def _near(self, reserved: Reserved, near: Result, seconds: float, within: Window | None = None) -> Result | None:
        """The best schedule that local search finds near another one; None if it finds none."""
        seed = self.seed + reserved.instance.budget
        try:
            sequence = near_by(reserved, near.sequence, seconds, seed, self.over, within)
        except KeyboardInterrupt:
            self.interrupted, sequence = True, None
        return None if sequence is None else self._judged(near, sequence, NEAR)

    def _judged(self, result: Result, sequence: tuple[int, ...], by: str) -> Result:
        """A result with another schedule, judged at the budget proper."""
        account = self.problem.judge(sequence)
        return replace(result, problem=self.problem, answer=sequence, simulation=account, solution=None, found_by=by)

    def _release(self) -> None:
        """The budget proper in one window of stages after the other, near the best schedule, while the arena fits."""
        if self.best is None:
            return
        amount, count = self.problem.budget - self.best.peak, len(self.problem.order)
        reserved, seen, again, waiting = [amount] * count, set(), None, windows(self.problem)
        while amount > 0 and not self.over() and not self.settled():
            window = again or next(waiting, None)
            if window is None:
                return
            again, trial = None, released(reserved, window)
            if len(runs(trial)) * amount + self.problem.graph.total_size > TOTAL_LIMIT:
                continue  # more than a graph may have
            seconds = self.seconds(max(NARROW, window.count / count) * WINDOW_SECONDS, WINDOW_SHARE)
            result = self._near(Reserved(self.problem, runs(trial)), self.best, seconds, window)
            if result is None:
                continue
            over = amount
            if result.sequence not in seen:
                seen.add(result.sequence)
                result = self._placed(result, self.best, self.seconds(PLACING_SECONDS, WINDOW_SHARE))
                over = result.arenas.size - self.problem.budget
            if over <= 0:
                reserved = trial
                self.take(result)
            again = window.tighter(over, amount) if over > 0 else window.looser(amount)

    def _placed(self, result: Result, near: Result, seconds: float) -> Result:
        """Return a result with an arena that may be near another one; where it nearly fits, it is tried again."""
        budget = self.problem.budget
        for attempt in range(PLACINGS):
            near = result = self._allocated(result, seconds, near, attempt)
            if not budget < result.arenas.size <= (1 + PROMISING) * budget:
                break
            seconds = self.seconds(PLACING_SECONDS, WINDOW_SHARE)
        return result

    def _answer(self, first: Result) -> Result:
        if self.best is None:
            return self._without(first)
        best = replace(
            self._shrunk(self.best),
            bound=self.bound,
            interrupted=self.interrupted,
            trace=first.trace,
            notes=first.notes,
        )
        none = f"no schedule {self._scope(first, self.prover)} is shorter"
        return self.concluded(
            first, best, f"{none}, and its arena is within the budget",
            "the best schedule found whose arena is within the budget; a shorter one is not ruled out",
        )  # fmt: skip

    def _scope(self, first: Result, prover: str) -> str:
        """The scope of what is proven; without anybody who has proven it, it is so of all schedules."""
        if not prover or first.formulation is None:
            return scope_of_all(self.problem.graph)
        return scope(self.problem, first.formulation, prover)

    def _shrunk(self, result: Result) -> Result:
        """The same schedule with a smaller arena, if a short search finds one."""
        arena, limit = result.arenas, self.deadline.seconds
        if arena.is_least or self.interrupted:
            return result
        seconds = LAST_SECONDS if limit is None else min(LAST_SECONDS, LAST_SHARE * limit)
        arena = search_arena(
            arena.buffers, self.alignment, seed=self.seed, begin_with=arena.offsets, time_limit=seconds,
            stop=self.reports.over, on_interrupt=self.interrupt,
        )  # fmt: skip
        return replace(result, arenas=arena)

    def _without(self, first: Result) -> Result:
        size, unit = first.arenas.size, self.problem.graph.size_unit
        over = over_text(size, self.problem.budget, unit)
        text = f"the arena of the schedule takes {memory_text(size, unit)}, {over}"
        first = replace(first, interrupted=self.interrupted, bound=self.bound)
        if self.proven:
            reason = f"{self.proven} proves that no schedule {self._scope(first, JOINT)} has an arena within the budget"
            return replace(
                first, status="infeasible", reason=reason, answer=None, simulation=None, arenas=None, found_by="",
                proved_by=self.proven,
            )  # fmt: skip
        status: Status = "over-budget" if first.strategy else "unknown"
        return replace(first, status=status, reason=f"{text}; none within it was found", proved_by="")


@dataclass
class _Counted(Counting, _Schedules):
    """Searches that count their work, at the budget and at lower ones."""

    def run(self) -> Result:
        first = self.searched(self.problem, self.remaining())
        if not first.found:
            return first
        self.raise_bound(first.bound, first.bound_source)
        first = self._allocated(first, 0.0)
        if not first.simulation.feasible:
            return first
        self.take(first)
        if self.best is None and not self.over():
            self._lower(first, ROUNDS)
        return self._answer(first)

    def _search_at(self, target: int, near: Result, seconds: float) -> Result | None:
        result = self.searched(replace(self.problem, budget=target), self.remaining())
        return self._judged(result, result.sequence, result.found_by) if result.valid else None

    def _shrunk(self, result: Result) -> Result:
        return result
