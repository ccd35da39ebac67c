"""Plans with offsets: the budget of a memory is the size of its arena.

Where an arena of the best plan does not fit::

    plans found on the way      as good or nearly so, their copies may lie better
    more allocation effort      the model of the least arena, if there are few copies
    lower memory budgets        for the memories whose arena does not fit, searched again, until all arenas are within
                                the budgets proper
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from moccasin_mzn.base.formatting import over_text
from moccasin_mzn.machine.addresses.arrange import Arrangement, Counting
from moccasin_mzn.machine.addresses.reports import Reports
from moccasin_mzn.problem.arena import Arena, check_buffers
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.placing import placing_of, placings_of
from moccasin_mzn.problem.plan_problem import PlanArenas, PlanProblem
from moccasin_mzn.problem.platform import Plan, plan_with_all_outputs
from moccasin_mzn.search.board import WARM_START
from moccasin_mzn.search.conclusion import scope
from moccasin_mzn.search.counted import is_counted
from moccasin_mzn.search.options import Effort
from moccasin_mzn.search.result import Listener, Progress, Result, ignore

FIRST_SHARE, ALLOCATION_SHARE = 0.5, 0.05
"""Shares of the time limit: for the first search, and for the allocation in one memory."""
EFFORT_SECONDS = 5.0
"""The most seconds of an allocation in one memory."""
EXACT_BUFFERS, MODEL_SECONDS = 60, 30.0
"""The model of the least arena is tried for no more copies, and for so long."""
TRIED = 5
"""How many of the best plans found on the way get arenas."""
AGAIN_SECONDS = 60.0
"""Seconds if there is no time limit: of each search at lower budgets."""
ARRANGEMENT = "the search for arenas"
ROUNDS = 5
"""Searches at lower budgets, at most."""

PlanSearch = Callable[[PlanProblem, float | None, Listener, Plan | None], Result]
"""Finds a plan of a problem in a number of seconds, None: until proven; from a plan to start from, if there is one."""


def plan_with_arenas(
    problem: PlanProblem, search: PlanSearch, alignment: int = 1, effort: Effort = Effort(),  # noqa: B008 (frozen)
    reports: Reports | None = None,
) -> Result:  # fmt: skip
    """The best plan whose arenas are within the budgets of their memories, with these arenas.

    Args:
        search: finds plans within memory budgets; called again with lower budgets where needed.
        effort: without a time limit the first search has none, and the rest is as long as it is useful.
        reports: get what is found on the way; their `over` ends everything, `search` has to ask it too.

    Returns:
        Status "optimal": proven for arenas. "unknown", without a plan: plans were found, but none with arenas that fit.

    Raises:
        InputError: an alignment below 1, or too large for the graph; see `solve_problem` and `Arena`.
    """
    instance = problem.instance
    baseline = placing_of(instance.graph, instance.baseline)
    check_buffers(baseline.buffers, alignment)  # before the search: it finds more of them
    kind = _CountedPlans if is_counted(effort) else _Plans
    return kind(problem, search, alignment, effort, reports or Reports(problem)).answered()


@dataclass
class _Plans(Arrangement):
    problem: PlanProblem
    seen: list[Plan] = field(default_factory=list)
    """Plans found on the way, the latest last."""

    def run(self) -> Result:
        limit = self.deadline.seconds
        first = self._search(None if limit is None else FIRST_SHARE * limit)
        if first.status == "unknown" and limit is not None and not self.over():
            first = self._search(self.remaining())
        if not first.found:
            return replace(first, interrupted=self.interrupted)
        self.raise_bound(first.bound, first.bound_source)
        first = self._try(first, first.plan)
        try:
            if first.valid:
                first = self._go_on(first)
            else:
                self._improve(first)
        except KeyboardInterrupt:
            self.interrupted = True
        return self._answer(first)

    def _search(self, seconds: float | None, start: Plan | None = None) -> Result:
        return self.searched(self.problem, seconds, self._listen, start)

    def _listen(self, progress: Progress) -> None:
        if progress.answer is not None:
            self.seen.append(progress.answer)
        self.reports.heard(progress)

    def _improve(self, first: Result) -> None:
        """The ways to plans whose arenas fit, where those of the best plan do not."""
        for other in [other for other in reversed(self.seen) if other != first.plan][:TRIED]:
            if self.best is None and not self.over():
                self._try(first, other)
        if self.best is None and not self.over():
            self._more_effort(first)
        if not self.settled():
            self._lower(first)

    def _go_on(self, first: Result) -> Result:
        """What is left of the time goes to the search as well; its result if the arenas of its plan fit."""
        if self.over() or self.settled() or first.status != "feasible" or self.deadline.seconds is None:
            return first
        so_far = self.deadline.elapsed()
        result = self._search(self.remaining(), first.plan)
        self.raise_bound(result.bound, result.bound_source)
        if result.found:
            result = self._try(result, result.plan)
        if not result.valid:
            return replace(first, bound=self.bound)

        def finder(name: str) -> str:
            return first.found_by if name == WARM_START else name  # which is the first plan

        later = (replace(point, seconds=so_far + point.seconds, source=finder(point.source)) for point in result.trace)
        return replace(result, bound=self.bound, trace=(*first.trace, *later), found_by=finder(result.found_by))

    def _try(self, result: Result, plan: Plan) -> Result:
        """A result with a plan in which all outputs have a place, and arenas for it; kept if they fit and it is the
        best."""
        platform, limit = self.problem.platform, self.deadline.seconds
        found = self._with(result, plan, plan_with_all_outputs(platform.graph, plan))
        effort = EFFORT_SECONDS if limit is None else min(EFFORT_SECONDS, ALLOCATION_SHARE * limit)
        self.reports.trying(found)
        placings = placings_of(platform, found.simulation)
        arenas = PlanArenas(
            tuple(
                self.allocate(placing.buffers, place.budget, self.seconds(effort), memory=m)
                for m, (placing, place) in enumerate(zip(placings, platform.memories, strict=True))
            )
        )
        found = replace(found, arenas=arenas)
        self.take(found)
        return found

    def _with(self, result: Result, plan: Plan, whole: Plan) -> Result:
        """A result with a plan, in which all outputs are listed if those are to have places."""
        account = judge_plan(self.problem.platform, whole, self.problem.goal)
        if whole == result.answer:
            return replace(result, problem=self.problem, simulation=account)
        is_same = plan == result.answer and self.problem.value(account) == result.value
        return replace(
            result, problem=self.problem, answer=whole, simulation=account, solution=None,
            status=result.status if is_same else "feasible",
            found_by=result.found_by if plan == result.answer else ARRANGEMENT,
            proved_by=result.proved_by if is_same else "",
        )  # fmt: skip

    def _more_effort(self, first: Result) -> None:
        """The model of the least arena, in the memories where the arena of the plan at hand does not fit."""
        better = []
        for arena, place in zip(first.arenas.arenas, self.problem.platform.memories, strict=True):
            found: Arena | None = arena
            if place.budget is not None and arena.size > place.budget:
                found = self.least(arena, place.budget, EXACT_BUFFERS, self.seconds(MODEL_SECONDS), place.budget)
            if found is None:
                return
            better.append(found)
        self.take(replace(first, arenas=PlanArenas(tuple(better))))

    def _lower(self, first: Result) -> None:
        """Search with lower memory budgets: bisect between cuts with which the arenas do not fit, and those that do."""
        platform = self.problem.platform
        over = first.arenas.over(platform)
        fails, fits, cuts = (0,) * len(over), None, over
        for number in range(ROUNDS):
            if cuts in (fails, fits) or self.over() or self.settled():
                return
            result = self.searched(self._with_less(cuts), self._turn(number), ignore, None)
            over = self._try(first, result.plan).arenas.over(platform) if result.found else ()
            if any(over):
                fails = cuts
            else:  # less would do, or is all there is
                fits = cuts
            if fits is not None:
                cuts = tuple((low + high) // 2 for low, high in zip(fails, fits, strict=True))
            else:
                cuts = tuple(map(sum, zip(fails, over, strict=True)))

    def _turn(self, number: int) -> float | None:
        """Seconds of a search at lower budgets."""
        remaining = self.remaining()
        return AGAIN_SECONDS if remaining is None else remaining / (ROUNDS - number)

    def _with_less(self, cuts: tuple[int, ...]) -> PlanProblem:
        problem, platform = self.problem, self.problem.platform
        memories = [
            place if place.budget is None else replace(place, budget=max(0, place.budget - cut))
            for place, cut in zip(platform.memories, cuts, strict=True)
        ]
        return replace(problem, platform=replace(platform, memories=tuple(memories)))

    def _answer(self, first: Result) -> Result:
        first = replace(first, problem=self.problem, interrupted=self.interrupted)
        if self.best is None:
            return self._without(first)
        best = replace(first, arenas=self.best.arenas)
        if self.best.answer != first.answer:
            best = replace(self._with(first, self.best.plan, self.best.plan), arenas=self.best.arenas)
        assert first.formulation is not None  # strategies make no plans
        ranges = scope(self.problem, first.formulation, self.prover)
        bound = first.reason if first.status == "optimal" else f"no schedule {ranges} {self.problem.better}"
        optimal = f"{bound}, and its arenas are"
        feasible = "the best plan found whose arenas are within the budgets; one of less"
        return self.concluded(
            first, best, f"{optimal} within the budgets", f"{feasible} {self.problem.goal.objective} is not ruled out"
        )

    def _without(self, first: Result) -> Result:
        platform, unit = self.problem.platform, self.problem.platform.graph.size_unit
        over = first.arenas.over(platform)
        place, most = platform.memories[over.index(max(over))], max(over)
        what = f"the arena in {place.name} is {over_text((place.budget or 0) + most, place.budget or 0, unit)}"
        if not most:
            what = f"with places for all outputs the plan is none: {first.simulation.violations[0].message}"
        return replace(
            first, status="unknown", reason=f"{what}; no schedule was found whose arenas fit",
            answer=None, simulation=None, solution=None, arenas=None, found_by="", proved_by="",
        )  # fmt: skip


@dataclass
class _CountedPlans(Counting, _Plans):
    """Searches that count their work, at the budgets and at lower ones."""

    def run(self) -> Result:
        first = self._search(self.remaining())
        if not first.found:
            return first
        self.raise_bound(first.bound, first.bound_source)
        first = self._try(first, first.plan)
        if not first.valid:
            self._improve(first)
        return self._answer(first)

    def _more_effort(self, first: Result) -> None:
        """A model goes by the clock."""

    def _turn(self, number: int) -> float | None:
        return self.remaining()
