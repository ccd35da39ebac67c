"""Seconds instead of multiply-adds: how long ONNX Runtime takes for each operator of an ONNX file, on this machine.

Its graph optimizations are off, so that it runs the operators that are in the file; its own profiler tells their times,
in whole microseconds.
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import TYPE_CHECKING, Any

from moccasin_mzn.errors import InputError, located, shown, some_of
from moccasin_mzn.extras import install_command
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.onnx_dims import fix_dims
from moccasin_mzn.graphs.importers.onnx_isolated import network_apart
from moccasin_mzn.graphs.importers.onnx_model import (
    graph_inputs,
    model_bytes,
    one_line,
    packages,
    parse_model,
    subgraphs,
    tensors,
)

if TYPE_CHECKING:
    import numpy
    import onnx
    import onnxruntime

RESULTS = "results"
"""Label of the last node that keeps several results: it is no operator and takes no time."""
_SUFFIX = "_kernel_time"
_NANOSECONDS = 1000
"""In a microsecond, the profiler's unit."""


def profile_onnx(
    path: str | PathLike[str],
    graph: ComputationGraph,
    dims: Mapping[str, int] | None = None,
    *,
    repeats: int = 10,
    warmups: int = 2,
    threads: int = 1,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> dict[NodeId, int]:
    """Run the network of an ONNX file, on random inputs, and take the time of each operator.

    Args:
        path: the file that `graph` was imported from, with its weights inside.
        graph: what `import_onnx` made of it.
        dims: as for the import.
        repeats: runs measured, at least 1.
        warmups: runs before these.
        threads: that one operator may use.
        seed: of the inputs: floating point uniform in 0..1, integers and booleans 0 or 1.
        stop: asked before each run; once true, the runs so far must do.

    Returns:
        Nanoseconds by id of the graph's nodes, the median of the runs: at least 1, but 0 for the node that keeps
        several results.

    Raises:
        InputError: a package is missing; the file is a pipe, see `refuse_pipe`; it is not that of `graph`, or ONNX
            Runtime cannot run it, or runs it without some operator of the graph (it takes some apart); stopped before
            the first measured run.
    """
    refuse_pipe(path)
    packages()
    _runtime()
    if repeats < 1 or warmups < 0 or threads < 1:
        raise InputError(f"{repeats} repeats, {warmups} warmups, {threads} threads: expected at least 1, 0 and 1")
    with located(path):
        model, names = _prepared(path, graph, dims or {})
        inputs = _random_inputs(model, seed)
        times = _times(_run(model, inputs, repeats + warmups, warmups, threads, stop), warmups)
        return _by_node(graph, {own: times[alias] for alias, own in names.items() if alias in times})


def refuse_pipe(path: str | PathLike[str]) -> None:
    """Make sure that a file can be read again: once to import it, once more to measure it.

    Raises:
        InputError: it is a pipe or a device. A file that is missing or cannot be read is none of these.
    """
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: cannot be measured: it is no regular file, and is read twice")


def versions() -> dict[str, str]:
    """Versions of the packages that the times depend on.

    Raises:
        InputError: ONNX Runtime is missing.
    """
    return {"onnxruntime": _runtime().__version__}


def _runtime() -> ModuleType:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"measuring ONNX needs the package onnxruntime: {install_command('onnx,profile')}") from None
    return onnxruntime


def _prepared(
    path: str | PathLike[str], graph: ComputationGraph, dims: Mapping[str, int]
) -> tuple[onnx.ModelProto, dict[str, NodeId]]:
    """The model with its weights, its operators renamed, and the id for each new name.

    The profiler tells operators apart by name only, and in a file names may be missing, given twice or need escaping.
    """
    data = model_bytes(path)
    network = network_apart(data, Path(path).stem, dims)
    model = parse_model(data, weights=True)
    _check_no_external(model)
    fix_dims(model, dims)
    nodes = model.graph.node
    names: dict[str, NodeId] = {
        f"operator{at}": operation.name
        for at, operation in zip(network.positions, network.program.operations, strict=True)
    }
    strange = [
        node
        for node, label in zip(graph.nodes, graph.labels or graph.nodes, strict=True)
        if node not in names.values() and label != RESULTS
    ]
    if strange:
        raise InputError(f"no operator of the file is {some_of(strange)}")
    for at, node in enumerate(nodes):
        node.name = f"operator{at}"
        for number, inner in enumerate(_inner(node)):
            inner.name = f"inner{at}_{number}"
    return model, names


def _inner(node: onnx.NodeProto) -> Iterable[onnx.NodeProto]:
    for graph in subgraphs(node):
        for inner in graph.node:
            yield inner
            yield from _inner(inner)


def _check_no_external(model: onnx.ModelProto) -> None:
    external = [tensor.name for tensor in tensors(model.graph) if tensor.data_location == tensor.EXTERNAL]
    if external:
        raise InputError(f"weights in external files, which are not read: {some_of(external)}")


def _random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, numpy.ndarray]:
    import numpy

    onnx = packages()
    random = numpy.random.default_rng(seed)
    inputs = {}
    for value in graph_inputs(model.graph):
        tensor = value.type.tensor_type
        try:
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        except KeyError:
            dtype = numpy.dtype(object)
        if dtype.kind not in "fiub":  # the others, bfloat16 among them, are none of numpy's own
            raise InputError(f"input {shown(value.name)}: no random values of its type")
        shape = [max(dim.dim_value, 0) if dim.HasField("dim_value") else 1 for dim in tensor.shape.dim]
        try:
            sample = random.random(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
            inputs[value.name] = numpy.asarray(sample).astype(dtype)
        except (MemoryError, ValueError):
            raise InputError(f"input {shown(value.name)} of shape {shape} does not fit into memory") from None
    return inputs


def _run(
    model: onnx.ModelProto,
    inputs: dict[str, numpy.ndarray],
    runs: int,
    warmups: int,
    threads: int,
    stop: Callable[[], bool] | None,
) -> list[dict[str, Any]]:
    """The profiler's events of so many runs, fewer if it is stopped in between."""
    runtime = _runtime()
    done = 0
    with tempfile.TemporaryDirectory() as folder:
        options = _options(runtime, threads, folder)
        try:
            session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            while done < runs and not (stop and stop()):
                session.run(None, inputs)
                done += 1
            events = Path(session.end_profiling()).read_text(encoding="utf-8")
        except Exception as error:  # its own types derive from nothing but Exception
            raise InputError(f"ONNX Runtime {runtime.__version__}: {one_line(error)}") from None
    if done <= warmups:
        raise InputError("stopped before the first measured run")
    return json.loads(events)


def _options(runtime: ModuleType, threads: int, folder: str) -> onnxruntime.SessionOptions:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal only: what goes wrong is raised as well
    options.enable_profiling = True
    options.profile_file_prefix = os.path.join(folder, "profile")
    return options


def _times(events: list[dict[str, Any]], warmups: int) -> dict[str, int]:
    """Nanoseconds by the operator's name; each of the main graph runs once in every run."""
    found: dict[str, list[int]] = defaultdict(list)
    for event in sorted((event for event in events if event.get("cat") == "Node"), key=lambda event: event["ts"]):
        if event["name"].endswith(_SUFFIX):
            found[event["name"].removesuffix(_SUFFIX)].append(event["dur"])
    return {
        name: max(1, round(median(times[warmups:]) * _NANOSECONDS))
        for name, times in found.items()
        if len(times) > warmups
    }


def _by_node(graph: ComputationGraph, times: Mapping[NodeId, int]) -> dict[NodeId, int]:
    labels = graph.labels or graph.nodes
    named = list(zip(graph.nodes, labels, strict=True))
    lacking = [f"{node} ({label})" for node, label in named if node not in times and label != RESULTS]
    if lacking:
        raise InputError(f"not executed by ONNX Runtime under its own name: {some_of(lacking)}")
    return {node: times.get(node, 0) for node, _ in named}
