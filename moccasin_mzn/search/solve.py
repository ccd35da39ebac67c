"""The whole chain as one function: an instance in, the best schedule and what is proven about it out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fractions import Fraction
from os import PathLike

from moccasin_mzn.errors import JudgeError
from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import compiled_for, ready
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import judge
from moccasin_mzn.search.best_known import INSTANT, WARM_START, BestKnown
from moccasin_mzn.search.free_search import FreeSearch, check_free_order
from moccasin_mzn.search.options import Options, default_if_none
from moccasin_mzn.search.plan_search import ignore
from moccasin_mzn.search.progress import Listener
from moccasin_mzn.search.result import Result, Seconds
from moccasin_mzn.search.staged_search import Search
from moccasin_mzn.search.trials import Trials
from moccasin_mzn.search.trivial import known_at_once
from moccasin_mzn.solvers.minizinc.solvers import check_solvers

__all__ = ["JudgeError", "Options", "solve", "solve_instance"]

INPUT_ORDER = "the input order"


def solve(
    graph: ComputationGraph,
    budget: Budget | int | float | Fraction | str,
    *,
    solver: str = "cp-sat",
    formulation: str = "staged",
    precedence: str | None = None,
    index: str | None = None,
    search: str | None = None,
    max_computations: int | Sequence[int] | str | None = None,
    order: str | PathLike[str] | Sequence[int] = "input",
    count_fixed: bool = False,
    time_limit: float | None = None,
    until_gap: float = 0.0,
    threads: int | None = None,
    seed: int | None = None,
    two_phase: bool | None = None,
    warm_start: Sequence[int] | None = None,
    if_none: str | None = None,
    on_progress: Listener | None = None,
) -> Result:
    """Find the shortest schedule of `graph` whose peak memory is within `budget`.

    Args:
        graph: the computation graph.
        budget: an int in the graph's size unit, a float as a fraction of the input order's peak, or text like "80%".
        solver: "cp-sat", "highs", "scip", or any solver MiniZinc knows; several, as in "cp-sat,chuffed,gecode", race.
        formulation: "staged" (paper, 2.3), "general" (2.1), or a rival; see `formulations.FORMULATIONS`.
        precedence: "served-by" or "reservoir" (2.2).
        index: of staged events, "affine" or "triangular" (2.3).
        search: "on": local search and bounds beside the model; "off": the model alone; "only": without the model. None:
            "on", but "off" for a rival.
        max_computations: C_v, how often a node may be computed; one for all, one for each node, or "auto". None: 2,
            and no limit for a rival, which has none.
        order: "input", "topological", a file of node ids, or positions in `graph.nodes`; "free": the order is chosen
            as well, and fractions and TDI refer to the input order.
        count_fixed: the budget is for the graph's fixed memory too.
        time_limit: seconds, compilation of models included; None: until proven.
        until_gap: stop at this gap, (duration - bound) / duration.
        threads: of the solver, or of all that race; None: as many as there are cores.
        seed: of all searches; None: 0 and the solver's own.
        two_phase: the model first seeks any schedule within the budget (paper, 2.4) if it has none to start from,
            then shortens it; None: with cp-sat, which makes use of it.
        warm_start: a schedule within the budget, positions in `graph.nodes`, to start from.
        if_none: while no schedule is found: "more": in the last quarter of the time limit one that computes nodes more
            often is sought as well, and is then the answer, which says so; "hint": in the last tenth it is tried what
            would help; "stop": neither. None: "more" where `max_computations` is not given, else "hint".
        on_progress: called with every new incumbent and bound, in the caller's thread.

    Returns:
        The best schedule found. An interrupt from the keyboard ends the search, not this function; so does a solver
        that fails after a schedule has been found.

    Raises:
        InputError: nonsense in an argument, MiniZinc missing, an unknown solver or one that cannot run, even where
            none is needed after all, a solver that failed before a schedule was found, or one that the simulator
            contradicts (`JudgeError`).
    """
    begin = time.monotonic()
    options = Options(
        solver, search, time_limit, until_gap, threads, seed, formulation, precedence, index, two_phase,
        default_if_none(max_computations) if if_none is None else if_none,
    )  # fmt: skip
    most = options.default_computations(max_computations)
    instance = Instance.build(graph, budget, order=order, max_computations=most, count_fixed=count_fixed)
    return solve_instance(instance, options, on_progress, begin, warm_start)


def solve_instance(
    instance: Instance,
    options: Options,
    on_progress: Listener | None = None,
    begin: float | None = None,
    warm_start: Sequence[int] | None = None,
) -> Result:
    """`solve` for an instance at hand.

    The time limit counts from `begin`, by `time.monotonic()`, default: from now, but compiling our own searches, once
    after every installation, is not counted.
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
        lacking = None if sequence else Trials(BestKnown(instance, begin), options).shortfall(status)
        return Result(
            instance, options.form, options.solver, status, reason, sequence, simulation, bound, seconds,
            found_by=INPUT_ORDER if sequence else "", proved_by=INSTANT, shortfall=lacking,
        )  # fmt: skip
    if options.search != "off":
        begin += ready(*compiled_for(instance.free_order))
    record = BestKnown(instance, begin, options.until_gap)
    if warm_start is not None:
        record.offer(warm_start, WARM_START)
    with Trials(record, options) as trials:
        result = _search(record, options, on_progress or ignore)
        return trials.conclude(result)


def _search(record: BestKnown, options: Options, on_progress: Listener) -> Result:
    if len(options.solvers) > 1:
        from moccasin_mzn.search.race.race import race

        return race(record, options.form, options, on_progress)
    kind = FreeSearch if record.instance.free_order and options.form.staged else Search
    search = kind(record, options)
    search.run(on_progress)
    return search.result()
