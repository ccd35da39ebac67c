"""Memory over computation for networks in parts: the least computation within budgets that no whole layers fit.

    python scripts/bench_tiled_fronts.py [NETWORK ...] [--fractions 0.9,0.5,0.25,0.125,least] [--time-limit 20]
    python scripts/bench_tiled_fronts.py --folder FOLDER [--list scripts/package_models.txt]

NETWORK is one of `tiled_networks.NETWORKS` or the file of a model, ONNX or TFLite; FOLDER has models of packages, see
`package_models.py`. ONNX models are simplified by ONNX Runtime first, at its basic level. Budgets are fractions of the
peak of whole layers in the order of the file; "least" is the smallest that `solve --tile auto --budget least` finds.

- peak: of whole layers in the order of the file, KB; floor: the least that a schedule of whole layers needs, of it
- whole: is there a schedule of whole layers within 0.9 of the peak, in any order? "none" is proven
- of each fraction: computation in parts, over everything once; "-": no schedule was found
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import onnx
from row_tables import print_markdown
from tiled_networks import NETWORKS

import moccasin_mzn as mz
from moccasin_mzn.api.least import LEAST
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_deployment import read_source
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.onnx.preparation import Optimize
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
from moccasin_mzn.problem.judges.schedules import simulate

WHOLE = 0.9
"""The fraction at which whole layers are asked for."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help="or a file; by default all that are built here")
    parser.add_argument("--folder", type=Path, help="with the files of packages")
    parser.add_argument("--list", type=Path, default=Path(__file__).with_name("package_models.txt"), help="of models")
    parser.add_argument("--fractions", default=f"0.9,0.5,0.25,0.125,{LEAST}", help="budgets, with commas between them")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for each budget")
    arguments = parser.parse_args()
    fractions = arguments.fractions.split(",")
    headings = ["model", "nodes", "peak KB", "floor", "whole", *fractions]
    rooms = {"whole": 0, "whole or in parts": 0, "models": 0}
    print_markdown(headings, rows(arguments, fractions, rooms))
    counts = ", ".join(f"{count} {what}" for what, count in rooms.items())
    print(f"with a schedule within {WHOLE} of the peak: {counts}")


def rows(arguments: argparse.Namespace, fractions: list[str], rooms: dict[str, int]) -> Iterator[list[str]]:
    """A row for each model, counted in `rooms`."""
    for name, path, dims in models(arguments):
        try:
            graph = graph_in(path, dims)
            row, whole, parts = row_of(graph, fractions, arguments.time_limit)
        except (InputError, RuntimeError) as error:  # the latter LiteRT's
            print(f"{name}: {' '.join(str(error).split())[:200]}", file=sys.stderr)
            continue
        rooms["models"] += 1
        rooms["whole"] += whole
        rooms["whole or in parts"] += whole or parts
        yield [name, *row]


def models(arguments: argparse.Namespace) -> Iterator[tuple[str, Path, dict[str, int]]]:
    """Name, file and numbers of open dimensions of each model."""
    if arguments.folder is not None:
        for text in arguments.list.read_text().splitlines():
            package, *dims, name = text.split()
            numbers = {name: int(number) for name, number in (each.rsplit("=", 1) for each in dims)}
            yield f"{package.partition('==')[0]} {Path(name).name}", arguments.folder / name, numbers
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks or NETWORKS:
            path = Path(name)
            if name in NETWORKS:
                path = Path(folder, f"{name}.onnx")
                onnx.save(NETWORKS[name](), path)
            yield path.stem, path, {}


def graph_in(path: Path, dims: dict[str, int]) -> ComputationGraph:
    if path.suffix == ".tflite":
        return graph_of(read_model(path), path.stem)
    return read_source(path, OnnxImport(dims, optimize=Optimize.BASIC)).graph


def row_of(graph: ComputationGraph, fractions: list[str], seconds: float) -> tuple[list[str], bool, bool]:
    """What follows the name; is there room for whole layers, and for parts?"""
    peak, floor = simulate(graph, graph.input_order()).peak, max(graph.working_sets)
    budget: int | str = int(WHOLE * peak)
    whole = None if floor > budget else mz.solve(graph, budget, order="free", time_limit=seconds, seed=0)
    stated = "none" if whole is None else f"{1 + whole.tdi_percent / 100:.3f}" if whole.valid else str(whole.status)
    row = [f"{len(graph.nodes):,}", f"{peak / 1000:,.1f}", f"{floor / peak:.2f}", stated]
    room = False
    for fraction in fractions:
        budget = LEAST if fraction == LEAST else int(float(fraction) * peak)
        found = mz.solve(graph, budget, tile="auto", time_limit=seconds, seed=0, search="only")
        room |= bool(found.valid and found.peak <= WHOLE * peak)
        at = f"{found.budget / peak:.3f}: " if fraction == LEAST and found.valid else ""
        row.append(f"{at}{1 + found.tdi_percent / 100:.3f}" if found.valid else "-")
    return row, bool(whole is not None and whole.valid), room


if __name__ == "__main__":
    main()
