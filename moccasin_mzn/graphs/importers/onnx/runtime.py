"""ONNX Runtime for whatever runs a model here: random inputs, options, runs with its profiler.

Its graph optimizations are off, so that it runs the operators that are in the file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from moccasin_mzn.base.errors import InputError, located, missing, shown, some_of
from moccasin_mzn.base.files import JsonObject
from moccasin_mzn.graphs.importers.onnx.model import SIZE_LIMIT, graph_inputs, one_line, packages, subgraphs, tensors

if TYPE_CHECKING:
    import numpy
    import numpy as np
    import onnx
    import onnxruntime


_SUFFIX = "_kernel_time"
CONFIG = {"session.disable_quant_qdq": "1"}
"""Entries of a session's configuration: without this one ONNX Runtime doubles operators DequantizeLinear that several
read, whatever its level of optimization."""


def runtime(what: str = "measuring ONNX") -> ModuleType:
    """The module `onnxruntime`; `what` needs it.

    Raises:
        InputError: it is not installed.
    """
    try:
        import onnxruntime
    except ImportError:
        raise missing("the package onnxruntime", "onnx,profile", what) from None
    return onnxruntime


def with_weights(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """A model with what it has in external files of a folder.

    Raises:
        InputError: a file is missing or too short, or lies elsewhere; all of it is too much for one model.
    """
    external = [tensor for tensor in tensors(model.graph) if tensor.data_location == tensor.EXTERNAL]
    if not external:
        return model
    if sum(_bytes_of(tensor) for tensor in external) > SIZE_LIMIT:
        raise InputError(f"weights of over 2 GiB in external files, which cannot be run here: {_names(external)}")
    from onnx.external_data_helper import load_external_data_for_model

    whole = type(model)()
    whole.CopyFrom(model)
    try:
        load_external_data_for_model(whole, str(folder))
    except Exception as error:  # of several types
        raise InputError(f"weights in external files ({_names(external)}): {one_line(error)}") from None
    return whole


def _bytes_of(tensor: onnx.TensorProto) -> int:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    length = entries.get("length", "")
    return int(length) if length.isdecimal() else prod(tensor.dims)


def _names(tensors: list[onnx.TensorProto]) -> str:
    return some_of(tensor.name for tensor in tensors)


def random_inputs(model: onnx.ModelProto, seed: int) -> dict[str, numpy.ndarray]:
    """Values for the inputs of a model without open dimensions: floating point uniform in 0..1, others 0 or 1.

    Raises:
        InputError: an input of a type without such values, or too large.
    """
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


def inputs_in(path: str | PathLike[str], model: onnx.ModelProto) -> dict[str, numpy.ndarray]:
    """Values for the inputs of a model without open dimensions from a file of NumPy, by name.

    Raises:
        InputError: the file cannot be read, or is no .npz; names, types or shapes are not those of the inputs.
    """
    import numpy

    onnx = packages()
    with located(path):
        try:
            with numpy.load(path, allow_pickle=False) as stored:
                found = {name: stored[name] for name in stored.files}
        except OSError as error:
            raise InputError(f"cannot read: {error.strerror or error}") from None
        except Exception as error:  # of several types: of a file that is none, or holds objects of Python
            raise InputError(f"no .npz of arrays: {one_line(error)}") from None
        expected = {value.name: value.type.tensor_type for value in graph_inputs(model.graph)}
        lacking, strange = ([name for name in a if name not in b] for a, b in ((expected, found), (found, expected)))
        if lacking or strange:
            message = f"there is no {some_of(lacking)}" if lacking else f"{some_of(strange)} is no input"
            raise InputError(f"{message}; the inputs are {some_of(expected)}")
        for name, tensor in expected.items():
            dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            shape = tuple(dim.dim_value for dim in tensor.shape.dim)
            given = found[name]
            if given.dtype != dtype:
                raise InputError(f"{shown(name)} has the type {given.dtype}, expected {dtype}")
            if given.shape != shape and tensor.HasField("shape"):
                raise InputError(f"{shown(name)} has the shape {given.shape}, expected {shape}")
    return found


def operator_name(position: int) -> str:
    """The name that `number_operators` gives."""
    return f"operator{position}"


def number_operators(model: onnx.ModelProto) -> None:
    """Name the operators of the main graph by their positions, and those in their subgraphs otherwise.

    The profiler distinguishes operators by name only, and in a file names may be missing, given twice or need escaping.
    """
    for at, node in enumerate(model.graph.node):
        node.name = operator_name(at)
        for number, inner in enumerate(inner_operators(node)):
            inner.name = inner_name(at, number)


def inner_name(position: int, number: int) -> str:
    """The name that `number_operators` gives to an operator inside that at a position."""
    return f"inner{position}_{number}"


def inner_operators(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The operators in its subgraphs, and in theirs."""
    for graph in subgraphs(node):
        for inner in graph.node:
            yield inner
            yield from inner_operators(inner)


@dataclass(frozen=True)
class Runs:
    """What some runs of a model came to."""

    done: int
    """Fewer than were asked for, if stopped in between."""
    events: tuple[JsonObject, ...]
    """The profiler's, of operators, in the order of their begin; "name" is the operator's."""
    outputs: tuple[np.ndarray, ...]
    """Outputs of the last run, in the model's order; empty if there was none."""


def plain_options(threads: int) -> onnxruntime.SessionOptions:
    """Options of a session without graph optimizations.

    Args:
        threads: that one operator may use.
    """
    options = runtime().SessionOptions()
    options.graph_optimization_level = runtime().GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    for key, value in CONFIG.items():
        options.add_session_config_entry(key, value)
    options.log_severity_level = 4  # fatal only: what goes wrong is raised as well
    return options


def profiled_runs(
    model: onnx.ModelProto,
    inputs: dict[str, numpy.ndarray],
    runs: int,
    options: onnxruntime.SessionOptions,
    stop: Callable[[], bool] | None = None,
) -> Runs:
    """Run a model this many times; `stop` is asked before each.

    Raises:
        InputError: ONNX Runtime cannot load or run it.
    """
    module, done, outputs = runtime(), 0, []
    with tempfile.TemporaryDirectory() as folder:
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        try:
            session = module.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            while done < runs and not (stop and stop()):
                outputs = session.run(None, inputs)
                done += 1
            events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
        except Exception as error:  # its own types derive from nothing but Exception
            raise InputError(f"ONNX Runtime {module.__version__}: {one_line(error)}") from None
    of_operators = [
        {**event, "name": event["name"].removesuffix(_SUFFIX)}
        for event in events
        if event.get("cat") == "Node" and event["name"].endswith(_SUFFIX)
    ]
    return Runs(done, tuple(sorted(of_operators, key=lambda event: event["ts"])), tuple(outputs))
