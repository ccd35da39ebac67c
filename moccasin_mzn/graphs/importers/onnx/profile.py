"""Seconds instead of multiply-adds: how long ONNX Runtime takes for each operator of an ONNX file, on this machine.

Its graph optimizations are off, so that it runs the operators that are in the file; its own profiler reports their
times, in whole microseconds.
"""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, located, some_of
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.graph import ComputationGraph, NodeId
from moccasin_mzn.graphs.importers.onnx.file import AS_IT_IS, OnnxImport, network_apart
from moccasin_mzn.graphs.importers.onnx.model import packages
from moccasin_mzn.graphs.importers.onnx.network import whole_model
from moccasin_mzn.graphs.importers.onnx.runtime import (
    number_operators,
    operator_name,
    plain_options,
    profiled_runs,
    random_inputs,
    runtime,
    with_weights,
)

if TYPE_CHECKING:
    import onnx


RESULTS = "results"
"""Label of the last node that keeps several results: it is no operator and takes no time."""
_NANOSECONDS = 1000
"""In a microsecond, the profiler's unit."""


def profile_onnx(
    path: str | PathLike[str],
    graph: ComputationGraph,
    how: OnnxImport = AS_IT_IS,
    *,
    repeats: int = 10,
    warmups: int = 2,
    threads: int = 1,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
) -> dict[NodeId, int]:
    """Run the network of an ONNX file, on random inputs, and take the time of each operator.

    Args:
        path: the file that `graph` was imported from.
        graph: what `import_onnx` made of it.
        how: that was made.
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
    runtime()
    if repeats < 1 or warmups < 0 or threads < 1:
        raise InputError(f"{repeats} repeats, {warmups} warmups, {threads} threads: expected at least 1, 0 and 1")
    with located(path):
        model, names = _prepared(path, graph, how)
        runs = profiled_runs(model, random_inputs(model, seed), repeats + warmups, plain_options(threads), stop)
        if runs.done <= warmups:
            raise InputError("stopped before the first measured run")
        times = _times(runs.events, warmups)
        return _by_node(graph, {own: times[alias] for alias, own in names.items() if alias in times})


def refuse_pipe(path: str | PathLike[str]) -> None:
    """Make sure that a file can be read again: once to import it, once more to measure it.

    Raises:
        InputError: it is a pipe or a device. A file that is missing or cannot be read is not refused here.
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
    return {"onnxruntime": runtime().__version__}


def _prepared(
    path: str | PathLike[str], graph: ComputationGraph, how: OnnxImport
) -> tuple[onnx.ModelProto, dict[str, NodeId]]:
    """The model with its weights, its operators numbered, and the id for each new name."""
    data, how = how.prepared(path)
    network = network_apart(data, Path(path).stem, how.dims, fold=how.fold)
    model = with_weights(whole_model(data, network, how.dims), Path(path).parent)
    names: dict[str, NodeId] = {
        operator_name(at): operation.name
        for at, operation in zip(network.positions, network.program.operations, strict=True)
        if at is not None
    }
    further = graph.output_of or (None,) * len(graph.nodes)
    strange = [
        node
        for node, label, first in zip(graph.nodes, graph.labels or graph.nodes, further, strict=True)
        if node not in names.values() and label != RESULTS and first is None
    ]
    if strange:
        raise InputError(f"no operator of the file is {some_of(strange)}")
    number_operators(model)
    return model, names


def _times(events: Iterable[JsonObject], warmups: int) -> dict[str, int]:
    """Nanoseconds by the operator's name; each of the main graph runs once in every run."""
    found: dict[str, list[int]] = defaultdict(list)
    for event in events:
        found[event["name"]].append(event["dur"])
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
