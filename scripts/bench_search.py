"""Schedules, bounds and seconds on the published graphs, next to the paper's own: one table, medians over seeds.

    python scripts/bench_search.py FOLDER [--seeds 3] [--time-limit 60] [--threads 2] [--only G2]

FOLDER holds the graphs and `published.csv`, as data/paper does. Each solve is a process of its own, start-up
included. "s to paper's" are seconds until the schedule is as good as the paper's, to the one decimal that the paper
prints; "ratio" is the paper's seconds to these (its machine had 16 cores; a dash where the paper has none).
"""

from __future__ import annotations

import argparse
import csv
import statistics
from pathlib import Path

from bench_solve import median_text, solve
from rich.console import Console
from rich.progress import track
from rich.table import Table

FILES = {
    "RL G1": "random_layered_n100.json",
    "RL G2": "random_layered_n250.json",
    "RL G3": "random_layered_n500.json",
    "RL G4": "random_layered_n1000.json",
    "CM 1": "checkmate_fcn8_train.json",
    "CM 2": "checkmate_resnet50_train.json",
}
COUNTS = {"0.9": ("2",), "0.8": ("2", "auto")}
"""By budget, which C are run."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=60)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    arguments = parser.parse_args()
    headings = ("graph", "budget", "C", "TDI %", "worst", "bound %", "gap %", "proven", "s")
    table = Table(*headings, "paper's TDI %", "s to paper's", "paper's s", "ratio")
    rows = [row for row in published(arguments.folder) if arguments.only in row["graph"]]
    for row in track(rows, console=Console(stderr=True)):
        for count in COUNTS[row["fraction"]]:
            options = ["--max-computations", count]
            path = str(arguments.folder / FILES[row["graph"]])
            runs = [solve(path, row["fraction"], seed, arguments, options) for seed in range(arguments.seeds)]
            table.add_row(row["graph"], row["fraction"], count, *result_text(runs), *paper_text(row, runs))
    Console(width=max(140, Console().width)).print(table)


def published(folder: Path) -> list[dict[str, str]]:
    """The rows of the paper's table whose graphs are at hand, with the budget as a `fraction` of the peak."""
    with (folder / "published.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["graph"] in FILES]
    seen: set[str] = set()
    for row in rows:  # each graph has two, first 0.9, then 0.8
        row["fraction"] = "0.8" if row["graph"] in seen else "0.9"
        seen.add(row["graph"])
    return rows


def result_text(runs: list[dict]) -> list[str]:
    """The cells from `TDI %` to `s`."""
    found = [run["tdi_percent"] for run in runs]
    bounds = [100 * (run["duration_bound"] / run["baseline_duration"] - 1) for run in runs]
    return [
        median_text(found),
        "-" if None in found else f"{max(found):.3f}",
        median_text(bounds),
        median_text([run["gap_percent"] for run in runs]),
        f"{sum(run['status'] == 'optimal' for run in runs)}/{len(runs)}",
        f"{statistics.median(run['wall'] for run in runs):.1f}",
    ]


def paper_text(row: dict[str, str], runs: list[dict]) -> list[str]:
    """The cells from `paper's TDI %` to `ratio`."""
    goal, seconds = row["moccasin_tdi"], float(row["moccasin_seconds"])
    reached = [seconds_to(run, float(goal)) for run in runs]
    if None in reached:
        return [goal, "-", f"{seconds:.1f}", "-"]
    median = statistics.median(reached)
    return [goal, f"{median:.1f}", f"{seconds:.1f}", f"{seconds / median:.1f}"]


def seconds_to(run: dict, tdi_percent: float) -> float | None:
    """Seconds of the whole process until the schedule was as good as `tdi_percent`, which is rounded to one decimal."""
    start_up = run["wall"] - run["seconds"]["total"]
    for seconds, duration, *_ in run["trace"]:
        if duration and round(100 * (duration / run["baseline_duration"] - 1), 1) <= tdi_percent:
            return start_up + seconds
    return None


if __name__ == "__main__":
    main()
