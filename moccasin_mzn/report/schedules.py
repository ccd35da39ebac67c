"""Tables and lines for people: answers, graphs, methods, models and certificates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from moccasin_mzn.base.doc_links import Page
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.base.formatting import count_text, duration_text, memory_text
from moccasin_mzn.bounds.least_budget import enough_budget, least_budget_bound
from moccasin_mzn.formulations.complexity import ModelSize
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.wording import graph_text, node_text, total_text
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.certificates import ANY_ORDER, IN_ORDER, INFEASIBLE, MEMORIES, Proven
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.problem.problem import Problem
from moccasin_mzn.report.tables import console, plain_table, print_lines, print_table
from moccasin_mzn.search.catalogue import Entry
from moccasin_mzn.search.result import NOT_TRIED, Result, percent_over

if TYPE_CHECKING:
    from moccasin_mzn.graphs.generators.network import Architecture
    from moccasin_mzn.problem.arena import Arena
    from moccasin_mzn.solvers.minizinc.solvers import KnownSolver


Row = tuple[str, str, str]
"""The name of a figure, its value in the input order, and in the schedule."""


@singledispatch
def answer_rows(problem: Problem, result: Result) -> Iterator[Row]:
    """Return the rows of the table of an answer."""
    return _schedule_rows(problem.instance, result)


@answer_rows.register(PlanProblem)
def _plan_rows(problem: PlanProblem, result: Result) -> Iterator[Row]:
    graph, baseline = problem.graph, problem.instance.baseline
    for m, memory in enumerate(problem.platform.memories):
        budget = "no budget" if memory.budget is None else memory_text(memory.budget, graph.size_unit)
        yield f"budget, {memory.name}", "", budget
        if result.found:
            before = memory_text(baseline.peak, graph.size_unit) if m == 0 else ""
            yield f"peak, {memory.name}", before, memory_text(result.simulation.peaks[m], graph.size_unit)
    if result.found:
        yield from _totals(result, problem)
        yield from _arenas(result)
        yield "judged by the simulator", "", "valid"


def _totals(result: Result, problem: PlanProblem) -> Iterator[Row]:
    graph, goal, simulation = problem.graph, problem.goal, result.simulation
    for what in OBJECTIVES:
        before = total_text(graph, what, problem.baseline_duration) if what == "duration" else ""
        yield what, before, total_text(graph, what, simulation.total(what))
        if what == "duration":
            yield "duration increase (TDI)", "", f"{result.tdi_percent:.3f} %"
    yield "recomputations", "", f"{problem.recomputations(simulation):,}"
    for name, count in problem.copies(simulation).items():
        yield f"copies {name}", "", f"{count:,}"
    yield f"bound on the {goal.objective}", "", total_text(graph, goal.objective, result.bound)
    yield "gap", "", f"{result.gap_percent:.3f} %"
    for what in OBJECTIVES:
        if (limit := goal.limit(what)) is not None:
            yield f"limit on the {what}", "", total_text(graph, what, limit)


def _arenas(result: Result) -> Iterator[Row]:
    arenas = () if result.arenas is None else result.arenas.arenas
    for place, arena in zip(result.problem.platform.memories, arenas, strict=False):
        yield f"arena, {place.name}", "", memory_text(arena.size, result.problem.graph.size_unit)
        least = ", proven least" if arena.is_least else ""
        yield f"fragmentation, {place.name}", "", f"{arena.fragmentation_percent:.3f} %{least}"


def events(result: Result) -> dict[int, list[str]]:
    """Return the recomputations and copies of each node, as texts in their order."""
    memories = result.problem.platform.memories
    found: dict[int, list[str]] = {}
    computed = set()
    for t, action in enumerate(result.plan, 1):
        v, name = action.node, memories[action.memory].name
        if action.source is not None:
            found.setdefault(v, []).append(f"{memories[action.source].name} -> {name} at {t}")
        elif v in computed:
            found.setdefault(v, []).append(f"again in {name} at {t}")
        else:
            computed.add(v)
    return found


# --- Answers --------------------------------------------------------------------------------------------------


_NODES_SHOWN = 20
_FEW = 10
"""Amounts below this many times the budget are shown in percent of it."""
_PROFILE_WIDTH = 64
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*#@"


def print_result(result: Result, out: TextIO, offered: str = "") -> None:
    """Print the answer as a table, and which nodes are recomputed or copied where.

    Args:
        offered: the command that starts from a schedule of another kind, if one was found.
    """
    to = console(out)
    table = plain_table(graph_text(result.problem.graph), ("", "input order", "schedule"), left=("",))
    for row in answer_rows(result.problem, result):
        table.add_row(*row)
    print_table(to, table)
    _print_steps(result.problem, to, result, tuple(_ending(result, offered)))


@singledispatch
def _print_steps(problem: Problem, to: Console, result: Result, ending: Iterable[str]) -> None:
    """Print the memory over a schedule, how the search ended, and what is recomputed where."""
    if result.found:
        _print_profiles(to, result)
    print_lines(to, ending)
    if result.found:
        _print_recomputed(to, result)


@_print_steps.register(PlanProblem)
def _print_steps_of_plan(problem: PlanProblem, to: Console, result: Result, ending: Iterable[str]) -> None:
    """Print how the search ended, and what is recomputed or copied where."""
    print_lines(to, ending)
    if result.found:
        _print_events(to, result)


def _schedule_rows(instance: Instance, result: Result) -> Iterator[Row]:
    graph, baseline = instance.graph, instance.baseline
    peak, duration = "", ""
    if result.found:
        peak = memory_text(result.peak, graph.size_unit)
        duration = duration_text(result.duration, graph.duration_unit)
    if instance.fixed:
        fixed = memory_text(instance.fixed, graph.size_unit)
        yield "fixed memory", fixed, fixed
    yield "budget" + (" left" if instance.fixed else ""), "", memory_text(instance.budget, graph.size_unit)
    yield "peak memory", memory_text(baseline.peak, graph.size_unit), peak
    yield "duration", duration_text(baseline.duration, graph.duration_unit), duration
    if result.found:
        yield "duration increase (TDI)", "", f"{result.tdi_percent:.3f} %"
    if result.shortfall is not None and not result.valid:
        for what, amount in _shortfall_rows(result):
            yield what, "", amount
    if result.valid:
        yield "bound on the increase", "", f"{percent_over(result.bound, baseline.duration):.3f} %"
        yield "gap", "", f"{result.gap_percent:.3f} %"
        if result.shortfall is not None:
            yield "computations per node, at most", "", str(max(instance.max_computations))
    if result.arenas is not None:
        yield "arena", "", memory_text(result.arenas.size, graph.size_unit)
        yield "fragmentation, arena over peak", "", _fragmentation_text(result.arenas)
    if result.found:
        yield "judged by the simulator", "", "valid" if result.valid else "OVER THE BUDGET"


def _ending(result: Result, offered: str) -> Iterator[str]:
    """Yield how the search ended: status, who found and proved what, notes, verdicts, solver and seconds."""
    status = f"{result.status}: {result.reason}"
    yield Page.FLOATING_POINT.after(status) if result.claim else status
    by = [f"{what} by {who}" for what, who in (("found", result.found_by), ("proved", result.proved_by)) if who]
    if by:
        yield ", ".join(by)
    yield from _helps(result, offered)
    yield from (f"note: {note}" for note in result.notes)
    yield from (f"checked by {verdict}" for verdict in result.checks)
    if result.driver is not None and result.model_ran:
        settled = bool(result.proved_by) and not result.racers
        unneeded = settled and not any(result.solver in who for who in (result.found_by, result.proved_by))
        needed = ", begun but not needed" if unneeded else ""
        yield f"solver: {result.solver} ({result.solver_version}) by {result.driver}{needed}"
    yield f"seconds: {result.seconds}"


def print_shortfall(result: Result, out: TextIO, offered: str = "") -> None:
    """Print how near the search came to the budget, and what would help, or has helped, if anything can.

    Args:
        offered: see `print_result`.
    """
    lacking = result.shortfall
    if lacking is None or lacking.floor > lacking.instance.budget:  # the reason has it already
        return
    near = [] if result.valid else ["; ".join(f"{what} {amount}" for what, amount in _shortfall_rows(result))]
    print_lines(console(out), (*near, *_helps(result, offered)))


def _helps(result: Result, offered: str) -> Iterator[str]:
    for one in result.shortfall.helps if result.shortfall else ():
        yield f"{'not tried' if one.outcome == NOT_TRIED else 'tried'}: {one.option}: {one.detail}"
    if offered:
        yield f"next: {offered}"


def _shortfall_rows(result: Result) -> Iterator[tuple[str, str]]:
    lacking = result.shortfall
    if lacking is None:
        return
    yield "least peak seen", _of_budget(result, lacking.least_peak)
    just_over = lacking.scope_floor == lacking.instance.budget + 1
    yield ("proven to be needed", "more than the budget" if just_over else _of_budget(result, lacking.scope_floor))
    if lacking.floor < lacking.scope_floor:
        yield "in any order, however often computed", _of_budget(result, lacking.floor)


def _of_budget(result: Result, amount: int) -> str:
    fraction = result.shortfall.of_budget(amount) if result.shortfall else None
    text = memory_text(amount, result.instance.graph.size_unit)
    if fraction is None:
        return text
    share = f"{100 * fraction:.1f} % of" if fraction < _FEW else f"{fraction:,.0f} times"
    return f"{text}, {share} the budget"


def _fragmentation_text(arena: Arena) -> str:
    percent = f"{arena.fragmentation_percent:.3f} %"
    if not arena.is_least:
        return f"{percent}, at least {100 * (arena.bound / arena.peak - 1) if arena.peak else 0:.3f} %"
    return f"{percent}, proven least"


def _print_profiles(to: Console, result: Result) -> None:
    """Print the memory over the sequence, before and after; what is over the budget is red."""
    baseline, top, budget = result.instance.baseline, result.instance.baseline.peak, result.instance.budget
    for name, memory in (("input order", baseline.memory), ("schedule", result.simulation.memory)):
        line = Text(f"{name:>12}  ")
        for cell in shares(memory, _PROFILE_WIDTH):
            character = block(cell, top, _ASCII_BLOCKS if to.options.ascii_only else _BLOCKS)
            line.append(character, style="red" if cell > budget else "green")
        to.print(line)
    to.print()


def shares(values: Sequence[int], width: int) -> list[int]:
    """Return the maximum of each of up to `width` equal shares of `values`."""
    width = min(width, len(values))
    return [max(values[k * len(values) // width : (k + 1) * len(values) // width]) for k in range(width)]


def block(value: int, top: int, blocks: str = _BLOCKS) -> str:
    """Return the character of `blocks`, from empty to full, that is as high as `value`; the full one is for `top`."""
    full = len(blocks) - 1
    return blocks[min(full, -(-full * value // top))] if top else blocks[0]


def _print_recomputed(to: Console, result: Result) -> None:
    graph, recomputed = result.instance.graph, result.recomputed
    if not recomputed:
        to.print("no node is recomputed")
        return
    nodes, computations = count_text(len(recomputed), "node"), count_text(len(result.sequence), "computation")
    rows = {
        v: (
            str(result.sequence.index(v) + 1), "\n".join(map(str, positions)),
            "\n".join(node_text(graph, result.sequence[p]) for p in positions if p < len(result.sequence)),
        )
        for v, positions in recomputed.items()
    }  # fmt: skip
    headings = ("first at", "again at", "before")
    _print_nodes(to, graph, f"{nodes} recomputed, {computations} in total", headings, rows)


def _print_events(to: Console, result: Result) -> None:
    """Print the recomputations and copies, node by node."""
    found = events(result)
    if not found:
        to.print("nothing is recomputed or copied")
        return
    nodes, actions = count_text(len(found), "node"), count_text(len(result.plan), "action")
    title = f"{nodes} recomputed or copied, {actions} in total"
    rows = {v: ("\n".join(lines),) for v, lines in found.items()}
    _print_nodes(to, result.problem.graph, title, ("actions",), rows)


def _print_nodes(
    to: Console, graph: ComputationGraph, title: str, headings: tuple[str, ...], rows: Mapping[int, tuple[str, ...]]
) -> None:
    """Print a table with a row for each node, of many nodes the first ones; `rows` has the last cells of each."""
    table = plain_table(title, ("node", "size", "duration", *headings), left=("node", headings[-1]))
    for v, cells in islice(rows.items(), _NODES_SHOWN):
        size, duration = graph.sizes[v], graph.durations[v]
        amounts = memory_text(size, graph.size_unit), duration_text(duration, graph.duration_unit)
        table.add_row(node_text(graph, v), *amounts, *cells)
    to.print()
    print_table(to, table)
    if len(rows) > _NODES_SHOWN:
        to.print(f"... and {len(rows) - _NODES_SHOWN:,} more; --output FILE or --json has them all")


def print_info(instance: Instance, order_name: str, order_bound: int, out: TextIO) -> None:
    """Print the size of a graph, the cost of its input order, and the least budgets that can be feasible with and
    without recomputations; `order_bound` is the latter."""
    to = console(out)
    graph, baseline, need = instance.graph, instance.baseline, least_budget_bound(instance.graph)
    table = plain_table(graph.name or "graph", ("what", ""), left=("what",))
    table.show_header = False
    table.add_row("nodes", f"{len(graph.nodes):,}")
    table.add_row("edges", f"{len(graph.edges):,}")
    table.add_row(f"peak memory, {order_name} order", memory_text(baseline.peak, graph.size_unit))
    if graph.workspaces is not None:
        without, largest = simulate(graph.without_workspaces(), instance.order).peak, graph.largest_workspace()
        table.add_row("without workspaces", memory_text(without, graph.size_unit))
        table.add_row("largest workspace", memory_text(graph.workspaces[largest], graph.size_unit))
        table.add_row("of node", node_text(graph, largest))
    if graph.overwritable is not None:
        plain = simulate(graph.run_in_place(False), instance.order).peak
        table.add_row("not in place", memory_text(plain, graph.size_unit))
    if graph.in_place is not None:
        what = "may overwrite an input" + ("" if graph.runs_in_place else ", with --in-place")
        table.add_row(what, count_text(sum(map(bool, graph.in_place)), "node"))
    if graph.output_of is not None:
        count = sum(map(bool, graph.outputs_of))
        table.add_row("several outputs", count_text(count, "operation"))
    if graph.adjacent is not None:
        table.add_row("reads several outputs as one", count_text(sum(map(bool, graph.adjacent)), "node"))
    if graph.computed_once:
        table.add_row("computed once in any schedule", count_text(len(graph.computed_once), "node"))
    for what, amount in graph.fixed_memory.items():
        table.add_row(f"fixed memory, {what}", memory_text(amount, graph.size_unit))
    table.add_row("duration, every node once", duration_text(baseline.duration, graph.duration_unit))
    table.add_row("no budget is feasible below", memory_text(need.memory, graph.size_unit))
    table.add_row("as a fraction of the peak", f"{need.memory / baseline.peak:.3f}" if baseline.peak else "-")
    table.add_row("needed by node", node_text(graph, need.node))
    enough = memory_text(enough_budget(graph), graph.size_unit)
    table.add_row("enough with any number of recomputations", enough)
    table.add_row("no order without recomputation needs less than", memory_text(order_bound, graph.size_unit))
    print_table(to, table)
    made_by = graph.attributes.get("made_by")
    if isinstance(made_by, dict) and isinstance(made_by.get("command"), str):
        to.print(f"made by: {made_by['command']}", soft_wrap=True)


def print_catalogue(entries: Sequence[Entry], solvers: Sequence[KnownSolver], out: TextIO) -> None:
    """Print the methods and solvers to choose from."""
    from moccasin_mzn.solvers.minizinc.solvers import lack_text

    to = console(out)
    for kind in dict.fromkeys(entry.kind for entry in entries):
        prose = ("what", "source", "guarantee")
        table = plain_table(f"--{kind}", ("name", *prose), left=("name",), prose=prose)
        for entry in entries:
            if entry.kind == kind:
                table.add_row(entry.name, entry.title, entry.source, entry.guarantee)
        print_table(to, table)
    if not solvers:
        return
    table = plain_table("--solver, for formulations", ("name", "what", "by"), left=("name", "what"), prose=("by",))
    for solver in solvers:
        missing = f"; {lack_text(solver.needs)}" if solver.needs else ""
        table.add_row(solver.name, solver.version, solver.driver + missing)
    print_table(to, table)


def print_sizes(instance: Instance, sizes: Sequence[ModelSize], out: TextIO) -> None:
    """Print counts of variables and constraints of each formulation, with the order of growth below each."""
    to = console(out)
    graph, most = instance.graph, sorted(set(instance.max_computations))
    limit = str(most[0]) if len(most) == 1 else f"{most[0]} to {most[-1]}"
    title = f"{graph.name or 'graph'}: n = {len(graph.nodes)}, m = {len(graph.edges)}, C = {limit}"
    headings = ("formulation", "booleans", "integers", "largest domain", "mean", "constraints", "FlatZinc")
    table = plain_table(title, headings, left=("formulation",))
    for size in sizes:
        table.add_row(
            size.formulation, f"{size.booleans:,}", f"{size.integers:,}", f"{size.largest_domain:,}" if size.mean_domain
            else "-", f"{size.mean_domain:,.0f}" if size.mean_domain else "-", f"{size.constraints:,}",
            f"{size.megabytes:.1f} MB",
        )  # fmt: skip
        growth = size.growth
        orders = (growth.booleans, growth.integers, growth.domain, "", growth.constraints)
        table.add_row("", *(f"O({order})" if order[:1].isalpha() else order for order in orders), "", style="dim")
    print_table(to, table)


def graph_line(graph: ComputationGraph) -> str:
    """Return the counts of a graph in one line."""
    peak, floor = simulate(graph, graph.input_order()).peak, graph.largest_working_set().memory
    return (
        f"{count_text(len(graph.nodes), 'node')}, {count_text(len(graph.edges), 'edge')}, outputs "
        f"{memory_text(graph.total_size, graph.size_unit)}, peak {memory_text(peak, graph.size_unit)}, "
        f"largest working set {100 * floor / peak if peak else 0:.1f} % of it"
    )


def print_networks(networks: Iterable[Architecture], out: TextIO) -> None:
    """Print the networks that can be generated, with their defaults."""
    prose = ("network", "source", "parameters")
    table = plain_table(None, ("name", "network", "source", "input", "parameters"), left=("name", "input"), prose=prose)
    for network in networks:
        shape = "" if network.input is None else " ".join(map(str, network.input))
        parameters = ", ".join(f"{parameter.name}={parameter.default}" for parameter in network.parameters)
        table.add_row(network.name, network.title, network.source, shape, parameters)
    print_table(console(out), table)


# --- Certificates ---------------------------------------------------------------------------------------------


def certificate_lines(graph: ComputationGraph, proven: Proven) -> Iterator[str]:
    """Yield the graph that it is about, the schedule, what is proven, and what is taken on trust, in a line each."""
    if proven.about:
        yield f"about: the graph {proven.about}"
    least = proven.once
    budget = f"budget {memory_text(proven.budget, graph.size_unit)}"
    if proven.duration is not None and proven.of_plans:
        yield f"plan: {proven.goal} {total_text(graph, proven.goal, proven.duration)}, within the budgets"
    elif proven.duration is not None:
        duration = duration_text(proven.duration, graph.duration_unit)
        yield f"schedule: duration {duration}, {_increase(proven.duration - least, least)} more, within the {budget}"
    cases = f"{count_text(proven.inequalities, 'inequality', 'inequalities')}, {count_text(proven.leaves, 'case')}"
    yield f"proven: {_claim(graph, proven, budget)}, {proven.scope} ({cases})"
    for one in proven.trusted:
        if one.bound is None:
            yield f"trusted: {one.by}: no schedule fits, {one.scope}"
        else:
            bound = duration_text(one.bound, graph.duration_unit)
            yield f"trusted: {one.by}: no schedule is shorter than {bound}, {one.scope}"


def certificate_line(path: Path, document: JsonObject, graph: ComputationGraph) -> str:
    """Return what a certificate that was just written proves, in one line.

    Args:
        document: the certificate.
        graph: for its units.
    """
    machine = document.get(MEMORIES)
    what, goal = ("schedule", "duration") if machine is None else ("plan", machine["goal"])
    where = {ANY_ORDER: "any order", IN_ORDER: "first computations in the input order"}[document["scope"]]
    bound = document["bound"]
    of = f" on the {goal}" if goal != "duration" else ""
    claim = f"that there is no {what}" if bound == INFEASIBLE else f"a bound of {total_text(graph, goal, bound)}{of}"
    met = f", which the {what} meets," if bound == document["duration"] else ""
    return f"certificate: {path} proves {claim}{met} for {where} and any number of computations"


def proven_dict(proven: Proven) -> JsonObject:
    """Return the same for JSON."""
    trusted = [vars(one) for one in proven.trusted]
    return {**vars(proven), "trusted": trusted, "gap_percent": _gap(proven), "certified": _share(proven)}


def _claim(graph: ComputationGraph, proven: Proven, budget: str) -> str:
    if proven.of_plans and proven.bound is not None and proven.bound == proven.duration:
        return f"optimal: no plan has less {proven.goal}"
    if proven.of_plans:
        bound = "" if proven.bound is None else total_text(graph, proven.goal, proven.bound)
        gap = "" if proven.duration is None else f": gap {_gap(proven):.3g} %"
        return f"no plan has {proven.goal} below {bound}{gap}" if bound else "infeasible: there is no plan"
    if proven.bound is None:
        return f"infeasible: no schedule fits the {budget}"
    if proven.bound == proven.duration:
        return "optimal: no schedule is shorter"
    bound = duration_text(proven.bound, graph.duration_unit)
    if proven.duration is None:
        return f"no schedule within the {budget} is shorter than {bound}"
    share = math.floor(10_000 * (_share(proven) or 0.0)) / 100  # 100 only where it is all
    return f"no schedule is shorter than {bound}: gap {_gap(proven):.3g} %, {share:.2f} % of what recomputation adds"


def _gap(proven: Proven) -> float | None:
    """Return 100 * (duration - bound) / duration, as in `Result`; None where one of them is missing."""
    if proven.duration is None or proven.bound is None:
        return None
    return 100 * (proven.duration - proven.bound) / proven.duration if proven.duration else 0.0


def _share(proven: Proven) -> float | None:
    """Return the proven share of the schedule's increase over every node once; None where it is unknown."""
    if proven.duration is None or proven.bound is None:
        return None
    added = proven.duration - proven.once
    return (proven.bound - proven.once) / added if added else 1.0


def _increase(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0.0:.4f} %"
