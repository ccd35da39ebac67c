"""Requests answered: by searches of this process, or by solvers that race in processes of their own.

::

    answer ── one memory ──> strategy | solve_instance ─┬─ several solvers ──> race
       │          └─ with offsets: solve_with_addresses │
       └───── several ─────> solve_on_platform ─────────┴─ one ──> Runner: searches in threads
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moccasin_mzn.api.request import AllocationRequest, Request, StrategyOptions
from moccasin_mzn.doc_links import Page
from moccasin_mzn.errors import InputError, explained
from moccasin_mzn.extensions.addresses import ADDRESSES
from moccasin_mzn.extensions.addresses.allocate import allocate_buffers
from moccasin_mzn.extensions.addresses.arrange import solve_with_addresses
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.formulations.plan_formulation import PlanFormulation
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready, seconds_spent
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.problem.plan_problem import PlanProblem, why_impossible
from moccasin_mzn.problem.platform import Plan
from moccasin_mzn.problem.validate import repeats
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.board import INSTANT, WARM_START, Board
from moccasin_mzn.search.conclusion import INPUT_ORDER, known_at_once, no_plan
from moccasin_mzn.search.options import STOP, Options, SearchOptions
from moccasin_mzn.search.result import Listener, Result, Seconds, ignore
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import searchers
from moccasin_mzn.search.trials import Trials
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

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
    instance: Instance,
    options: Options,
    on_progress: Listener | None = None,
    begin: float | None = None,
    warm_start: Sequence[int] | None = None,
    flow_bounds: FreeOrderBound | None = None,
) -> Result:
    """Find the shortest schedule of an instance whose peak memory is within its budget.

    Args:
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`, but without compiling our own searches, once
            after every installation; default: from now.
        warm_start: a schedule within the budget, positions in `graph.nodes`, to start from.
        flow_bounds: of the same graph, with what they have learned for other budgets; they go on learning.

    Returns:
        The best schedule found. An interrupt from the keyboard ends the search, not this function; so does a solver
        that fails after a schedule has been found.

    Raises:
        InputError: MiniZinc missing, an unknown solver or one that cannot run, even where none is needed after all, a
            solver that failed before a schedule was found, or one that the simulator contradicts (`JudgeError`).
    """
    begin = time.monotonic() if begin is None else begin
    check_free_order(instance, options)
    if warm_start is not None:
        form = find_formulation("general") if instance.free_order else options.form
        form.check_start(instance, warm_start)
    known = known_at_once(instance)
    if known is not None or options.search == "only":  # else each search finds its own
        check_solvers(options.solvers)
    if known is not None:
        status, reason, sequence = known
        simulation = judge(instance.graph, sequence, instance.budget) if sequence else None
        seconds = Seconds(total=time.monotonic() - begin)
        bound = instance.baseline.duration
        lacking = None if sequence else Trials(Board(instance, begin), options).shortfall(status)
        return Result(
            instance, options.form, options.solver, status, reason, sequence, simulation, bound, seconds,
            found_by=INPUT_ORDER if sequence else "", proved_by=INSTANT, shortfall=lacking,
        )  # fmt: skip
    if options.search != "off":
        begin += ready(*compiled_for(instance.free_order))
    record = Board(instance, begin, options.until_gap)
    if warm_start is not None:
        record.offer(warm_start, WARM_START)
    with Trials(record, options) as trials:
        result = _searched(record, options.form, options, on_progress or ignore, flow_bounds)
        return trials.conclude(result)


def _searched(
    board: Board, form: Any, options: SearchOptions, on_progress: Listener, flow_bounds: FreeOrderBound | None = None
) -> Result:
    """By searches of this process, or, of several solvers, by a race."""
    if len(options.solvers) > 1:
        from moccasin_mzn.api.race.race import race

        return race(board, form, options, on_progress)
    runner = Runner(board=board, options=options, form=form, searchers=searchers(), flow_bounds=flow_bounds)
    runner.run(on_progress)
    return runner.result()


def check_free_order(instance: Instance, options: Options) -> None:
    """Check that options go with a free order, if that is asked for.

    Raises:
        InputError: they do not.
    """
    if not instance.free_order:
        return
    form = options.form
    if form.model:
        raise InputError(f"order free: {form.file.name} is a model of one's own, for a given order")
    if not form.limited:
        raise InputError(f"order free: {form.name} keeps to stages of the input order")
    if form.staged and options.search == "off":
        raise InputError("order free: search off leaves only a model, and that is the formulation general")
    if form.staged and len(options.solvers) > 1:
        raise InputError(f"order free: {len(options.solvers)} solvers cannot race on it, name one")


def solve_plan(
    problem: PlanProblem,
    formulation: PlanFormulation,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    on_progress: Listener | None = None,
    begin: float | None = None,
    warm_start: Plan | None = None,
) -> Result:
    """Find the best plan of a problem among the solutions of a formulation.

    Args:
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`; default: from now.
        warm_start: a plan within budgets and limits, and a solution of the formulation, to start from.

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
    return _searched(record, formulation, options, on_progress or ignore)


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

        return solve_plan_in_any_order(
            problem, formulation, options, on_progress, begin, warm_start, along=solve_plan, alone=solve_instance
        )
    return solve_plan(problem, formulation, options, on_progress, begin, warm_start)
