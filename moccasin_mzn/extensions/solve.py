"""Plans for whatever is asked for, as one function: any order, offsets, or neither."""

from __future__ import annotations

import time
from dataclasses import replace

from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.plan_search import ignore, solve_plan
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result


def solve_on_platform(
    problem: PlanProblem, formulation: PlanFormulation,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Listener = ignore, *, begin: float | None = None, warm_start: Plan | None = None,
    alignment: int | None = None,
) -> Result:  # fmt: skip
    """Find the best plan of a problem. ::

        graph = read_graph("graph.json")
        instance = Instance.build(graph, 0.8, order="free")
        platform = paging_platform(graph, instance.budget, PagingCosts(Fraction(1, 4), Fraction(1, 4)))
        result = solve_on_platform(PlanProblem(instance, platform), PagingFormulation(), SearchOptions(time_limit=60))

    Args:
        problem: with `instance.free_order` the order is chosen as well.
        formulation: `PagingFormulation` or `DevicesFormulation`.
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        warm_start: a plan within budgets and limits to start from.
        alignment: if given, all copies get offsets that are multiples of it, and budgets are for arenas.

    Raises:
        InputError: see `solve_plan`, `solve_plan_in_any_order` and `plan_with_arenas`.
    """
    begin = time.monotonic() if begin is None else begin
    if options.search != "off":
        begin += ready(*formulation.compiled, *compiled_for(problem.instance.free_order))
    if alignment is None:
        return _solve(problem, formulation, options, on_progress, begin, warm_start)
    begin += ready(ADDRESSES)
    from moccasin_mzn.extensions.addresses.arrange_plans import plan_with_arenas

    def search(other: PlanProblem, seconds: float | None, listener: Listener, start: Plan | None) -> Result:
        if other is problem and start is None:
            start = warm_start
        return _solve(other, formulation, replace(options, time_limit=seconds), listener, time.monotonic(), start)

    return plan_with_arenas(
        problem, search, alignment, begin=begin, time_limit=options.time_limit, threads=options.threads,
        seed=options.seed or 0, on_progress=on_progress,
    )  # fmt: skip


def _solve(
    problem: PlanProblem, formulation: PlanFormulation, options: SearchOptions, on_progress: Listener, begin: float,
    warm_start: Plan | None,
) -> Result:  # fmt: skip
    if problem.instance.free_order and formulation.staged:
        from moccasin_mzn.search.plan_free_search import solve_plan_in_any_order

        return solve_plan_in_any_order(problem, formulation, options, on_progress, begin, warm_start)
    return solve_plan(problem, formulation, options, on_progress, begin, warm_start)
