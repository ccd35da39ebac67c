"""The models of several memories side by side, alone: FlatZinc, work to a proof, and the best plan within that work.

    python scripts/bench_machine.py [GRAPH ...] [--kinds paging] [--forms staged] [--nodes 15,20,30,60] [--work 60]

Each row is a problem and a formulation that takes it; all formulations of a problem have the same optimum. Without
graphs they are random layered ones. Local memory, or both memories of one device together, hold the least that any
computation takes and `--share` of what the peak has beyond that; a copy or an access takes half a mean duration for a
mean size. The model is alone, without search or warm start. Work is in CP-SAT's deterministic seconds, with one
thread, the same on every machine; CPU seconds are of MiniZinc, and of all that follows. A dash is no plan within the
work.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from rich.console import Console
from rich.table import Table

from moccasin_mzn.formulations.searched import PlanFormulation
from moccasin_mzn.graphs.formats import read_graph
from moccasin_mzn.graphs.generators.random_layered import random_layered
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.machine.platforms import MemoryPool, PagingCosts, paging_platform, pools_platform
from moccasin_mzn.machine.problems import PLAN_FORMULATIONS
from moccasin_mzn.problem.budget import Budget
from moccasin_mzn.problem.instance import Instance
from moccasin_mzn.problem.plan_problem import PlanProblem
from moccasin_mzn.solvers.cpsat.builder import Solver
from moccasin_mzn.solvers.cpsat.translate import translate
from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
from moccasin_mzn.solvers.flatzinc.parser import parse
from moccasin_mzn.solvers.minizinc.run import dzn_text
from moccasin_mzn.solvers.minizinc.solvers import CP_SAT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", metavar="GRAPH")
    parser.add_argument("--kinds", default="paging,pools")
    parser.add_argument("--forms", default="staged")
    parser.add_argument("--nodes", default="15,20,30,60", help="of random layered graphs, without GRAPH")
    parser.add_argument("--seeds", type=int, default=3, help="random layered graphs of each size")
    parser.add_argument("--share", default="1/2")
    parser.add_argument("--work", type=float, default=60)
    arguments = parser.parse_args()
    table = Table("problem", "form", "model", "lines", "MiniZinc s", "status", "value", "bound", "work", "CPU s")
    for name, graph in graphs(arguments):
        for kind in arguments.kinds.split(","):
            problem = PROBLEMS[kind](graph, Fraction(arguments.share))
            for form in arguments.forms.split(","):
                for made in (of for of in PLAN_FORMULATIONS if of.takes(problem)):
                    cells = measured(problem, made.of(form), arguments.work)
                    table.add_row(f"{kind} {name}", form, made.name, *cells)
                    Console(stderr=True).print(kind, name, form, made.name, *cells)
    Console(width=max(130, Console().width)).print(table)


def graphs(arguments: argparse.Namespace) -> Iterator[tuple[str, ComputationGraph]]:
    """The graphs by name."""
    for path in arguments.graphs:
        yield Path(path).stem, read_graph(path)
    for nodes in map(int, arguments.nodes.split(",") if not arguments.graphs else ()):
        yield from ((f"n={nodes} seed {seed}", random_layered(nodes, seed)) for seed in range(arguments.seeds))


def paging(graph: ComputationGraph, share: Fraction) -> PlanProblem:
    """Local memory, and slow memory without a limit."""
    instance = Instance.build(graph, "100%")
    room = room_for(instance, share)
    return PlanProblem(instance, paging_platform(graph, room, PagingCosts(per_unit(graph)), None))


def pools(graph: ComputationGraph, share: Fraction) -> PlanProblem:
    """Fast and slow memory of one device, each half of all."""
    instance = Instance.build(graph, "100%")
    half = Budget.of(room_for(instance, share) // 2)
    pools = {"fast": MemoryPool(half), "slow": MemoryPool(half, per_unit(graph))}
    return PlanProblem(instance, pools_platform(graph, pools, instance.baseline.peak))


def room_for(instance: Instance, share: Fraction) -> int:
    """The largest working set, and a share of what the peak has beyond it."""
    least = instance.graph.largest_working_set().memory
    return least + int(share * (instance.baseline.peak - least))


PROBLEMS = {"paging": paging, "pools": pools}


def per_unit(graph: ComputationGraph) -> Fraction:
    """Half a mean duration for a mean size."""
    return Fraction(graph.total_duration, 2 * graph.total_size)


def measured(problem: PlanProblem, form: PlanFormulation, work: float) -> list[str]:
    """The cells of one model."""
    data = form.data(problem)
    with tempfile.TemporaryDirectory() as folder:
        items, file = Path(folder) / "data.dzn", Path(folder) / "model.fzn"
        items.write_text(dzn_text(form.data_items(data)))
        solver = write_configuration(Path(folder), CP_SAT.configuration())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = ["minizinc", "-c", "--solver", solver, form.file, items, "--fzn", file, "--no-output-ozn"]
        subprocess.run(command, check=True, timeout=3600, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = file.read_text()
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    began = time.process_time()
    built = translate(parse(text, "model.fzn"))
    solver = Solver()
    parameters = solver.parameters
    parameters.num_workers, parameters.random_seed, parameters.max_deterministic_time = 1, 0, work
    status, answer = solver.solve(built.builder.model).name.lower(), solver.response
    value, bound = "-", str(form.objective(data, round(answer.best_objective_bound)))
    if status in ("optimal", "feasible"):
        value = str(form.objective(data, round(answer.objective_value)))
    spent = time.process_time() - began
    lines = text.count("\n")
    return [f"{lines:,}", f"{seconds:.1f}", status, value, bound, f"{answer.deterministic_time:.2f}", f"{spent:.1f}"]


if __name__ == "__main__":
    main()
