"""Small ONNX models for tests."""

from __future__ import annotations

from math import prod
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from moccasin_mzn.base.errors import InputError
from moccasin_mzn.graphs.importers.onnx.file import OnnxImport, import_onnx

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info


def load(path, **how):
    """The graph of a file, by this process."""
    return import_onnx(path, OnnxImport(**how, isolated=False))


def write(folder, nodes, inputs, outputs, initializers=(), *, sets=(("", 17),), functions=(), **about):
    """Write a model; inputs are shapes by name, or ValueInfoProtos; outputs are names."""
    if isinstance(inputs, dict):
        inputs = [value(name, FLOAT, shape) for name, shape in inputs.items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "g", inputs, results, initializers, **about)
    opsets = [helper.make_opsetid(*one) for one in sets]
    path = folder / "model.onnx"
    model = helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


def weights(name, *shape):
    """A constant of zeros."""
    return helper.make_tensor(name, FLOAT, shape, [0.0] * prod(shape))


def numbers(name, *given):
    """A constant of one dimension."""
    return helper.make_tensor(name, INT64, [len(given)], given)


def relu(*pairs):
    """An operator for each pair of names, input and output."""
    return [node("Relu", [read], [name]) for read, name in pairs]


def branch(name, kind, read):
    """A branch of If: one operator that reads a value from around it."""
    return helper.make_graph([node(kind, [read], [name])], name, [], [onnx.ValueInfoProto(name=name)])


def by_id(graph, amounts):
    """Amounts by the ids of the graph's nodes."""
    return dict(zip(graph.nodes, amounts, strict=True))


def edges(graph):
    """Pairs of ids."""
    return {(graph.nodes[tail], graph.nodes[head]) for tail, head in graph.edges}


def refusal(path, isolated=False):
    """The message with which a file is refused; None if it is not."""
    try:
        import_onnx(path, OnnxImport(isolated=isolated))
    except InputError as error:
        return str(error)
    return None
