"""Solve ever larger random layered graphs: a table, and one plot of time and memory against nodes.

    python scripts/bench_scale.py --nodes 100,300,1000,3000 --budget 0.9 --time-limit 60 --output scale.png

Graphs are made as in the paper (w = 0.31) up to 1,000 nodes. In larger ones layers grow no wider than 21 nodes, as they
are at 1,000, so that edges grow like nodes, 6 for each; at w = 0.31, with `--dense`, a graph of 100,000 nodes has 5
million.

Each solve is a process of its own, start-up included. Memory is the largest sum over that process and its children,
looked at 20 times a second. A run over `--memory-limit`, or not done `--patience` after its time limit, is ended.
Needs matplotlib and psutil.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

import psutil
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from moccasin_mzn.graphs.formats import write_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered, width_of_layers

PAPER_WIDTH = 0.31
MIB = 2**20
LOOKS_PER_SECOND = 20
MERCY = 15
"""Seconds between asking a run to end and ending it."""


@dataclass(frozen=True)
class Run:
    """What one solve did."""

    nodes: int
    edges: int
    total: float
    """Seconds of the whole process."""
    memory: float
    """Largest memory of the process and its children together, in MiB."""
    ending: str
    """Status of the result, or why there is none."""
    answer: dict[str, Any] = field(default_factory=dict)
    """What `solve --json` printed."""

    @property
    def first(self) -> float | None:
        """Seconds to the first schedule within the budget, by the clock of `solve`, which starts after the imports."""
        return next((seconds for seconds, duration, *_ in self.answer.get("trace", []) if duration is not None), None)

    @property
    def bound_percent(self) -> float | None:
        """By how much more than the input order takes any schedule takes, at least."""
        bound, baseline = (self.answer.get(key) for key in ("duration_bound", "baseline_duration"))
        return 100 * (bound / baseline - 1) if bound and baseline else None


def main() -> None:
    """Read the command line, make, solve, print, draw."""
    arguments = command_line()
    console = Console(stderr=True)
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for n in arguments.nodes:
            console.print(f"{n:,} nodes ...")
            runs.append(measure(n, Path(folder) / "graph.json", arguments))
    Console(width=max(110, Console().width)).print(table_of(runs))
    draw(runs, arguments)
    print(arguments.output)


def command_line() -> argparse.Namespace:
    """The arguments, checked by argparse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=counts, default=counts("100,300,1000,3000"), metavar="N,N,...")
    parser.add_argument("--budget", default="0.9")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--max-computations", default="2", metavar="C", help="as for `solve`")
    parser.add_argument("--seed", type=int, default=1, help="of graphs and of the solver")
    parser.add_argument("--layer-width", type=float, default=21.2, metavar="NODES", help="most mean nodes in a layer")
    parser.add_argument("--dense", action="store_true", help="layers as wide as the generator makes them by itself")
    parser.add_argument("--memory-limit", type=float, default=12_000, metavar="MIB")
    parser.add_argument("--patience", type=float, default=120, metavar="S")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the plot: .png, .svg or .pdf")
    return parser.parse_args()


def counts(text: str) -> list[int]:
    """Numbers of nodes, separated by commas."""
    return [int(part) for part in text.split(",")]


def measure(n: int, path: Path, arguments: argparse.Namespace) -> Run:
    """Make a graph of `n` nodes at `path` and solve it in a process of its own."""
    width = PAPER_WIDTH if arguments.dense else min(PAPER_WIDTH, width_of_layers(n, arguments.layer_width))
    graph = random_layered(n, arguments.seed, width=width)
    write_graph(graph, path)
    edges = len(graph.edges)
    del graph
    options = {
        "budget": arguments.budget, "time-limit": arguments.time_limit, "threads": arguments.threads,
        "max-computations": arguments.max_computations,
    }  # fmt: skip
    words = [word for key, value in options.items() for word in (f"--{key}", str(value))]
    command = [
        sys.executable,
        "-m",
        "moccasin_mzn",
        "solve",
        str(path),
        *words,
        "--seed",
        str(arguments.seed),
        "--json",
    ]
    begin = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = psutil.Popen(command, stdout=out, stderr=err)
        deadline = begin + arguments.time_limit + arguments.patience
        memory, ended = watch(process, deadline, arguments.memory_limit * MIB)
        total = time.monotonic() - begin
        out.seek(0)
        err.seek(0)
        answer, complaint = parsed(out.read()), err.read().strip().splitlines()
    ending = ended or answer.get("status") or (complaint or [f"exit status {process.returncode}"])[-1]
    return Run(n, edges, total, memory / MIB, ending, answer)


def parsed(text: str) -> dict[str, Any]:
    """The JSON object in `text`, or an empty one."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {}


def watch(process: psutil.Popen, deadline: float, memory_limit: float) -> tuple[int, str]:
    """Wait for a process; its largest memory with its children, in bytes, and why it was ended, or ""."""
    most, reason = 0, ""
    while process.poll() is None and not reason:
        most = max(most, memory_of(process))
        if most > memory_limit:
            reason = "too much memory"
        elif time.monotonic() > deadline:
            reason = "too slow"
        time.sleep(1 / LOOKS_PER_SECOND)
    if reason:
        end(process)
    return most, reason


def memory_of(process: psutil.Process) -> int:
    """Resident memory of a process and all its descendants, in bytes."""
    total = 0
    try:
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        pass  # ended between two looks
    return total


def end(process: psutil.Popen) -> None:
    """Ask a process to end, then end it with all its descendants."""
    descendants = process.children(recursive=True)
    process.terminate()
    try:
        process.wait(MERCY)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait()
    for one in descendants:
        try:
            one.kill()
        except psutil.NoSuchProcess:
            pass  # it went with its parent


def table_of(runs: list[Run]) -> Table:
    """One row for each run."""
    table = Table("nodes", "edges", "first valid s", "total s", "peak MiB", "TDI %", "bound %", "gap %", "ending")
    for run in runs:
        table.add_row(
            f"{run.nodes:,}",
            f"{run.edges:,}",
            number(run.first, 1),
            number(run.total, 1),
            number(run.memory, 0),
            number(run.answer.get("tdi_percent"), 3),
            number(run.bound_percent, 3),
            number(run.answer.get("gap_percent"), 3),
            run.ending,
        )
    return table


def number(value: float | None, decimals: int) -> str:
    """The number, or a dash."""
    return "-" if value is None else f"{value:,.{decimals}f}"


def draw(runs: list[Run], arguments: argparse.Namespace) -> None:
    """Seconds on the left axis, memory on the right one, all logarithmic; equal slopes are equal growth."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    seconds = figure.add_subplot()
    memory = seconds.twinx()
    nodes, totals, peaks = ([getattr(run, name) for run in runs] for name in ("nodes", "total", "memory"))
    first = [float("nan") if run.first is None else run.first for run in runs]
    lines = [
        *seconds.plot(nodes, first, "o-", color="tab:blue", label="first schedule within the budget"),
        *seconds.plot(nodes, totals, "s--", color="tab:cyan", label="whole run"),
        *memory.plot(nodes, peaks, "^:", color="tab:orange", label="peak memory"),
    ]
    lows = [10 ** floor(log10(min(values))) for values in ([*totals, *(run.first for run in runs if run.first)], peaks)]
    span = max(10 ** ceil(log10(max(values) / low)) for values, low in zip((totals, peaks), lows, strict=True))
    for axis, low, unit in zip((seconds, memory), lows, ("seconds", "MiB"), strict=True):
        axis.set(xscale="log", yscale="log", ylim=(low, 3 * low * span), ylabel=unit)  # room for the legend
        axis.yaxis.set_major_formatter("{x:,g}")
        axis.xaxis.set_major_formatter("{x:,.0f}")
    seconds.axhline(arguments.time_limit, color="0.8", linewidth=1)
    seconds.set_xlabel("nodes")
    limits = f"budget {arguments.budget}, {arguments.threads} threads, time limit {arguments.time_limit:g} s"
    seconds.set_title(f"Random layered graphs, {limits}")
    seconds.legend(handles=lines, loc="upper left")
    seconds.grid(alpha=0.3)
    figure.savefig(arguments.output, dpi=150)


if __name__ == "__main__":
    main()
