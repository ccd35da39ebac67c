"""Two devices, the second k times slower: prints a Markdown table of what it is of use for.

    python scripts/bench_devices.py graph.json --slowness 1,2,4,8,16,inf --copy-cost 1/8 --time-limit 60

The first device has a part of the peak of the input order as its memory, the second as much as there may be. A copy
takes, for each unit of size, as many times the graph's mean duration per size unit (total duration / total size) as
--copy-cost says. A plan for one slowness starts the search for the next smaller one, where it takes no longer.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from moccasin_mzn.extensions.devices.build import CopyCosts, Device, device_platform
from moccasin_mzn.extensions.devices.formulation import DevicesFormulation
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.plan_search import solve_plan
from moccasin_mzn.search.result import Result

FAST, SLOW = 0, 1
TITLES = (
    "graph", "k times slower", "duration", "increase %", "gap %", "nodes on the second", "computed again",
    "to the second", "and back", "status", "seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """What is asked, and how long to think about it."""

    instance: Instance
    budget: Budget
    slowness: Fraction | None
    """None: infinite."""
    copy_cost: Fraction
    seconds: float
    threads: int

    def solved(self, start: Plan | None) -> Result:
        graph = self.instance.graph
        mean = Fraction(graph.total_duration, graph.total_size or 1)
        second = Device(slowness=self.slowness, computes=self.slowness is not None)
        devices = {"first": Device(self.budget), "second": second}
        platform = device_platform(graph, devices, CopyCosts(self.copy_cost * mean), self.instance.baseline.peak)
        options = SearchOptions(time_limit=self.seconds, threads=self.threads, seed=0)
        return solve_plan(PlanProblem(self.instance, platform), DevicesFormulation(), options, warm_start=start)


def row(name: str, slowness: str, result: Result, seconds: float) -> list[str]:
    """One line of the table."""
    if not result.found:
        return [name, slowness, *["-"] * 7, result.status, f"{seconds:.0f}"]
    on_second = sum(action.source is None and action.memory == SLOW for action in result.plan)
    return [
        name, slowness, f"{result.simulation.duration:,}", f"{result.tdi_percent:.3f}", f"{result.gap_percent:.2f}",
        str(on_second), str(result.recomputations), str(result.copies(FAST, SLOW)), str(result.copies(SLOW, FAST)),
        result.status, f"{seconds:.0f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", type=Path)
    parser.add_argument("--budget", default="0.8", help="of the first device")
    parser.add_argument("--slowness", default="inf,16,8,4,2,1", help="in descending order")
    parser.add_argument("--copy-cost", type=Fraction, default=Fraction(1, 8))
    parser.add_argument("--max-computations", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=60, help="seconds for each cell")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    print(f"| {' | '.join(TITLES)} |")
    print(f"| {' | '.join(['---'] + ['---:'] * (len(TITLES) - 1))} |", flush=True)
    for path in asked.graphs:
        graph, budget, plan = read_graph(path), Budget.parse(asked.budget), None
        instance = Instance.build(graph, budget, max_computations=asked.max_computations)
        for slowness in asked.slowness.split(","):
            factor = None if slowness == "inf" else Fraction(slowness)
            begin = time.monotonic()
            cell = Cell(instance, budget, factor, asked.copy_cost, asked.time_limit, asked.threads)
            result = cell.solved(plan)
            plan = result.plan
            print(
                f"| {' | '.join(row(graph.name or path.stem, slowness, result, time.monotonic() - begin))} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
