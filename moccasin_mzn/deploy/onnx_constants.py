"""Values of an ONNX model that stand in a new one as constants: numbers of Shape and Size, and what is folded.

ONNX Runtime itself computes what is folded, so that nothing changes by a bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moccasin_mzn.errors import InputError, some_of
from moccasin_mzn.graphs.importers.onnx.model import initializer_names, one_line, packages, reads
from moccasin_mzn.graphs.importers.onnx.network import Network
from moccasin_mzn.graphs.importers.onnx.runtime import plain_options, runtime, with_weights

if TYPE_CHECKING:
    import onnx


def known_values(
    model: onnx.ModelProto, network: Network, folder: Path
) -> tuple[dict[str, onnx.TensorProto], list[str]]:
    """Values by name, and what is to be told of those that are left as they are.

    Args:
        model: of the network, with weights.
        network: what was found of it.
        folder: of external files.
    """
    onnx = packages()
    known = {}
    for name, value in network.described.items():
        shape, numbers = ([], [value]) if isinstance(value, int) else ([len(value)], value)
        known[name] = onnx.helper.make_tensor(name, onnx.TensorProto.INT64, shape, numbers)
    wanted = _read_by_others(model.graph, set(network.folded) - known.keys(), known.keys())
    if not wanted:
        return known, []
    try:
        runtime()
    except InputError:
        return known, [f"computed in each run, without onnxruntime to fold it: {some_of(wanted)}"]
    try:
        return known | _computed(model, wanted, known, folder), []
    except InputError as error:
        return known, [f"computed in each run: {some_of(wanted)}: {error}"]


def _read_by_others(graph: onnx.GraphProto, folded: set[str], known: object) -> list[str]:
    """Folded values that the network returns, or an operator reads that is not folded."""
    read = {value.name for value in graph.output}
    for node in graph.node:
        if not folded.intersection(node.output):
            read.update(reads(node))
    return [name for node in graph.node for name in node.output if name in folded and name in read]


def _computed(
    model: onnx.ModelProto, wanted: Sequence[str], known: dict[str, onnx.TensorProto], folder: Path
) -> dict[str, onnx.TensorProto]:
    onnx, module = packages(), runtime()
    graph = model.graph
    makers = {name: node for node in graph.node for name in node.output if name}
    needed, waiting = set(), list(wanted)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(reads(makers[name]) if name in makers and name not in known else ())
    part = type(model)()
    part.ir_version = model.ir_version
    part.opset_import.extend(model.opset_import)
    part.graph.name = graph.name or "constants"
    stored = set(initializer_names(graph))
    part.graph.initializer.extend(one for one in graph.initializer if one.name in needed)
    part.graph.sparse_initializer.extend(one for one in graph.sparse_initializer if one.values.name in needed)
    part.graph.input.extend(value for value in graph.input if value.name in needed & stored)
    part.graph.initializer.extend(tensor for name, tensor in known.items() if name in needed)
    if model.ir_version < 4:
        part.ir_version = 4
    part.graph.node.extend(
        node for node in graph.node if needed.intersection(node.output) and not set(node.output) & known.keys()
    )
    part.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    data = with_weights(part, folder).SerializeToString()
    try:
        session = module.InferenceSession(data, plain_options(1), providers=["CPUExecutionProvider"])
        values = session.run(None, {})
    except Exception as error:  # its own types derive from nothing but Exception
        raise InputError(f"constants, in ONNX Runtime {module.__version__}: {one_line(error)}") from None
    return {name: onnx.numpy_helper.from_array(value, name) for name, value in zip(wanted, values, strict=True)}
