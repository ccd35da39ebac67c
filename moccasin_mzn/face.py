"""The functions of the package, in one vocabulary; `moccasin_mzn` itself offers them, imported at their first use."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from moccasin_mzn.api.driving import Drive, Interrupts, OnProgress, Progress
from moccasin_mzn.api.question import Question
from moccasin_mzn.api.solve import answer
from moccasin_mzn.base.arguments import check_certificate_file, checked, file_name, file_names
from moccasin_mzn.base.checks import check_time_limit, plain, sequence
from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.errors import InputError, shown
from moccasin_mzn.base.files import load_json, replace_file
from moccasin_mzn.base.stop import Criteria, Stop
from moccasin_mzn.base.vocabulary import FormulationName, FormulationOptions, IfNone, Objective, Search, StrategyName
from moccasin_mzn.graphs.checks import as_tuple
from moccasin_mzn.graphs.formats import graph_given
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.heuristics.compiled_searches import ready
from moccasin_mzn.heuristics.orders.least_peak import least_peak_order
from moccasin_mzn.machine.addresses.allocate import allocate_buffers
from moccasin_mzn.machine.memories import MemoriesGiven
from moccasin_mzn.machine.platforms import CopyCosts, Device, MemoryPool, PagingCosts
from moccasin_mzn.machine.problems import Amount, pools_of
from moccasin_mzn.problem.arena import Buffer, check_alignment
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.features import Feature
from moccasin_mzn.problem.files.buffers import read_buffers
from moccasin_mzn.problem.files.plans import ClaimedPlan
from moccasin_mzn.problem.instance import chosen_order
from moccasin_mzn.problem.judges.certificates import CertificateError, Proven
from moccasin_mzn.problem.judges.certificates import check_certificate as judge_certificate
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.platform import Goal, Plan, computed_nodes
from moccasin_mzn.report.answers import AllocationResult, ComparisonResult, FrontierResult, OrderResult, Result
from moccasin_mzn.report.judged import JudgedSchedule
from moccasin_mzn.search.call import Call
from moccasin_mzn.search.options import Effort, gap_of, model_options

if TYPE_CHECKING:
    from moccasin_mzn.api.compare import Row

Graph = ComputationGraph | str | PathLike[str]
Order = str | PathLike[str] | Iterable[int | str]
Counts = int | Iterable[int] | str | PathLike[str]
TilesGiven = int | str | tuple[int, int]
Start = Result | JudgedSchedule | Iterable[int | str] | Plan | str | PathLike[str]
DEFAULT_SECONDS, SWEEP_SECONDS = 60.0, 600.0
"""Time limits in seconds of `order` and of each method of `compare`, and of `frontier`, where none is given."""


@checked(others=model_options)
def solve(
    graph: Graph,
    budget: Amount | None = None,
    *,
    order: Order = "input",
    max_computations: Counts | None = None,
    count_fixed: bool = False,
    in_place: bool = False,
    zero_copy_concat: bool = False,
    tile: TilesGiven | None = None,
    strategy: StrategyName | None = None,
    paging: PagingCosts | Mapping[str, object] | None = None,
    slow_memory: Amount | None = None,
    devices: Mapping[str, Device | Amount | None] | None = None,
    copies: CopyCosts | Mapping[str, object] | None = None,
    memories: Mapping[str, MemoryPool | Amount | None] | None = None,
    goal: Goal | Objective | None = None,
    addresses: bool = False,
    alignment: int = 1,
    formulation: FormulationName | None = None,
    solver: str | None = None,
    search: Search | None = None,
    time_limit: float | None = None,
    until_gap: float | str | None = None,
    stop: Stop | None = None,
    threads: int | None = None,
    seed: int | None = None,
    two_phase: bool | None = None,
    if_none: IfNone | None = None,
    warm_start: Start | None = None,
    model: str | PathLike[str] | None = None,
    like: FormulationName | None = None,
    certificate: str | PathLike[str] | None = None,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
    **own: Unpack[FormulationOptions],
) -> Result:
    """Find the shortest schedule of a graph within a memory budget, or the best plan with several memories. ::

        import moccasin_mzn as mz

        result = mz.solve("graph.json", 0.8, time_limit=60)
        mz.solve(graph, "1.5GiB", order="free", addresses=True, alignment=64)
        mz.solve(graph, 0.8, paging={"out_time": "0.25"}, goal="energy")
        mz.solve(graph, devices={"gpu": "16GiB", "cpu": "64GiB:4"}, copies={"time": "1e-6", "latency": 20})
        mz.solve(graph, memories={"fast": "128KiB", "slow": "8MiB:4"})
        mz.solve(graph, "64KiB", tile="auto", time_limit=60)
        mz.solve(graph, 0.8, stop=[mz.stop.Gap(0.01), mz.stop.NoImprovement(10)])

    Args:
        graph: the computation graph, or its file.
        budget: an int in the graph's size unit, a float as a fraction of the input order's peak, or text like "80%" or
            "1.5GiB"; "least": the smallest for which a schedule is found, in 60 % of the time limit. Of local memory
            with `paging`; not given with `devices` and `memories`, each of which has its own.
        order: "input", "topological", a file of node ids, or positions or ids as for the edges of a graph; "free": it
            is chosen as well.
        max_computations: how often a node may be computed: one for all, one for each node, "auto", or a file. None: 2,
            and no limit for Checkmate's formulations or a strategy, which have none.
        count_fixed: the budget is for the graph's fixed memory too.
        in_place: outputs overwrite inputs where the graph allows it, if those are not read later.
        zero_copy_concat: concatenations whose inputs, side by side in memory, are their output are taken out: they take
            no memory and no time. The answer's `graph` has none of them.
        tile: compute outputs in parts of this number of rows, such as 4, or tiles, such as (4, 16), in any order (with
            `strategy` or `model` in the input order); "auto": in those that do best within the budget. The answer's
            `graph` is that of the parts; see `tile`.
        strategy: the name of a rule from the literature, in place of a search.
        paging: what writing to slow memory and reading back costs per size unit, which is then possible; such as
            {"out_time": 0.25, "in_time": "0.5", "out_energy": 2}. What is not given for reading is as for writing.
        slow_memory: its capacity, as a budget; None: as much as there may be.
        devices: budgets by name, such as 0.8 or "16GiB"; "64GiB:4" for one that is 4 times slower than in the graph,
            "inf:inf" for one without a budget that computes nothing; None: no budget.
        copies: what copies between devices cost, such as {"time": 1e-6, "latency": 20, "energy": 1}: time and energy
            per size unit, latency for each; a time of "inf": nothing can be copied. None: they cost nothing.
        memories: those of one device that reads and writes in all of them, each with its budget by name, such as
            "128KiB"; "8MiB:4" for one in which reading or writing a unit of size takes 4; or a `MemoryPool`.
        goal: with several memories, what is made least: "duration" (None: that), "energy" or "traffic", or a `Goal`
            with limits on the others.
        addresses: outputs get offsets in one arena for each memory, which budgets are then for.
        alignment: offsets are multiples of it.
        formulation: "staged" (None: that), "general", or one of Checkmate's; see the command `list`, as for `strategy`.
        solver: "cp-sat" (None: that), "highs", "scip", or any that MiniZinc knows; "cp-sat,gecode" race.
        search: "on": local search and bounds alongside the model; "off": the model alone; "only": without the model.
            None: "on", but "off" for Checkmate's.
        time_limit: seconds for everything; None: until proven.
        until_gap: stop at this gap, (duration - bound) / duration: a fraction, or text like "1%".
        stop: a criterion of `moccasin_mzn.stop` or of your own, a `threading.Event`, or a sequence of them, where the
            first that is met ends the search. With `Iterations` the same seed gives the same result.
        threads: None: as many as there are cores.
        seed: of all searches; None: 0 and the solver's own.
        two_phase: the model first seeks any schedule within the budget; None: with cp-sat.
        if_none: while no schedule is found: "more": one that computes nodes more often is sought as well; "hint": it is
            tried what would help; "stop": neither. None: "more", but "hint" if `max_computations` is given.
        warm_start: an earlier result, also one of `read_result`, or a schedule or plan within the budget to start from,
            or its file.
        model: the file of a model of one's own, instead of a formulation's.
        like: the formulation whose data and solutions that has; None: "staged".
        certificate: the file to which the schedule and a proof of a bound are written, see `check_certificate`. The
            proof takes at most another `time_limit`, 60 s without one; 5 s after Ctrl-C.
        on_progress: called with a `Progress` for every new incumbent and bound, in this thread. If it returns True or
            raises StopIteration, the search ends and its best answer is returned; whatever else it raises is raised
            here, as soon as everything has been stopped.
        interrupts: what Ctrl-C does: "keep": the best answer so far is returned; "raise": `Interrupted`, which is a
            KeyboardInterrupt and has that answer, is raised after everything has been stopped.
        own: options that only some formulations have, such as precedence="reservoir"; see the help of the command.

    Returns:
        The best answer found, also when an interrupt from the keyboard has ended the search.

    Raises:
        InputError: nonsense in an argument, arguments that do not go together, MiniZinc or a solver missing or failed.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    begin = time.monotonic()
    criteria = Criteria.of(stop, time_limit, gap_of(until_gap))
    drive = Drive("solve", on_progress, criteria, interrupts)
    check_alignment(alignment)
    if alignment != 1 and not addresses:
        raise InputError("alignment goes with addresses")
    if strategy is not None:
        threads = seed = None  # it has none
    several = MemoriesGiven.of(paging, slow_memory, devices, copies, memories, goal)
    question = Question.of({
        "budget": budget, "order": order, "max_computations": max_computations, "count_fixed": count_fixed,
        "in_place": in_place, "zero_copy_concat": zero_copy_concat, "tile": tile, "strategy": strategy,
        "warm_start": _started(warm_start, "positions" if several is None else "plan"), "addresses": addresses,
        "alignment": alignment if addresses else None, "certificate": certificate,
        "formulation": formulation, "solver": solver, "search": search, "time_limit": criteria.time_limit,
        "until_gap": criteria.gap, "iterations": criteria.iterations, "threads": threads, "seed": seed,
        "two_phase": two_phase, "if_none": if_none, "model": file_name(model), "like": like, **own,
    }, memories=several)  # fmt: skip
    if budget is None and question.memories is None:
        raise InputError("budget: expected one, such as 0.8 or 1.5GiB")
    check_certificate_file(certificate, graph)
    notes: list[str] = []
    asked_about = graph_given(graph)
    request = question.request(asked_about, notes.append, drive.over)
    found = answer(request, Call(drive.heard(request.problem.graph), drive.over, begin))
    if drive.why and found.status in ("feasible", "unknown"):
        found = replace(found, notes=(*found.notes, f"stopped by {drive.why}"))
    found = replace(found, ended_by=drive.ended_by(found), notes=(*notes, *found.notes))
    result = drive.ended(Result(found), found.interrupted)
    if certificate is not None:
        from moccasin_mzn.bounds.certificates.document import certificate_text
        from moccasin_mzn.search.certifying import certificate_of

        replace_file(Path(certificate), certificate_text(certificate_of(found, criteria.time_limit, asked_about)))
    return result


@checked()
def order(
    graph: Graph,
    *,
    start: Order = "input",
    time_limit: float | None = DEFAULT_SECONDS,
    stop: Stop | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
) -> OrderResult:
    """Find an order of least peak memory that computes every node once, and a bound on all such orders.

    Args:
        graph: the computation graph, or its file.
        start: what the search begins with: "input", "topological", a file of node ids, or positions or ids.
        time_limit: seconds; None: until proven, which large graphs may never be.
        stop: see `solve`.
        seed: of the search.
        on_progress: called with a `Progress` for every improvement; see `solve`.
        interrupts: see `solve`.

    Raises:
        InputError: nonsense in an argument, or an order that is not topological.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    criteria = Criteria.of(stop, time_limit, default=DEFAULT_SECONDS)
    if criteria.iterations is not None and criteria.time_limit == DEFAULT_SECONDS:
        criteria = replace(criteria, time_limit=None)  # a default is no reason to ask the clock
    drive = Drive("order", on_progress, criteria, interrupts, criteria.gap)
    computation_graph = graph_given(graph)
    begin_with = chosen_order(computation_graph, start)
    found = least_peak_order(
        computation_graph, time_limit=criteria.time_limit, seed=seed, on_progress=drive.heard_order(computation_graph),
        stop=drive.over, start=begin_with, turns=criteria.iterations,
    )  # fmt: skip
    result = OrderResult(computation_graph, simulate(computation_graph, begin_with).peak, found)
    return drive.ended(result, result.interrupted)


@checked(others=model_options)
def frontier(
    graph: Graph,
    *,
    points: int = 20,
    budgets: Iterable[Amount] = (),
    time_limit: float = SWEEP_SECONDS,
    order: Order = "input",
    max_computations: Counts | None = None,
    count_fixed: bool = False,
    in_place: bool = False,
    zero_copy_concat: bool = False,
    tile: TilesGiven | None = None,
    strategy: StrategyName | None = None,
    addresses: bool = False,
    alignment: int = 1,
    paging: PagingCosts | Mapping[str, object] | None = None,
    slow_memory: Amount | None = None,
    devices: Mapping[str, Device | Amount | None] | None = None,
    copies: CopyCosts | Mapping[str, object] | None = None,
    memories: Mapping[str, MemoryPool | Amount | None] | None = None,
    goal: Goal | Objective | None = None,
    formulation: FormulationName | None = None,
    solver: str | None = None,
    search: Search | None = None,
    until_gap: float | str | None = None,
    stop: Stop | None = None,
    threads: int | None = None,
    seed: int | None = None,
    model: str | PathLike[str] | None = None,
    like: FormulationName | None = None,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
    **own: Unpack[FormulationOptions],
) -> FrontierResult:
    """Find the least duration, or with another goal its total, for budgets from the least feasible one to the peak of
    the input order.

    Args:
        graph: the computation graph, or its file.
        points: how many budgets, at most.
        budgets: these only, as for `solve`. With `paging` those of local memory are varied, with `devices` and
            `memories` those of the first one, which then has no budget of its own.
        time_limit: seconds for all together.
        tile: compute outputs in parts of this number of rows, such as 4, or tiles, such as (4, 16), in any order.
        strategy: the points are those of this strategy, and of no search.
        addresses: budgets are sizes of the arena.
        stop: see `solve`; `Gap` and `Iterations` are for each search, a time limit or an event for all together.
        on_progress: called with a `Progress` after each search, with the budget that it was for.

    The others are those of `solve`.

    Raises:
        InputError: nonsense in an argument, arguments that do not go together, MiniZinc or a solver missing or failed.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    from moccasin_mzn.api.frontier.sweep import SweepPlan, sweep

    criteria = Criteria.of(stop, time_limit, gap_of(until_gap), default=SWEEP_SECONDS)
    criteria.refuse("frontier, which makes many searches", "asked")
    if criteria.iterations is not None and criteria.time_limit == SWEEP_SECONDS:
        criteria = replace(criteria, time_limit=None)  # a default is no reason to ask the clock
    drive = Drive("frontier", on_progress, criteria, interrupts)
    check_time_limit(criteria.time_limit)
    wanted = sequence(budgets, "budgets", "a sequence of budgets")
    check_alignment(alignment)
    if alignment != 1 and not addresses:
        raise InputError("alignment goes with addresses")
    if memories is not None:
        _check_swept(memories)
    options = {
        "order": order, "max_computations": max_computations, "count_fixed": count_fixed, "in_place": in_place,
        "zero_copy_concat": zero_copy_concat, "tile": tile, "formulation": formulation, "solver": solver,
        "search": search, "threads": threads, "until_gap": criteria.gap, "seed": seed, "model": file_name(model),
        "like": like, "iterations": criteria.iterations, "strategy": strategy, "addresses": addresses,
        "alignment": alignment if addresses else None, **own,
    }  # fmt: skip
    several, way = MemoriesGiven.of(paging, slow_memory, devices, copies, memories, goal), frozenset({Feature.FRONTIER})
    question = Question.of(options, memories=several, as_feature=way)
    variant = question.sweep(graph_given(graph))
    variant.stop = drive.over
    begin = time.monotonic() + ready(*variant.compiled)
    seconds = SWEEP_SECONDS if criteria.time_limit is None and not variant.counted else criteria.time_limit
    plan = SweepPlan(points, seconds, tuple(map(variant.amount, wanted)))
    found = sweep(variant, plan, begin=begin, on_point=drive.heard_point(variant.graph), stop=drive.over)
    return drive.ended(FrontierResult(found), found.interrupted)


@checked()
def compare(
    graph: Graph,
    budgets: Amount | Iterable[Amount],
    *,
    only: Iterable[str] = (),
    count_fixed: bool = False,
    time_limit: float = DEFAULT_SECONDS,
    stop: Stop | None = None,
    threads: int | None = None,
    seed: int | None = None,
    warm_start: bool = False,
    model: Iterable[str | PathLike[str]] | str | PathLike[str] | None = None,
    like: FormulationName | None = None,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
) -> ComparisonResult:
    """Run all formulations and strategies one after the other.

    Args:
        graph: the computation graph, or its file.
        budgets: one or several, as for `solve`.
        only: those whose names match one of these patterns, such as `chen-*`.
        count_fixed: budgets are for the graph's fixed memory too.
        time_limit: seconds for each of them.
        stop: see `solve`; a time limit and `Gap` are for each of them, an event for all.
        threads: None: as many as there are cores.
        seed: of all searches.
        warm_start: models that run alone start from the best schedule found before.
        model: the file of a model of one's own to compare as well, or several.
        like: the formulation whose data and solutions these have; None: "staged".
        on_progress: called with a `Progress` after each of them, with its name and budget; see `solve`.
        interrupts: see `solve`.

    Raises:
        InputError: nonsense in an argument.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    from moccasin_mzn.api.compare import ContenderOptions, contenders
    from moccasin_mzn.api.compare import compare as run_all

    begin, criteria = time.monotonic(), Criteria.of(stop, time_limit, default=DEFAULT_SECONDS)
    criteria.refuse("compare, which runs many methods by the clock", "iterations", "asked")
    drive = Drive("compare", on_progress, criteria, interrupts)
    check_time_limit(criteria.time_limit)
    one = isinstance(budgets, str | int | float | Fraction | Budget | None)
    each = [budgets] if one else sequence(budgets, "budgets", "a budget, or a sequence of budgets")
    amounts = [_amount_text(budget) for budget in each]
    only = sequence(only, "only", "a sequence of patterns")
    for pattern in only:
        if not isinstance(pattern, str):
            raise InputError(f"only: expected a sequence of patterns, with {shown(pattern)} in it")
    chosen, computation_graph = contenders(only, file_names(model, "model"), like), graph_given(graph)
    effort = ContenderOptions(criteria.time_limit, threads, seed, warm_start, criteria.gap or 0.0)
    result = ComparisonResult(())
    for amount in amounts:
        for row in run_all(
            computation_graph.name, computation_graph, amount, chosen, effort, count_fixed=count_fixed, stop=drive.over
        ):
            drive.report(_compared(row, time.monotonic() - begin))
            result = ComparisonResult((*result.rows, row))
        if result.interrupted:
            break
    return drive.ended(result, result.interrupted)


@checked()
def allocate(
    buffers: Iterable[Buffer] | str | PathLike[str],
    *,
    alignment: int = 1,
    capacity: int | str | None = None,
    begin_with: Iterable[int] | None = None,
    time_limit: float | None = None,
    stop: Stop | None = None,
    threads: int | None = None,
    seed: int = 0,
    on_progress: OnProgress | None = None,
    interrupts: Interrupts = "keep",
) -> AllocationResult:
    """Give buffers offsets in a small arena.

    Args:
        buffers: with their lifespans, or a CSV file as minimalloc reads it.
        alignment: offsets are multiples of it.
        capacity: a size of the arena that is enough, an int or text like "256KiB"; None: it is made as small as
            possible.
        begin_with: offsets to begin with, one for each buffer. What a buffer has as its `offset` stays there; its
            `hint` is where the search begins with it.
        time_limit: seconds; None: as long as it seems of use.
        stop: see `solve`; the gap is (size - bound) / size.
        threads: of the solver; None: as many as there are cores.
        seed: of the search.
        on_progress: called with a `Progress` for every smaller arena; see `solve`.
        interrupts: see `solve`.

    Raises:
        InputError: nonsense in an argument, or a file that cannot be read; MiniZinc, if it is needed, is missing.
        Interrupted: an interrupt from the keyboard, with `interrupts="raise"`.
    """
    criteria = Criteria.of(stop, time_limit)
    criteria.refuse("allocate, whose model has a solver of its own", "iterations")
    drive = Drive("allocate", on_progress, criteria, interrupts, criteria.gap)
    effort = Effort(criteria.time_limit, threads, seed)
    if isinstance(buffers, str | PathLike):
        buffers = read_buffers(buffers, alignment, capacity)
    found = allocate_buffers(
        buffers, alignment, capacity=capacity, begin_with=begin_with, effort=effort, stop=drive.over,
        on_progress=drive.heard_arena,
    )  # fmt: skip
    return drive.ended(AllocationResult(found), found.interrupted)


@checked()
def check_certificate(graph: Graph, certificate: str | PathLike[str]) -> Proven:
    """Check the certificate of a schedule, in exact integers and without any solver. ::

        mz.solve("graph.json", 0.8, certificate="certificate.json")
        print(mz.check_certificate("graph.json", "certificate.json").bound)

    Args:
        graph: the computation graph that it is about, or its file.
        certificate: its file, as `solve` writes it.

    Returns:
        What it proves: `bound`, for schedules in `scope` within `budget`; None if absent.

    Raises:
        InputError: something is wrong with it, or it is about another graph.
    """
    computation_graph = graph_given(graph)
    try:
        return judge_certificate(computation_graph, load_json(Path(certificate), Page.CERTIFICATES))
    except CertificateError as error:
        raise InputError(Page.CERTIFICATES.after(f"{certificate}: {error}")) from None


def _compared(row: Row, seconds: float) -> Progress:
    """Return the progress that a method which has been run is."""
    result, budget = row.result, row.instance.budget
    bound = row.instance.baseline.duration if result is None else result.bound
    value, peak, nodes = None, None, None
    if result is not None and result.valid:
        value, peak = result.duration, result.peak
        nodes = computed_nodes(row.instance.graph, result.sequence)
    source = "" if result is None else result.found_by
    return Progress(seconds, value, bound, peak, nodes, source, budget, row.contender.label)


def _amount_text(given: object) -> str:
    """Return a budget as text."""
    budget, given = Budget.of(plain(given)), plain(given)
    if isinstance(given, str):
        return given
    return str(budget.amount) if budget.fraction is None else f"{format(Decimal(repr(float(budget.fraction))), 'f')}"


def _check_swept(memories: Mapping[str, MemoryPool | Amount | None]) -> None:
    name, first = next(iter(pools_of(memories).items()))
    if first.budget is not None:
        raise InputError(
            f'memory {name}: its budget is what is varied: give None, or "inf:4" with what an access takes'
        )


def _started(given: Start | None, attribute: str) -> object:
    """A schedule or a plan to start from, of an earlier result if that is given; then a plan knows its memories."""
    if given is None or isinstance(given, str | PathLike):
        return given
    if not isinstance(given, Result | JudgedSchedule):
        return as_tuple("warm start", given, "a result, a schedule, a plan or a file of one")
    start = getattr(given, attribute)
    if start is None:
        raise InputError("warm start: the result has no answer of this kind")
    if attribute == "positions":
        return start
    platform = given.details.problem.platform if isinstance(given, Result) else given.details.platform
    assert platform is not None  # of a plan
    return ClaimedPlan(platform, start)
