"""A race of solvers against each of them alone, with the same threads and time limit; one row for each run.

    python scripts/bench_race.py GRAPH[@BUDGET] ... [--solvers cp-sat,highs,gecode] [--search on] [--time-limit 20]

A budget is a fraction of the peak or an amount; without one, 0.8. Each run is a process of its own, start-up included;
CPU seconds are those of all that it started. "worst" is the solver alone with the longest schedule, or none, or
without a proof. With `--search off` the solvers alone have neither local search nor bounds next to them; the race has
the same option. Exit status 1 if the race does worse than the worst solver, or takes more than threads x limit.
"""

from __future__ import annotations

import argparse
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from moccasin_mzn.api.process import Attempt, run_request
from moccasin_mzn.api.question import Question
from moccasin_mzn.graphs.formats import read_graph


@dataclass(frozen=True)
class Run:
    """One run of `solve`."""

    solver: str
    attempt: Attempt

    @property
    def proven(self) -> bool:
        """Is its answer proven?"""
        return self.attempt.result is not None and self.attempt.result["status"] in ("optimal", "infeasible")

    @property
    def duration(self) -> float:
        """The duration of its best schedule, also if it was killed; infinite without one."""
        durations = [point.value for point in self.attempt.trace if point.value is not None]
        return min(durations, default=math.inf)

    @property
    def rank(self) -> tuple[bool, float]:
        """Smaller is better: what is proven, then the shorter schedule."""
        return not self.proven, self.duration


def main() -> None:
    arguments = parse_arguments()
    solvers = arguments.solvers.split(",")
    table = Table("graph", "budget", "solver", "TDI %", "proven", "s", "CPU s", "CPU s / (threads x limit)")
    failures = []
    for graph in arguments.graphs:
        path, _, budget = graph.partition("@")
        budget = budget or "0.8"
        names = [arguments.solvers, *solvers]
        shown = track(names, f"{Path(path).stem} {budget}", console=Console(stderr=True))
        race, *alone = [Run(name, solve(path, budget, name, arguments)) for name in shown]
        for run in (race, *alone):
            table.add_row(*cells(path, budget, run, arguments))
        table.add_section()
        worst = max(alone, key=lambda run: run.rank)
        if race.rank > worst.rank:
            failures.append(f"{path} at {budget}: the race does worse than {worst.solver}")
        if race.attempt.ending.cpu_seconds > arguments.threads * arguments.time_limit:
            failures.append(f"{path} at {budget}: the race takes {race.attempt.ending.cpu_seconds:.1f} CPU s")
    Console(width=max(130, Console().width)).print(table)
    sys.exit("\n".join(failures) if failures else 0)


def parse_arguments() -> argparse.Namespace:
    """Graphs, solvers and limits from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH[@BUDGET]")
    parser.add_argument("--solvers", default="cp-sat,highs,gecode")
    parser.add_argument("--search", default="on")
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def solve(path: str, budget: str, solver: str, arguments: argparse.Namespace) -> Attempt:
    """One run, killed if it is twice as late as it should be."""
    options = {name: getattr(arguments, name) for name in ("search", "seed", "time_limit", "threads")}
    request = Question(budget, how={**options, "solver": solver, "if_none": "stop"}).request(read_graph(path))
    attempt = run_request(request, hard_limit=2 * arguments.time_limit + 10)
    if attempt.ending.exit_status == 2:
        sys.stderr.write(f"{solver}: {attempt.ending.stderr.splitlines()[-1]}\n")
    return attempt


def cells(path: str, budget: str, run: Run, arguments: argparse.Namespace) -> list[str]:
    """The cells of a row."""
    ending, result = run.attempt.ending, run.attempt.result
    tdi = result["tdi_percent"] if result else None
    return [
        Path(path).stem,
        budget,
        run.solver,
        "-" if tdi is None else f"{tdi:.3f}",
        ("yes" if run.proven else "no") if result else ending.how,
        f"{ending.seconds:.1f}",
        f"{ending.cpu_seconds:.1f}",
        f"{ending.cpu_seconds / (arguments.threads * arguments.time_limit):.2f}",
    ]


if __name__ == "__main__":
    main()
