"""Bounds in free order: a Markdown table of what is found and proven within fractions of the input order's peak.

    python scripts/bench_free_bounds.py data/paper/checkmate_fcn8_train.json:0.9,0.8 GRAPH:0.7 --time-limit 60

Best and bound are TDI in percent of the input order's duration; the gap is that of `solve`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench_free_order import answer
from row_tables import print_markdown


def main() -> None:
    """Read the command line, solve, print row by row."""
    arguments = command_line()
    asked = [question.rpartition(":")[::2] for question in arguments.questions]
    print_markdown(
        ("graph", "budget", "bound, TDI %", "best, TDI %", "gap %", "seconds", "proven"),
        ([Path(name).stem, budget, *reported(answer(Path(name), budget, "free", arguments))]
         for name, budgets in asked for budget in budgets.split(",")),
        ("graph", "proven"),
    )  # fmt: skip


def command_line() -> argparse.Namespace:
    """The arguments, checked by argparse."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("questions", nargs="+", metavar="GRAPH:F,F,...", help="a graph and fractions of its peak")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-computations", default="auto", metavar="C")
    return parser.parse_args()


def reported(result: dict[str, Any]) -> list[str]:
    """Bound, best, gap, seconds, and who proved what."""
    bound = 100 * (result["bound"] / result["baseline_duration"] - 1) if result["baseline_duration"] else 0.0
    found = result["tdi_percent"] is not None
    best, gap = (f"{result['tdi_percent']:.3f}", f"{result['gap_percent']:.3f}") if found else ("none", "")
    proven = f"{result['status']}, {result['proved_by']}" if result["proved_by"] else result["status"]
    return [f"{bound:.3f}", best, gap, f"{result['seconds']['total']:.1f}", proven]


if __name__ == "__main__":
    main()
