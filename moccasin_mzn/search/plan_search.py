"""The searches for a plan for several memories: the formulation's own one, and the model beside it.

In an order that is given, or with the general formulation in any: `plan_free_search` chooses the order as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.search.best_known import INSTANT, BestKnown
from moccasin_mzn.search.conclusion import SEARCH
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.portfolio import Portfolio
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

Contest = Callable[[BestKnown, Any, SearchOptions, Listener], Result]
"""Has the solvers of the options race on the problem of a record, whose formulation is the second argument."""


def ignore(progress: object) -> None:
    """Do nothing with an improvement."""


def solve_plan(
    problem: PlanProblem,
    formulation: PlanFormulation,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Listener | None = None,
    begin: float | None = None,
    warm_start: Plan | None = None,
    contest: Contest | None = None,
) -> Result:
    """Find the best plan of a problem among the solutions of a formulation.

    Args:
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        warm_start: a plan within budgets and limits, and a solution of the formulation, to start from.
        contest: has several solvers race, if the options name several.

    Returns:
        The best plan found. An interrupt from the keyboard ends the search, not this function; so does a solver that
        fails after a plan has been found.

    Raises:
        InputError: nonsense in an argument, MiniZinc missing, an unknown solver, one that failed before a plan was
            found, or one that the judge contradicts (`JudgeError`).
    """
    record = BestKnown(problem, time.monotonic() if begin is None else begin, options.until_gap, formulation)
    if warm_start is not None:
        record.take_warm_start(warm_start, formulation)
    impossible = why_impossible(problem)
    if impossible is not None or options.search == "only":
        check_solvers(options.solvers)
    if impossible is not None:
        return no_plan(record, formulation, options, impossible)
    if len(options.solvers) > 1 and contest is not None:
        return contest(record, formulation, options, on_progress or ignore)
    search = PlanSearch(record, options, formulation)
    search.run(on_progress or ignore)
    return search.result()


def no_plan(record: BestKnown, formulation: PlanFormulation, options: SearchOptions, why: str) -> Result:
    """The answer where it is known without a search that there is no plan."""
    return Result(
        record.problem, formulation, options.solver, "infeasible", why, None, None, record.bound,
        Seconds(total=record.seconds), proved_by=INSTANT,
    )  # fmt: skip


@dataclass
class PlanSearch(Portfolio):
    """One call of `solve_plan`."""

    formulation: PlanFormulation

    waited_for: ClassVar[tuple[str, ...]] = (SEARCH,)
    endless: ClassVar[str] = SEARCH
    gave_up: ClassVar[str] = "before the search gave up"

    def _start_searches(self) -> None:
        self._run_beside(self._look, SEARCH)

    def _look(self) -> None:
        record = self.record
        self.formulation.search(
            record.problem, self.options.seed or 0, lambda plan: record.offer(plan, SEARCH), self._over,
            lambda: record.answer,
        )  # fmt: skip
