"""What a person sees: progress lines while the search runs, and tables at its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.catalogue import Entry
from moccasin_mzn.complexity import ModelSize
from moccasin_mzn.graph import ComputationGraph
from moccasin_mzn.instance import Instance
from moccasin_mzn.result import Progress, Result, percent_over
from moccasin_mzn.shortfall import NOT_TRIED
from moccasin_mzn.simulate import simulate

if TYPE_CHECKING:
    from moccasin_mzn.addresses.buffers import Arena
    from moccasin_mzn.generators.catalogue import Architecture
    from moccasin_mzn.minizinc.solvers import KnownSolver

_BYTE_STEPS = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_NODES_SHOWN = 20
_PROFILE_WIDTH = 64
_BLOCKS = " ▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = " .:-=+*#@"


def memory_text(amount: int, unit: str) -> str:
    """An amount of memory: in binary multiples if it is in bytes, else with thousands separators."""
    if unit != "byte":
        return f"{amount:,}" + ("" if unit == "unit" else f" {unit}")
    for step, name in _BYTE_STEPS:
        if amount >= step:
            return f"{amount / step:,.2f} {name}"
    return f"{amount} B"


def duration_text(duration: int, unit: str) -> str:
    """A duration with thousands separators and its unit."""
    return f"{duration:,}" + ("" if unit == "unit" else f" {unit}")


class ProgressLines:
    """Prints a line for each new incumbent or bound that changes what a person reads, at most a few per second."""

    def __init__(self, instance: Instance, out: TextIO, named: bool = False) -> None:
        """`named`: each line says who made it, as in a race."""
        self._console = _console(out)
        self._named = named
        self._nodes = len(instance.graph.nodes)
        self._budget = instance.budget
        self._baseline = instance.baseline.duration
        self._last: tuple = ()
        self._last_time = -1.0
        self._held_back: str | None = None

    def __call__(self, progress: Progress) -> None:
        """Print the line, or hold it back if one was printed just before."""
        state = (progress.phase, progress.peak if progress.phase == "peak" else progress.duration, progress.bound)
        if state == self._last:
            return
        turning_point = self._last[:1] != state[:1] or (progress.phase == "peak" and progress.peak <= self._budget)
        self._last = state
        self._held_back = self._line(progress) + (f"  {progress.source}" if self._named else "")
        if turning_point or progress.seconds - self._last_time >= 0.25:
            self._last_time = progress.seconds
            self.flush()

    def flush(self) -> None:
        """Print the line held back, if any."""
        if self._held_back is not None:
            self._console.print(self._held_back, soft_wrap=True)
            self._held_back = None

    def _line(self, progress: Progress) -> str:
        start = f"{progress.seconds:8.1f} s  {self._nodes} + {progress.recomputations} nodes  "
        if progress.phase == "peak" or progress.duration is None:
            over = progress.peak - self._budget
            reached = f"{over:,} over the budget" if over > 0 else "within the budget"
            reached += ", with more computations per node" if progress.phase == "more" else ""
            return f"{start}peak {progress.peak:,}, {reached}"
        gap = 100 * (progress.duration - progress.bound) / progress.duration if progress.duration else 0.0
        return (
            f"{start}incumbent +{percent_over(progress.duration, self._baseline):.3f} %"
            f"  bound +{percent_over(progress.bound, self._baseline):.3f} %  gap {gap:.3f} %"
        )


def _plain_table(title: str | None = None) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _console(out: TextIO) -> Console:
    """Names from files are shown as they are: nothing in them is markup."""
    return Console(file=out, markup=False, highlight=False, emoji=False)


def print_result(result: Result, out: TextIO) -> None:
    """The answer as a table, and which nodes are recomputed where."""
    console = _console(out)
    graph, baseline = result.instance.graph, result.instance.baseline
    table = _plain_table(f"{graph.name or 'graph'}: {len(graph.nodes)} nodes, {len(graph.edges)} edges")
    for heading in ("", "input order", "schedule"):
        table.add_column(heading, justify="left" if not heading else "right")
    if result.instance.fixed:
        table.add_row("fixed memory", *[memory_text(result.instance.fixed, graph.size_unit)] * 2)
    table.add_row("budget" + (" left" if result.instance.fixed else ""), "",
                  memory_text(result.instance.budget, graph.size_unit))  # fmt: skip
    peaks = [memory_text(baseline.peak, graph.size_unit)]
    durations = [duration_text(baseline.duration, graph.duration_unit)]
    if result.found:
        peaks.append(memory_text(result.peak, graph.size_unit))
        durations.append(duration_text(result.duration, graph.duration_unit))
    table.add_row("peak memory", *peaks)
    table.add_row("duration", *durations)
    if result.found:
        table.add_row("duration increase (TDI)", "", f"{result.tdi_percent:.3f} %")
    if result.shortfall is not None and not result.valid:
        for what, amount in _shortfall_rows(result):
            table.add_row(what, "", amount.removesuffix(" of the budget"))
    if result.valid:
        table.add_row("bound on the increase", "", f"{percent_over(result.duration_bound, baseline.duration):.3f} %")
        table.add_row("gap", "", f"{result.gap_percent:.3f} %")
    if result.shortfall is not None and result.valid:
        table.add_row("computations per node, at most", "", str(max(result.instance.max_computations)))
    if result.arena is not None:
        table.add_row("arena", "", memory_text(result.arena.size, graph.size_unit))
        table.add_row("fragmentation, arena over peak", "", fragmentation_text(result.arena))
    if result.found:
        table.add_row("judged by the simulator", "", "valid" if result.valid else "OVER THE BUDGET")
    console.print(table)
    if result.found:
        _print_profiles(console, result)
    console.print(f"{result.status}: {result.reason}", soft_wrap=True)
    _print_helps(console, result)
    for note in result.notes:
        console.print(f"note: {note}", soft_wrap=True)
    for verdict in result.checks:
        console.print(f"checked by {verdict}", soft_wrap=True)
    if result.driver is not None:
        console.print(f"solver: {result.solver} ({result.solver_version}) by {result.driver}", soft_wrap=True)
    console.print(_seconds_line(result), soft_wrap=True)
    if result.found:
        _print_recomputed(console, result)


def print_shortfall(result: Result, out: TextIO) -> None:
    """In lines: how near the search came to the budget, if anything can, and what would help, or has helped."""
    console, lacking = _console(out), result.shortfall
    if lacking.floor > lacking.instance.budget:  # the reason says it all
        return
    if not result.valid:
        console.print("; ".join(f"{what} {amount}" for what, amount in _shortfall_rows(result)), soft_wrap=True)
    _print_helps(console, result)


def _print_helps(console: Console, result: Result) -> None:
    for one in result.shortfall.helps if result.shortfall else ():
        tried = "not tried" if one.outcome == NOT_TRIED else "tried"
        console.print(f"{tried}: {one.option}: {one.detail}", soft_wrap=True)


def _shortfall_rows(result: Result) -> Iterator[tuple[str, str]]:
    lacking = result.shortfall
    yield "least peak seen", _of_budget(result, lacking.least_peak)
    just_over = lacking.scope_floor == lacking.instance.budget + 1
    yield "proven to be needed", "more than the budget" if just_over else _of_budget(result, lacking.scope_floor)
    if lacking.floor < lacking.scope_floor:
        yield "in any order, however often computed", _of_budget(result, lacking.floor)


def _of_budget(result: Result, amount: int) -> str:
    """An amount of memory, and how much of the budget it is."""
    fraction = result.shortfall.of_budget(amount)
    text = memory_text(amount, result.instance.graph.size_unit)
    return text if fraction is None else f"{text}, {100 * fraction:.1f} % of the budget"


def fragmentation_text(arena: Arena) -> str:
    """By how much an arena exceeds the peak, and whether that is proven to be the least."""
    percent = f"{arena.fragmentation_percent:.3f} %"
    if not arena.is_least:
        return f"{percent}, at least {100 * (arena.bound / arena.peak - 1) if arena.peak else 0:.3f} %"
    return f"{percent}, proven least"


def _print_profiles(console: Console, result: Result) -> None:
    """Memory over the sequence, before and after; what is over the budget in red."""
    baseline, top, budget = result.instance.baseline, result.instance.baseline.peak, result.instance.budget
    for name, memory in (("input order", baseline.memory), ("schedule", result.simulation.memory)):
        line = Text(f"{name:>12}  ")
        for cell in shares(memory, _PROFILE_WIDTH):
            character = block(cell, top, _ASCII_BLOCKS if console.options.ascii_only else _BLOCKS)
            line.append(character, style="red" if cell > budget else "green")
        console.print(line)
    console.print()


def shares(values: Sequence[int], width: int) -> list[int]:
    """The maximum of each of up to `width` equal shares of `values`."""
    width = min(width, len(values))
    return [max(values[k * len(values) // width : (k + 1) * len(values) // width]) for k in range(width)]


def block(value: int, top: int, blocks: str = _BLOCKS) -> str:
    """The character of `blocks`, from empty to full, that is as high as `value`; the full one stands for `top`."""
    full = len(blocks) - 1
    return blocks[min(full, -(-full * value // top))] if top else blocks[0]


def _seconds_line(result: Result) -> str:
    return "seconds: " + ", ".join(f"{name} {value:.2f}" for name, value in vars(result.seconds).items())


def _print_recomputed(console: Console, result: Result) -> None:
    graph, recomputed = result.instance.graph, result.recomputed
    if not recomputed:
        console.print("no node is recomputed")
        return
    console.print()
    table = _plain_table(f"{len(recomputed)} nodes recomputed, {len(result.sequence)} computations in all")
    for heading in ("node", "size", "duration", "first at", "again at", "before"):
        table.add_column(heading, justify="left" if heading in ("node", "before") else "right")
    for v, positions in list(recomputed.items())[:_NODES_SHOWN]:
        table.add_row(
            node_text(graph, v),
            memory_text(graph.sizes[v], graph.size_unit),
            f"{graph.durations[v]:,}",
            str(result.sequence.index(v) + 1),
            ", ".join(map(str, positions)),
            ", ".join(node_text(graph, result.sequence[p]) for p in positions if p < len(result.sequence)),
        )
    console.print(table)
    if len(recomputed) > _NODES_SHOWN:
        console.print(f"... and {len(recomputed) - _NODES_SHOWN} more; --output FILE or --json tells them all")


def node_text(graph: ComputationGraph, v: int) -> str:
    """The id of a node, with its human name if it has one."""
    return f"{graph.nodes[v]} ({graph.labels[v]})" if graph.labels else str(graph.nodes[v])


def print_info(instance: Instance, order_name: str, order_bound: int, out: TextIO) -> None:
    """Size of a graph, cost of its input order, and the least budgets that can be feasible with and without
    recomputations; `order_bound` is the latter."""
    console = _console(out)
    graph, baseline, need = instance.graph, instance.baseline, least_budget_bound(instance.graph)
    table = _plain_table(graph.name or "graph")
    table.add_column("")
    table.add_column("", justify="right")
    table.add_row("nodes", f"{len(graph.nodes):,}")
    table.add_row("edges", f"{len(graph.edges):,}")
    table.add_row(f"peak memory, {order_name} order", memory_text(baseline.peak, graph.size_unit))
    for what, amount in graph.fixed_memory.items():
        table.add_row(f"fixed memory, {what}", memory_text(amount, graph.size_unit))
    table.add_row("duration, every node once", duration_text(baseline.duration, graph.duration_unit))
    table.add_row("no budget is feasible below", memory_text(need.memory, graph.size_unit))
    table.add_row("as a fraction of the peak", f"{need.memory / baseline.peak:.3f}" if baseline.peak else "-")
    table.add_row("needed by node", node_text(graph, need.node))
    table.add_row("no order without recomputation needs less than", memory_text(order_bound, graph.size_unit))
    console.print(table)
    made_by = graph.attributes.get("made_by")
    if isinstance(made_by, dict) and isinstance(made_by.get("command"), str):
        console.print(f"made by: {made_by['command']}", soft_wrap=True)


def print_catalogue(entries: Sequence[Entry], solvers: Sequence[KnownSolver], out: TextIO) -> None:
    """What there is to choose from."""
    from moccasin_mzn.minizinc.solvers import lack_text

    console = _console(out)
    for kind in dict.fromkeys(entry.kind for entry in entries):
        table = _plain_table(f"--{kind}")
        for heading in ("name", "what", "source", "guarantee"):
            table.add_column(heading, overflow="fold")
        for entry in entries:
            if entry.kind == kind:
                table.add_row(entry.name, entry.title, entry.source, entry.guarantee)
        console.print(table)
    if not solvers:
        return
    table = _plain_table("--solver, for formulations")
    for heading in ("name", "what", "by"):
        table.add_column(heading, overflow="fold")
    for solver in solvers:
        missing = f"; {lack_text(solver.needs)}" if solver.needs else ""
        table.add_row(solver.name, solver.version, solver.driver + missing)
    console.print(table)


def print_sizes(instance: Instance, sizes: Sequence[ModelSize], out: TextIO) -> None:
    """Counts of variables and constraints of each formulation, with the order of growth below each."""
    console = _console(out)
    graph, most = instance.graph, sorted(set(instance.max_computations))
    limit = str(most[0]) if len(most) == 1 else f"{most[0]} to {most[-1]}"
    table = _plain_table(f"{graph.name or 'graph'}: n = {len(graph.nodes)}, m = {len(graph.edges)}, C = {limit}")
    for heading in ("formulation", "booleans", "integers", "largest domain", "mean", "constraints", "FlatZinc"):
        table.add_column(heading, justify="left" if heading == "formulation" else "right")
    for size in sizes:
        table.add_row(
            size.formulation, f"{size.booleans:,}", f"{size.integers:,}", f"{size.largest_domain:,}" if size.mean_domain
            else "-", f"{size.mean_domain:,.0f}" if size.mean_domain else "-", f"{size.constraints:,}",
            f"{size.megabytes:.1f} MB",
        )  # fmt: skip
        growth = size.growth
        orders = (growth.booleans, growth.integers, growth.domain, "", growth.constraints)
        table.add_row("", *(f"O({order})" if order[:1].isalpha() else order for order in orders), "", style="dim")
    console.print(table)


def graph_line(graph: ComputationGraph) -> str:
    """The counts of a graph in one line."""
    peak, floor = simulate(graph, graph.input_order()).peak, graph.largest_working_set().memory
    return (
        f"{len(graph.nodes):,} nodes, {len(graph.edges):,} edges, outputs "
        f"{memory_text(graph.total_size, graph.size_unit)}, peak {memory_text(peak, graph.size_unit)}, "
        f"largest working set {100 * floor / peak if peak else 0:.1f} % of it"
    )


def print_networks(networks: Iterable[Architecture], out: TextIO) -> None:
    """The networks that can be generated, with their defaults."""
    table = _plain_table()
    for heading in ("name", "network", "source", "input", "parameters"):
        table.add_column(heading, overflow="fold")
    for network in networks:
        shape = "" if network.input is None else " ".join(map(str, network.input))
        parameters = ", ".join(f"{parameter.name}={parameter.default}" for parameter in network.parameters)
        table.add_row(network.name, network.title, network.source, shape, parameters)
    _console(out).print(table)
