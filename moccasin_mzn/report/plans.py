"""What a person sees of a plan: tables at the end of the search."""

from __future__ import annotations

from typing import TextIO

from rich.console import Console
from rich.table import Table

from moccasin_mzn.graphs.wording import graph_text, node_text, total_text
from moccasin_mzn.problem.platform import OBJECTIVES
from moccasin_mzn.report.schedules import print_ending
from moccasin_mzn.report.tables import console, plain_table, print_table
from moccasin_mzn.search.result import Result
from moccasin_mzn.words import count_text, duration_text, memory_text

_NODES_SHOWN = 20


def print_plan_result(result: Result, out: TextIO) -> None:
    """The answer as a table, and what is computed again or copied."""
    to = console(out)
    graph, baseline = result.problem.platform.graph, result.problem.instance.baseline
    table = plain_table(graph_text(graph), ("", "input order", "plan"), left=("",))
    for m, memory in enumerate(result.problem.platform.memories):
        budget = "no budget" if memory.budget is None else memory_text(memory.budget, graph.size_unit)
        table.add_row(f"budget, {memory.name}", "", budget)
        if result.found:
            before = memory_text(baseline.peak, graph.size_unit) if m == 0 else ""
            table.add_row(f"peak, {memory.name}", before, memory_text(result.simulation.peaks[m], graph.size_unit))
    if result.found:
        _add_totals(table, result)
    print_table(to, table)
    print_ending(to, result)
    if result.found:
        _print_again(to, result)


def _add_totals(table: Table, result: Result) -> None:
    graph, baseline = result.problem.platform.graph, result.problem.instance.baseline
    simulation = result.simulation
    for what in OBJECTIVES:
        before = total_text(graph, what, baseline.duration) if what == "duration" else ""
        table.add_row(what, before, total_text(graph, what, simulation.total(what)))
        if what == "duration":
            table.add_row("duration increase (TDI)", "", f"{result.tdi_percent:.3f} %")
    table.add_row("recomputations", "", f"{result.problem.recomputations(simulation):,}")
    for name, count in result.problem.copies(simulation).items():
        table.add_row(f"copies {name}", "", f"{count:,}")
    goal = result.problem.goal
    table.add_row(f"bound on the {goal.objective}", "", total_text(graph, goal.objective, result.bound))
    table.add_row("gap", "", f"{result.gap_percent:.3f} %")
    for what in OBJECTIVES:
        if goal.limit(what) is not None:
            table.add_row(f"limit on the {what}", "", total_text(graph, what, goal.limit(what)))
    _add_arenas(table, result)
    table.add_row("judged by the simulator", "", "valid")


def _add_arenas(table: Table, result: Result) -> None:
    if result.arenas is None:
        return
    platform = result.problem.platform
    for place, arena in zip(platform.memories, result.arenas.arenas, strict=True):
        table.add_row(f"arena, {place.name}", "", memory_text(arena.size, platform.graph.size_unit))
        least = ", proven least" if arena.is_least else ""
        table.add_row(f"fragmentation, {place.name}", "", f"{arena.fragmentation_percent:.3f} %{least}")


def _print_again(to: Console, result: Result) -> None:
    """What happens beside the first computations, node by node."""
    graph, memories = result.problem.platform.graph, result.problem.platform.memories
    events: dict[int, list[str]] = {}
    computed = set()
    for t, action in enumerate(result.plan, 1):
        v, name = action.node, memories[action.memory].name
        if action.source is not None:
            events.setdefault(v, []).append(f"{memories[action.source].name} -> {name} at {t}")
        elif v in computed:
            events.setdefault(v, []).append(f"again in {name} at {t}")
        else:
            computed.add(v)
    if not events:
        to.print("nothing is computed again or copied")
        return
    to.print()
    again, actions = count_text(len(events), "node"), count_text(len(result.plan), "action")
    title = f"{again} computed again or copied, {actions} in all"
    table = plain_table(title, ("node", "size", "duration", "actions"), left=("node", "actions"))
    for v, told in list(events.items())[:_NODES_SHOWN]:
        size = memory_text(graph.sizes[v], graph.size_unit)
        duration = duration_text(graph.durations[v], graph.duration_unit)
        table.add_row(node_text(graph, v), size, duration, "\n".join(told))
    print_table(to, table)
    if len(events) > _NODES_SHOWN:
        to.print(f"... and {len(events) - _NODES_SHOWN} more; --output FILE or --json tells them all")
