"""Answers to requests: by searches of this process, or by solvers that race in processes of their own.

::

    answer ──> strategy | solve_problem ─┬─ several solvers ──> race
       └─ with offsets: again and again  └─ one ──> Runner: searches in threads
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from moccasin_mzn.api.request import AllocationRequest, Request, StrategyOptions
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, explained
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.formulations import Formulation, in_any_order
from moccasin_mzn.formulations.searched import PlanFormulation, Searched
from moccasin_mzn.heuristics.compiled_searches import (
    CompiledSearch,
    can_keep,
    check_address_space,
    compiled_for,
    is_kept,
    loading_seconds,
    ready,
    seconds_spent,
)
from moccasin_mzn.machine.addresses import ADDRESSES
from moccasin_mzn.machine.addresses.allocate import allocate_buffers
from moccasin_mzn.machine.addresses.arrange import solve_with_addresses
from moccasin_mzn.machine.addresses.reports import Reports
from moccasin_mzn.problem.files.buffers import parse_buffers
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import PlanSimulation
from moccasin_mzn.problem.judges.schedules import Simulation
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import Action, Plan
from moccasin_mzn.problem.problem import Judged, Problem, Step
from moccasin_mzn.problem.validate import kept_by_outputs, repeats
from moccasin_mzn.search.apply_strategy import apply
from moccasin_mzn.search.board import INSTANT, WARM_START, Board
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.conclusion import INPUT_ORDER, known_at_once
from moccasin_mzn.search.counted import check_countable, is_counted, search_counted
from moccasin_mzn.search.options import STOP, Effort, Options, SearchOptions
from moccasin_mzn.search.result import Listener, Result, Seconds, Status
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import searchers
from moccasin_mzn.search.trials import Trials
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound


SHORT = 10.0
"""Within time limits below this, in seconds, the compiled searches are loaded before the others begin."""
LEAST_SEARCH = 0.5
"""Seconds that are left of such a limit after loading, however long that takes on a busy machine."""


def answer(request: Request, call: Call | None = None) -> Result:
    """Search, and return the best that is found.

    Args:
        call: None: one that begins now, and that ends by itself.

    Raises:
        InputError: MiniZinc or a solver is missing or failed, or does not go with the problem.
    """
    found = _answered(request, call or Call())
    if request.known is None or found.valid:
        return found
    simulation = request.problem.judge(request.known.answer or ())
    return replace(
        request.known, problem=request.problem, simulation=simulation, status="feasible", seconds=found.seconds,
        reason="what was found when the least budget was sought", interrupted=found.interrupted,
    )  # fmt: skip


def _answered(request: Request, call: Call) -> Result:
    problem, options = request.problem, request.options
    if isinstance(problem, PlanProblem):
        assert request.formulation is not None and isinstance(options, SearchOptions)
        form = request.formulation
        start = None if request.start is None else tuple(request.start)
        if request.alignment is None:
            return solve_problem(problem, form, options, call, start)
        return solve_with_arenas(problem, form, options, request.alignment, call, start)
    assert isinstance(problem, Instance)
    if request.alignment is None:
        return _noted(_schedule(problem, options, request.start, call))

    reports = Reports(problem, call)

    def part(other: Instance, seconds: float | None) -> Result:
        limited = replace(options, time_limit=seconds)
        if isinstance(limited, Options):
            limited = replace(limited, if_none=STOP)
        if other is not problem:  # bounds of a lower budget are none of the budget proper
            return _schedule(other, limited, None, Call(stop=reports.over))
        return _schedule(other, limited, request.start, Call(reports.heard, reports.over))

    return _noted(solve_with_addresses(problem, part, request.alignment, options, reports))


def _schedule(
    instance: Instance, options: SearchOptions | StrategyOptions, start: Sequence[int] | None, call: Call
) -> Result:  # fmt: skip
    if isinstance(options, StrategyOptions):
        assert options.strategy is not None
        return apply(instance, options.strategy, options.time_limit, call, options.iterations)
    assert isinstance(options, Options)
    with explained(Page.OWN_MODEL if options.form.model else None):
        return solve_instance(instance, options, call, start)


def _noted(result: Result) -> Result:
    """Add notes if a schedule repeats what the graph allows to be computed once, as strategies and Checkmate's models
    know no limits on computations, and if outputs that are retained keep operations from running in place."""
    graph, sequence = result.instance.graph, result.sequence or ()
    notes = (*repeats(graph, sequence), *kept_by_outputs(graph, sequence))
    return replace(result, notes=(*result.notes, *notes)) if notes else result


def allocation(request: AllocationRequest) -> JsonObject:
    """Search for offsets; the object that a worker writes.

    Raises:
        InputError: see `allocate_buffers`.
    """
    buffers, begin = parse_buffers(request.buffers, "buffers", request.alignment), time.monotonic()
    effort = Effort(request.time_limit, request.threads, request.seed)
    found = allocate_buffers(buffers, request.alignment, effort=effort)
    total = round(time.monotonic() - begin - seconds_spent(), 3)
    document = {**found.document(), "reason": "", "seconds": {"total": total}}
    return {"type": "result", "valid": True, "trace": [], **document}


def solve_instance(
    instance: Instance,
    options: Options,
    call: Call | None = None,
    warm_start: Sequence[int] | None = None,
    flow_bounds: FreeOrderBound | None = None,
) -> Result[int, Simulation]:
    """Find the shortest schedule of an instance whose peak memory is within its budget; see `solve_problem`.

    Args:
        warm_start: a schedule within the budget, positions in `graph.nodes`, to start from.
    """
    return solve_problem(instance, options.form, options, call, warm_start, flow_bounds)


def solve_problem(
    problem: Problem[Step, Judged],
    form: Searched,
    options: SearchOptions = SearchOptions(),  # noqa: B008 (frozen)
    call: Call | None = None,
    warm_start: Sequence[Step] | None = None,
    flow_bounds: FreeOrderBound | None = None,
) -> Result[Step, Judged]:
    """Find the best schedule of a problem among the solutions of a formulation. ::

        graph = read_graph("graph.json")
        instance = Instance.build(graph, 0.8, order="free")
        platform = paging_platform(graph, instance.budget, PagingCosts(Fraction(1, 4), Fraction(1, 4)))
        result = solve_problem(PlanProblem(instance, platform), PagingFormulation(), SearchOptions(time_limit=60))

    Args:
        problem: with `instance.free_order` the order is chosen as well.
        form: of the problem's kind.
        options: `Options` for one memory.
        call: None: one that begins now, and that ends by itself. Our own searches, once after every installation, are
            compiled in the background; where they are all there is, that does not count.
        warm_start: a schedule within budgets and limits, and a solution of the formulation, to start from.
        flow_bounds: of the same graph, with what they have learned for other budgets; they go on learning.

    Returns:
        The best schedule found. An interrupt from the keyboard ends the search, not this function; so does a solver
        that fails after a schedule has been found.

    Raises:
        InputError: MiniZinc missing, an unknown solver or one that cannot run, even where none is needed after all, a
            solver that failed before a schedule was found, one that the simulator contradicts (`JudgeError`), or what
            does not go with a free order.
    """
    call = call or Call()
    check_free_order(problem, form, options)
    form.refuse_others(problem)
    check_countable(problem, form, options)
    open_form = form if not problem.instance.free_order else in_any_order(form)
    assert open_form is not None
    start = None if warm_start is None else open_form.check_start(problem, tuple(warm_start))
    known = known_at_once(problem)
    if known is not None or options.search == "only":  # else each search finds its own
        check_solvers(options.solvers)
    board = Board(problem, call.begin, options.until_gap, open_form if isinstance(form, PlanFormulation) else None)
    if known is not None:
        return _known(board, form, options, *known)
    if options.search != "off":
        _compiled_first(board, options, _compiled(problem, form))
    if start is not None:
        board.offer(start, WARM_START)
    if not isinstance(options, Options):
        return _searched(board, form, options, call)
    with Trials(board, options, call.stop) as trials:
        return trials.conclude(_searched(board, form, options, call, flow_bounds))


def _compiled_first(board: Board, options: SearchOptions, searches: tuple[CompiledSearch, ...]) -> None:
    """Compile searches before the clock where there is nothing else to go on with, or no way to wait for a process.

    Within a short time limit load them before the others begin, which would slow it down; within one that is as short
    as that takes, the others go on without them.
    """
    check_address_space()
    limit, kept = options.time_limit, all(map(is_kept, searches))
    orders_alone = board.problem.instance.free_order and len(board.problem.platform.memories) > 1  # no model besides
    if not kept and (options.search == "only" or orders_alone or is_counted(options) or not can_keep()):
        board.begin += ready(*searches)
    elif kept and limit is not None and limit < SHORT and loading_seconds() <= limit - board.seconds:
        ready(*searches)
        board.begin += max(0.0, board.seconds + LEAST_SEARCH - limit)


def _compiled(problem: Problem, form: Searched) -> tuple[CompiledSearch, ...]:
    """The compiled searches that a problem may need."""
    return *form.compiled, *compiled_for(problem.instance.free_order)


def _known(
    board: Board[Step, Judged], form: Searched, options: SearchOptions, status: Status, reason: str,
    answer: tuple[Step, ...] | None,
) -> Result[Step, Judged]:  # fmt: skip
    """The result where no search is needed."""
    simulation = board.problem.judge(answer) if answer else None
    lacking = None if answer or not isinstance(options, Options) else Trials(board, options).shortfall(status)
    return Result(
        board.problem, form, options.solver, status, reason, answer, simulation, board.bound,
        Seconds(total=board.seconds), found_by=INPUT_ORDER if answer else "", proved_by=INSTANT, shortfall=lacking,
    )  # fmt: skip


def _searched(
    board: Board, form: Searched, options: SearchOptions, call: Call, flow_bounds: FreeOrderBound | None = None
) -> Result:  # fmt: skip
    """Search in this process; several solvers race in processes of their own."""
    if is_counted(options):
        return search_counted(board, form, options, call)
    if len(options.solvers) > 1:
        from moccasin_mzn.api.race.race import race

        return race(board, form, options, call)
    runner = Runner(board=board, options=options, form=form, call=call, searchers=searchers(), flow_bounds=flow_bounds)
    runner.run()
    return runner.result()


def check_free_order(problem: Problem, form: Searched, options: SearchOptions) -> None:
    """Check that a formulation and options go with a free order, if the problem has one.

    Raises:
        InputError: they do not.
    """
    if not problem.instance.free_order:
        return
    if isinstance(form, Formulation) and form.model and form.staged:
        raise InputError(
            f"order free: {form.file.name} is like {form.name}, for a given order; one like general is not"
        )
    if form.staged and in_any_order(form) is None:
        raise InputError(f"order free: {form.name} keeps to stages of the input order")
    if form.staged and options.search == "off":
        raise InputError("order free: search off leaves only a model, and that is the formulation general")
    if form.staged and len(options.solvers) > 1:
        raise InputError(f"order free: {len(options.solvers)} solvers cannot race on it, name one")


def solve_with_arenas(
    problem: PlanProblem, formulation: PlanFormulation, options: SearchOptions, alignment: int,
    call: Call | None = None, warm_start: Plan | None = None,
) -> Result[Action, PlanSimulation]:  # fmt: skip
    """Find the best plan whose copies have offsets, so that the budgets are for arenas.

    Args:
        alignment: offsets are multiples of it.

    The others are those of `solve_problem`.

    Raises:
        InputError: see `solve_problem` and `plan_with_arenas`.
    """
    from moccasin_mzn.machine.addresses.arrange_plans import plan_with_arenas

    compiled = () if options.search == "off" else _compiled(problem, formulation)
    call = call or Call()
    reports = Reports(problem, call.after(ready(*compiled, ADDRESSES)))

    def search(other: PlanProblem, seconds: float | None, listener: Listener, start: Plan | None) -> Result:
        if other is problem and start is None:
            start = warm_start
        limited = replace(options, time_limit=seconds)
        return solve_problem(other, formulation, limited, Call(listener, reports.over), start)

    return plan_with_arenas(problem, search, alignment, options, reports)
