"""Solve graphs to the optimum, over several seeds, and print one table: medians with minimum and maximum.

    python scripts/bench_solve.py GRAPH[@BUDGET] ... [--seeds 3] [--time-limit 120] [--threads 2]

A budget is a fraction of the peak or an amount; without one, 0.9 and 0.8. Each solve is a process of its own, start-up
included. Machines are noisy: compare rows of one run only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table


def main() -> None:
    arguments = parse_arguments(__doc__)
    rows = [(path, budget) for graph in arguments.graphs for path, budget in rows_of(graph)]
    table = Table("graph", "budget", "nodes", "TDI %", "gap %", "optimal", "s median", "s min", "s max")
    for path, budget in track(rows, console=Console(stderr=True)):
        runs = [solve(path, budget, seed, arguments) for seed in range(arguments.seeds)]
        table.add_row(*row_text(path, budget, runs))
    Console(width=max(100, Console().width)).print(table)


def parse_arguments(description: str) -> argparse.Namespace:
    """Graphs, seeds and limits from the command line."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH[@BUDGET]")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=120)
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


def rows_of(graph: str) -> list[tuple[str, str]]:
    """(path, budget) for each budget of an argument."""
    path, _, budget = graph.partition("@")
    return [(path, budget)] if budget else [(path, "0.9"), (path, "0.8")]


def solve(path: str, budget: str, seed: int, arguments: argparse.Namespace, options: Sequence[str] = ()) -> dict:
    """One run of the command line; its JSON, with the wall-clock seconds of the whole process as `wall`.

    `options` are further ones of `solve`.
    """
    limits = ["--time-limit", str(arguments.time_limit), "--threads", str(arguments.threads), "--seed", str(seed)]
    limits += ["--if-none", "stop"]
    command = [sys.executable, "-m", "moccasin_mzn", "solve", path, "--budget", budget, "--json", *limits, *options]
    begin = time.monotonic()
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode == 2:
        sys.exit(run.stderr.strip())
    return {**json.loads(run.stdout), "wall": time.monotonic() - begin}


def row_text(path: str, budget: str, runs: list[dict]) -> list[str]:
    """The cells of a row."""
    walls = [run["wall"] for run in runs]
    return [
        Path(path).stem,
        budget,
        str(runs[0]["nodes"]),
        median_text([run["tdi_percent"] for run in runs]),
        median_text([run["gap_percent"] for run in runs]),
        f"{sum(run['status'] == 'optimal' for run in runs)}/{len(runs)}",
        *(f"{value:.1f}" for value in (statistics.median(walls), min(walls), max(walls))),
    ]


def median_text(values: list[float | None], decimals: int = 3) -> str:
    """The median; a dash if a run has none."""
    return "-" if None in values else f"{statistics.median(values):.{decimals}f}"


if __name__ == "__main__":
    main()
