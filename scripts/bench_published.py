"""The published formulation of MOCCASIN next to this package's defaults, in one run: one table, medians over seeds.

    python scripts/bench_published.py GRAPH[@BUDGET] ... [--seeds 3] [--time-limit 120] [--threads 2]

A budget is a fraction of the peak or an amount; without one, 0.9 and 0.8. Each solve is a process of its own; the two
variants take turns. "published" is the authors' model (staged events with the triangular index, reservoirs, two phases)
on this package's solver and after its presolve, without the package's heuristics, bounds and redundant constraints.

"s" are wall-clock seconds, start-up included, up to the proof or the time limit: >= where some run ended without a
proof. "s first" are seconds from the start of the solve to the first schedule within the budget. "ratio of s" is
published to ours.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path

from bench_solve import median_text, parse_arguments, rows_of, solve
from rich.console import Console
from rich.progress import track
from rich.table import Table

VARIANTS = {
    "published": (
        *("--formulation", "staged", "--precedence", "reservoir", "--index", "triangular"),
        *("--two-phase", "--search", "off"),
    ),
    "ours": (),
}
"""Options of `solve`."""


def main() -> None:
    arguments = parse_arguments(__doc__)
    rows = [(path, budget) for graph in arguments.graphs for path, budget in rows_of(graph)]
    table = Table("graph", "budget", "variant", "proven", "s", "s first", "TDI %", "gap %", "ratio of s")
    for path, budget in track(rows, console=Console(stderr=True)):
        runs: dict[str, list[dict]] = {variant: [] for variant in VARIANTS}
        for seed in range(arguments.seeds):
            for variant, options in VARIANTS.items():
                runs[variant].append(solve(path, budget, seed, arguments, options))
        ratio = ratio_text(runs["published"], runs["ours"])
        table.add_row(Path(path).stem, budget, "published", *row_text(runs["published"]), ratio)
        table.add_row("", "", "ours", *row_text(runs["ours"]), "", end_section=True)
    Console(width=max(100, Console().width)).print(table)


def row_text(runs: Sequence[dict]) -> list[str]:
    """The cells of a variant, from `proven` to `gap %`."""
    return [
        f"{sum(map(is_proven, runs))}/{len(runs)}",
        ("" if all_proven(runs) else ">= ") + f"{median_wall(runs):.1f}",
        median_text([first_valid(run) for run in runs], decimals=1),
        median_text([run["tdi_percent"] for run in runs]),
        median_text([run["gap_percent"] for run in runs]),
    ]


def ratio_text(published: Sequence[dict], ours: Sequence[dict]) -> str:
    """How many times our seconds the published formulation takes.

    A run without a proof would have taken longer, so it only bounds the ratio from below (published) or above (ours);
    if both have such runs nothing is known.
    """
    ratio = f"{median_wall(published) / median_wall(ours):.1f}"
    bounds = {(True, True): "", (False, True): ">= ", (True, False): "<= "}
    bound = bounds.get((all_proven(published), all_proven(ours)))
    return "-" if bound is None else bound + ratio


def median_wall(runs: Sequence[dict]) -> float:
    return statistics.median(run["wall"] for run in runs)


def all_proven(runs: Sequence[dict]) -> bool:
    return all(map(is_proven, runs))


def is_proven(run: dict) -> bool:
    return run["status"] in ("optimal", "infeasible")


def first_valid(run: dict) -> float | None:
    """Seconds to the first schedule within the budget; None if there is none."""
    return next((seconds for seconds, duration, *_ in run["trace"] if duration is not None), None)


if __name__ == "__main__":
    main()
