"""Schedules with offsets, and how much larger their arenas are than their peaks: a table.

    python scripts/bench_addresses.py --budget 0.8 --time-limit 60 GRAPH ...

Each graph is solved with `solve --addresses` as a process of its own. Where no schedule is within the budget, the input
order gets an arena as well (--budget 1.0), and the table says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

PATIENCE = 120
"""Seconds after its time limit at which a run is given up."""


def main() -> None:
    """Read the command line, solve, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path, metavar="GRAPH")
    parser.add_argument("--budget", default="0.8")
    parser.add_argument("--alignment", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    console, rows = Console(stderr=True), []
    for path in arguments.graphs:
        console.print(f"{path.stem} ...")
        answer = solved(path, arguments.budget, arguments)
        rows.append((path.stem, arguments.budget, answer))
        if answer.get("status") == "infeasible":
            rows.append((path.stem, "1.0", solved(path, "1.0", arguments)))
    Console(width=max(130, Console().width)).print(table_of(rows))


def solved(path: Path, budget: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What `solve --addresses --json` prints; a status that says why where it prints nothing."""
    command = [sys.executable, "-m", "moccasin_mzn", "solve", str(path), "--addresses", "--json"]
    command += ["--budget", budget, "--alignment", str(arguments.alignment), "--threads", str(arguments.threads)]
    command += ["--time-limit", str(arguments.time_limit)]
    begin = time.monotonic()
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=arguments.time_limit + PATIENCE)
    except subprocess.TimeoutExpired:
        return {"status": "no answer in time", "took": time.monotonic() - begin}
    took = time.monotonic() - begin
    if not run.stdout:
        return {"status": run.stderr.strip().splitlines()[-1] if run.stderr else f"exit {run.returncode}", "took": took}
    return {**json.loads(run.stdout), "took": took}


def table_of(rows: list[tuple[str, str, dict[str, Any]]]) -> Table:
    """A row for each run."""
    table = Table(title="arenas")
    table.add_column("graph", no_wrap=True)
    headings = ("budget", "memory", "peak", "arena", "over peak", "at least", "TDI", "gap", "status", "seconds")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, budget, answer in rows:
        table.add_row(name, budget, *cells(answer))
    return table


def cells(answer: dict[str, Any]) -> list[str]:
    """What a row says of one answer."""
    took, status = f"{answer['took']:.1f}", answer["status"]
    if answer.get("arena") is None:
        return [f"{answer.get('budget', 0):,}", "", "", "", "", "", "", status, took]
    least = 100 * (answer["arena_bound"] / answer["peak"] - 1) if answer["peak"] else 0.0
    gap = answer["gap_percent"]
    return [
        f"{answer['budget']:,}", f"{answer['peak']:,}", f"{answer['arena']:,}",
        f"{answer['fragmentation_percent']:.3f} %", f"{least:.3f} %", f"{answer['tdi_percent']:.3f} %",
        "" if gap is None else f"{gap:.3f} %", status, took,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
