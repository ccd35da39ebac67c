"""A plan for several memories as one function: the formulation's own search, and the model in parallel.

In an order that is given, or with the general formulation in any: `plan_free_search` chooses the order as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.search.board import INSTANT, Board
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import SEARCHERS
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

Contest = Callable[[Board, Any, SearchOptions, Listener], Result]
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
    record = Board(problem, time.monotonic() if begin is None else begin, options.until_gap, formulation)
    if warm_start is not None:
        record.take_warm_start(warm_start, formulation)
    impossible = why_impossible(problem)
    if impossible is not None or options.search == "only":
        check_solvers(options.solvers)
    if impossible is not None:
        return no_plan(record, formulation, options, impossible)
    if len(options.solvers) > 1 and contest is not None:
        return contest(record, formulation, options, on_progress or ignore)
    runner = Runner(board=record, options=options, form=formulation, searchers=SEARCHERS)
    runner.run(on_progress or ignore)
    return runner.result()


def no_plan(record: Board, formulation: PlanFormulation, options: SearchOptions, why: str) -> Result:
    """The answer where it is known without a search that there is no plan."""
    return Result(
        record.problem, formulation, options.solver, "infeasible", why, None, None, record.bound,
        Seconds(total=record.seconds), proved_by=INSTANT,
    )  # fmt: skip
