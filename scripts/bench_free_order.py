"""Input order against free order: a Markdown table of what each finds within a fraction of the input order's peak.

    python scripts/bench_free_order.py GRAPH [GRAPH ...] --budget 0.6 --time-limit 60

Both get the same budget, threads and time, one after the other, each in a process of its own. "none" means that no
schedule was found in time, "no schedule" that there is none, by proof.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from row_tables import print_markdown


def main() -> None:
    """Read the command line, solve, print row by row."""
    arguments = command_line()
    headings = ("graph", "nodes", "budget", "C", "input order, TDI %", "after s", "free order, TDI %", "after s")
    print_markdown(headings, rows(arguments))


def rows(arguments: argparse.Namespace) -> Iterator[list[str]]:
    for graph in arguments.graphs:
        for budget in arguments.budget.split(","):
            given, free = (answer(graph, budget, order, arguments) for order in ("input", "free"))
            about = [graph.stem, str(given["nodes"]), budget, arguments.max_computations]
            yield [*about, *reported(given), *reported(free)]


def command_line() -> argparse.Namespace:
    """The arguments, checked by argparse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path, metavar="GRAPH")
    parser.add_argument("--budget", default="0.6", metavar="F,F,...", help="fractions of the input order's peak")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-computations", default="2", metavar="C")
    return parser.parse_args()


def answer(graph: Path, budget: str, order: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What `solve --json` prints."""
    options = {
        "budget": budget, "order": order, "time-limit": arguments.time_limit, "threads": arguments.threads,
        "seed": arguments.seed, "max-computations": arguments.max_computations, "if-none": "stop",
    }  # fmt: skip
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, "-m", "moccasin_mzn", "solve", str(graph), *words, "--json"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(run.stderr.strip().splitlines()[-1])
    return json.loads(run.stdout)


def reported(result: dict[str, Any]) -> tuple[str, str]:
    """TDI, with a star where it is proven least, and seconds to it."""
    if result["tdi_percent"] is None:
        return ("no schedule" if result["status"] == "infeasible" else "none"), "-"
    star = "*" if result["status"] == "optimal" else ""
    times = [seconds for seconds, duration, *_ in result["trace"] if duration == result["duration"]]
    return f"{result['tdi_percent']:.3f}{star}", f"{times[0]:.1f}" if times else "0.0"


if __name__ == "__main__":
    main()
