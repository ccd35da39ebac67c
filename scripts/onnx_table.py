"""The ONNX models inside installed packages, as computation graphs: one Markdown table.

    python scripts/onnx_table.py [--no-solve] [--budget 0.9] [--time-limit 20] [--threads 2] [--only resnet]

The models are those that `onnx` ships for its own tests (networks for images, their weights left out) and, where it is
installed, those of `rapidocr` (text detection, recognition and orientation).

"operators" are those in the file. "outputs" are the bytes of all nodes together, "MAC" their multiply-adds, "peak" is
that of the input order, "floor" the largest memory that one node needs for its inputs and its output: no budget below
it is feasible, and where it is over the budget the column of that names the node. TDI is the total duration increase
over computing each node once. The last columns are of execution in place, peak, floor and arena as parts of the peak
without it, which the budget is a part of as well; the arena is that of the schedule, with overwritten outputs at the
address of what overwrites them.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import track
from row_tables import print_markdown

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.bounds.least_budget import least_budget_bound
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx
from moccasin_mzn.graphs.importers.onnx.model import model_bytes, parse_model
from moccasin_mzn.graphs.importers.onnx.preparation import Fold
from moccasin_mzn.machine.addresses.allocate import allocate_buffers
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.placing import placing_of
from moccasin_mzn.search.options import Effort

DIMS = {
    "PP-OCRv6_det_small": {"x[0]": 1, "x[2]": 640, "x[3]": 640},
    "PP-OCRv6_rec_small": {"x[0]": 1, "x[3]": 320},
    "ch_ppocr_mobile_v2.0_cls_mobile": {"x[0]": 1, "x[2]": 48, "x[3]": 192},
}
"""For models that leave dimensions open the sizes of image that rapidocr feeds them, one image at a time."""
HEADINGS = (
    *("model", "input", "operators", "nodes", "edges", "outputs, bytes", "nodes, views merged", "MMAC"),
    *("parameters, MB", "peak, MB", "floor / peak", "peak in place", "floor in place"),
)
IN_PLACE = ("solved in place", "arena in place")
MEGA = 1_000_000


def main() -> None:
    """Read the command line, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-solve", action="store_true", help="leave the last column out")
    parser.add_argument("--budget", type=float, default=0.9, help="as a fraction of the peak; default 0.9")
    parser.add_argument("--time-limit", type=float, default=20, metavar="S", help="of each solve; default 20")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT", help="models whose name contains this")
    arguments = parser.parse_args()
    headings = [*HEADINGS, *([] if arguments.no_solve else [f"solved at {arguments.budget}", *IN_PLACE])]
    paths = [path for path in model_files() if arguments.only in path.stem]
    try:
        found = (cells(path, arguments) for path in track(paths, console=Console(stderr=True)))
        print_markdown(headings, found, headings)
    except InputError as error:
        sys.exit(str(error))


def model_files() -> Iterator[Path]:
    """The files in the installed packages."""
    for package, folder in (("onnx", "backend/test/data/light"), ("rapidocr", "models")):
        found = find_spec(package)
        if found is not None:
            yield from sorted((Path(found.origin).parent / folder).glob("*.onnx"))


def cells(path: Path, arguments: argparse.Namespace) -> list[str]:
    """One row."""
    dims = DIMS.get(path.stem, {})
    graph = import_onnx(path, OnnxImport(dims, fold=Fold.ALL))
    merged = import_onnx(path, OnnxImport(dims, fold=Fold.ALL, merge_views=True))
    peak = simulate(graph, graph.input_order()).peak
    shapes = ["x".join(map(str, shape)) for shape in graph.attributes["inputs"].values()]
    row = [path.stem.removeprefix("light_"), ", ".join(shapes), f"{len(parse_model(model_bytes(path)).graph.node):,}"]
    row += [f"{len(graph.nodes):,}", f"{len(graph.edges):,}", f"{graph.total_size:,}"]
    row += [f"{len(merged.nodes):,}", f"{sum(graph.durations) / MEGA:,.0f}"]
    row += [f"{graph.fixed_memory['parameters'] / MEGA:,.2f}", f"{peak / MEGA:,.2f}"]
    row.append(f"{graph.largest_working_set().memory / peak:.3f}")
    run = graph.run_in_place()
    in_place = simulate(run, run.input_order()).peak, least_budget_bound(run).memory
    row += [f"{amount / peak:.3f}" for amount in in_place]
    if arguments.no_solve:
        return row
    return [*row, solved(graph, peak, arguments)[0], *solved(run, peak, arguments)]


def solved(graph: ComputationGraph, peak: int, arguments: argparse.Namespace) -> tuple[str, str]:
    """What solving comes to, or which node alone needs more than the budget, a part of `peak`; and the arena."""
    need = graph.largest_working_set()
    if need.memory > arguments.budget * peak:
        node, label = graph.nodes[need.node], graph.labels[need.node]
        return f"no: {label} {node} alone needs {100 * need.memory / peak:.1f} %", "-"
    result = solve(
        graph, math.ceil(arguments.budget * peak), time_limit=arguments.time_limit, threads=arguments.threads,
        if_none="stop",
    ).details  # fmt: skip
    if not result.valid:
        return f"{result.status}: {result.reason}", "-"
    buffers = placing_of(graph, result.simulation).buffers
    arena = allocate_buffers(buffers, effort=Effort(arguments.time_limit, arguments.threads)).arena
    return f"TDI {result.tdi_percent:.2f} %, {result.status}", f"{arena.size / peak:.3f}"


if __name__ == "__main__":
    main()
