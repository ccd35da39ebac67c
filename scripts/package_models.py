"""Model files that packages ship: imported, deployed, run, and compared with what their runtime makes of them.

    python scripts/package_models.py FOLDER [--list LIST] [--budgets 0.9,1.0,1.1] [--optimize all]
                                     [--time-limit 10] [--turns 15]

LIST, by default scripts/package_models.txt, has a line for each file: package and version, numbers of open dimensions,
and its path in the package. FOLDER is where all packages were unpacked, such as by::

    pip download --no-deps --dest FOLDER basic-pitch==0.4.0 && unzip -o FOLDER/'*.whl' -d FOLDER
    npm pack --pack-destination FOLDER @mediapipe/hands@0.4.1675469240 && tar xzf FOLDER/mediapipe-hands-*.tgz -C FOLDER

A model is deployed at the first of the budgets, parts of the peak in the order of its file, for which there is a
schedule in any order that adds no more than 1 % to its duration, and takes at most 1.05 of the time; else at the last.
ONNX files are optimized by ONNX Runtime first.

- peak: of values, planned, and by how much of it the measured one differs; of TFLite the planned arena
- used: MiB that runs hold at most, weights included, in malloc: of a session with ONNX Runtime's defaults, and of that
  which follows the schedule; both with one thread
- time: of the second over the first, the median of the turns' own ratios, the two in turns in one process; of LiteRT,
  of the new file over the first
  Both times the environment makes glibc keep what is freed, see KEEPING.
- equal: outputs are those of the undeployed model, bit for bit
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy
import onnx
from bench_deploy_onnx import counting

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_comparing import compare, equal
from moccasin_mzn.deploy.onnx_deployment import Source, deploy, read_source
from moccasin_mzn.deploy.onnx_session import in_file_order
from moccasin_mzn.deploy.source import planned
from moccasin_mzn.deploy.tflite_model import planned_model
from moccasin_mzn.graphs.graph import ComputationGraph
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport
from moccasin_mzn.graphs.importers.onnx.preparation import Optimize, fix_dims
from moccasin_mzn.graphs.importers.onnx.runtime import random_inputs
from moccasin_mzn.graphs.importers.tflite import graph_of, read_model
from moccasin_mzn.problem.judges.schedules import simulate
from moccasin_mzn.problem.runtime_plan import RuntimePlan

MEBIBYTE = 2**20
MOST_MORE = 1.0
"""Percent that a schedule may add to the duration."""
KEEPING = {"MALLOC_MMAP_THRESHOLD_": str(2**32), "MALLOC_TRIM_THRESHOLD_": str(2**32)}
"""For glibc: else it gives large blocks back to the system at once, which costs a session without an arena time."""
LONGEST = 1.05
"""The share of the time of the runtime's default."""
TIME = -2
"""Where a row has it."""
HEADINGS = ("package", "file", "nodes", "budget", "again", "peak MiB", "measured %", "default MiB", "ours MiB",
            "time", "equal")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="with the files of all packages")
    parser.add_argument("--list", type=Path, default=Path(__file__).with_suffix(".txt"), help="of models")
    parser.add_argument("--budgets", default="0.9,1.0,1.1", help="parts of the peak, with commas between them")
    parser.add_argument("--optimize", default="all", choices=[*Optimize], help="level of ONNX Runtime's optimizations")
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each search")
    parser.add_argument("--turns", type=int, default=15, help="runs of each model that are timed")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(figures(*arguments.alone, arguments.turns)))
        return
    print(line(HEADINGS))
    print(line(["---"] * len(HEADINGS)))
    with tempfile.TemporaryDirectory() as folder:
        library = counting(Path(folder))
        for text in arguments.list.read_text().splitlines():
            if text.strip():
                package, *dims, name = text.split()
                row = row_of(arguments.folder / name, dims, Path(folder), library, arguments)
                print(line([package.replace("==", " "), Path(name).name, *row]), flush=True)


def line(cells: Any) -> str:
    return f"| {' | '.join(str(cell).replace('|', ' ') for cell in cells)} |"


def row_of(path: Path, dims: list[str], folder: Path, library: Path | None, arguments: argparse.Namespace) -> list[str]:
    """What follows package and file; of a file that is refused, why."""
    numbers = {name: int(number) for name, number in (each.rsplit("=", 1) for each in dims)}
    try:
        if path.suffix == ".tflite":
            return first_quick(of_tflite(path, folder, arguments))
        return first_quick(of_onnx(path, numbers, folder, library, arguments))
    except (InputError, RuntimeError) as error:  # the latter LiteRT's
        reason = " ".join(str(error).removeprefix(f"{path}: ").split())
        return [f"refused: {reason}", *[""] * (len(HEADINGS) - 3)]


def schedules(graph: ComputationGraph, arguments: argparse.Namespace, **asked: Any) -> Iterator[tuple[str, Any]]:
    """Budgets that a schedule keeps to, and what `solve` found."""
    peak = simulate(graph, graph.input_order()).peak
    for budget in arguments.budgets.split(","):
        amount = math.ceil(float(budget) * peak)
        found = solve(graph, amount, order="free", time_limit=arguments.time_limit, seed=0, if_none="stop",
                      **asked).details  # fmt: skip
        if found.valid and found.tdi_percent <= MOST_MORE:
            yield budget, found


def first_quick(rows: Iterator[list[str]]) -> list[str]:
    """The first row that is not slow, or the last one."""
    row = None
    for row in rows:
        if float(row[TIME]) <= LONGEST:
            return row
    if row is None:
        raise InputError(f"no schedule within these budgets that adds at most {MOST_MORE} %")
    return row


def of_onnx(
    path: Path, dims: dict[str, int], folder: Path, library: Path | None, arguments: argparse.Namespace
) -> Iterator[list[str]]:
    """A row of each budget."""
    source = read_source(path, OnnxImport(dims, optimize=Optimize(arguments.optimize)))
    for budget, found in schedules(source.graph, arguments):
        yield onnx_row(source, budget, found, dims, folder, library, arguments)


def onnx_row(
    source: Source, budget: str, found: Any, dims: dict[str, int], folder: Path, library: Path | None,
    arguments: argparse.Namespace,
) -> list[str]:  # fmt: skip
    path = source.path
    deployed = deploy(source, found.sequence)
    seen = compare(deployed.model, deployed.original, folder=path.parent)
    new, former = folder / "new.onnx", folder / "former.onnx"
    new.write_bytes(deployed.model.SerializeToString())
    original = onnx.load(path)
    fix_dims(original, dims)
    former.write_bytes(original.SerializeToString())
    reported = {}
    for counted in (True, False):
        words = [sys.executable, __file__, str(path.parent), "--turns", "3" if counted else str(arguments.turns),
                 "--alone", str(former), str(new)]  # fmt: skip
        environment = {**os.environ, **KEEPING}
        if counted and library is not None:
            environment["LD_PRELOAD"] = str(library)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        reported |= {key: value for key, value in json.loads(done.stdout.splitlines()[-1]).items() if value is not None}
    off = 100 * (seen.peak / deployed.planned_values - 1)
    same = "yes" if reported["equal"] and seen.equal else f"no, by {reported['differs']:.1g}"
    return [
        f"{len(source.graph.nodes):,}", budget, f"{deployed.computations - deployed.nodes}",
        f"{deployed.planned_values / MEBIBYTE:.3f}", f"{off:+.2f}", megabytes(reported["usual"]),
        megabytes(reported["ours"]), f"{reported['ratio']:.3f}", same,
    ]  # fmt: skip


def megabytes(amount: float | None) -> str:
    return "-" if amount is None else f"{amount / MEBIBYTE:.2f}"


def figures(former: str, new: str, turns: int) -> dict[str, Any]:
    """Bytes that runs of both models hold, where something counts them; ratio of times; are outputs equal?"""
    import onnxruntime

    usual = onnxruntime.SessionOptions()
    usual.intra_op_num_threads = usual.inter_op_num_threads = 1
    usual.log_severity_level = 4
    counter = ctypes.CDLL(None)
    counts = hasattr(counter, "counted_reset")
    if counts:
        counter.counted_reset.restype = counter.counted_peak.restype = ctypes.c_long
    inputs = random_inputs(onnx.load(former), 0)
    sessions, allocated, outputs = [], [], []
    for file, options in ((former, usual), (new, in_file_order(1))):
        before = counter.counted_reset() if counts else 0
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
        if counts:
            counter.counted_reset()
        outputs.append(session.run(None, inputs))
        session.run(None, inputs)
        allocated.append(counter.counted_peak() - before if counts else None)
        sessions.append(session)
    ratios = []
    for _ in range(turns):
        seconds = []
        for session in sessions:
            begin = time.thread_time()
            session.run(None, inputs)
            seconds.append(time.thread_time() - begin)
        ratios.append(seconds[1] / seconds[0])
    return {"usual": allocated[0], "ours": allocated[1], "equal": equal(*outputs), "differs": difference(*outputs),
            "ratio": median(ratios)}  # fmt: skip


def difference(one: list[Any], other: list[Any]) -> float:
    """The largest of numbers that are no indices."""
    found = [float(abs(a - b).max()) for a, b in zip(one, other, strict=True)
             if isinstance(a, numpy.ndarray) and a.dtype.kind == "f" and a.size]  # fmt: skip
    return max(found, default=0.0)


def of_tflite(path: Path, folder: Path, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """A row of each budget."""
    graph = graph_of(read_model(path), path.stem)
    for budget, found in schedules(graph, arguments, addresses=True, alignment=16):
        yield tflite_row(path, graph, budget, planned(found), folder, arguments)


def tflite_row(
    path: Path, graph: ComputationGraph, budget: str, plan: RuntimePlan, folder: Path, arguments: argparse.Namespace
) -> list[str]:
    model = read_model(path)
    new = folder / "new.tflite"
    new.write_bytes(planned_model(model, plan))
    interpreters = [interpreter(each) for each in (path, new)]
    outputs = [run_tflite(each) for each in interpreters]
    ratios = []
    for _ in range(arguments.turns):
        seconds = []
        for each in interpreters:
            begin = time.thread_time()
            each.invoke()
            seconds.append(time.thread_time() - begin)
        ratios.append(seconds[1] / seconds[0])
    again = len(plan.steps) - len(graph.nodes)
    same = "yes" if equal(*outputs) else f"no, by {difference(*outputs):.1g}"
    return [f"{len(graph.nodes):,}", budget, str(again), f"{plan.arenas[0] / MEBIBYTE:.3f}", "-", "-", "-",
            f"{median(ratios):.3f}", same]  # fmt: skip


def interpreter(path: Path) -> Any:
    """LiteRT's, with its own kernels and one thread, which computes operators in the order of the file."""
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    made = Interpreter(model_path=str(path), num_threads=1,
                       experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)  # fmt: skip
    made.allocate_tensors()
    return made


def run_tflite(made: Any) -> list[Any]:
    random = numpy.random.default_rng(0)
    for about in made.get_input_details():
        sample = (
            random.random(about["shape"]) if about["dtype"] == numpy.float32 else random.integers(0, 2, about["shape"])
        )
        made.set_tensor(about["index"], numpy.asarray(sample).astype(about["dtype"]))
    made.invoke()
    return [made.get_tensor(about["index"]).copy() for about in made.get_output_details()]


if __name__ == "__main__":
    main()
