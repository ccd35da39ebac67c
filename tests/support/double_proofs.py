"""Solvers in doubles against brute force, on graphs with durations of mixed magnitudes: are their proofs true?

Run as `PYTHONPATH=tests/support python tests/support/double_proofs.py --graphs 2000`; prints what was proven, claimed
and lost, and ends with 1 if anything was false. Each graph is asked of both MILPs by both solvers.
"""

from __future__ import annotations

import argparse
import functools
import random
import re
import sys
import time
from collections import Counter
from dataclasses import dataclass

import oracle
from linear_support import ENGINES, worker

from moccasin_mzn.formulations import find_formulation
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.solvers.minizinc.run import compile_model, dzn_text
from moccasin_mzn.solvers.minizinc.solvers import Backend, find_backend

CHECKMATE = ("checkmate-milp", "checkmate-milp-strengthened")

SECONDS = 4.0
"""For each run: SCIP does not end by itself on some of them."""
LONGEST = 5 * 10**9
"""The longest duration of a node."""


@dataclass(frozen=True)
class Question:
    """A graph, a budget between its largest working set and its peak, and the least duration in stages or None."""

    seed: int
    graph: ComputationGraph
    budget: int
    least: int | None


def draw(seed: int) -> Question:
    """Five to nine nodes; durations from 1 to as much as 5 * 10^9, each magnitude as likely as another."""
    rng = random.Random(seed)
    while True:
        n = rng.randint(5, 9)
        adjacent, distant = rng.choice([0.3, 0.7, 1]), rng.choice([0.2, 0.35, 0.5])
        edges = [(u, v) for v in range(n) for u in range(v) if rng.random() < (adjacent if v == u + 1 else distant)]
        most = rng.choice([10.0**6, 10.0**8, 10.0**9, LONGEST])
        durations = [int(most ** rng.random()) for _ in range(n)]
        sizes = [rng.randint(0, rng.choice([9, 99, 999, 10**6])) for _ in range(n)]
        graph = ComputationGraph(nodes=range(n), durations=durations, sizes=sizes, edges=edges, order=range(n))
        least, peak = graph.largest_working_set().memory, simulate(graph, range(n)).peak
        if peak - least >= 2:
            budget = rng.randint(least, peak - 1)
            return Question(seed, graph, budget, oracle.best_fixed_order(graph, range(n), budget, None))


def flat(question: Question, name: str, start: bool = False) -> tuple[str, int | None]:
    """The FlatZinc of a MILP, if asked for with the best schedule to start from, and the least objective."""
    graph, form = question.graph, find_formulation(name)
    data = form.data(Instance.build(graph, question.budget, max_computations="unlimited"))
    incumbent = limit = None
    if start and question.least is not None:
        best = oracle.fixed_order_schedule(graph, graph.input_order(), question.budget, None)
        incumbent, limit = best.sequence, best.duration // data.duration_scale
    text = dzn_text(form.data_items(graph, data, incumbent, limit))
    least = None if question.least is None else question.least // data.duration_scale
    return compile_model(backend(), form.file, text), least


@functools.cache
def backend() -> Backend:
    """HiGHS, whose FlatZinc is also SCIP's."""
    return find_backend("highs")


def ask(engine: str, text: str, least: int | None) -> tuple[str, list[str]]:
    """How a solver ends, "optimal" or "infeasible" with who confirms it, or without, and what it says that is false."""
    status, out, err = worker(engine).solve(text, "-s", "-a", "-p", "1", "--limit", str(SECONDS))
    objectives, bounds = (
        [int(value) for value in re.findall(rf" {name}=(-?\d+)\n", out)] for name in ("objective", "objectiveBound")
    )
    false = [] if status == 0 else [f"exit status {status}: {err.strip()}"]
    if least is not None and max(bounds, default=0) > least:
        false.append(f"bound {max(bounds)}, but {least} is possible")
    confirmed = ", confirmed" if "confirmedBy" in out else ""
    if "=====UNSATISFIABLE=====" in out:
        return f"infeasible{confirmed}", false + ([] if least is None else [f"infeasible, but {least} is possible"])
    if "==========" in out:
        right = objectives[-1] == least
        return f"optimal{confirmed}", false + ([] if right else [f"optimal {objectives[-1]}, but it is {least}"])
    return "claimed, not confirmed" if "claim=" in out else "out of time", false


def main() -> int:
    """Ask all, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph (default: 0)")
    parser.add_argument("--start", action="store_true", help="start from the best schedule, which is then a limit too")
    options = parser.parse_args()
    counts, findings, begin, told = Counter(), 0, time.monotonic(), time.monotonic()
    for seed in range(options.seed, options.seed + options.graphs):
        question = draw(seed)
        for name in CHECKMATE:
            text, least = flat(question, name, options.start)
            for engine in ENGINES:
                ending, false = ask(engine, text, least)
                counts[name, engine, ending] += 1
                for line in false:
                    findings += 1
                    print(f"graph {seed}, {name}, {engine}: {line}", flush=True)
        if time.monotonic() > told + 30:
            told = time.monotonic()
            print(
                f"{told - begin:6.0f} s  {seed - options.seed + 1} graphs  {findings} false",
                file=sys.stderr,
                flush=True,
            )
    for key, count in sorted(counts.items()):
        print(f"{count:6}  {'  '.join(key)}")
    print(f"{options.graphs} graphs, {sum(counts.values())} runs, {findings} false, {time.monotonic() - begin:.0f} s")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
