"""Requests answered: by searches of this process, or by solvers that race in processes of their own.

::

    answer ── one memory ──> strategy | solve_instance ─┬─ several solvers ──> race
       │          └─ with offsets: solve_with_addresses │
       └───── several ─────> solve_on_platform ─────────┴─ one ──> search
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moccasin_mzn.api.request import AllocationRequest, Request, StrategyOptions
from moccasin_mzn.errors import explained
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.allocate import allocate_buffers
from moccasin_mzn.extensions.addresses.arrange import solve_with_addresses
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready, seconds_spent
from moccasin_mzn.pages import Page
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.validate import repeats
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.board import Board
from moccasin_mzn.search.options import STOP, Options, SearchOptions
from moccasin_mzn.search.plan_search import ignore
from moccasin_mzn.search.plan_search import solve_plan as search_plan
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result
from moccasin_mzn.search.solve import solve_instance as search_schedule

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound


def answer(request: Request, listener: Listener | None = None, begin: float | None = None) -> Result:
    """Search, and return the best that is found.

    Args:
        listener: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.

    Raises:
        InputError: MiniZinc or a solver is missing or failed, or does not go with the problem.
    """
    begin, problem, options = time.monotonic() if begin is None else begin, request.problem, request.options
    if isinstance(problem, PlanProblem):
        assert request.formulation is not None and isinstance(options, SearchOptions)
        return solve_on_platform(
            problem, request.formulation, options, listener or ignore, begin=begin, warm_start=request.start,
            alignment=request.alignment,
        )  # fmt: skip
    if request.alignment is None:
        return _noted(_schedule(problem, options, request.start, listener, begin))

    def part(other: Instance, seconds: float | None) -> Result:
        limited = replace(options, time_limit=seconds)
        if isinstance(limited, Options):
            limited = replace(limited, if_none=STOP)
        return _schedule(other, limited, request.start if other is problem else None, listener, None)

    return _noted(solve_with_addresses(
        problem, part, request.alignment, time_limit=options.time_limit, threads=options.threads,
        seed=options.seed or 0,
    ))  # fmt: skip


def _schedule(
    instance: Instance, options: SearchOptions | StrategyOptions, start: Sequence[int] | None,
    listener: Listener | None, begin: float | None,
) -> Result:  # fmt: skip
    if isinstance(options, StrategyOptions):
        assert options.strategy is not None
        return apply(instance, options.strategy, options.time_limit, listener, begin)
    assert isinstance(options, Options)
    with explained(Page.OWN_MODEL if options.form.model else None):
        return solve_instance(instance, options, listener, begin, start)


def _noted(result: Result) -> Result:
    """With a note where a schedule repeats what the graph says is computed once: strategies and Checkmate's models know
    no counts."""
    notes = repeats(result.instance.graph, result.sequence or ())
    return replace(result, notes=(*result.notes, *notes)) if notes else result


def allocation(request: AllocationRequest) -> dict[str, Any]:
    """Search for offsets; the object that a worker writes.

    Raises:
        InputError: see `allocate_buffers`.
    """
    buffers, begin = parse_buffers(request.buffers, "buffers", request.alignment), time.monotonic()
    found = allocate_buffers(
        buffers, request.alignment, time_limit=request.time_limit, threads=request.threads, seed=request.seed
    )
    total = round(time.monotonic() - begin - seconds_spent(), 3)
    document = {**found.document(), "reason": "", "seconds": {"total": total}}
    return {"type": "result", "valid": True, "trace": [], **document}


def solve_instance(
    instance: Instance, options: Options, on_progress: Listener | None = None, begin: float | None = None,
    warm_start: Sequence[int] | None = None, flow_bounds: FreeOrderBound | None = None,
) -> Result:  # fmt: skip
    """Find the shortest schedule of an instance within its budget; see `search.solve.solve_instance`.

    Several solvers race.
    """
    return search_schedule(instance, options, on_progress, begin, warm_start, flow_bounds, _race)


def solve_plan(
    problem: PlanProblem, formulation: PlanFormulation,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Listener | None = None, begin: float | None = None, warm_start: Plan | None = None,
) -> Result:  # fmt: skip
    """Find the best plan of a problem in its order; see `search.plan_search.solve_plan`. Several solvers race."""
    return search_plan(problem, formulation, options, on_progress, begin, warm_start, _race)


def _race(record: Board, form: Any, options: SearchOptions, on_progress: Listener) -> Result:
    from moccasin_mzn.api.race.race import race

    return race(record, form, options, on_progress)


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
