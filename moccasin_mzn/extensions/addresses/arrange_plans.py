"""Plans with offsets: the budget of a memory is the size of its arena.

An arena takes at least the peak in its memory, so that what is proven about plans within memory budgets, a bound or
that there are none, holds for arenas all the more. Where an arena of the best plan does not fit::

    plans found on the way      as good or nearly so, their copies may lie better
    more allocation effort      the model of the least arena, if there are few copies
    lower memory budgets        for the memories whose arena does not fit, searched again, until all arenas are within
                                the budgets proper
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moccasin_mzn.extensions.addresses.attach import buffers_of
from moccasin_mzn.extensions.addresses.search import search_arena
from moccasin_mzn.problem.arena import Arena, check_buffers
from moccasin_mzn.problem.judges.plans import PlanSimulation, judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_arenas import PlanArenas, buffers_in
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.plan_search import ignore
from moccasin_mzn.search.progress import Listener, Progress
from moccasin_mzn.search.result import Result
from moccasin_mzn.words import over_text

FIRST_SHARE, ALLOCATION_SHARE = 0.5, 0.05
"""Of the time limit: for the first search, and for the allocation in one memory."""
EFFORT_SECONDS = 5.0
"""Of the allocation in one memory, at most."""
EXACT_BUFFERS, MODEL_SECONDS = 60, 30.0
"""The model of the least arena is tried for no more copies, and for so long."""
TRIED = 5
"""Of the plans found on the way, the best so many get arenas."""
AGAIN_SECONDS = 60.0
"""Without a time limit: of each search at lower budgets."""
ARRANGEMENT = "the search for arenas"
ROUNDS = 5
"""Searches at lower budgets, at most."""

PlanSearch = Callable[[PlanProblem, float | None, Listener, Plan | None], Result]
"""Finds a plan of a problem in so many seconds, None: until proven; from a plan to start from, if there is one."""


def plan_with_arenas(
    problem: PlanProblem,
    search: PlanSearch,
    alignment: int = 1,
    *,
    begin: float | None = None,
    time_limit: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    on_progress: Listener = ignore,
) -> Result:
    """The best plan whose arenas are within the budgets of their memories, with these arenas.

    Args:
        search: finds plans within memory budgets; called again with lower budgets where needed.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        time_limit: seconds for everything; None: the first search has no limit, the rest is as long as it is useful.

    Returns:
        Status "optimal": proven for arenas. "unknown", without a plan: plans were found, but none with arenas that fit.

    Raises:
        InputError: an alignment below 1, or too large for the graph; see `solve_plan` and `Arena`.
    """
    instance = problem.instance
    check_buffers(
        buffers_of(instance.graph, instance.baseline), alignment
    )  # before the search: those it finds are more
    begin = time.monotonic() if begin is None else begin
    return _Arrangement(problem, search, alignment, time_limit, threads, seed, on_progress, begin).run()


@dataclass
class _Arrangement:
    """One call."""

    problem: PlanProblem
    search: PlanSearch
    alignment: int
    time_limit: float | None
    threads: int | None
    seed: int
    on_progress: Listener
    begin: float
    interrupted: bool = False
    seen: list[Plan] = field(default_factory=list)
    """Plans found on the way, the latest last."""
    best: tuple[Plan, PlanSimulation, PlanArenas] | None = None
    """The plan of least value whose arenas fit."""

    def run(self) -> Result:
        limit = self.time_limit
        first = self.search(self.problem, None if limit is None else FIRST_SHARE * limit, self._listen, None)
        self.interrupted = first.interrupted
        if first.status == "unknown" and limit is not None and not self._over():
            first = self.search(self.problem, self._remaining(), self._listen, None)
            self.interrupted |= first.interrupted
        if not first.found:
            return replace(first, interrupted=self.interrupted)
        arenas = self._try(first.plan)
        over = arenas.over(self.problem.platform)
        try:
            if any(over):
                self._improve(first, arenas)
            else:
                first = self._go_on(first)
        except KeyboardInterrupt:
            self.interrupted = True
        return self._answer(first, over)

    def _improve(self, first: Result, arenas: PlanArenas) -> None:
        """The ways to plans whose arenas fit, where those of the best plan do not."""
        self._others(first.plan)
        if self.best is None and not self._over():
            self._more_effort(first, arenas)
        if not self._settled(first):
            self._lower(first, arenas.over(self.problem.platform))

    def _go_on(self, first: Result) -> Result:
        """What is left of the time goes to the search as well; its result if the arenas of its plan fit."""
        remaining = self._remaining()
        if self._over() or self._settled(first) or first.status != "feasible" or remaining is None:
            return first
        so_far = time.monotonic() - self.begin
        result = self.search(self.problem, remaining, self._listen, first.plan)
        self.interrupted |= result.interrupted
        bound = max(first.bound, result.bound)
        if not result.found or not self._try(result.plan).fit(self.problem.platform):
            return replace(first, bound=bound)
        later = (replace(point, seconds=so_far + point.seconds) for point in result.trace)
        return replace(result, bound=bound, trace=(*first.trace, *later))

    def _listen(self, progress: Progress) -> None:
        if progress.answer is not None:
            self.seen.append(progress.answer)
        self.on_progress(replace(progress, seconds=time.monotonic() - self.begin))

    # Time

    def _remaining(self) -> float | None:
        return None if self.time_limit is None else self.time_limit - (time.monotonic() - self.begin)

    def _over(self) -> bool:
        remaining = self._remaining()
        return self.interrupted or (remaining is not None and remaining <= 0)

    def _seconds(self, most: float) -> float:
        remaining = self._remaining()
        return most if remaining is None else max(0.1, min(most, remaining))

    # Steps

    def _try(self, plan: Plan) -> PlanArenas:
        """Arenas for a plan, which is kept if they fit and it is the best."""
        platform = self.problem.platform
        simulation = judge_plan(platform, plan, self.problem.goal)
        limit = self.time_limit
        effort = EFFORT_SECONDS if limit is None else min(EFFORT_SECONDS, ALLOCATION_SHARE * limit)
        arenas = PlanArenas(
            tuple(
                search_arena(
                    buffers_in(platform, simulation, m), self.alignment, enough=place.budget, seed=self.seed,
                    time_limit=self._seconds(effort) if not self._over() else 0.1, on_interrupt=self._interrupt,
                )
                for m, place in enumerate(platform.memories)
            )
        )  # fmt: skip
        self._take(plan, simulation, arenas)
        return arenas

    def _interrupt(self) -> None:
        self.interrupted = True

    def _take(self, plan: Plan, simulation: PlanSimulation, arenas: PlanArenas) -> None:
        if simulation.feasible and arenas.fit(self.problem.platform):
            value = self.problem.value(simulation)
            if self.best is None or value < self.problem.value(self.best[1]):
                self.best = plan, simulation, arenas

    def _settled(self, first: Result) -> bool:
        return self.best is not None and self.problem.value(self.best[1]) <= first.bound

    def _others(self, plan: Plan) -> None:
        """The plans found on the way, the best first, until one has arenas that fit."""
        for other in [other for other in reversed(self.seen) if other != plan][:TRIED]:
            if self.best is not None or self._over():
                return
            self._try(other)

    def _more_effort(self, first: Result, arenas: PlanArenas) -> None:
        """The model of the least arena, in the memories where the arena of the plan at hand does not fit."""
        better = []
        for arena, place, over in zip(
            arenas.arenas, self.problem.platform.memories, arenas.over(self.problem.platform), strict=True
        ):
            if over:
                arena = self._least(arena, place.budget)
            if arena is None:
                return
            better.append(arena)
        self._take(first.plan, first.simulation, PlanArenas(tuple(better)))

    def _least(self, arena: Arena, budget: int) -> Arena | None:
        from moccasin_mzn.extensions.addresses.exact import least_arena
        from moccasin_mzn.solvers.minizinc.run import Limits

        if arena.bound > budget or len(arena.buffers) > EXACT_BUFFERS or self._over():
            return None
        limits = Limits(self._seconds(MODEL_SECONDS), self.threads, self.seed)
        found, outcome = least_arena(arena.buffers, self.alignment, limit=budget, enough=budget, limits=limits)
        self.interrupted |= outcome.interrupted
        return found if found is not None and found.size <= budget else None

    def _lower(self, first: Result, over: tuple[int, ...]) -> None:
        """Search with lower memory budgets: bisect between cuts with which the arenas do not fit, and those that do."""
        fails, fits, cuts = (0,) * len(over), None, over
        for number in range(ROUNDS):
            if cuts in (fails, fits) or self._over() or self._settled(first):
                return
            remaining = self._remaining()
            seconds = AGAIN_SECONDS if remaining is None else remaining / (ROUNDS - number)
            result = self.search(self._with_less(cuts), seconds, ignore, None)
            self.interrupted |= result.interrupted
            over = self._try(result.plan).over(self.problem.platform) if result.found else None
            if over is None or not any(over):  # less would do, or is all there is
                fits = cuts
            else:
                fails = cuts
            if fits is not None:
                cuts = tuple((low + high) // 2 for low, high in zip(fails, fits, strict=True))
            else:
                cuts = tuple(map(sum, zip(fails, over, strict=True)))

    def _with_less(self, cuts: tuple[int, ...]) -> PlanProblem:
        problem, platform = self.problem, self.problem.platform
        memories = [
            place if place.budget is None else replace(place, budget=max(0, place.budget - cut))
            for place, cut in zip(platform.memories, cuts, strict=True)
        ]
        return replace(problem, platform=replace(platform, memories=tuple(memories)))

    # The answer

    def _answer(self, first: Result, over: tuple[int, ...]) -> Result:
        first = replace(first, problem=self.problem, interrupted=self.interrupted)
        if self.best is None:
            m = over.index(max(over))
            place = self.problem.platform.memories[m]
            excess = over_text(place.budget + over[m], place.budget, self.problem.platform.graph.size_unit)
            reason = f"the arena in {place.name} is {excess}; no plan was found"
            return replace(
                first, status="unknown", reason=f"{reason} whose arenas fit", answer=None, simulation=None,
                solution=None, found_by="", proved_by="",
            )  # fmt: skip
        plan, simulation, arenas = self.best
        if plan == first.plan:
            return replace(first, arenas=arenas)
        found = replace(
            first, answer=plan, simulation=simulation, arenas=arenas, solution=None, found_by=ARRANGEMENT, proved_by=""
        )  # fmt: skip
        if self.problem.value(simulation) <= first.bound:
            reason = f"{first.reason}, and its arenas are within the budgets" if first.status == "optimal" else ""
            reason = reason or "its value is the bound, and its arenas are within the budgets"
            return replace(found, status="optimal", reason=reason, proved_by=first.proved_by or ARRANGEMENT)
        what = self.problem.goal.objective
        reason = f"the best plan found whose arenas are within the budgets; one of less {what} is not ruled out"
        return replace(found, status="feasible", reason=reason)
