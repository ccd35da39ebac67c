"""ONNX models that follow schedules, next to the models they were made of, in ONNX Runtime: peaks, time, outputs.

    python scripts/bench_deploy_onnx.py [MODEL ...] [--budgets 0.9,floor] [--time-limit 20] [--turns 15]
                                       [--plain-durations] [--no-workspaces] [--reduced]

MODEL is densenet121, shufflenet or inception_v2, which ship inside the package onnx (with random weights here), or
unet, dense or two-inputs, which are made here; by default each of them. One thread, on the CPU; durations of operators
are measured, unless --plain-durations, and budgets are fractions of the peak in the order of the file, or the floor,
what the largest operator needs alone.

With --reduced, elementwise operators run in the memory of what they read, as they do in ONNX Runtime.

- planned: peak by the simulator, MB, above weights and inputs, with workspaces of convolutions
- values: peak of the values, in the order and with the sizes that the profiler of ONNX Runtime reports
- malloc: most bytes that one run holds at a time, counted in malloc (scripts/counting_malloc.c, compiled by cc and
  preloaded): the outputs, and what operators take for themselves, too
- time: percent over the original in the same kind of session, the median of the turns' own ratios
- predicted: percent by the schedule
- equal: outputs are those of the original, bit for bit
- "file": the original in the order of its file; "own": in the order of ONNX Runtime; "usual": with its graph
  optimizations as well, which merge operators
"""

from __future__ import annotations

import argparse
import ctypes
import json
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
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from row_tables import print_columns

from moccasin_mzn import solve
from moccasin_mzn.base.errors import InputError
from moccasin_mzn.deploy.onnx_comparing import compare
from moccasin_mzn.deploy.onnx_deployment import deploy, read_source
from moccasin_mzn.deploy.onnx_session import in_file_order
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx
from moccasin_mzn.graphs.importers.onnx.profile import profile_onnx
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, random_inputs
from moccasin_mzn.graphs.importers.program import profiled
from moccasin_mzn.graphs.reduction import reduce_graph

MEGABYTE = 10**6
SHIPPED = ("densenet121", "shufflenet", "inception_v2")
HEADINGS = (
    "model", "what", "nodes", "again", "planned MB", "values MB", "malloc MB", "predicted %", "time %", "equal",
)  # fmt: skip


class Net:
    """A network under construction: values are 1 x channels x side x side."""

    def __init__(self, seed: int = 0) -> None:
        self.random = numpy.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.channels: dict[str, int] = {}

    def add(self, kind: str, reads: list[str], channels: int, **attributes: Any) -> str:
        """An operator; the name of its output."""
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, reads, [name], name=name, **attributes))
        self.channels[name] = channels
        return name

    def weight(self, *shape: int) -> str:
        """Random weights."""
        values = self.random.standard_normal(shape) * (2 / numpy.prod(shape[1:])) ** 0.5
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(numpy.float32), name))
        return name

    def conv(self, read: str, channels: int, kernel: int = 3, stride: int = 1) -> str:
        """Convolution and ReLU."""
        weight = self.weight(channels, self.channels[read], kernel, kernel)
        pads = [kernel // 2] * 4
        made = self.add("Conv", [read, weight], channels, pads=pads, kernel_shape=[kernel] * 2, strides=[stride] * 2)
        return self.add("Relu", [made], channels)

    def up(self, read: str, channels: int) -> str:
        """Twice the side."""
        weight = self.weight(self.channels[read], channels, 2, 2)
        return self.add("ConvTranspose", [read, weight], channels, strides=[2, 2], kernel_shape=[2, 2])

    def concat(self, reads: list[str]) -> str:
        """Channels of several."""
        return self.add("Concat", reads, sum(self.channels[read] for read in reads), axis=1)

    def pool(self, read: str) -> str:
        """Half the side."""
        return self.add("MaxPool", [read], self.channels[read], kernel_shape=[2, 2], strides=[2, 2])

    def model(self, inputs: dict[str, int], side: int, output: str) -> onnx.ModelProto:
        """The model; inputs are channels by name."""
        values = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            for name, shape in (
                *((name, [1, channels, side, side]) for name, channels in inputs.items()),
                (output, [None] * 4),
            )
        ]
        graph = helper.make_graph(self.nodes, "net", values[:-1], values[-1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def unet(side: int = 128, width: int = 8, levels: int = 4) -> onnx.ModelProto:
    """A U-Net: two convolutions a level, what is on the way down is added on the way up."""
    net = Net()
    net.channels["x"] = 3
    at, kept = "x", []
    for level in range(levels):
        at = net.conv(net.conv(at, width << level), width << level)
        kept.append(at)
        at = net.pool(at)
    at = net.conv(net.conv(at, width << levels), width << levels)
    for level in reversed(range(levels)):
        at = net.add("Add", [net.up(at, width << level), kept[level]], width << level)
        at = net.conv(net.conv(at, width << level), width << level)
    return net.model({"x": 3}, side, net.conv(at, 2, kernel=1))


def dense(side: int = 48, growth: int = 12, layers: int = 8) -> onnx.ModelProto:
    """A block of a DenseNet: each layer reads all before it."""
    net = Net()
    net.channels["x"] = 3
    made = [net.conv("x", 2 * growth)]
    for _ in range(layers):
        made.append(net.conv(net.conv(net.concat(made), 4 * growth, kernel=1) if len(made) > 1 else made[0], growth))
    return net.model({"x": 3}, side, net.conv(net.concat(made), 10, kernel=1))


def two_inputs(side: int = 128, width: int = 8) -> onnx.ModelProto:
    """Two encoders whose results meet, with early features of the first read at the end."""
    net = Net()
    net.channels |= {"x": 3, "z": 1}
    early = net.conv(net.conv("x", width), width)
    left = net.conv(net.pool(early), 2 * width)
    right = net.conv(net.pool(net.conv(net.conv("z", width), 2 * width)), 2 * width)
    both = net.add("Add", [left, right], 2 * width)
    both = net.conv(net.conv(net.pool(both), 4 * width), 4 * width)
    wide = net.conv(net.up(net.up(both, 2 * width), width), width)
    return net.model({"x": 3, "z": 1}, side, net.conv(net.concat([wide, early]), 1, kernel=1))


def shipped(name: str) -> onnx.ModelProto:
    """A model of the package onnx, which comes without its weights, with random ones."""
    path = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light" / f"light_{name}.onnx"
    model = onnx.load(path)
    random = numpy.random.default_rng(0)
    variances = {node.input[4] for node in model.graph.node if node.op_type == "BatchNormalization"}
    shapes = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = shapes[node.input[0]]
        values = random.standard_normal(shape) * (2 / max(1, numpy.prod(shape[1:]))) ** 0.5
        values = 1 + 0.1 * abs(values) if node.output[0] in variances else values
        model.graph.initializer.append(numpy_helper.from_array(values.astype(numpy.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.ir_version = 8  # older ones have weights among the inputs
    names = {one.name for one in model.graph.initializer}
    read = {name for node in kept for name in node.input}
    weights = [one for one in model.graph.initializer if one.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(weights)
    inputs = [value for value in model.graph.input if value.name not in names]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


MADE = {"unet": unet, "dense": dense, "two-inputs": two_inputs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", choices=[*SHIPPED, *MADE, []])
    parser.add_argument("--budgets", default="0.9,floor", help="fractions, or floor, with commas between them")
    parser.add_argument("--time-limit", type=float, default=20.0, help="seconds for each search")
    parser.add_argument("--turns", type=int, default=15, help="runs of each model that are timed")
    parser.add_argument("--plain-durations", action="store_true", help="multiply-adds, not measured times")
    parser.add_argument("--no-workspaces", action="store_true", help="do not count what operators take for themselves")
    parser.add_argument("--reduced", action="store_true", help="plan for operators that run in place")
    parser.add_argument("--alone", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.alone:
        print(json.dumps(figures(arguments.alone, arguments.turns)))
        return
    with tempfile.TemporaryDirectory() as folder:
        library, names = counting(Path(folder)), arguments.models or [*SHIPPED, *MADE]
        found = (row for name in names for row in rows(name, Path(folder), library, arguments))
        print_columns(HEADINGS, found, left=("model", "what", "equal"))


def rows(name: str, folder: Path, library: Path | None, arguments: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """A row of each budget, and before them those of the original."""
    path = folder / f"{name}.onnx"
    path.write_bytes((MADE[name]() if name in MADE else shipped(name)).SerializeToString())
    workspaces = not arguments.no_workspaces
    graph = import_onnx(path, OnnxImport(workspaces=workspaces))
    if not arguments.plain_durations:
        graph = profiled(graph, profile_onnx(path, graph, repeats=5, warmups=1))
    graph = reduce_graph(graph).graph if arguments.reduced else graph
    files, reported = [path], []
    for budget in arguments.budgets.split(","):
        amount = graph.largest_working_set().memory if budget == "floor" else float(budget)
        found = solve(graph, amount, time_limit=arguments.time_limit, threads=1, seed=0, search="only",
                      if_none="stop").details  # fmt: skip
        if not found.valid:
            reported.append((budget, found, None, None))
            continue
        new = folder / f"{name}-{budget}.onnx"
        source = read_source(path, OnnxImport(workspaces=workspaces), reduced=arguments.reduced)
        deployed = deploy(source, found.sequence)
        new.write_bytes(deployed.model.SerializeToString())
        reported.append((budget, found, deployed, compare(deployed.model, deployed.original, folder=folder)))
        files.append(new)
    seen = measured(files, library, arguments)
    count = f"{len(graph.nodes):,}"
    if len(files) > 1:
        deployed, values = next((d, v) for _, _, d, v in reported if d is not None)
        known = (("file", values.former_peak), ("own", values.usual_peak), ("usual", None))
        for what, peak in known:
            own = seen[what]
            yield (name, what, count, "0", megabytes(deployed.former_peak if what == "file" else None), megabytes(peak),
                   megabytes(own["malloc"]), "-", percent(own["over"]), "-")  # fmt: skip
    for budget, found, deployed, values in reported:
        if deployed is None:
            yield (name, budget, count, "-", *["-"] * 5, f"no schedule: {found.reason}")
            continue
        own = seen[str(folder / f"{name}-{budget}.onnx")]
        again = f"{deployed.computations - deployed.nodes:,}"
        equal = {True: "yes", False: "no", None: "draws"}[values.equal] + ("" if values.late is None else ", reordered")
        yield (name, budget, count, again, megabytes(deployed.planned_peak), megabytes(values.peak),
               megabytes(own["malloc"]), percent(found.tdi_percent), percent(own["over"]), equal)  # fmt: skip


def megabytes(amount: float | None) -> str:
    return "-" if amount is None else f"{amount / MEGABYTE:.3f}"


def percent(amount: float | None) -> str:
    return "-" if amount is None else f"{amount:.1f}"


def counting(folder: Path) -> Path | None:
    """The counting malloc, compiled; None: there is no compiler."""
    library = folder / "counting_malloc.so"
    source = Path(__file__).with_name("counting_malloc.c")
    try:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"no bytes of malloc: {error}", file=sys.stderr)
        return None
    return library


def measured(files: list[Path], library: Path | None, arguments: argparse.Namespace) -> dict[str, dict[str, float]]:
    """The `figures` of these models, the original first, from a process of its own."""
    words = [sys.executable, __file__, "--turns", str(arguments.turns), "--alone", *map(str, files)]
    environment = dict(os.environ)
    if library is not None:
        environment |= {"LD_PRELOAD": str(library), "MALLOC_MMAP_THRESHOLD_": str(2**32)}  # whole pages waste more
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(done.stdout.splitlines()[-1])


def figures(paths: list[str], turns: int) -> dict[str, dict[str, float | None]]:
    """Bytes in malloc of a run, and percent of time over the original, of models that take the same inputs.

    By path; of the first, which is the original, as "file", "own" and "usual".
    """
    original, *others = paths
    usual = onnxruntime.SessionOptions()
    usual.intra_op_num_threads = usual.inter_op_num_threads = 1
    own = plain_options(1)
    for options in (own, usual):
        options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    asked = {"file": (original, in_file_order(1)), "own": (original, own), "usual": (original, usual)}
    asked |= {path: (path, in_file_order(1)) for path in others}
    sessions = {
        name: onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        for name, (path, options) in asked.items()
    }
    inputs = random_inputs(onnx.load(original), 0)
    allocated = {name: bytes_of_run(session, inputs) for name, session in sessions.items()}
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(turns):
        for name, session in sessions.items():
            begin = time.thread_time()
            session.run(None, inputs)
            times[name].append(time.thread_time() - begin)
    over = {
        name: 100 * (median(one / first for one, first in zip(own, times["file"], strict=True)) - 1)
        for name, own in times.items()
    }
    return {name: {"malloc": allocated[name], "over": over[name]} for name in sessions}


def bytes_of_run(session: onnxruntime.InferenceSession, inputs: dict[str, numpy.ndarray]) -> int | None:
    """Most bytes that the second run holds above what is there before; None: nothing counts them."""
    counter = ctypes.CDLL(None)
    session.run(None, inputs)
    if not hasattr(counter, "counted_reset"):
        return None
    counter.counted_reset.restype = counter.counted_peak.restype = ctypes.c_long
    before = counter.counted_reset()
    session.run(None, inputs)
    return counter.counted_peak() - before


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        sys.exit(str(error))
