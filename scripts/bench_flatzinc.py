"""What reading, building and solving a FlatZinc file costs, in seconds and memory, for the staged model of graphs.

    python scripts/bench_flatzinc.py GRAPH[@BUDGET] ... [--repeats 3] [--time-limit 10] [--threads 2] [--plain]
    python scripts/bench_flatzinc.py FILE.fzn ...

A budget is a fraction of the peak or an amount; without one, 0.8. MiniZinc flattens the model first, with the library
of the solver or, under --plain, with its standard library alone, which decomposes all. Every figure is from a process
of its own, the median of the repeats; memory is the most that the process used. `solve` ends at the time limit or
with a proof. Machines are noisy: compare rows of one run only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("inputs", nargs="*", metavar="GRAPH[@BUDGET]|FILE.fzn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="flatten with the standard library alone")
    parser.add_argument("--measure", metavar="FILE.fzn", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.threads, arguments.time_limit)))
        return
    table = Table(
        "input", "MB", "constraints", "flatten s", "read s", "build s", "MiB used", "solve s", "MiB used", "status"
    )
    table.columns[0].overflow = "fold"
    for name in track(arguments.inputs, console=Console(stderr=True)):
        with tempfile.TemporaryDirectory() as folder:
            table.add_row(name.rpartition("/")[2], *row(name, folder, arguments))
    Console(width=max(130, Console().width)).print(table)


def row(name: str, folder: str, arguments: argparse.Namespace) -> list[str]:
    """The cells after the name of one input."""
    file, seconds = (name, None) if name.endswith(".fzn") else flattened(name, Path(folder), arguments.plain)
    runs = [measured(file, arguments) for _ in range(arguments.repeats)]

    def median(key: str) -> str:
        return f"{statistics.median(run[key] for run in runs):.2f}"

    cells = [f"{Path(file).stat().st_size / 1e6:.1f}", str(runs[0]["constraints"]), f"{seconds:.1f}" if seconds else ""]
    cells += [median("read"), median("build"), f"{float(median('built_megabytes')):.0f}", median("solve")]
    return [*cells, f"{float(median('megabytes')):.0f}", ", ".join(sorted({run["status"] for run in runs}))]


def flattened(name: str, folder: Path, plain: bool) -> tuple[str, float]:
    """The FlatZinc of the staged model of a graph, and the seconds MiniZinc took."""
    from moccasin_mzn.formulations import find_formulation
    from moccasin_mzn.formulations.presolve import presolve
    from moccasin_mzn.graphs.formats import read_graph
    from moccasin_mzn.problem.budget import Budget
    from moccasin_mzn.problem.instance import Instance
    from moccasin_mzn.solvers.flatzinc.configuration import write_configuration
    from moccasin_mzn.solvers.minizinc.run import dzn_text
    from moccasin_mzn.solvers.minizinc.solvers import CP_SAT

    path, _, budget = name.partition("@")
    graph, formulation = read_graph(path), find_formulation("staged")
    instance = Instance.build(graph, Budget.parse(budget or "0.8"), order="input", max_computations=2)
    data = folder / "data.dzn"
    data.write_text(dzn_text(formulation.data_items(graph, presolve(instance, staged=True))))
    file = folder / "staged.fzn"
    command = [
        "minizinc",
        "-c",
        "--solver",
        write_configuration(folder, CP_SAT.configuration()),
        *(["-G", "std"] if plain else []),
    ]
    begin = time.monotonic()
    subprocess.run([*command, formulation.file, data, "--fzn", file, "--no-output-ozn"], check=True, timeout=600)
    return str(file), time.monotonic() - begin


def measured(file: str, arguments: argparse.Namespace) -> dict:
    """The figures of one run in a process of its own."""
    limits = ["--threads", str(arguments.threads), "--time-limit", str(arguments.time_limit)]
    command = [sys.executable, __file__, "--measure", file, *limits]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def measure(file: str, threads: int, limit: float) -> dict:
    """Read, build and solve in this process."""
    from moccasin_mzn.solvers.cpsat.builder import Solver
    from moccasin_mzn.solvers.cpsat.search import add_hints
    from moccasin_mzn.solvers.cpsat.translate import translate
    from moccasin_mzn.solvers.flatzinc.parser import parse
    from moccasin_mzn.solvers.flatzinc.stream import peak_megabytes, without_garbage_collection

    start = time.monotonic()
    with without_garbage_collection():
        items = parse(Path(file).read_text(encoding="utf-8"), file)
        read = time.monotonic()
        problem = translate(items)
        add_hints(problem)
        built = time.monotonic()
    built_megabytes = peak_megabytes()
    solver = Solver()
    solver.parameters.num_workers, solver.parameters.max_time_in_seconds = threads, limit
    status = solver.solve(problem.builder.model)
    return {
        "constraints": len(items.constraints),
        "read": read - start,
        "build": built - read,
        "built_megabytes": built_megabytes,
        "solve": time.monotonic() - built,
        "megabytes": peak_megabytes(),
        "status": status.name.lower(),
    }


if __name__ == "__main__":
    main()
