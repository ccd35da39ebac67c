"""Paging against recomputation over a sweep of costs: a Markdown table for each graph, and where paging stops paying.

    python scripts/bench_paging.py GRAPH[@BUDGET] ... [--costs 0,0.01,0.1,1] [--time-limit 20] [--threads 2]

A budget is a fraction of the peak or an amount; without one, 0.8; C = 2. The unit of cost is the graph's mean duration
per size unit, total duration / total size of the outputs: at cost 1, to write an output of mean density and to read it
back takes as long as two computations. Writing and reading back cost the same.

Every cost is solved from the best plan of the costs before. Then every plan is charged at every cost, as a plan at one
cost is a plan at every other, and each cost gets the best of all: so the column "TDI %" can only rise. The last row is
recomputation alone. "bound %" is what was proven at this cost, in stages of the input order.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from fractions import Fraction

from moccasin_mzn.extensions.paging.build import LOCAL, SLOW, PagingCosts, paging_platform
from moccasin_mzn.extensions.paging.formulation import PagingFormulation
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.plans import judge_plan
from moccasin_mzn.problem.plan import Plan
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.search.options import SearchOptions
from moccasin_mzn.search.plan_search import solve_plan

COSTS = "0,0.001,0.003,0.01,0.03,0.1,0.3,1,3"


@dataclass
class Row:
    """What is known at one cost."""

    cost: Fraction | None
    """In mean durations per size unit; None: paging is not possible."""
    problem: PlanProblem
    plan: Plan | None = None
    bound: int = 0
    status: str = ""

    def duration(self, plan: Plan | None = None) -> int:
        """Of a plan at this cost."""
        return judge_plan(self.problem.platform, plan or self.plan).duration


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="+", metavar="GRAPH[@BUDGET]")
    parser.add_argument("--costs", default=COSTS, help="multiples, separated by commas, in ascending order")
    parser.add_argument("--time-limit", type=float, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    costs = [*map(Fraction, arguments.costs.split(",")), None]
    options = SearchOptions(time_limit=arguments.time_limit, threads=arguments.threads, seed=arguments.seed)
    for graph in arguments.graphs:
        path, _, budget = graph.partition("@")
        print_table(path, swept(path, budget or "0.8", costs, options))


def swept(path: str, budget: str, costs: list[Fraction | None], options: SearchOptions) -> list[Row]:
    """A row for each cost, each with the best plan of all costs."""
    graph = read_graph(path)
    instance = Instance.build(graph, budget)
    unit = Fraction(graph.total_duration, graph.total_size)
    rows = []
    for cost in costs:
        per_unit = None if cost is None else cost * unit
        platform = paging_platform(graph, instance.budget, PagingCosts(per_unit, per_unit))
        rows.append(Row(cost, PlanProblem(instance, platform)))
    for row in reversed(rows):  # a plan without paging is one at every cost
        known = [other.plan for other in rows if other.plan is not None]
        start = min(known, key=row.duration, default=None)
        result = solve_plan(row.problem, PagingFormulation(), options, warm_start=start)
        row.plan, row.bound, row.status = result.plan, result.bound, result.status
        print(f"{path} at {row.cost}: {result.status}, TDI {result.tdi_percent} %", file=sys.stderr, flush=True)
    for row in rows:
        known = [other.plan for other in rows if other.plan is not None and allowed(other.plan, row)]
        row.plan = min(known, key=row.duration, default=None)
    return rows


def allowed(plan: Plan, row: Row) -> bool:
    """Is this a plan where copies may be impossible?"""
    return judge_plan(row.problem.platform, plan).feasible


def print_table(path: str, rows: list[Row]) -> None:
    """The rows as Markdown, and the crossover."""
    instance = rows[0].problem.instance
    graph, baseline = instance.graph, instance.baseline.duration
    print(f"\n{graph.name or path}, {len(graph.nodes)} nodes, budget {instance.budget / instance.baseline.peak:.2f}\n")
    print("| cost | TDI % | bound % | recomputations | page-ins | traffic, % of all outputs | |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | --- |")
    for row in rows:
        cost = "none possible" if row.cost is None else f"{float(row.cost):g}"
        if row.plan is None:
            print(f"| {cost} | - | {over(row.bound, baseline)} | | | | {row.status} |")
            continue
        simulation = judge_plan(row.problem.platform, row.plan)
        again = sum(action.source is None for action in row.plan) - len(graph.nodes)
        read = sum((action.source, action.memory) == (SLOW, LOCAL) for action in row.plan)
        proven = "optimal" if simulation.duration == row.bound else ""
        share = 100 * simulation.traffic / graph.total_size
        cells = (cost, over(simulation.duration, baseline), over(row.bound, baseline), again, read, f"{share:.2f}")
        print(f"| {' | '.join(map(str, cells))} | {proven} |")
    paying = [row.cost for row in rows if row.cost is not None and row.plan and pages(row.plan)]
    not_paying = [row.cost for row in rows if row.cost is not None and row.plan and not pages(row.plan)]
    if paying and not_paying:
        print(f"\nPaging stops paying between cost {float(max(paying)):g} and {float(min(not_paying)):g}.")


def pages(plan: Plan) -> bool:
    return any(action.memory == SLOW for action in plan)


def over(duration: int, baseline: int) -> str:
    return f"{100 * (duration / baseline - 1):.4f}"


if __name__ == "__main__":
    main()
