"""The whole chain as one function: an instance in, the best schedule and what is proven about it out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.board import INSTANT, WARM_START, Board
from moccasin_mzn.search.options import Options
from moccasin_mzn.search.plan_search import Contest, ignore
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.search.runner import Runner
from moccasin_mzn.search.searchers import SEARCHERS
from moccasin_mzn.search.trials import Trials
from moccasin_mzn.search.trivial import known_at_once
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

if TYPE_CHECKING:
    from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound

INPUT_ORDER = "the input order"


def solve_instance(
    instance: Instance,
    options: Options,
    on_progress: Listener | None = None,
    begin: float | None = None,
    warm_start: Sequence[int] | None = None,
    flow_bounds: FreeOrderBound | None = None,
    contest: Contest | None = None,
) -> Result:
    """Find the shortest schedule of an instance whose peak memory is within its budget.

    Args:
        on_progress: called with every new incumbent and bound, in the caller's thread.
        begin: the time limit counts from here, by `time.monotonic()`, but without compiling our own searches, once
            after every installation; default: from now.
        warm_start: a schedule within the budget, positions in `graph.nodes`, to start from.
        flow_bounds: of the same graph, with what they have learned for other budgets; they go on learning.
        contest: has several solvers race, if the options name several.

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
        result = _search(record, options, on_progress or ignore, flow_bounds, contest)
        return trials.conclude(result)


def _search(
    record: Board, options: Options, on_progress: Listener, flow_bounds: FreeOrderBound | None,
    contest: Contest | None,
) -> Result:  # fmt: skip
    if len(options.solvers) > 1 and contest is not None:
        return contest(record, options.form, options, on_progress)
    runner = Runner(board=record, options=options, form=options.form, searchers=SEARCHERS, flow_bounds=flow_bounds)
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
