"""Bounds alone, and what they take: a Markdown table of CPU seconds, next to the block relaxation as a model if asked.

    python scripts/bench_bounds.py GRAPH[@BUDGET] ... [--order input] [--best TDI] [--models cp-sat,highs]
                                   [--time-limit 60]

A budget is a fraction of the peak or an amount; without one, 0.9 and 0.8. With `--order input` it is the compiled bound
for first computations in the input order and C = 2, with `--order free` flow covers, for any order and any number of
computations; it ends where it meets `--best`, the increase of a known schedule in percent. `--models` are solvers of
MiniZinc for models/blocks.mzn, each as a process of its own, MiniZinc and its start included; cp-sat and highs are made
known to it by `install-solver`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench_solve import rows_of
from row_tables import print_markdown

from moccasin_mzn.bounds.flow_covers.bound import FreeOrderBound
from moccasin_mzn.bounds.input_order import Alongside, duration_bound
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.search.result import percent_over

MODEL = Path(__file__).resolve().parents[1] / "models" / "blocks.mzn"
HINTS = {"cp-sat": ("-f", "-p", "1", "--params", "linearization_level:2")}


def main() -> None:
    """Read the command line, prove, print row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH[@BUDGET]")
    parser.add_argument("--order", choices=("input", "free"), default="input")
    parser.add_argument("--best", type=float, metavar="TDI", help="percent, of a schedule that is known")
    parser.add_argument("--models", default="", metavar="SOLVER,SOLVER,...")
    parser.add_argument("--time-limit", type=float, default=60, metavar="S")
    arguments = parser.parse_args()
    solvers = arguments.models.split(",") if arguments.models else []
    columns = [f"{solver}{what}" for solver in solvers for what in (", TDI %", ", CPU s")]
    headings = ["graph", "budget", "bound, TDI %", "CPU s", *columns]
    print_markdown(headings, rows(arguments, solvers), headings)


def rows(arguments: argparse.Namespace, solvers: list[str]) -> Iterator[list[str]]:
    for path, budget in (row for graph in arguments.graphs for row in rows_of(graph)):
        cells = [Path(path).stem, budget, *alone(Instance.build(read_graph(path), budget), arguments)]
        for solver in solvers:
            cells += as_model(path, budget, solver, arguments.time_limit)
        yield cells


def alone(instance: Instance, arguments: argparse.Namespace) -> tuple[str, str]:
    """The bound that is compiled, and its CPU seconds."""
    baseline = instance.baseline.duration
    best = None if arguments.best is None else round(baseline * (1 + arguments.best / 100))
    begin = time.process_time()
    if arguments.order == "input":
        alongside = Alongside(incumbent=lambda: best)
        value = duration_bound(instance, time_limit=arguments.time_limit, alongside=alongside).value
    else:
        bound = FreeOrderBound.of(instance.graph)
        assert bound is not None, "the graph is too large for flow covers"
        value = bound.improve(instance.budget, time_limit=arguments.time_limit, incumbent=lambda: best)
    return f"{percent_over(value, baseline):.3f}", f"{time.process_time() - begin:.2f}"


def as_model(path: str, budget: str, solver: str, seconds: float) -> tuple[str, str]:
    """What models/blocks.mzn proves by a solver, and the CPU seconds of it all."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.dzn"
        export = (sys.executable, "-m", "moccasin_mzn", "export", path, "--budget", budget, "-o", str(data))
        subprocess.run(export, check=True, capture_output=True)
        limit = str(int(1000 * seconds))
        before = os.times()
        command = ("minizinc", "--solver", solver, *HINTS.get(solver, ()), "--time-limit", limit, str(MODEL), str(data))
        done = subprocess.run(command, capture_output=True, text=True)
        after = os.times()
    if done.returncode:
        sys.exit(done.stderr.strip())
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    found = re.findall(r"TDI ([\d.]+) %", done.stdout)
    return (f"{float(found[-1]):.3f}" if "==========" in done.stdout else "open"), f"{spent:.1f}"


if __name__ == "__main__":
    main()
